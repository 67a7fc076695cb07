"""Public reports of GPU images that went wrong, each with what the gate has to say.

Every test is named after its report. The inputs are as small as the report allows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.elf import X86_64, library
from tests.images import Link
from tests.judging import SITE, Case, dist, failed, found, noted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"


def torch(
    version: str = "2.13.0+cu130", cuda: str = "13.0", recorded: str = "2.13.0"
) -> dict[str, Content]:
    text = f"__version__ = '{version}'\ncuda: str | None = '{cuda}'\n"
    return dist("torch", recorded, files={"torch/version.py": text})


def nccl(version: str = "2.30.7", build: str = "aa", **more: object) -> bytes:
    text = b"\0NCCL version %s+cuda13.3\0" % version.encode()
    return library(soname="libnccl.so.2", build_id=build * 20, text=text, **more)


def libtorch(**more: object) -> dict[str, Content]:
    return {
        f"{SITE}/torch/lib/libtorch_cuda.so": library(
            soname="libtorch_cuda.so", needed=("libnccl.so.2",), **more
        )
    }


def flashinfer(
    version: str, part: str = "flashinfer-python", *, meta: bool = True
) -> dict[str, Content]:
    folder = {"flashinfer-python": "flashinfer"}.get(part, part.replace("-", "_"))
    text = f'"""Build metadata"""\n__version__ = "{version}"\n'
    return dist(part, version, files={f"{folder}/_build_meta.py": text} if meta else {})


RPATH = "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"


# --- torch replaced


@pytest.mark.parametrize(
    "report", ["spark-vllm-docker#263", "spark-vllm-docker#265", "spark-vllm-docker#219"]
)
def test_eugr_spark_vllm_docker_263_torch_became_the_cpu_build(report: str, tmp_path: Path) -> None:
    assert report
    added = torch("2.10.0+cpu", "None", recorded="2.10.0+cpu")
    gone = f"{SITE}/.wh.torch-2.13.0.dist-info"
    verdict = Case(base=torch(), added=[{gone: b"", **added}]).judge(tmp_path)
    assert found(verdict, "python.pins/version-moved").found == "2.10.0+cpu"
    moved = found(verdict, "native.pins/moved", "torch")
    assert (moved.locked, moved.found) == ("2.13.0+cu130", "2.10.0+cpu")


def test_eugr_141_an_extension_for_another_cuda_than_torchs(tmp_path: Path) -> None:
    base = torch("2.11.0+cu132", "13.2", recorded="2.11.0")
    verdict = Case(base=base, added=[dist("torchvision", "0.28.0+cu130")]).judge(tmp_path)
    assert found(verdict, "native.abi/cuda-mixed").found == "13.0"


def test_eugr_269_metadata_without_the_local_part_is_no_drift(tmp_path: Path) -> None:
    verdict = Case(base={}, added=[torch("2.11.0+cu130", recorded="2.11.0")]).judge(tmp_path)
    assert not {code for code in failed(verdict) if code.startswith("native.")}


def test_ray_64484_the_cuda_major_of_torch_moved(tmp_path: Path) -> None:
    added: dict[str, Content] = {
        f"{SITE}/torch/version.py": "__version__ = '2.13.0+cu130'\ncuda = '13.0'\n"
    }
    base = torch("2.13.0+cu128", "12.8")
    verdict = Case(base=base, added=[added]).judge(tmp_path)
    assert found(verdict, "native.pins/moved", "torch cuda").found == "13.0"


# --- NCCL


@pytest.mark.parametrize("report", ["vllm-project/vllm#42354", "vllm-project/vllm#41725"])
def test_vllm_42354_the_same_version_of_nccl_from_another_build(
    report: str, tmp_path: Path
) -> None:
    assert report
    verdict = Case(base={NCCL: nccl("2.28.9", "a7")}, added=[{NCCL: nccl("2.28.9", "c0")}]).judge(
        tmp_path
    )
    moved = [f for f in verdict.failures if f.code == "native.pins/moved"]
    assert [(f.subject, f.locked) for f in moved if "build id" in f.message] == [
        ("libnccl", "a7" * 20)
    ]
    assert not [f for f in moved if f.subject == "nccl"]


def test_vllm_46097_env_claims_one_nccl_and_ld_preload_brings_another(tmp_path: Path) -> None:
    case = Case(
        base={NCCL: nccl("2.28.3"), **libtorch(rpath=RPATH)},
        base_config={"Env": ["NCCL_VERSION=2.28.3"]},
        added=[{"opt/nccl/libnccl.so.2": nccl("2.30.4", "bb")}],
        config={"Env": ["NCCL_VERSION=2.28.3", "LD_PRELOAD=/opt/nccl/libnccl.so.2"]},
    )
    verdict = case.judge(tmp_path)
    loaded = found(verdict, "native.loads/loads-another")
    assert loaded.found == "/opt/nccl/libnccl.so.2 (LD_PRELOAD)"
    assert found(verdict, "config.moves/env").subject == "LD_PRELOAD"
    assert "native.pins/second-copy" in failed(verdict)


def test_vllm_46097_a_claim_that_no_library_meets(tmp_path: Path) -> None:
    case = Case(
        base={NCCL: nccl("2.30.4")},
        config={"Env": ["NCCL_VERSION=2.28.3"]},
        added=[{"x": "y"}],
    )
    claim = found(case.judge(tmp_path), "native.claims/claim")
    assert (claim.subject, claim.locked, claim.found) == (
        "NCCL_VERSION",
        "2.28.3",
        "2.30.4+cuda13.3",
    )


def test_a_claim_that_the_base_already_makes_wrongly_is_said_and_does_not_fail(
    tmp_path: Path,
) -> None:
    settings = {"Env": ["NCCL_VERSION=2.28.3"]}
    case = Case(base={NCCL: nccl("2.30.4")}, base_config=settings, added=[{"x": "y"}])
    verdict = case.judge(tmp_path)
    assert "native.claims/claim" in noted(verdict)
    assert verdict.passed


def test_opendatahub_notebooks_4089_the_variable_was_bumped_and_the_package_not(
    tmp_path: Path,
) -> None:
    case = Case(
        base={NCCL: nccl("2.28.3")},
        base_config={"Env": ["NCCL_VERSION=2.28.3"]},
        config={"Env": ["NCCL_VERSION=2.30.4"]},
        added=[{"x": "y"}],
    )
    assert {"native.claims/claim", "config.moves/env"} <= failed(case.judge(tmp_path))


def test_verl_6621_every_copy_is_listed_and_the_one_that_is_loaded_is_named(tmp_path: Path) -> None:
    system = "usr/lib/aarch64-linux-gnu"
    base: dict[str, Content] = {
        NCCL: nccl("2.30.4", "aa"),
        f"{SITE}/torch/lib/libnccl.so.2": nccl("2.28.9", "bb"),
        f"{system}/libnccl.so.2.28.3": nccl("2.28.3", "cc"),
        f"{system}/libnccl.so.2": Link("libnccl.so.2.28.3"),
        # RUNPATH is looked at after LD_LIBRARY_PATH, RPATH before it (ld.so(8))
        **libtorch(rpath="$ORIGIN:$ORIGIN/../../nvidia/nccl/lib"),
    }
    settings = {"Env": [f"LD_LIBRARY_PATH=/{system}"]}
    verdict = Case(base=base, base_config=settings, added=[{"x": "y"}]).judge(tmp_path)
    lines = [line for r in verdict.reports if r.check.startswith("native.") for line in r.compared]
    for version in ("2.30.4", "2.28.9", "2.28.3"):
        assert any(f"nccl by version string: {version}+cuda13.3" in line for line in lines)
    assert (
        f"torch loads `/{SITE}/torch/lib/libnccl.so.2` for `libnccl.so.2`: "
        f"DT_RPATH of `{SITE}/torch/lib/libtorch_cuda.so` `/{SITE}/torch/lib`" in lines
    )
    assert verdict.passed


def test_verl_6621_with_runpath_the_library_path_wins(tmp_path: Path) -> None:
    system = "usr/lib/aarch64-linux-gnu"
    base = {NCCL: nccl(), f"{system}/libnccl.so.2": nccl("2.28.3", "cc"), **libtorch(runpath=RPATH)}
    case = Case(
        base=base,
        added=[{"x": "y"}],
        config={"Env": [f"LD_LIBRARY_PATH=/{system}"]},
    )
    loaded = found(case.judge(tmp_path), "native.loads/loads-another")
    assert loaded.found == f"/{system}/libnccl.so.2 (LD_LIBRARY_PATH `/{system}`)"


def test_vllm_takes_its_own_variable_and_then_two_builds_are_in_one_process(tmp_path: Path) -> None:
    vllm = dist("vllm", "0.29.0", files={"vllm/_version.py": "__version__ = '0.29.0'\n"})
    case = Case(
        base={
            NCCL: nccl(),
            "opt/libnccl.so.2": nccl("2.30.7", "bb"),
            **libtorch(rpath=RPATH),
            **vllm,
        },
        added=[{"x": "y"}],
        config={"Env": ["VLLM_NCCL_SO_PATH=/opt/libnccl.so.2"]},
    )
    verdict = case.judge(tmp_path)
    assert "native.loads/two-in-one-process" in failed(verdict)
    assert found(verdict, "native.loads/loads-another").found.startswith("/opt/libnccl.so.2")


def test_ld_library_path_with_a_library_of_another_machine_is_passed_over(tmp_path: Path) -> None:
    base = {NCCL: nccl(), "opt/libnccl.so.2": nccl(machine=X86_64), **libtorch(runpath=RPATH)}
    case = Case(base=base, added=[{"x": "y"}], config={"Env": ["LD_LIBRARY_PATH=/opt"]})
    assert "native.loads/loads-another" not in failed(case.judge(tmp_path))


def test_nccl_1991_without_a_cache_the_loaders_configuration_is_not_used(tmp_path: Path) -> None:
    base = {
        "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/a.conf": "/opt/a # first\n",
        "opt/a/libnccl.so.2": nccl(build="aa"),
        "usr/lib/libnccl.so.2": nccl(build="bb"),
        **libtorch(),
    }
    without = Case(base=base, added=[{"x": "y"}]).judge(tmp_path / "a")
    assert "torch loads `/usr/lib/libnccl.so.2`" in _native_lines(without)
    cached = Case(base={**base, "etc/ld.so.cache": b"x"}, added=[{"x": "y"}]).judge(tmp_path / "b")
    assert "torch loads `/opt/a/libnccl.so.2`" in _native_lines(cached)


def _native_lines(verdict: object) -> str:
    reports = verdict.reports  # type: ignore[attr-defined] # a verdict; kept short for the tests
    return "\n".join(line for r in reports if r.check.startswith("native.") for line in r.compared)


def test_marin_7344_two_distributions_write_one_path(tmp_path: Path) -> None:
    files = {"nvidia/nccl/lib/libnccl.so.2": nccl()}
    other = {"nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9", "bb")}
    verdict = Case(
        base={**torch(), **dist("nvidia-nccl-cu13", "2.30.7", files=files)},
        added=[dist("nvidia-nccl-cu12", "2.28.9", files=other)],
    ).judge(tmp_path)
    assert {"native.abi/cuda-mixed", "python.content/overwritten", "native.pins/moved"} <= failed(
        verdict
    )


def test_metadata_says_one_nccl_and_the_library_is_another(tmp_path: Path) -> None:
    before = dist("nvidia-nccl-cu13", "2.30.7", files={"nvidia/nccl/lib/libnccl.so.2": nccl()})
    verdict = Case(base=before, added=[{NCCL: nccl("2.28.9", "bb")}]).judge(tmp_path)
    record = found(verdict, "native.claims/record")
    assert (record.locked, record.found) == ("2.30.7", "2.28.9+cuda13.3")


# --- FlashInfer


def test_vllm_49804_cubins_of_another_version(tmp_path: Path) -> None:
    verdict = Case(
        base=flashinfer("0.6.14"), added=[flashinfer("0.6.13", "flashinfer-cubin")]
    ).judge(tmp_path)
    lockstep = found(verdict, "native.flashinfer/lockstep")
    assert (lockstep.subject, lockstep.found) == ("flashinfer-cubin", "0.6.13")


def test_flashinfer_4337_the_local_part_is_no_mismatch(tmp_path: Path) -> None:
    base = {**torch(), **flashinfer("0.6.16")}
    verdict = Case(base=base, added=[flashinfer("0.6.16+cu130", "flashinfer-jit-cache")]).judge(
        tmp_path
    )
    assert not {c for c in failed(verdict) if c.startswith("native.flashinfer")}


@pytest.mark.parametrize("stale", ["0.6.1+cu130", "0.6.18.post1+cu130"])
def test_what_flashinfers_own_prefix_check_lets_through(stale: str, tmp_path: Path) -> None:
    version = "0.6.18" if stale.startswith("0.6.18") else "0.6.1"
    other = {"0.6.1": "0.6.18", "0.6.18": "0.6.18"}[version]
    verdict = Case(
        base={**torch(), **flashinfer(other)}, added=[flashinfer(stale, "flashinfer-jit-cache")]
    ).judge(tmp_path)
    assert found(verdict, "native.flashinfer/lockstep").found == stale


def test_a_compiled_cache_for_another_cuda(tmp_path: Path) -> None:
    verdict = Case(
        base={**torch(), **flashinfer("0.6.18")},
        added=[flashinfer("0.6.18+cu128", "flashinfer-jit-cache")],
    ).judge(tmp_path)
    assert "native.flashinfer/cuda" in failed(verdict)


def test_tokenspeed_284_the_check_is_turned_off_over_a_stale_cache(tmp_path: Path) -> None:
    case = Case(
        base={**flashinfer("0.6.18"), **flashinfer("0.6.13+cu130", "flashinfer-jit-cache")},
        added=[{"x": "y"}],
        config={"Env": ["FLASHINFER_DISABLE_VERSION_CHECK=0"]},
    )
    verdict = case.judge(tmp_path)
    assert "native.flashinfer/silenced" in failed(verdict)
    # the base has the stale cache already: known, and not a failure of the layer
    assert "native.flashinfer/lockstep" in noted(verdict)


def test_flashinfer_without_build_metadata_skips_its_own_check(tmp_path: Path) -> None:
    verdict = Case(base={}, added=[flashinfer("0.6.18", meta=False)]).judge(tmp_path)
    assert "native.flashinfer/version-unknown" in failed(verdict)


@pytest.mark.parametrize("report", ["flashinfer-ai/flashinfer#4486", "sgl-project/sglang#34629"])
def test_flashinfer_4486_a_version_that_gives_nan_is_denied(report: str, tmp_path: Path) -> None:
    assert report
    verdict = Case(base=flashinfer("0.6.17"), added=[{"x": "y"}]).judge(tmp_path)
    assert "NaN" in found(verdict, "pins.declared/denied").message


# --- toolchain

CU13 = f"{SITE}/nvidia/cu13"
GAP: dict[str, Content] = {
    **dist(
        "nvidia-cuda-nvrtc",
        "13.0.88",
        files={
            "nvidia/cu13/include/nvrtc.h": "/* nvrtc */",
            "nvidia/cu13/lib/libnvrtc.so.13": library(soname="libnvrtc.so.13"),
        },
    ),
    "usr/local/cuda/include/cuda_runtime.h": "/* cuda */",
    "usr/local/cuda/lib64/libcudart.so.13": library(soname="libcudart.so.13"),
}
DECLARED = '[toolchain]\nheaders = ["nvrtc.h"]\nlibraries = ["nvrtc"]\n'
LINKS = f"""
[[layer.links]]
path = "/usr/local/cuda/include/nvrtc.h"
target = "/{CU13}/include/nvrtc.h"
[[layer.links]]
path = "/usr/local/cuda/lib64/libnvrtc.so"
target = "/{CU13}/lib/libnvrtc.so.13"
"""


def test_localai_10257_header_and_library_are_missing_and_both_are_named(tmp_path: Path) -> None:
    verdict = Case(base=GAP, added=[{"x": "y"}], recipe=DECLARED).judge(tmp_path)
    header = found(verdict, "native.toolchain/header-missing")
    linked = found(verdict, "native.toolchain/library-missing")
    assert header.found == f"only `/{CU13}/include/nvrtc.h` of nvidia-cuda-nvrtc==13.0.88"
    assert linked.subject == "-lnvrtc"
    assert linked.found == f"only `/{CU13}/lib/libnvrtc.so.13` of nvidia-cuda-nvrtc==13.0.88"
    assert "/usr/local/cuda/include" in header.locked


def test_localai_10257_the_recipes_links_close_the_gap(tmp_path: Path) -> None:
    added: dict[str, Content] = {
        "usr/local/cuda/include/nvrtc.h": Link(f"/{CU13}/include/nvrtc.h"),
        "usr/local/cuda/lib64/libnvrtc.so": Link(f"/{CU13}/lib/libnvrtc.so.13"),
    }
    verdict = Case(base=GAP, added=[added], recipe=LINKS + DECLARED).judge(tmp_path)
    assert verdict.passed


def test_a_link_that_leads_to_nothing_does_not_close_the_gap(tmp_path: Path) -> None:
    added: dict[str, Content] = {"usr/local/cuda/include/nvrtc.h": Link("/opt/nvrtc.h")}
    verdict = Case(base=GAP, added=[added], recipe=DECLARED).judge(tmp_path)
    assert "leads to nothing" in found(verdict, "native.toolchain/header-missing").message


def test_the_folders_of_an_arm64_toolkit_are_followed_through_its_links(tmp_path: Path) -> None:
    base: dict[str, Content] = {
        "usr/local/cuda": Link("/etc/alternatives/cuda"),
        "etc/alternatives/cuda": Link("/usr/local/cuda-13.0"),
        "usr/local/cuda-13.0/include": Link("targets/sbsa-linux/include"),
        "usr/local/cuda-13.0/lib64": Link("targets/sbsa-linux/lib"),
        "usr/local/cuda-13.0/targets/sbsa-linux/include/nvrtc.h": "x",
        "usr/local/cuda-13.0/targets/sbsa-linux/lib/libnvrtc.so": Link("libnvrtc.so.13"),
        "usr/local/cuda-13.0/targets/sbsa-linux/lib/libnvrtc.so.13": library(),
    }
    assert Case(base=base, added=[{"x": "y"}], recipe=DECLARED).judge(tmp_path).passed


@pytest.mark.parametrize("header", ["curand_kernel.h", "curand.h"])
def test_vllm_33833_and_29590_a_header_of_curand_is_nowhere(header: str, tmp_path: Path) -> None:
    recipe = f'[toolchain]\nheaders = ["{header}"]\n'
    missing = found(
        Case(base=GAP, added=[{"x": "y"}], recipe=recipe).judge(tmp_path),
        "native.toolchain/header-missing",
    )
    assert missing.found == "nowhere in the image"


def test_vllm_29270_no_compiler_for_cpp(tmp_path: Path) -> None:
    case = Case(base=GAP, added=[{"x": "y"}], recipe='[toolchain]\nprograms = ["c++"]\n')
    assert "native.toolchain/program-missing" in failed(case.judge(tmp_path))


def test_dynamo_14866_a_header_that_only_a_variable_leads_to_is_found(tmp_path: Path) -> None:
    case = Case(
        base={"opt/cuda/include/cuda.h": "x"},
        base_config={"Env": ["CPATH=/opt/cuda/include"]},
        added=[{"x": "y"}],
        recipe='[toolchain]\nheaders = ["cuda.h"]\n',
    )
    assert case.judge(tmp_path / "a").passed
    moved = replace(case, config={"Env": []})
    assert "native.toolchain/header-missing" in failed(moved.judge(tmp_path / "b"))


def test_triton_8539_the_path_of_ptxas_leads_to_nothing(tmp_path: Path) -> None:
    case = Case(
        added=[{"x": "y"}],
        recipe='[config.env]\nTRITON_PTXAS_PATH = "/usr/local/cuda/bin/ptxas"\n',
        config={"Env": ["TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas"]},
    )
    assert "native.toolchain/ptxas-dangling" in failed(case.judge(tmp_path))


@pytest.mark.parametrize(
    "report", ["flashinfer-ai/flashinfer#3634", "flashinfer-ai/flashinfer#3899"]
)
def test_flashinfer_3634_compiling_without_a_limit(report: str, tmp_path: Path) -> None:
    assert report
    case = Case(base=flashinfer("0.6.18"), added=[{"x": "y"}])
    assert "native.toolchain/max-jobs" in noted(case.judge(tmp_path / "a"))
    over = replace(
        case,
        recipe="[toolchain]\nmax_jobs = 8\n[config.env]\nMAX_JOBS = '16'\n",
        config={"Env": ["MAX_JOBS=16"]},
    )
    assert "native.toolchain/max-jobs" in failed(over.judge(tmp_path / "b"))


# --- Debian, metadata


def test_dynamo_5995_a_distribution_without_record_that_is_overwritten(tmp_path: Path) -> None:
    folder = "usr/lib/python3/dist-packages"
    base: dict[str, Content] = {
        f"{folder}/blinker-1.7.0.dist-info/METADATA": "Name: blinker\nVersion: 1.7.0\n",
        f"{folder}/blinker/__init__.py": "# 1.7",
        "usr/local/lib/python3.12/dist-packages/x.py": "",
    }
    verdict = Case(
        base=base, added=[dist("blinker", "1.9.0", files={"blinker/__init__.py": "# 1.9"})]
    ).judge(tmp_path)
    assert found(verdict, "python.pins/second-copy").subject == "blinker"
    # /usr/local is searched first, so the older copy is not imported any more
    assert found(verdict, "python.imports/shadowed").subject == "blinker"


def test_datajuicer_668_ignore_installed_leaves_the_old_metadata(tmp_path: Path) -> None:
    verdict = Case(base=dist("pyjwt", "2.7.0"), added=[dist("pyjwt", "2.10.1")]).judge(tmp_path)
    assert "python.pins/second-copy" in failed(verdict)


def test_aws_dlc_6686_pip_is_told_to_break_the_systems_packages(tmp_path: Path) -> None:
    verdict = Case(added=[{"x": "y"}], config={"Env": ["PIP_BREAK_SYSTEM_PACKAGES=1"]}).judge(
        tmp_path
    )
    assert "refusal" in found(verdict, "config.moves/env").message


# --- ray and friends


def test_dynamo_8515_ray_is_gone_from_the_base(tmp_path: Path) -> None:
    verdict = Case(
        base={},
        added=[
            dist("vllm", "0.18.0", requires=('ray[default]>=2.9; extra == "ray"',), extras=("ray",))
        ],
        requested=("vllm[ray]",),
    ).judge(tmp_path)
    broken = found(verdict, "python.requirements/broken")
    assert broken.found == "nothing"


def test_ray_56747_click_does_not_fit(tmp_path: Path) -> None:
    verdict = Case(
        base={**dist("ray", "2.54.0", requires=("click!=8.3.0,>=7.0",)), **dist("click", "8.2.1")},
        added=[{f"{SITE}/.wh.click-8.2.1.dist-info": b"", **dist("click", "8.3.0")}],
    ).judge(tmp_path)
    assert found(verdict, "python.requirements/broken").found == "click==8.3.0"


# --- loader


def test_aws_k8s_tester_654_a_file_that_is_loaded_into_everything(tmp_path: Path) -> None:
    added: dict[str, Content] = {
        "etc/ld.so.preload": "/opt/hook.so\n",
        "opt/hook.so": library(soname="hook.so"),
    }
    verdict = Case(added=[added]).judge(tmp_path)
    assert found(verdict, "native.needs/loader-moved").subject == "etc/ld.so.preload"


def test_aws_ofi_nccl_1055_the_plugins_version_is_read_from_its_bytes(tmp_path: Path) -> None:
    plugin = library(text=b"\0NET/OFI Initializing aws-ofi-nccl 1.17.1\0")
    changed = library(text=b"\0NET/OFI Initializing aws-ofi-nccl 1.18.0\0")
    path = "opt/amazon/ofi-nccl/lib/libnccl-net.so"
    moved = found(
        Case(base={path: plugin}, added=[{path: changed}]).judge(tmp_path),
        "native.pins/moved",
        "aws-ofi-nccl",
    )
    assert (moved.locked, moved.found) == ("1.17.1", "1.18.0")
