"""What is started, by which interpreter, with which settings: nothing of it moves in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.checks.test_gpu_reports import nccl, torch
from tests.elf import library
from tests.images import File, Link
from tests.judging import SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

PATH = {"Env": ["PATH=/usr/local/bin:/usr/bin"]}


# --- programs


def test_a_program_that_is_found_before_the_bases(tmp_path: Path) -> None:
    base: dict[str, Content] = {
        "usr/bin/python3": File(library(type=2), mode=0o755),
        "usr/local/bin/x": "",
    }
    case = Case(
        base=base,
        base_config=PATH,
        added=[{"usr/local/bin/python3": File(b"#!/bin/sh\n", mode=0o755)}],
    )
    shadowed = found(case.judge(tmp_path / "a"), "programs.search/shadowed")
    assert (shadowed.locked, shadowed.found) == ("/usr/bin/python3", "/usr/local/bin/python3")
    same: dict[str, Content] = {"usr/local/bin/python3": Link("/usr/bin/python3")}
    assert "programs.search/shadowed" not in failed(
        replace(case, added=[same]).judge(tmp_path / "b")
    )


def test_a_command_of_a_locked_wheel_may_come_first_and_is_told(tmp_path: Path) -> None:
    wheel = {**dist("tool", "1.0"), "usr/local/bin/tool": File(b"#!/usr/bin/python3\n", mode=0o755)}
    case = Case(
        base={"usr/bin/tool": File(b"", mode=0o755), "usr/local/bin/x": ""},
        base_config=PATH,
        added=[wheel],
        locked={"tool==1.0": wheel},
        requested=("tool",),
    )
    assert "programs.search/shadowed" in noted(case.judge(tmp_path))


@pytest.mark.parametrize("path", ["usr/bin/pyvenv.cfg", "usr/pyvenv.cfg"])
def test_a_file_that_makes_the_interpreter_another_environments(path: str, tmp_path: Path) -> None:
    # PEP 405: looked for beside the program and one folder above
    added: dict[str, Content] = {path: "home = /opt/other/bin\n"}
    verdict = Case(base={f"{SITE}/x.py": ""}, added=[added]).judge(tmp_path)
    assert found(verdict, "python.startup/environment").subject == path


def test_the_cfg_of_another_environment_is_its_own_affair(tmp_path: Path) -> None:
    added: dict[str, Content] = {"opt/venv/pyvenv.cfg": "home = /usr/bin\n"}
    assert Case(base={f"{SITE}/x.py": ""}, added=[added], allow=tuple(added)).judge(tmp_path).passed


# --- settings inside a command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["env", "FLASHINFER_DISABLE_VERSION_CHECK=1", "vllm"], "FLASHINFER_DISABLE_VERSION_CHECK"),
        (["/bin/sh", "-c", "NVIDIA_DISABLE_REQUIRE=1 exec vllm serve"], "NVIDIA_DISABLE_REQUIRE"),
    ],
)
def test_a_switch_inside_the_command_silences_as_well(
    command: list[str], name: str, tmp_path: Path
) -> None:
    base: dict[str, Content] = {"usr/bin/env": "", "bin/sh": ""}
    recipe = f"[config]\ncmd = {command!r}\n"
    case = Case(base=base, added=[{"x": "y"}], recipe=recipe, config={"Cmd": command})
    assert found(case.judge(tmp_path), "config.moves/env-in-command").subject == name


@pytest.mark.parametrize(
    "name", ["TRITON_PTXAS_PATH", "TORCH_CUDA_ARCH_LIST", "CUDA_HOME", "CXX", "UCX_TLS"]
)
def test_a_variable_that_chooses_compiler_kernels_or_network_is_watched(
    name: str, tmp_path: Path
) -> None:
    case = Case(added=[{"x": "y"}], config={"Env": [f"{name}=/opt/other"]})
    assert found(case.judge(tmp_path), "config.moves/env").subject == name


# --- toolchain, beyond the reports


@pytest.mark.parametrize(
    ("header", "folder"),
    [
        ("Python.h", "usr/include/python3.12"),
        ("tvm/ffi/c_api.h", f"{SITE}/tvm_ffi/include"),
    ],
)
def test_headers_that_flashinfer_adds_itself_are_found(
    header: str, folder: str, tmp_path: Path
) -> None:
    recipe = f'[toolchain]\nheaders = ["{header}"]\n'
    base: dict[str, Content] = {f"{folder}/{header}": "", f"{SITE}/x.py": ""}
    assert Case(base=base, added=[{"x": "y"}], recipe=recipe).judge(tmp_path).passed


@pytest.mark.parametrize(("devices", "said"), [("12.1a", True), ("9.0a", False)])
def test_triton_8539_no_ptxas_is_named_for_the_newest_devices(
    devices: str, said: bool, tmp_path: Path
) -> None:
    settings = {"Env": [f"TORCH_CUDA_ARCH_LIST={devices}"]}
    case = Case(base=dist("triton", "3.7.1"), base_config=settings, added=[{"x": "y"}])
    assert ("native.toolchain/ptxas-unset" in noted(case.judge(tmp_path))) is said


# --- libraries and pins


def test_a_library_for_another_c_library_is_refused(tmp_path: Path) -> None:
    added: dict[str, Content] = {"opt/x.so": library(needed=("libc.musl-aarch64.so.1",))}
    refused = found(Case(added=[added]).judge(tmp_path), "native.abi/libc")
    assert refused.found == "libc.musl-aarch64.so.1"


@pytest.mark.parametrize(("pin", "true"), [("13.0", True), ("13.3", False)])
def test_a_pin_of_cuda_is_written_as_people_write_it(pin: str, true: bool, tmp_path: Path) -> None:
    # in cuda.h the number is a thousand times the major and ten times the minor version
    base: dict[str, Content] = {
        **torch(),
        "usr/local/cuda/include/cuda.h": "#define CUDA_VERSION 13000\n",
    }
    verdict = Case(base=base, added=[{"x": "y"}], recipe=f'[pins]\ncuda = "{pin}"\n').judge(
        tmp_path
    )
    assert verdict.passed is true


@pytest.mark.parametrize("chunk", [1, 7, 64, 255, 256, 257, 300])
def test_a_version_string_is_whole_wherever_chunks_are_cut(chunk: int) -> None:
    from imagegate.catalog.native import EmbeddedVersions

    for before in range(chunk):
        content = bytes(before) + b"NCCL version 2.30.7+cuda13.3\0ncclNetPlugin_v12\0" + bytes(90)
        versions = EmbeddedVersions("usr/lib/libnccl.so.2", len(content))
        for at in range(0, len(content), chunk):
            versions.write(content[at : at + chunk])
        said = [line.split(b" ")[1] for line in versions.finish().splitlines()]
        assert said == [b"2.30.7+cuda13.3", b"12"]


# --- settings and claims beside the environment


@pytest.mark.parametrize(
    ("path", "fails"),
    [
        ("etc/nccl.conf", True),
        ("root/.nccl.conf", True),
        ("etc/ucx/ucx.conf", True),
        ("etc/pip.conf", False),
    ],
)
def test_a_new_settings_file_says_what_no_variable_says(
    path: str, fails: bool, tmp_path: Path
) -> None:
    # NCCL, "Environment Variables": /etc/nccl.conf and ~/.nccl.conf hold NAME=VALUE lines
    verdict = Case(added=[{path: "NCCL_NET_PLUGIN=none\n"}]).judge(tmp_path)
    assert found(verdict, "config.moves/settings-file").subject == path
    assert ("config.moves/settings-file" in failed(verdict)) is fails


@pytest.mark.parametrize(
    ("claim", "config"),
    [
        ("CUDA_VERSION", {"Env": ["CUDA_VERSION=12.8.1"]}),
        ("com.nvidia.nccl.version", {"Labels": {"com.nvidia.nccl.version": "2.28.3"}}),
    ],
)
def test_a_variable_or_a_label_claims_what_the_bytes_do_not_say(
    claim: str, config: dict[str, object], tmp_path: Path
) -> None:
    base: dict[str, Content] = {
        "usr/local/cuda/include/cuda.h": "#define CUDA_VERSION 13000\n",
        "opt/libnccl.so.2": nccl("2.30.7"),
    }
    verdict = Case(base=base, added=[{"x": "y"}], config=config).judge(tmp_path / "a")
    assert found(verdict, "native.claims/claim").subject == claim
    known = Case(base=base, base_config=config, added=[{"x": "y"}]).judge(tmp_path / "b")
    assert "native.claims/claim" in noted(known)


def test_a_true_claim_of_cuda_is_no_contradiction(tmp_path: Path) -> None:
    base: dict[str, Content] = {"usr/local/cuda/include/cuda.h": "#define CUDA_VERSION 13000\n"}
    case = Case(base=base, base_config={"Env": ["CUDA_VERSION=13.0.2"]}, added=[{"x": "y"}])
    assert "native.claims/claim" not in noted(case.judge(tmp_path))


def test_nccl_1171_a_file_that_is_not_what_its_name_says(tmp_path: Path) -> None:
    folder = "usr/lib/aarch64-linux-gnu"
    base: dict[str, Content] = {
        f"{folder}/libnccl.so.2.28.9": nccl("2.28.9"),
        f"{folder}/libnccl.so.2": Link("libnccl.so.2.28.9"),
    }
    added: dict[str, Content] = {f"{folder}/libnccl.so.2.28.9": nccl("2.30.7", "bb")}
    misnamed = found(Case(base=base, added=[added]).judge(tmp_path), "native.claims/name")
    assert (misnamed.locked, misnamed.found) == ("2.28.9", "2.30.7+cuda13.3")
