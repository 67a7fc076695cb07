"""Public reports of GPU images that built well and ran badly: loader, plugins, launchers, caches.

Every test is named after its report, as in :mod:`tests.checks.test_gpu_reports`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.checks.test_gpu_reports import (
    GAP,
    NCCL,
    RPATH,
    flashinfer,
    libtorch,
    nccl,
)
from tests.elf import X86_64, library
from tests.images import Layer, Link
from tests.judging import SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.verdict import ImageVerdict
    from tests.images import Content

LIB = "usr/lib/aarch64-linux-gnu"


def lines(verdict: ImageVerdict, check: str = "native.") -> str:
    return "\n".join(
        line for r in verdict.reports if r.check.startswith(check) for line in r.compared
    )


# --- 10: more than one NCCL in one process


@pytest.mark.parametrize("report", ["rapidsai/cugraph#4465", "pytorch/pytorch#116977"])
def test_cugraph_4465_another_library_loads_the_systems_nccl_into_torchs_process(
    report: str, tmp_path: Path
) -> None:
    """The report's cupy has no RPATH, so it gets the container's NCCL; torch gets the wheel's."""
    assert report
    base = {NCCL: nccl(), f"{LIB}/libnccl.so.2": nccl("2.16.2", "bb"), **libtorch(rpath=RPATH)}
    cupy: dict[str, Content] = {
        f"{SITE}/cupy_backends/nccl.abi3.so": library(needed=("libnccl.so.2",))
    }
    verdict = Case(base=base, added=[cupy]).judge(tmp_path)
    second = found(verdict, "native.loads/two-in-one-process")
    assert second.place.path == f"{SITE}/cupy_backends/nccl.abi3.so"
    assert (second.locked, second.found) == (f"/{NCCL}", f"/{LIB}/libnccl.so.2")


def test_cugraph_4465_in_the_base_it_is_said_and_does_not_fail(tmp_path: Path) -> None:
    cupy: dict[str, Content] = {
        f"{SITE}/cupy_backends/nccl.abi3.so": library(needed=("libnccl.so.2",))
    }
    base = {NCCL: nccl(), f"{LIB}/libnccl.so.2": nccl("2.16.2", "bb"), **libtorch(rpath=RPATH)}
    verdict = Case(base={**base, **cupy}, added=[{"x": "y"}]).judge(tmp_path)
    assert verdict.passed
    assert "native.loads/two-in-one-process" in noted(verdict)


def test_one_copy_by_two_ways_is_one_copy(tmp_path: Path) -> None:
    base = {NCCL: nccl(), f"{LIB}/libnccl.so.2": Link(f"/{NCCL}"), **libtorch(rpath=RPATH)}
    cupy: dict[str, Content] = {
        f"{SITE}/cupy_backends/nccl.abi3.so": library(needed=("libnccl.so.2",))
    }
    verdict = Case(base=base, added=[cupy]).judge(tmp_path)
    assert "native.loads/two-in-one-process" not in failed(verdict)


def test_nccl_2289_nccl4py_brings_another_nccl_than_the_base_was_tested_with(
    tmp_path: Path,
) -> None:
    """nccl4py names no version, so pip takes the newest nvidia-nccl over the base's."""
    held = dist("nvidia-nccl-cu13", "2.30.7", files={"nvidia/nccl/lib/libnccl.so.2": nccl()})
    newer = dist(
        "nvidia-nccl-cu13", "2.31.2", files={"nvidia/nccl/lib/libnccl.so.2": nccl("2.31.2", "bb")}
    )
    added: dict[str, Content] = {
        f"{SITE}/.wh.nvidia_nccl_cu13-2.30.7.dist-info": b"",
        **newer,
        **dist(
            "nccl4py", "0.3.1", requires=('nvidia-nccl-cu13; extra == "cu13"',), extras=("cu13",)
        ),
    }
    verdict = Case(base=held, added=[added]).judge(tmp_path)
    moved = found(verdict, "native.pins/moved", "nccl")
    assert (moved.locked, moved.found) == ("2.30.7+cuda13.3", "2.31.2+cuda13.3")
    assert found(verdict, "python.pins/version-moved").found == "2.31.2"


def test_nccl_1991_a_link_into_an_earlier_folder_moves_what_is_loaded(tmp_path: Path) -> None:
    """libnccl2 may not run ldconfig, so people link by hand."""
    base = {f"{LIB}/libnccl.so.2": nccl(), **libtorch(runpath=RPATH)}
    added: dict[str, Content] = {
        "opt/n/libnccl.so.2": nccl("2.28.9", "bb"),
        "lib/aarch64-linux-gnu/libnccl.so.2": Link("/opt/n/libnccl.so.2"),
    }
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    assert found(verdict, "native.loads/loads-another").found.startswith("/opt/n/libnccl.so.2")
    assert "native.pins/new-link" in failed(verdict)


# --- 21: what compiling at run time asks for


@pytest.mark.parametrize("report", ["NVIDIA/TensorRT-LLM#10122", "ai-dynamo/dynamo#14864"])
def test_tensorrt_llm_10122_a_header_lies_where_only_another_compiler_searches(
    report: str, tmp_path: Path
) -> None:
    """`cuda.h` is inside Triton's own folder; the compiler that is run searches elsewhere."""
    assert report
    inside = f"{SITE}/triton/backends/nvidia/include/cuda.h"
    triton = dist("triton", "3.7.0", files={inside.removeprefix(f"{SITE}/"): "/* cuda */"})
    case = Case(base=triton, added=[{"x": "y"}], recipe='[toolchain]\nheaders = ["cuda.h"]\n')
    missing = found(case.judge(tmp_path / "a"), "native.toolchain/header-missing")
    assert missing.found == f"only `/{inside}` of triton==3.7.0"
    assert "/usr/local/cuda/include" in missing.locked
    by_variable = replace(case, base_config={"Env": [f"CPATH=/{inside.removesuffix('/cuda.h')}"]})
    assert by_variable.judge(tmp_path / "b").passed


VENV: dict[str, Content] = {
    "opt/venv/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
    "opt/venv/bin/python3.12": Link("/usr/bin/python3.12"),
    "opt/venv/bin/python3": Link("python3.12"),
    "usr/bin/python3.12": library(type=2),
    "usr/bin/pip": "#!/usr/bin/python3\n",
    "opt/venv/lib/python3.12/site-packages/tensorrt_llm/__init__.py": "",
}


def test_dynamo_8296_pip_is_the_systems_and_does_not_see_the_environment(tmp_path: Path) -> None:
    """TensorRT-LLM asks `pip show` for its include folder; the environment has no pip."""
    case = Case(
        base=VENV,
        base_config={"Env": ["PATH=/opt/venv/bin:/usr/bin"]},
        added=[{"x": "y"}],
        recipe='[toolchain]\nprograms = ["pip", "python3"]\n',
        interpreter="/opt/venv/bin/python3",
    )
    other = found(case.judge(tmp_path / "a"), "native.toolchain/program-of-another")
    assert (other.subject, other.locked, other.found) == ("pip", "/opt/venv/bin", "/usr/bin/pip")
    own = replace(case, base={**VENV, "opt/venv/bin/pip": "#!/opt/venv/bin/python3\n"})
    assert own.judge(tmp_path / "b").passed


def test_dynamo_6503_nvlink_is_missing_beside_nvcc(tmp_path: Path) -> None:
    base: dict[str, Content] = {**GAP, "usr/local/cuda/bin/nvcc": library(type=2)}
    recipe = '[toolchain]\nprograms = ["nvcc", "nvlink"]\n'
    verdict = Case(base=base, added=[{"x": "y"}], recipe=recipe).judge(tmp_path)
    missing = found(verdict, "native.toolchain/program-missing")
    assert missing.subject == "nvlink"
    assert missing.locked.startswith("in one of /usr/local/cuda/bin")


@pytest.mark.parametrize("header", ["curand.h", "curand_kernel.h"])
@pytest.mark.parametrize("report", ["vllm-project/vllm#33929", "syv-ai#12"])
def test_syv_ai_12_the_layer_removes_a_header_that_the_base_had(
    report: str, header: str, tmp_path: Path
) -> None:
    assert report
    folder = "usr/local/cuda/include"
    case = Case(
        base={**flashinfer("0.6.18"), f"{folder}/{header}": "/* */"},
        added=[{f"{folder}/.wh.{header}": b""}],
    )
    missing = found(case.judge(tmp_path), "native.toolchain/header-missing", header)
    assert "the layer took it away" in missing.message


def test_gpustack_4372_the_bundled_ptxas_is_named_and_is_not_there(tmp_path: Path) -> None:
    path = f"/{SITE}/triton/backends/nvidia/bin/ptxas-blackwell"
    case = Case(
        base=dist("triton", "3.7.1", files={"triton/backends/nvidia/bin/ptxas": "x"}),
        base_config={"Env": [f"TRITON_PTXAS_PATH={path}"]},
        added=[{"x": "y"}],
    )
    # the base's own gap is said; the same gap made by the layer fails
    assert "native.toolchain/ptxas-dangling" in noted(case.judge(tmp_path / "a"))
    had = replace(
        case,
        base={**case.base, path.lstrip("/"): "x"},
        added=[{f"{SITE}/triton/backends/nvidia/bin/.wh.ptxas-blackwell": b""}],
    )
    assert "native.toolchain/ptxas-dangling" in failed(had.judge(tmp_path / "b"))


# --- 33, 34: launchers and ray


RAY_BACKEND = ["vllm", "serve", "m", "--distributed-executor-backend", "ray"]


@pytest.mark.parametrize(
    ("report", "command"),
    [
        ("kubernetes-sigs/lws#835", RAY_BACKEND),
        ("kubernetes-sigs/lws#835", ["vllm", "serve", "--distributed-executor-backend=ray"]),
        (
            "vllm-project/production-stack#1056",
            ["/bin/sh", "-c", "vllm serve m --distributed-executor-backend ray"],
        ),
    ],
)
def test_lws_835_the_launcher_asks_for_ray_and_the_image_has_none(
    report: str, command: list[str], tmp_path: Path
) -> None:
    """vLLM's images carry no ray since 0.18."""
    assert report
    base: dict[str, Content] = {"usr/bin/vllm": "#!python\n", "bin/sh": library(type=2)}
    config = {"Env": ["PATH=/usr/bin"], "Cmd": command}
    case = Case(base=base, base_config=config, added=[{"x": "y"}])
    missing = found(case.judge(tmp_path / "a"), "python.requirements/launch-needs")
    assert (missing.subject, missing.found) == ("ray", "nothing")
    assert replace(case, added=[dist("ray", "2.54.0")]).judge(tmp_path / "b").passed is False
    ray = dist("ray", "2.54.0")
    served = replace(case, added=[ray], locked={"ray==2.54.0": ray}, requested=("ray==2.54.0",))
    assert served.judge(tmp_path / "c").passed


def test_production_stack_1056_the_program_that_is_started_is_not_in_the_image(
    tmp_path: Path,
) -> None:
    case = Case(
        base={"usr/bin/vllm": "#!python\n"},
        base_config={"Env": ["PATH=/usr/bin"], "Entrypoint": ["vllm", "serve"]},
        added=[{"x": "y"}],
        recipe='[config]\nentrypoint = ["ray", "start", "--head", "--block"]\n',
        config={"Env": ["PATH=/usr/bin"], "Entrypoint": ["ray", "start", "--head", "--block"]},
    )
    missing = found(case.judge(tmp_path / "a"), "config.starts/missing")
    assert (missing.subject, missing.locked) == ("ray", "`ray` in one of /usr/bin")
    as_before = replace(case, recipe="", config=None, added=[{"usr/bin/.wh.vllm": b""}])
    assert found(as_before.judge(tmp_path / "b"), "config.starts/missing").subject == "vllm"


@pytest.mark.parametrize("report", ["alibaba/ROLL#477", "skypilot-org/skypilot#7985"])
def test_skypilot_7985_click_was_upgraded_past_what_ray_takes(report: str, tmp_path: Path) -> None:
    assert report
    base = {**dist("ray", "2.54.0", requires=("click<8.3,>=7.0",)), **dist("click", "8.2.1")}
    added: dict[str, Content] = {
        f"{SITE}/.wh.click-8.2.1.dist-info": b"",
        **dist("click", "8.3.1"),
    }
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    assert found(verdict, "python.requirements/broken").found == "click==8.3.1"
    assert found(verdict, "python.pins/version-moved").subject == "click"


@pytest.mark.parametrize(
    "report", ["gpustack/gpustack#2691", "gpustack/gpustack#1640", "gpustack/runner#178"]
)
def test_gpustack_2691_head_and_worker_have_the_ray_that_the_recipe_pins(
    report: str, tmp_path: Path
) -> None:
    """Ray refuses a worker of another version; one pin for both images is the remedy."""
    assert report
    ray = dist("ray", "2.54.0")
    case = Case(
        added=[ray],
        locked={"ray==2.54.0": ray},
        requested=("ray",),
        recipe='[pins]\nray = "2.60.0"\n',
    )
    pinned = found(case.judge(tmp_path / "a"), "pins.declared/other-version")
    assert (pinned.locked, pinned.found) == ("2.60.0", "2.54.0")
    assert replace(case, recipe='[pins]\nray = "2.54.0"\n').judge(tmp_path / "b").passed


# --- 32: a local build copied over the image's


def test_vllm_2237_a_local_library_is_copied_over_the_build_result(tmp_path: Path) -> None:
    name = "vllm/_C.cpython-312-aarch64-linux-gnu.so"
    built = dist("vllm", "0.29.0", files={name: library(build_id="aa" * 20)})
    local: dict[str, Content] = {f"{SITE}/{name}": library(machine=X86_64, build_id="bb" * 20)}
    verdict = Case(base=built, added=[local], steps=["COPY . /workspace"]).judge(tmp_path)
    overwritten = found(verdict, "python.content/overwritten")
    assert overwritten.subject == "vllm==0.29.0"
    assert overwritten.place.step == "COPY . /workspace"
    assert "native.abi/machine" in failed(verdict)


# --- 35: transformers, numpy, OpenCV, triton


@pytest.mark.parametrize("report", ["aws/deep-learning-containers#6773", "vllm-gb10#105"])
def test_aws_dlc_6773_transformers_is_upgraded_in_a_derived_image(
    report: str, tmp_path: Path
) -> None:
    assert report
    base = {
        **dist("transformers", "4.57.1"),
        **dist("vllm", "0.29.0", requires=("transformers<5,>=4.56",)),
    }
    added: dict[str, Content] = {
        f"{SITE}/.wh.transformers-4.57.1.dist-info": b"",
        **dist("transformers", "5.0.0rc1"),
    }
    verdict = Case(base=base, added=[added], steps=["RUN pip install -U transformers"]).judge(
        tmp_path
    )
    moved = found(verdict, "python.pins/version-moved")
    assert (moved.locked, moved.found) == ("4.57.1", "5.0.0rc1")
    assert moved.place.step == "RUN pip install -U transformers"
    assert found(verdict, "python.requirements/broken").subject == "vllm==0.29.0"


@pytest.mark.parametrize(
    "report", ["vllm-project/vllm-ascend#3713", "sgl-project/sglang#9232", "OpenPipe/ART#565"]
)
def test_sglang_9232_opencv_brings_a_numpy_that_others_do_not_take(
    report: str, tmp_path: Path
) -> None:
    assert report
    base = {**dist("numpy", "1.26.4"), **dist("numba", "0.60.0", requires=("numpy<2.1,>=1.22",))}
    added: dict[str, Content] = {
        f"{SITE}/.wh.numpy-1.26.4.dist-info": b"",
        **dist("numpy", "2.2.6"),
        **dist("opencv-python-headless", "4.13.0.90", requires=("numpy>=2",)),
    }
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    broken = found(verdict, "python.requirements/broken")
    assert (broken.subject, broken.found) == ("numba==0.60.0", "numpy==2.2.6")
    assert found(verdict, "python.pins/version-moved").subject == "numpy"


def test_opencv_python_1140_two_distributions_write_one_package(tmp_path: Path) -> None:
    """opencv-python and -headless both are `cv2`; the last one wins, both are recorded."""
    base = dist("opencv-python", "4.12.0.88", files={"cv2/__init__.py": "# with windows\n"})
    headless = dist("opencv-python-headless", "4.13.0.90", files={"cv2/__init__.py": "# without\n"})
    verdict = Case(
        base=base,
        added=[headless],
        locked={"opencv-python-headless==4.13.0.90": headless},
        requested=("opencv-python-headless",),
    ).judge(tmp_path)
    overwritten = found(verdict, "python.content/overwritten")
    assert overwritten.subject == "opencv-python==4.12.0.88"


@pytest.mark.parametrize(
    "report", ["NVIDIA/TensorRT-LLM#18743", "Tavris1/ComfyUI-Easy-Install#192"]
)
def test_tensorrt_llm_18743_another_distribution_brings_the_same_triton(
    report: str, tmp_path: Path
) -> None:
    assert report
    base = dist(
        "pytorch-triton",
        "3.7.0+gitb4e20bb",
        files={"triton/__init__.py": "__version__ = '3.7.0'\n"},
    )
    added = dist("triton", "3.7.1", files={"triton/__init__.py": "__version__ = '3.7.1'\n"})
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    assert (
        found(verdict, "python.content/overwritten").subject == "pytorch-triton==3.7.0+gitb4e20bb"
    )


def test_tensorrt_llm_18743_renaming_the_metadata_moves_the_pin(tmp_path: Path) -> None:
    base = dist("pytorch-triton", "3.7.0", files={"triton/__init__.py": "x"})
    renamed: dict[str, Content] = {
        f"{SITE}/.wh.pytorch_triton-3.7.0.dist-info": b"",
        f"{SITE}/triton-3.7.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: triton\nVersion: 3.7.0\n",
    }
    verdict = Case(base=base, added=[renamed]).judge(tmp_path)
    assert found(verdict, "python.pins/removed").subject == "pytorch-triton"


# --- 37: the loader's configuration

COMPAT = "usr/local/cuda-13.0/compat"


@pytest.mark.parametrize("cache", [b"", b"cache"])
@pytest.mark.parametrize(
    ("report", "name"),
    [
        ("gpustack/gpustack#4678", "cuda-compat.conf"),
        ("vllm-project/vllm#33447", "00-cuda-compat.conf"),
        ("vllm-project/vllm#34226", "zzz-cuda-compat.conf"),
    ],
)
def test_gpustack_4678_cudas_compat_folder_is_told_to_the_loader(
    report: str, name: str, cache: bytes, tmp_path: Path
) -> None:
    """The runtime runs ldconfig at the start, so it counts with and without a cache (error 803)."""
    assert report
    base: dict[str, Content] = {
        "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
        f"{COMPAT}/libcuda.so.580.65": library(soname="libcuda.so.1"),
        f"{COMPAT}/libcuda.so.1": Link("libcuda.so.580.65"),
        **({"etc/ld.so.cache": cache} if cache else {}),
    }
    added: dict[str, Content] = {f"etc/ld.so.conf.d/{name}": f"/{COMPAT}\n"}
    verdict = Case(base=base, added=[added]).judge(tmp_path / "a")
    driver = found(verdict, "native.driver/driver-in-image")
    assert driver.found == f"/{COMPAT}/libcuda.so.580.65 (ld.so.conf `/{COMPAT}`)"
    assert "native.needs/loader-moved" in noted(verdict)
    known = Case(base={**base, **added}, added=[{"x": "y"}]).judge(tmp_path / "b")
    assert known.passed
    assert "native.driver/driver-in-image" in noted(known)


def test_llm_d_706_the_compat_folder_on_the_library_path(tmp_path: Path) -> None:
    base: dict[str, Content] = {f"{COMPAT}/libcuda.so.1": library(soname="libcuda.so.1")}
    recipe = f'[config.env]\nLD_LIBRARY_PATH = "/{COMPAT}"\n'
    verdict = Case(
        base=base,
        added=[{"x": "y"}],
        recipe=recipe,
        config={"Env": [f"LD_LIBRARY_PATH=/{COMPAT}"]},
    ).judge(tmp_path)
    # declared by the recipe, so it is no stray variable; what it does is said all the same
    assert failed(verdict) == {"native.driver/driver-in-image"}


def test_the_toolkits_stub_of_the_driver_on_the_library_path(tmp_path: Path) -> None:
    stubs = "usr/local/cuda/lib64/stubs"
    base: dict[str, Content] = {f"{stubs}/libcuda.so": library(soname="libcuda.so.1")}
    case = Case(
        base={**base, f"{stubs}/libcuda.so.1": Link("libcuda.so")},
        added=[{"etc/ld.so.conf": f"/{stubs}\n"}],
    )
    assert "native.driver/driver-in-image" in failed(case.judge(tmp_path))


def test_a_driver_in_a_default_folder_is_where_the_runtime_mounts_the_hosts(
    tmp_path: Path,
) -> None:
    base: dict[str, Content] = {f"{LIB}/libcuda.so.1": library(soname="libcuda.so.1")}
    case = Case(base=base, added=[{"etc/ld.so.conf": f"/{LIB}\n"}])
    assert "native.driver/driver-in-image" not in failed(case.judge(tmp_path))


def test_nemo_aligner_336_the_dockerfile_overrides_the_library_path(tmp_path: Path) -> None:
    case = Case(
        base={"x": ""},
        base_config={"Env": ["LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64"]},
        added=[{"x": "y"}],
        config={"Env": ["LD_LIBRARY_PATH=/usr/local/cuda/compat"]},
    )
    moved = found(case.judge(tmp_path), "config.moves/env")
    assert (moved.subject, moved.found) == ("LD_LIBRARY_PATH", "/usr/local/cuda/compat")


STDCPP: dict[str, Content] = {
    f"{LIB}/libstdc++.so.6": library(soname="libstdc++.so.6", build_id="aa" * 20),
    "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
    "etc/ld.so.cache": b"cache",
    "opt/app/libapp.so": library(soname="libapp.so", needed=("libstdc++.so.6",)),
}
OTHER_STDCPP = library(soname="libstdc++.so.6", build_id="bb" * 20)


@pytest.mark.parametrize(
    "added",
    [
        {
            "opt/conda/lib/libstdc++.so.6": OTHER_STDCPP,
            "etc/ld.so.conf.d/c.conf": "/opt/conda/lib\n",
        },
        {"lib/aarch64-linux-gnu/libstdc++.so.6": OTHER_STDCPP},
        {"opt/p.so": OTHER_STDCPP, "etc/ld.so.preload": "/opt/p.so\n"},
    ],
    ids=["configuration", "an earlier default folder", "preload"],
)
def test_a_library_of_the_base_gets_another_of_what_it_needs(
    added: dict[str, Content], tmp_path: Path
) -> None:
    verdict = Case(base=STDCPP, added=[added]).judge(tmp_path)
    moved = found(verdict, "native.needs/needs-another")
    assert moved.subject == "libstdc++.so.6"
    assert moved.locked == f"/{LIB}/libstdc++.so.6"
    assert "`/opt/app/libapp.so` of the base loads" in moved.message


@pytest.mark.parametrize(
    "added",
    [
        {"opt/app/first": Link("/opt/other")},
        [
            ("opt/app/first/.keep", ""),
            ("opt/app/first/libstdc++.so.6", Link("/opt/other/libstdc++.so.6")),
        ],
    ],
    ids=["a folder that is a link", "a link in a folder"],
)
def test_a_link_puts_another_folder_of_the_base_first(added: Layer, tmp_path: Path) -> None:
    """ld.so(8): DT_RUNPATH is searched in order; nothing of the layer is a library here."""
    base = {
        **STDCPP,
        "opt/other/libstdc++.so.6": OTHER_STDCPP,
        "opt/app/libapp.so": library(
            soname="libapp.so", needed=("libstdc++.so.6",), runpath="$ORIGIN/first"
        ),
    }
    moved = found(Case(base=base, added=[added]).judge(tmp_path), "native.needs/needs-another")
    assert (moved.locked, moved.found) == (
        f"/{LIB}/libstdc++.so.6",
        "/opt/other/libstdc++.so.6",
    )


def test_what_is_needed_and_was_nowhere_before_may_be_brought(tmp_path: Path) -> None:
    base: dict[str, Content] = {"opt/app/libapp.so": library(needed=("libibverbs.so.1",))}
    added: dict[str, Content] = {f"{LIB}/libgomp.so.1": library(soname="libgomp.so.1")}
    verdict = Case(base=base, added=[added], allow=tuple(added)).judge(tmp_path)
    assert verdict.passed
    assert "native.needs/needs-another" not in noted(verdict)


# --- 38: kernels that were compiled before

CACHE = "root/.cache/flashinfer"


@pytest.mark.parametrize("report", ["flashinfer-ai/flashinfer#4884", "model-serving-minefield#3"])
def test_flashinfer_4884_a_cache_of_another_version_comes_with_the_layer(
    report: str, tmp_path: Path
) -> None:
    assert report
    kernel = f"{CACHE}/0.6.13/121a/cached_ops/fp4_gemm/fp4_gemm.so"
    case = Case(base=flashinfer("0.6.18"), added=[{kernel: library()}])
    stale = found(case.judge(tmp_path / "a"), "native.flashinfer/stale-cache")
    assert (stale.locked, stale.found) == ("0.6.18", "0.6.13")
    fresh = kernel.replace("0.6.13", "0.6.18")
    same = replace(case, added=[{fresh: library()}], allow=(fresh,))
    verdict = same.judge(tmp_path / "b")
    assert verdict.passed
    assert "native.flashinfer/compiled-cache" in noted(verdict)


# --- 40: NCCL and its plugins

OFI = "opt/amazon/ofi-nccl/lib"


def plugin(*interfaces: int, version: str = "1.17.1") -> bytes:
    text = b"\0NET/OFI Initializing aws-ofi-nccl %s\0" % version.encode()
    return library(text=text + b"".join(b"ncclNetPlugin_v%d\0" % n for n in interfaces))


def speaking(*interfaces: int) -> bytes:
    said = b"\0NCCL version 2.30.7+cuda13.3\0"
    said += b"".join(b"ncclNetPlugin_v%d\0" % n for n in interfaces)
    return library(soname="libnccl.so.2", text=said)


@pytest.mark.parametrize(
    "report",
    ["NVIDIA-NeMo/RL#3352", "aws/aws-ofi-nccl#391", "awslabs/awsome-distributed-ai#292"],
)
def test_nemo_rl_3352_a_plugin_that_shares_no_interface_with_nccl(
    report: str, tmp_path: Path
) -> None:
    assert report
    base = {NCCL: speaking(6, 7, 8, 9, 10, 11, 12), **libtorch(rpath=RPATH)}
    settings = {"Env": [f"LD_LIBRARY_PATH=/{OFI}"]}
    old = Case(
        base=base, base_config=settings, added=[{f"{OFI}/libnccl-net.so": plugin(4, 5)}]
    ).judge(tmp_path / "a")
    apart = found(old, "native.nccl/plugin-interface")
    assert apart.found == "ncclNetPlugin_v4, v5"
    fitting = Case(
        base=base, base_config=settings, added=[{f"{OFI}/libnccl-net.so": plugin(8, 9)}]
    ).judge(tmp_path / "b")
    assert "native.nccl/plugin-interface" not in failed(fitting)
    assert "interfaces 8 9, NCCL's 6 7 8 9 10 11 12" in lines(fitting)


@pytest.mark.parametrize(
    ("variable", "value", "there"),
    [
        ("NCCL_NET_PLUGIN", "ofi", f"{OFI}/libnccl-net-ofi.so"),
        ("NCCL_NET_PLUGIN", f"/{OFI}/libnccl-net.so", f"{OFI}/libnccl-net.so"),
        ("NCCL_TUNER_PLUGIN", f"/{OFI}/libnccl-ofi-tuner.so", f"{OFI}/libnccl-ofi-tuner.so"),
        ("NCCL_NET_PLUGIN", "none", ""),
    ],
)
def test_awsome_distributed_ai_894_a_plugin_is_named_where_it_is_not(
    variable: str, value: str, there: str, tmp_path: Path
) -> None:
    environment = [f"{variable}={value}", f"LD_LIBRARY_PATH=/{OFI}"]
    case = Case(
        base={f"{OFI}/README": "", **({there: plugin(8)} if there else {})},
        base_config={"Env": environment[1:]},
        added=[{"x": "y"}],
        recipe=f'[config.env]\n{variable} = "{value}"\n',
        config={"Env": environment},
    )
    assert case.judge(tmp_path / "a").passed
    if there:
        gone = replace(case, base={f"{OFI}/README": ""})
        missing = found(gone.judge(tmp_path / "b"), "native.nccl/plugin-missing")
        assert (missing.subject, missing.found) == (variable, value)


# --- what real libraries say, in small


@pytest.mark.parametrize(
    ("path", "text", "component", "version"),
    [
        # libucp of UCX 1.22.0, libnixl_common of 1.5.1, libfabric 1.17.0: the bytes around it
        ("opt/libucp.so.0.0.0", b"\x65\xcd\xcd\x411.22.0\0%s\n\0GLIBC_2.2.5\0", "ucx", "1.22.0"),
        ("opt/libfabric.so.1.20.0", b"\x001.17.0\0GLIBC_2.3.4\0", "libfabric", "1.17.0"),
        (
            "opt/libnixl_common.so",
            b"LEVEL\0NIXL version: \x001.5.1\0 (git: \x001d2a52eb\0x",
            "nixl",
            "1.5.1",
        ),
    ],
)
def test_versions_of_the_network_libraries_are_read_from_their_bytes(
    path: str, text: bytes, component: str, version: str, tmp_path: Path
) -> None:
    other = version[:-1] + "9"
    changed = text.replace(version.encode(), other.encode())
    case = Case(base={path: library(text=text)}, added=[{path: library(text=changed)}])
    moved = [f for f in case.judge(tmp_path).failures if f.code == "native.pins/moved"]
    said = [(f.subject, f.locked, f.found) for f in moved if "by version string" in f.message]
    assert said == [(component, version, other)]
