"""Places that decide what runs are known by their paths."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from imagegate.catalog.watched import PLACES, Place, watched, watched_place


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("usr/lib/aarch64-linux-gnu/libnccl-net.so", "nccl-plugin"),
        ("opt/x/libnccl-tuner-ofi.so.0", "nccl-plugin"),
        ("usr/lib/libnccl-profiler.so", "nccl-plugin"),
        ("usr/lib/libucp.so.0", "ucx"),
        ("usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0", "ucx"),
        ("usr/local/lib/nvshmem_transport_ibrc.so.3", "nvshmem"),
        ("usr/local/lib/nvshmem_bootstrap_uid.so", "nvshmem"),
        ("usr/local/cuda/lib64/stubs/libcuda.so", "driver"),
        ("usr/local/cuda/compat/libcuda.so.1", "driver"),
        ("opt/amazon/efa/lib/libfabric.so.1", "fabric"),
        ("etc/libibverbs.d/mlx5.driver", "ibverbs"),
        ("usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so", "ibverbs"),
        ("usr/lib/x86_64-linux-gnu/ossl-modules/evil.so", "openssl"),
        ("usr/lib/x86_64-linux-gnu/engines-3/evil.so", "openssl"),
        ("etc/ssl/openssl.cnf", "openssl"),
        ("usr/lib/x86_64-linux-gnu/libnss_evil.so.2", "nss"),
        ("etc/nsswitch.conf", "nss"),
        ("usr/lib/x86_64-linux-gnu/security/pam_evil.so", "pam"),
        ("usr/lib/x86_64-linux-gnu/gconv/gconv-modules.d/x.conf", "gconv"),
        ("usr/lib/x86_64-linux-gnu/gconv/EVIL.so", "gconv"),
        ("etc/ld.so.preload", "malloc"),
        ("etc/ld.so.conf.d/zz.conf", "malloc"),
        ("root/.cache/flashinfer/0.6.18/121a/cached_ops/x/x.so", "compile-cache"),
        ("root/.triton/cache/ABC/kernel.cubin", "compile-cache"),
        ("root/.cache/torch_extensions/py312_cu130/x/x.so", "compile-cache"),
        ("root/.cache/vllm/torch_compile_cache/x", "compile-cache"),
        ("tmp/torchinductor_root/fx/x.py", "compile-cache"),
        ("root/.tilelang/cache/x", "compile-cache"),
        ("root/.nv/ComputeCache/index", "compile-cache"),
        ("usr/local/include/cuda_fp16.h", "header"),
        ("usr/local/cuda-13.0/targets/sbsa-linux/include/x.h", "header"),
        ("usr/lib/python3/dist-packages/x.pth", "python-start"),
        ("usr/bin/python3._pth", "python-start"),
        ("usr/lib/python312.zip", "python-path"),
        ("usr/lib/python3.12/lib-dynload/torch.so", "python-path"),
        ("opt/zz-1.0.dist-info/entry_points.txt", "python-metadata"),
        ("opt/app/__pycache__/x.cpython-312.pyc", "bytecode"),
        ("usr/local/sbin/python3", "program"),
        ("etc/profile.d/x.sh", "shell-start"),
        ("root/.bashrc", "shell-start"),
        ("etc/alternatives/cc", "alternatives"),
        ("usr/lib/aarch64-linux-gnu/libz.so.1", "library"),
        ("usr/lib/glibc-hwcaps/x86-64-v3/libz.so.1", "library"),
    ],
)
def test_a_place_that_decides_what_runs_is_known(path: str, place: str) -> None:
    found = watched(path)
    assert found is not None
    assert found.name == place


@pytest.mark.parametrize(
    "path",
    [
        "usr/share/glm/recipes/glm53/chat_template.jinja",
        "srv/models/config.json",
        "workspace/build-metadata.yaml",
        "opt/app/settings.yaml",
        "var/log/apt/history.log",
        "usr/share/doc/tini/copyright",
        "etc/build-info",
    ],
)
def test_an_ordinary_place_is_not(path: str) -> None:
    assert watched_place(path) == ""


@pytest.mark.parametrize("place", PLACES, ids=lambda one: one.name)
@given(data=st.data())
def test_each_path_that_fits_a_place_has_one_of_its_marks(
    place: Place, data: st.DataObject
) -> None:
    path = data.draw(st.from_regex(place.pattern, fullmatch=True))
    assert any(mark in path for mark in place.marks)
