"""Public reports about Python, dpkg and GPU libraries in images, each with the right answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.elf import library
from tests.images import Link
from tests.judging import SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

STATUS = "var/lib/dpkg/status"


def stanza(
    name: str, version: str, state: str | None = "install ok installed", arch: str = "arm64"
) -> str:
    status = f"Status: {state}\n" if state else ""
    return f"Package: {name}\n{status}Architecture: {arch}\nVersion: {version}\nDescription: x\n more\n\n"


# 43


def test_cpython_100666_two_metadata_folders_with_metadata_are_ambiguous(tmp_path: Path) -> None:
    old = dist("torch", "1.12.1", files={"torch/__init__.py": "# 1.12", "torch/only_old.py": ""})
    new = dist("torch", "1.13.1", files={"torch/__init__.py": "# 1.13", "torch/only_new.py": ""})
    verdict = Case(base=old, added=[new]).judge(tmp_path)
    second = found(verdict, "python.pins/second-copy")
    assert second.subject == "torch"
    # the metadata does not say which one the code is; the recorded hashes do
    assert "3 of 4 of 1.12.1, 3 of 3 of 1.13.1" in second.message


def test_importlib_metadata_457_a_folder_with_only_requested_is_a_note(tmp_path: Path) -> None:
    added: dict[str, Content] = {f"{SITE}/torch-1.12.1.dist-info/REQUESTED": ""}
    verdict = Case(base=dist("torch", "1.13.1"), added=[added]).judge(tmp_path)
    assert "python.pins/remnant" in noted(verdict)
    assert not {c for c in failed(verdict) if c.startswith("python.pins")}


def test_hermes_agent_119364_a_temporary_file_of_an_installer_is_a_note(tmp_path: Path) -> None:
    added: dict[str, Content] = {f"{SITE}/torch-1.12.1.dist-info/INSTALLERabc.tmp": ""}
    verdict = Case(base=dist("torch", "1.13.1"), added=[added]).judge(tmp_path)
    assert "python.pins/remnant" in noted(verdict)


# 45


def test_pip_8174_another_origin_with_the_same_version_is_a_moved_pin(tmp_path: Path) -> None:
    def origin(commit: str) -> str:
        return json.dumps(
            {"url": "https://example.org/x.git", "vcs_info": {"vcs": "git", "commit_id": commit}}
        )

    base = dist("x", "1.0", direct_url=origin("a" * 40))
    added = {
        path: content
        for path, content in dist("x", "1.0", direct_url=origin("b" * 40)).items()
        if "direct_url" in path
    }
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    assert "python.pins/origin-moved" in failed(verdict)
    assert (
        found(verdict, "python.pins/freeze-moved").locked
        == f"x @ git+https://example.org/x.git@{'a' * 40}"
    )


# 47


@pytest.mark.parametrize("state", ["deinstall ok config-files", "install ok half-installed"])
def test_fanal_126_a_package_that_is_not_installed_any_more(state: str, tmp_path: Path) -> None:
    case = Case(
        base={STATUS: stanza("libnccl2", "2.30.7-1+cuda13.3")},
        added=[{STATUS: stanza("libnccl2", "2.30.7-1+cuda13.3", state)}],
    )
    moved = found(case.judge(tmp_path), "debian.pins/state-moved")
    assert (moved.locked, moved.found) == ("install ok installed", state)


def test_fanal_126_a_package_that_never_was_installed_needs_not_to_be_kept(tmp_path: Path) -> None:
    base = stanza("old", "1", "deinstall ok config-files") + stanza("libc6", "2.39-0")
    verdict = Case(base={STATUS: base}, added=[{STATUS: stanza("libc6", "2.39-0")}]).judge(tmp_path)
    assert not {c for c in failed(verdict) if c.startswith("debian")}


def test_distroless_1569_status_d_without_a_status_is_installed(tmp_path: Path) -> None:
    path = "var/lib/dpkg/status.d/base"
    case = Case(
        base={path: stanza("base-files", "13.1", None), f"{path}.md5sums": "0  etc/os-release\n"},
        added=[{path: stanza("base-files", "13.2", None)}],
    )
    moved = found(case.judge(tmp_path), "debian.pins/version-moved")
    assert (moved.locked, moved.found) == ("13.1 arm64", "13.2 arm64")


def test_claircore_841_two_architectures_of_one_package_are_two_pins(tmp_path: Path) -> None:
    base = stanza("libc6", "2.39-0") + stanza("libc6", "2.39-0", arch="armhf")
    now = stanza("libc6", "2.39-0") + stanza("libc6", "2.39-1", arch="armhf")
    verdict = Case(base={STATUS: base}, added=[{STATUS: now}]).judge(tmp_path)
    assert found(verdict, "debian.pins/version-moved").found == "2.39-1 armhf"


def test_a_held_package_that_moves_is_said_to_have_been_held(tmp_path: Path) -> None:
    case = Case(
        base={STATUS: stanza("libnccl2", "2.30.7-1", "hold ok installed")},
        added=[{STATUS: stanza("libnccl2", "2.31.0-1")}],
    )
    verdict = case.judge(tmp_path)
    assert "hold" in found(verdict, "debian.pins/version-moved").message
    assert "debian.pins/state-moved" in failed(verdict)


def test_an_added_debian_package_has_to_be_declared(tmp_path: Path) -> None:
    base = stanza("libc6", "2.39-0")
    verdict = Case(base={STATUS: base}, added=[{STATUS: base + stanza("vim", "9.1")}]).judge(
        tmp_path
    )
    assert found(verdict, "debian.pins/undeclared").subject == "vim"


def test_a_package_database_that_is_not_read_is_said(tmp_path: Path) -> None:
    verdict = Case(base={"lib/apk/db/installed": "P:musl\n"}, added=[{"x": "y"}]).judge(tmp_path)
    assert "debian.pins/unknown-database" in noted(verdict)


def test_a_file_of_a_debian_package_behind_a_merged_usr_keeps_its_owner(tmp_path: Path) -> None:
    path = "usr/lib/aarch64-linux-gnu/libz.so.1"
    base: dict[str, Content] = {
        STATUS: stanza("zlib1g", "1.3"),
        "var/lib/dpkg/info/zlib1g:arm64.list": "/.\n/lib\n/lib/aarch64-linux-gnu/libz.so.1\n",
        "lib": Link("usr/lib"),
        path: b"one",
    }
    verdict = Case(base=base, added=[{path: b"two"}]).judge(tmp_path)
    assert "zlib1g:arm64=1.3" in found(verdict, "files.moves/overwritten").message


def test_a_conda_environment_that_was_solved_again(tmp_path: Path) -> None:
    def meta(name: str, version: str, build: str) -> dict[str, Content]:
        document = json.dumps({"name": name, "version": version, "build": build})
        return {f"home/ray/anaconda3/conda-meta/{name}-{version}-{build}.json": document}

    old = "home/ray/anaconda3/conda-meta/.wh.openssl-3.0.1-h1_0.json"
    case = Case(
        base=meta("openssl", "3.0.1", "h1_0"),
        added=[{old: b"", **meta("openssl", "3.5.0", "h2_0")}],
    )
    assert found(case.judge(tmp_path), "conda.pins/version-moved").found == "3.5.0 h2_0"


# 49


def test_nccl_1171_a_link_that_leads_to_another_copy_is_a_moved_pin(tmp_path: Path) -> None:
    folder = "usr/lib/aarch64-linux-gnu"
    base: dict[str, Content] = {
        f"{folder}/libnccl.so.2.28.9": library(text=b"\0NCCL version 2.28.9+cuda13.0\0"),
        f"{folder}/libnccl.so.2.30.7": library(text=b"\0NCCL version 2.30.7+cuda13.0\0"),
        f"{folder}/libnccl.so.2": Link("libnccl.so.2.30.7"),
    }
    added: dict[str, Content] = {f"{folder}/libnccl.so.2": Link("libnccl.so.2.28.9")}
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    moved = found(verdict, "native.pins/link-moved")
    assert moved.found == f"libnccl.so.2.28.9 ({folder}/libnccl.so.2.28.9)"


# 50, 51: in test_gpu_reports, by their own reports


def test_labs_molt_43_the_variable_that_hides_the_mismatch(tmp_path: Path) -> None:
    case = Case(added=[{"x": "y"}], config={"Env": ["FLASHINFER_DISABLE_VERSION_CHECK=1"]})
    verdict = case.judge(tmp_path)
    assert {"native.flashinfer/silenced", "config.moves/env"} <= failed(verdict)


# 53


@pytest.mark.parametrize(
    "report",
    ["NVIDIA/dgx-spark-playbooks#109", "NVIDIA/dgx-spark-playbooks#75", "gpustack/runner#178"],
)
def test_dgx_spark_playbooks_109_ray_without_what_its_extra_needs(
    report: str, tmp_path: Path
) -> None:
    assert report
    requires = ("click>=7.0", 'aiohttp>=3.7; extra == "default"', 'colorful; extra == "default"')
    ray = dist("ray", "2.60.0", requires=requires, extras=("default",))
    case = Case(
        base={**dist("click", "8.2.1"), **dist("aiohttp", "3.13.3")},
        added=[ray],
        locked={"ray==2.60.0": ray},
        requested=("ray[default]==2.60.0",),
    )
    broken = found(case.judge(tmp_path), "python.requirements/broken")
    assert (broken.subject, broken.found) == ("ray==2.60.0", "nothing")
    assert "colorful" in broken.locked


# 12, as far as this part judges it


def test_jib_faq_a_folder_in_the_place_of_a_link_hides_what_was_behind_it(tmp_path: Path) -> None:
    from tests.images import Directory

    base: dict[str, Content] = {
        "usr/lib/libc.so": b"c",
        "usr/lib/a/b": b"d",
        "lib": Link("usr/lib"),
    }
    verdict = Case(base=base, added=[{"lib": Directory(), "lib/libfoo.so": b"f"}]).judge(tmp_path)
    changed = found(verdict, "files.moves/type-changed")
    assert "3 files of the base are no longer reached" in changed.message


# --- an older base, moved by plain pip (measured with ray 2.54.0 and 2.60.0)


def test_plain_pip_install_of_ray_over_an_older_base_names_what_moved_and_what_broke(
    tmp_path: Path,
) -> None:
    older = {
        "aiohttp": "3.13.3",
        "opentelemetry-sdk": "1.38.0",
        "virtualenv": "20.21.1",
        "packaging": "24.1",
        "filelock": "3.20.3",
        "platformdirs": "3.11.0",
    }
    newer = {
        "aiohttp": "3.14.5",
        "opentelemetry-sdk": "1.45.2",
        "virtualenv": "21.15.11",
        "packaging": "26.4",
        "filelock": "4.3.1",
        "platformdirs": "4.14.8",
    }
    base: dict[str, Content] = {}
    for name, version in older.items():
        base.update(dist(name, version))
    base.update(
        dist(
            "opentelemetry-exporter-otlp-proto-http",
            "1.38.0",
            requires=("opentelemetry-sdk ~=1.38.0",),
        )
    )
    base.update(dist("vllm", "0.29.0", requires=("filelock>=3.16.1",)))
    added: dict[str, Content] = dict(dist("ray", "2.60.0", requires=("aiohttp>=3.14.4",)))
    for name, version in newer.items():
        added[f"{SITE}/.wh.{name.replace('-', '_')}-{older[name]}.dist-info"] = b""
        added.update(dist(name, version))
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    moved = {
        f.subject: (f.locked, f.found)
        for f in verdict.failures
        if f.code == "python.pins/version-moved"
    }
    assert moved == {name: (version, newer[name]) for name, version in older.items()}
    broken = found(verdict, "python.requirements/broken")
    assert broken.subject == "opentelemetry-exporter-otlp-proto-http==1.38.0"
    assert broken.found == "opentelemetry-sdk==1.45.2"
