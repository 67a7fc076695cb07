"""Added programs and libraries: for this machine, this libc, this Python, this CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.elf import CUDA, X86_64, library
from tests.images import HardLink
from tests.judging import SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

LIBC: dict[str, Content] = {
    "lib/aarch64-linux-gnu/libc.so.6": library(
        soname="libc.so.6", provides=("GLIBC_2.17", "GLIBC_2.35", "GLIBC_2.4")
    )
}


def test_a_library_for_another_machine_is_refused(tmp_path: Path) -> None:
    verdict = Case(added=[{"opt/libx.so": library(machine=X86_64)}]).judge(tmp_path)
    refused = found(verdict, "native.abi/machine")
    assert (refused.locked, refused.found) == ("aarch64", "x86-64")


def wheel(tag: str, content: bytes) -> dict[str, Content]:
    return {
        **dist("cargo", "1.0", files={"cargo/attach_linux_amd64.so": content}),
        f"{SITE}/cargo-1.0.dist-info/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n",
    }


def test_a_locked_wheel_for_every_platform_may_carry_code_for_another(tmp_path: Path) -> None:
    files = wheel("py2.py3-none-any", library(machine=X86_64))
    verdict = Case(added=[files], locked={"cargo==1.0": files}).judge(tmp_path)
    assert "native.abi/foreign-cargo" in noted(verdict)
    assert verdict.passed


def test_a_locked_wheel_for_this_platform_that_holds_another_machines_code(tmp_path: Path) -> None:
    files = wheel("cp312-cp312-manylinux_2_28_aarch64", library(machine=X86_64))
    verdict = Case(added=[files], locked={"cargo==1.0": files}).judge(tmp_path)
    assert "native.abi/machine" in failed(verdict)


def test_code_for_a_gpu_is_not_taken_for_a_program(tmp_path: Path) -> None:
    path = "opt/kernel.cubin"
    assert Case(added=[{path: library(machine=CUDA)}], allow=(path,)).judge(tmp_path).passed


@pytest.mark.parametrize(("version", "refused"), [("GLIBC_2.35", False), ("GLIBC_2.36", True)])
def test_the_bases_libc_decides_which_glibc_is_there(
    version: str, refused: bool, tmp_path: Path
) -> None:
    added: dict[str, Content] = {
        "opt/libx.so": library(requires={"libc.so.6": ("GLIBC_2.9", version)})
    }
    verdict = Case(base=LIBC, added=[added]).judge(tmp_path)
    assert ("native.abi/symbol-version" in failed(verdict)) is refused


def test_without_a_libc_in_the_image_the_recipes_glibc_decides(tmp_path: Path) -> None:
    added: dict[str, Content] = {"opt/libx.so": library(requires={"libc.so.6": ("GLIBC_2.40",)})}
    refused = found(Case(added=[added]).judge(tmp_path), "native.abi/symbol-version")
    assert (refused.locked, refused.found) == ("GLIBC_2.39 of the recipe's `glibc`", "GLIBC_2.40")


def test_a_newer_libstdcpp_than_the_bases_is_refused(tmp_path: Path) -> None:
    base: dict[str, Content] = {
        "usr/lib/libstdc++.so.6": library(soname="libstdc++.so.6", provides=("GLIBCXX_3.4.30",))
    }
    added: dict[str, Content] = {
        "opt/libx.so": library(requires={"libstdc++.so.6": ("GLIBCXX_3.4.32",)})
    }
    assert "native.abi/symbol-version" in failed(Case(base=base, added=[added]).judge(tmp_path))


def test_tables_that_cannot_be_read_are_a_finding_and_not_silence(tmp_path: Path) -> None:
    added: dict[str, Content] = {"opt/libx.so": library(soname="x", filler=33 << 20)}
    assert "native.abi/unread" in failed(Case(added=[added]).judge(tmp_path))


def test_another_name_of_a_base_library_is_judged_by_what_is_known_of_it(tmp_path: Path) -> None:
    base: dict[str, Content] = {"opt/libx.so": library(machine=X86_64)}
    verdict = Case(base=base, added=[{"opt/liby.so": HardLink("opt/libx.so")}]).judge(tmp_path)
    assert found(verdict, "native.abi/machine").place.path == "opt/liby.so"


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("x.cpython-312-aarch64-linux-gnu.so", False),
        ("x.abi3.so", False),
        ("x.cpython-311-aarch64-linux-gnu.so", True),
        ("x.cpython-312-x86_64-linux-gnu.so", True),
    ],
)
def test_the_tag_of_an_extension_module_fits_the_interpreter(
    name: str, refused: bool, tmp_path: Path
) -> None:
    added: dict[str, Content] = {f"{SITE}/{name}": library()}
    verdict = Case(base={f"{SITE}/y.py": ""}, added=[added]).judge(tmp_path)
    assert ("native.abi/tag" in failed(verdict)) is refused


def test_a_library_for_another_cuda_than_torchs(tmp_path: Path) -> None:
    base: dict[str, Content] = {
        f"{SITE}/torch/version.py": "__version__ = '2.13.0+cu130'\ncuda = '13.0'\n"
    }
    added: dict[str, Content] = {"opt/libx.so": library(needed=("libcudart.so.12",))}
    assert "native.abi/cuda-mixed" in failed(Case(base=base, added=[added]).judge(tmp_path / "a"))
    both: dict[str, Content] = {**base, "opt/libcudart.so.12": library(soname="libcudart.so.12")}
    assert "native.abi/cuda-mixed" not in failed(
        Case(base=both, added=[added]).judge(tmp_path / "b")
    )


def test_what_no_file_of_the_image_provides_is_said(tmp_path: Path) -> None:
    added: dict[str, Content] = {"opt/libx.so": library(needed=("libcuda.so.1",))}
    assert (
        "`libcuda.so.1`"
        in found(Case(added=[added]).judge(tmp_path), "native.abi/not-in-image").message
    )
