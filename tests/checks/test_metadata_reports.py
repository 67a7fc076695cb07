"""Public reports on what metadata says and bytes are: Python, dpkg, base annotations.

Every test is named after its report, as in :mod:`tests.checks.test_oci_reports`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.checks.test_gpu_reports import NCCL, RPATH, flashinfer, libtorch, nccl, torch
from tests.checks.test_oci_reports import STATUS, stanza
from tests.images import ImageBuilder, Link, write_layout
from tests.judging import COMPOSED, SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.verdict import ImageVerdict
    from tests.images import Content, Layer

BASE = "org.opencontainers.image.base"


# --- two metadata folders of one name


@pytest.mark.parametrize(
    ("report", "leftover"),
    [
        ("python/importlib_metadata#291", {"RECORD": ""}),
        ("python/importlib_metadata#106", {"top_level.txt": "torch\n"}),
        ("docker-library/python#118", {"METADATA": ""}),
    ],
)
def test_importlib_metadata_291_a_folder_without_a_name_and_version_is_said(
    report: str, leftover: dict[str, str], tmp_path: Path
) -> None:
    """importlib.metadata finds it and answers with a version of `None`."""
    assert report
    added: dict[str, Content] = {
        f"{SITE}/torch-1.12.1.dist-info/{name}": text for name, text in leftover.items()
    }
    verdict = Case(base=dist("torch", "1.13.1"), added=[added]).judge(tmp_path)
    assert found(verdict, "python.pins/remnant").place.path == f"{SITE}/torch-1.12.1.dist-info"
    assert not {code for code in failed(verdict) if code.startswith("python.pins")}


@pytest.mark.parametrize("report", ["coreweave/ml-containers#160", "pypa/get-pip#226"])
def test_ml_containers_160_pip_upgrades_what_debian_installed(report: str, tmp_path: Path) -> None:
    """Debian's PyJWT has no RECORD, so pip cannot remove it and puts its own beside it."""
    assert report
    folder = "usr/lib/python3/dist-packages"
    base: dict[str, Content] = {
        f"{folder}/PyJWT-2.7.0.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: PyJWT\nVersion: 2.7.0\n",
        f"{folder}/jwt/__init__.py": "# 2.7",
        "usr/lib/python3.12/os.py": "",
        STATUS: stanza("python3-jwt", "2.7.0-1"),
    }
    added = dist("PyJWT", "2.10.1", files={"jwt/__init__.py": "# 2.10"})
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    second = found(verdict, "python.pins/second-copy")
    assert (second.subject, second.locked) == ("pyjwt", "2.7.0")
    shadowed = found(verdict, "python.imports/shadowed")
    assert (shadowed.subject, shadowed.found) == ("jwt", f"/{SITE}/jwt/__init__.py")


@pytest.mark.parametrize(
    ("report", "setting"),
    [
        ("aws/deep-learning-containers#6697", "PIP_BREAK_SYSTEM_PACKAGES=1"),
        ("ggml-org/llama.cpp#15004", "UV_BREAK_SYSTEM_PACKAGES=true"),
    ],
)
def test_llama_cpp_15004_the_mark_of_an_externally_managed_python_goes(
    report: str, setting: str, tmp_path: Path
) -> None:
    """PEP 668: some set a variable, others delete the mark."""
    assert report
    mark = "usr/lib/python3.12/EXTERNALLY-MANAGED"
    case = Case(
        base={mark: "[externally-managed]\n"}, added=[{"x": "y"}], config={"Env": [setting]}
    )
    assert "refusal" in found(case.judge(tmp_path / "a"), "config.moves/env").message
    gone = Case(base=case.base, added=[{"usr/lib/python3.12/.wh.EXTERNALLY-MANAGED": b""}]).judge(
        tmp_path / "b"
    )
    assert found(gone, "files.moves/deleted").subject == mark


# --- 45: direct references


@pytest.mark.parametrize("report", ["pypa/pip#7612", "conda/conda#11580"])
def test_pip_7612_the_path_that_a_wheel_was_installed_from_is_no_pin(
    report: str, tmp_path: Path
) -> None:
    """`pip freeze` prints the path of the machine that built it; the hash is what counts."""
    assert report

    def origin(folder: str, sha256: str) -> str:
        url = f"file:///{folder}/numpy-1.26.4-cp312-cp312-linux_aarch64.whl"
        return json.dumps({"archive_info": {"hashes": {"sha256": sha256}}, "url": url})

    def judged(now: str, folder: Path) -> ImageVerdict:
        base = dist("numpy", "1.26.4", direct_url=origin("croot/a", "aa" * 32))
        path = f"{SITE}/numpy-1.26.4.dist-info/direct_url.json"
        return Case(base=base, added=[{path: now}]).judge(folder)

    moved = judged(origin("croot/a", "bb" * 32), tmp_path / "a")
    assert "python.pins/origin-moved" in failed(moved)
    elsewhere = judged(origin("tmp/build-7", "aa" * 32), tmp_path / "b")
    assert "python.pins/origin-moved" not in failed(elsewhere)
    assert "python.pins/freeze-moved" not in failed(elsewhere)
    assert "python.pins/origin-path" in noted(elsewhere)
    assert elsewhere.passed


@pytest.mark.parametrize(
    ("info", "moved"),
    [
        ({"dir_info": {}}, False),
        ({"dir_info": {"editable": True}}, True),
        ({"archive_info": {}}, True),
        ({"vcs_info": {"vcs": "git", "commit_id": "a" * 40}}, True),
    ],
    ids=["folder", "editable", "archive without a hash", "version control"],
)
def test_pip_7612_which_paths_count(info: dict[str, object], moved: bool, tmp_path: Path) -> None:
    def origin(folder: str) -> str:
        return json.dumps({**info, "url": f"file:///{folder}"})

    base = dist("x", "1.0", direct_url=origin("srv/x"))
    path = f"{SITE}/x-1.0.dist-info/direct_url.json"
    verdict = Case(base=base, added=[{path: origin("opt/x")}]).judge(tmp_path)
    assert ("python.pins/origin-moved" in failed(verdict)) is moved
    assert verdict.passed is not moved


# --- 47: dpkg


def test_base_images_291_a_package_that_was_upgraded_on_the_way(tmp_path: Path) -> None:
    base = stanza("libssl3", "3.0.13-0ubuntu3.5") + stanza("libc6", "2.39-0ubuntu8.4")
    now = stanza("libssl3", "3.0.13-0ubuntu3.6") + stanza("libc6", "2.39-0ubuntu8.4")
    verdict = Case(base={STATUS: base}, added=[{STATUS: now}], steps=["RUN apt-get upgrade"]).judge(
        tmp_path
    )
    moved = found(verdict, "debian.pins/version-moved")
    assert (moved.subject, moved.found) == ("libssl3", "3.0.13-0ubuntu3.6 arm64")
    assert moved.place.step == "RUN apt-get upgrade"


def test_distroless_1809_a_file_of_status_d_that_is_gone_is_a_package_that_is_gone(
    tmp_path: Path,
) -> None:
    folder = "var/lib/dpkg/status.d"
    base: dict[str, Content] = {
        f"{folder}/libssl3": stanza("libssl3", "3.0.13-1", None),
        f"{folder}/tzdata": stanza("tzdata", "2024a-0", None),
    }
    verdict = Case(base=base, added=[{f"{folder}/.wh.libssl3": b""}]).judge(tmp_path)
    assert found(verdict, "debian.pins/removed").subject == "libssl3"


# --- 49: copies of NCCL


@pytest.mark.parametrize(
    "report", ["pytorch/pytorch#122571", "vllm-project/vllm#4195", "vllm-project/vllm#47223"]
)
def test_vllm_47223_variable_dpkg_wheel_and_loaded_copy_each_say_another_nccl(
    report: str, tmp_path: Path
) -> None:
    """All four are told; what counts is the copy that torch loads."""
    assert report
    system = "usr/lib/aarch64-linux-gnu"
    base: dict[str, Content] = {
        **dist("nvidia-nccl-cu13", "2.30.7", files={"nvidia/nccl/lib/libnccl.so.2": nccl()}),
        STATUS: stanza("libnccl2", "2.28.9-1+cuda13.0"),
        f"{system}/libnccl.so.2.28.9": nccl("2.28.9", "bb"),
        f"{system}/libnccl.so.2": Link("libnccl.so.2.28.9"),
        **libtorch(rpath=RPATH),
    }
    case = Case(base=base, base_config={"Env": ["NCCL_VERSION=2.28.3"]}, added=[{"x": "y"}])
    verdict = case.judge(tmp_path / "a")
    told = "\n".join(
        line
        for report_ in verdict.reports
        if report_.check in ("debian.pins", "python.pins") or report_.check.startswith("native.")
        for line in report_.compared
    )
    for said in (
        "Env NCCL_VERSION claims 2.28.3",
        "libnccl2:arm64: locked=2.28.9-1+cuda13.0",
        "nvidia-nccl-cu13: locked=2.30.7 found=2.30.7",
        f"torch loads `/{NCCL}` for `libnccl.so.2`",
        f"link `{system}/libnccl.so.2` to `{system}/libnccl.so.2.28.9`",
    ):
        assert said in told
    assert verdict.passed, "also true of the base"
    turned = replace(case, added=[{f"{system}/libnccl.so.2": Link(f"/{NCCL}")}])
    assert "native.pins/link-moved" in failed(turned.judge(tmp_path / "b"))


# --- 50: FlashInfer upgraded by a dependency


@pytest.mark.parametrize(
    "report", ["NVIDIA-NeMo/Megatron-Bridge#3750", "NVIDIA-NeMo/Export-Deploy#679"]
)
def test_megatron_bridge_3750_a_dependency_upgrades_one_of_three(
    report: str, tmp_path: Path
) -> None:
    assert report
    parts = ("flashinfer-cubin", "flashinfer-jit-cache")
    base = {**torch(), **flashinfer("0.6.8"), **flashinfer("0.6.8", parts[0])}
    base |= flashinfer("0.6.8+cu130", parts[1])
    added: dict[str, Content] = {
        f"{SITE}/.wh.flashinfer_python-0.6.8.dist-info": b"",
        **flashinfer("0.6.18"),
    }
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    apart = [f for f in verdict.failures if f.code == "native.flashinfer/lockstep"]
    assert {f.subject for f in apart} == set(parts)
    assert {"python.pins/version-moved", "native.pins/moved"} <= failed(verdict)


# --- 34: what an image says of its base


def annotated(annotations: dict[str, str], labels: dict[str, str], folder: Path) -> ImageVerdict:
    """Judge an image whose manifest and labels say something of its base."""
    from imagegate.sources import Connection, open_image
    from imagegate.usecases.gate import judge
    from imagegate.usecases.ports import Silent
    from tests.judging import TODAY

    case = Case(added=[{"x": "y"}])
    base, image = case.images()
    state = case.state(base)
    lock = case.lock(folder / "base", base, state)
    values = {k: v.replace("BASE", base.digest) for k, v in annotations.items()}
    builder = ImageBuilder(annotations=values, config={"Labels": labels} if labels else {})
    for content in image.tars:
        builder.layer(content)
    write_layout(folder / "image", builder.build())
    source = open_image(f"oci:{folder / 'image'}", Connection(platform=state.recipe.platform))
    return judge(state, lock, source, Silent(), copying=COMPOSED, today=TODAY)[0]


OTHER = "sha256:" + "5" * 64


def test_image_spec_822_a_true_annotation_is_compared(tmp_path: Path) -> None:
    said = {f"{BASE}.digest": "BASE", f"{BASE}.name": "registry.example/base"}
    assert annotated(said, {}, tmp_path).passed


@pytest.mark.parametrize("report", ["opencontainers/image-spec#822", "ko-build/ko#354"])
def test_image_spec_822_an_annotation_that_names_another_base_is_a_lie(
    report: str, tmp_path: Path
) -> None:
    """The layers are the locked base's; what the annotation says is a hint and nothing more."""
    assert report
    verdict = annotated({f"{BASE}.digest": OTHER}, {}, tmp_path)
    assert failed(verdict) == {"base.annotations/digest-lies"}
    assert found(verdict, "base.annotations/digest-lies").found == OTHER


def test_regclient_603_a_label_may_say_it_instead(tmp_path: Path) -> None:
    verdict = annotated({}, {f"{BASE}.digest": OTHER}, tmp_path)
    assert "label" in found(verdict, "base.annotations/digest-lies").message


def test_buildkit_6202_buildkit_writes_no_annotation_and_that_is_only_said(tmp_path: Path) -> None:
    verdict = annotated({}, {}, tmp_path)
    assert verdict.passed
    assert "base.annotations/absent" in noted(verdict)


def test_ko_354_a_name_that_is_not_the_recipes_is_a_lie(tmp_path: Path) -> None:
    said = {f"{BASE}.digest": "BASE", f"{BASE}.name": "registry.example/other:1"}
    verdict = annotated(said, {}, tmp_path)
    assert failed(verdict) == {"base.annotations/name-lies"}


# --- recorded against real: a package's md5sums


def package(
    name: str, files: dict[str, bytes], folder: str = "var/lib/dpkg/info"
) -> dict[str, Content]:
    """What dpkg leaves of an installed package, deb-md5sums(5)."""
    sums = "".join(f"{hashlib.md5(text).hexdigest()}  {path}\n" for path, text in files.items())
    return {f"{folder}/{name}.md5sums": sums, **files}


@pytest.mark.parametrize("altered", [False, True])
def test_a_file_of_an_added_package_that_a_later_step_changed(
    altered: bool, tmp_path: Path
) -> None:
    files = {"usr/lib/x/tool": b"as shipped"}
    added: dict[str, Content] = {**package("x:arm64", files), STATUS: stanza("x", "1.0")}
    layers: list[Layer] = [added, {"usr/lib/x/tool": b"patched" if altered else b"as shipped"}]
    verdict = Case(added=layers, steps=["RUN apt-get install x", "RUN sed -i"]).judge(tmp_path)
    if not altered:
        assert "debian.pins/altered" not in failed(verdict)
        return
    changed = found(verdict, "debian.pins/altered")
    assert changed.locked == f"md5 {hashlib.md5(b'as shipped').hexdigest()}"
    assert changed.place.step == "RUN sed -i"


def test_a_file_that_is_diverted_is_not_the_packages_any_more(tmp_path: Path) -> None:
    files = {"usr/bin/tool": b"as shipped"}
    added: dict[str, Content] = {
        **package("x", files),
        STATUS: stanza("x", "1.0"),
        "var/lib/dpkg/diversions": "/usr/bin/tool\n/usr/bin/tool.real\n:\n",
        "usr/bin/tool": b"of somebody else",
        "usr/bin/tool.real": b"as shipped",
    }
    assert "debian.pins/altered" not in failed(Case(added=[added]).judge(tmp_path))


def test_md5sums_behind_a_merged_usr(tmp_path: Path) -> None:
    base: dict[str, Content] = {"lib": Link("usr/lib"), "usr/lib/y": b""}
    sums = package("x", {"lib/libx.so": b"as shipped"})
    added: dict[str, Content] = {
        "var/lib/dpkg/info/x.md5sums": sums["var/lib/dpkg/info/x.md5sums"],
        STATUS: stanza("x", "1.0"),
        "usr/lib/libx.so": b"patched",
    }
    changed = found(Case(base=base, added=[added]).judge(tmp_path), "debian.pins/altered")
    assert changed.place.path == "usr/lib/libx.so"
