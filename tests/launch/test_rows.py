"""Rows of operators' reports: kernels, memory, jobs, nodes, containers, links."""

from __future__ import annotations

from typing import Any

import pytest

from imagegate.launch.drivers import compare_kernels
from imagegate.launch.memory import jobs_that_fit, read_max_jobs
from imagegate.launch.watermarks import Zone, available_kib, reserved, watermarks
from tests.launch.hosts import (
    DIGEST,
    KERNEL,
    container,
    evidence,
    fails,
    findings,
    host,
    notes,
    running,
    section,
)


def kernel(release: str) -> dict[str, str]:
    return {"name": f"linux-image-{release}", "version": "1", "state": "installed"}


def driver(**more: Any) -> dict[str, Any]:
    return {"driver": more}


A, B, C = "6.17.0-1026-nvidia", "6.17.0-1029-nvidia", "7.0.0-1019-nvidia"
KO = {A: ["/lib/modules/x/nvidia.ko"]}


@pytest.mark.parametrize(
    ("facts", "failing", "noted"),
    [
        ({"running_kernel": B, "loaded": None, "modules": {**KO, B: []}, "packages": [kernel(A), kernel(B)]},
         ["not-loaded"], ["next-uncovered"]),
        ({"packages": [kernel(A), kernel(B)]}, [], ["next-uncovered"]),
        ({"packages": [kernel(A), {**kernel(B), "state": "config-files"}]}, [], []),
        ({"packages": [kernel(A), kernel(C), {"name": f"linux-modules-nvidia-580-open-{C}", "version": "1", "state": "installed"}]},
         [], ["reboot-pending"]),
        ({"packages": [kernel(A), kernel(C), {"name": "linux-modules-nvidia-580-open-nvidia-hwe-24.04", "version": "1", "state": "installed"}]},
         [], ["next-uncovered"]),
        ({"libraries": ["580.178.04"]}, ["mismatch"], []),
        ({"modules": {A: []}, "packages": [kernel(A)]}, [], ["module-gone", "next-uncovered"]),
        ({"grub_default": "1>2"}, [], ["grub"]),
        ({"packages_seen": False, "packages": []}, [], ["unseen"]),
        ({"loaded": None, "modules": {}, "modules_seen": False, "packages_seen": False}, ["unseen", "unseen"], []),
    ],
)  # fmt: skip
def test_kernel_and_driver(facts: dict[str, Any], failing: list[str], noted: list[str]) -> None:
    modules = facts.get("modules", KO)
    first = host(driver={"loaded": "580.173.02", **facts})
    if "modules" in facts:
        first = first.model_copy(
            update={"driver": first.driver.model_copy(update={"modules": modules})}
        )
    given = evidence(first, host("magnetar"))
    assert (fails(given, "driver"), notes(given, "driver")) == (failing, noted)


def test_drivers_that_differ_name_both_nodes() -> None:
    given = evidence(
        host(), host("magnetar", driver={"loaded": "580.178.04", "libraries": ["580.178.04"]})
    )
    (said,) = findings(given, "driver")
    assert said.found == "pulsar: 580.173.02, magnetar: 580.178.04"


def test_kernels_are_ordered_by_number() -> None:
    assert compare_kernels("6.17.0-1009-nvidia", "6.17.0-1032-nvidia") < 0
    assert compare_kernels("6.17.0-1032", "6.17.0-1009") > 0
    assert compare_kernels(KERNEL, KERNEL) == 0


# --- memory


def test_the_report_of_two_sparks_gives_its_own_figures() -> None:
    """0.85 of 121.63 GiB is 103.39; pulsar has 106.94 and magnetar 110.97 available."""
    given = evidence(utilization=0.85, section=section(memory={"checkpoint": 181}))
    assert fails(given, "memory") == []
    from imagegate.checks.launch.launch_memory import CHECK

    told = CHECK.judge(given).compared
    assert "pulsar (the tighter node): needed=103.39 GiB found=106.94 GiB, +3.55" in told
    # the report's 12.9 GiB of headroom
    assert any(
        line.startswith("pulsar: 12.89 GiB of the share are left beside 90.50 GiB") for line in told
    )


def test_a_little_more_fails_on_the_tighter_node_alone() -> None:
    given = evidence(utilization=0.88)
    (said,) = [f for f in findings(given, "memory") if f.code.endswith("budget")]
    assert said.subject == "pulsar"
    assert said.locked.startswith("107.03 GiB")
    assert said.found == "106.94 GiB available"


def test_weights_that_cannot_fit() -> None:
    given = evidence(
        utilization=0.85, tensor_parallel=1, section=section(memory={"checkpoint": 181})
    )
    assert "weights" in fails(given, "memory")


@pytest.mark.parametrize(("kv", "failing"), [(6, ["above-killer", "above-killer"]), (3, [])])
def test_a_drafter_fits_only_with_a_smaller_cache(kv: int, failing: list[str]) -> None:
    weights = [{"path": "/models/glm"}, {"path": "/models/drafter", "role": "drafter", "gib": 2.18}]
    figures = {"resident": 88.63, "other": 6.16, "margin": 0.5}
    given = evidence(
        host(available=106.94), host("magnetar", 106.9),
        kv_bytes=kv * 2**30,
        section=section(weights=weights, memory=figures),
    )  # fmt: skip
    assert fails(given, "memory") == failing


@pytest.mark.parametrize(
    ("value", "count"),
    [(None, 22), ("auto", 22), (" 2", 22), ("-1", 22), ("", 22), ("0", None), ("2", 2), ("16", 16)],
)
def test_max_jobs_is_read_as_flashinfer_does(value: str | None, count: int | None) -> None:
    assert read_max_jobs(value, 20).count == count


@pytest.mark.parametrize(("free", "jobs"), [(110.0, 20), (12.9, 2), (10.0, 1), (5.0, 0)])
def test_jobs_that_fit(free: float, jobs: int) -> None:
    assert jobs_that_fit(free, 5.16, 20) == jobs


@pytest.mark.parametrize(
    ("jobs", "needed"),
    [
        ("16", "needed=16 x 5.16 = 82.56 GiB"),
        (None, "needed=22 x 5.16 = 113.52 GiB"),
        ("0", "needed=without limit"),
    ],
)
def test_compilers_beside_a_resident_model(jobs: str | None, needed: str) -> None:
    env = {"IMAGE_DIGEST": DIGEST, **({"MAX_JOBS": jobs} if jobs is not None else {})}
    given = evidence(env=env, utilization=0.85, section=section(memory={"checkpoint": 181}))
    said = findings(given, "jobs")
    assert [f.locked for f in said] == [needed, needed]
    # pulsar: 106.94 available, 90.5 weights, 4.87 killer and 1 reserve
    assert said[0].found.startswith("found=10.57 GiB")
    # magnetar has 4 GiB more: there the share is what ends it, the report's 12.9
    assert said[1].found.startswith("found=12.89 GiB")


def test_compilers_before_the_model_fit() -> None:
    given = evidence(
        host(available=110),
        host("b", 110),
        precompiling=True,
        section=section(jobs={"precompile": 10}),
    )
    assert fails(given, "jobs") == []
    assert (
        fails(evidence(utilization=0.85, section=section(memory={"checkpoint": 181})), "jobs") == []
    )


# --- watermarks


def test_watermarks_of_the_reports_are_the_formulas() -> None:
    zone = [Zone(name="Normal", managed=round(121.6 * 2**30 / 4096))]
    for kib, low, high in ((67584, 0.19, 0.31), (2097152, 2.5, 3.0), (4194304, 5.0, 6.0)):
        (found,) = watermarks(zone, kib, 10)
        assert (round(found.low * 4 / 2**20, 2), round(found.high * 4 / 2**20, 2)) == (low, high)


def test_a_raised_reserve_is_told_with_what_it_hides_and_what_comes_back() -> None:
    given = evidence(host(memory={"min_free_kbytes": 4194304}), host("b"), utilization=0.85)
    (said,) = findings(given, "watermarks")
    assert (said.subject, said.hint) == ("pulsar", "halving it gives 3.00 GiB back")
    assert said.found == "found=106.94 GiB available, 6.00 GiB hidden"
    assert said.locked == "needed=103.39 GiB"


def test_this_kernels_own_figures_are_reproduced() -> None:
    from imagegate.nodes import facts

    for _ in range(20):
        memory = facts.memory_facts(facts.Host())  # type: ignore[no-untyped-call]
        zones = [
            Zone(
                **{
                    k: z.get(k, 0)
                    for k in ("name", "managed", "min", "low", "high", "reserve", "boost")
                }
            )
            for z in memory["zones"]
        ]
        again = facts.memory_facts(facts.Host())  # type: ignore[no-untyped-call]
        computed = available_kib(
            zones,
            free_kib=memory["free_kib"],
            file_kib=memory["active_file_kib"] + memory["inactive_file_kib"],
            reclaimable_kib=memory["reclaimable_kib"] or memory["slab_reclaimable_kib"],
            page_kib=memory["page_size"] // 1024,
        )
        if again["free_kib"] == memory["free_kib"] or abs(computed - memory["available_kib"]) < 64:
            break
    # the kernel reads its counters one after the other: a few pages may move in between
    assert abs(computed - memory["available_kib"]) < 4096
    assert reserved(zones) > 0
    for zone, formula in zip(
        zones,
        watermarks(zones, memory["min_free_kbytes"], memory["watermark_scale_factor"]),
        strict=True,
    ):
        if zone.managed:
            assert abs(zone.high - zone.boost - formula.high) <= 2, zone


# --- nodes, images, containers


def test_one_host_twice_and_too_few() -> None:
    assert fails(evidence(host(), host()), "nodes") == ["same-host", "count"]
    assert fails(evidence(host()), "nodes") == ["count"]
    assert fails(evidence(), "nodes") == []


def test_facts_of_a_container_are_not_the_hosts() -> None:
    assert fails(evidence(host(host={"in_container": True}), host("b")), "nodes") == ["unseen"]


def test_another_digest_on_one_node_is_named() -> None:
    other = "sha256:" + "ef" * 32
    engines = [
        {
            "kind": "docker",
            "images": [{"id": "sha256:" + "11" * 32, "digests": [f"localhost/glm@{other}"]}],
        }
    ]
    (said,) = findings(evidence(host(), host("magnetar", engines=engines)), "image")
    assert (said.subject, said.locked) == ("magnetar", DIGEST)
    assert other in said.found


def with_containers(*containers: dict[str, Any], **more: Any) -> Any:
    first = host(engines=running(*containers))
    second = host("magnetar", engines=running(container()))
    return evidence(first, second, section=section(container={"name": "glm"}, **more))


def test_secrets_that_the_profile_names_have_to_be_set() -> None:
    env = {
        "IMAGE_DIGEST": DIGEST,
        "IMAGE_ID": "sha256:" + "cd" * 32,
        "IMAGEGATE_SECRETS": "HF_TOKEN,API_KEY",
    }
    held = container(environment={"HF_TOKEN": "sha256:" + "0" * 64, "API_KEY": ""})
    given = evidence(
        host(engines=running(held)),
        host("magnetar", engines=running(held)),
        env=env,
        section=section(container={"name": "glm"}),
    )
    assert fails(given, "containers") == ["secret-absent", "secret-absent"]
    assert findings(given, "containers")[0].subject == "pulsar: API_KEY"


CACHE = [{"path": "/cache/{digest}", "target": "/root/.cache"}]
MOUNT = {"source": "/cache/" + "ab" * 32, "target": "/root/.cache"}


@pytest.mark.parametrize(
    ("containers", "more", "failing"),
    [
        ([container()], {"forward": ["MAX_JOBS"]}, []),
        ([container(image="sha256:" + "99" * 32, image_name="localhost/other:1")], {}, ["image"]),
        ([container(environment={"MAX_JOBS": "20"})], {"forward": ["MAX_JOBS"]}, ["variable"]),
        ([container(environment={})], {"forward": ["MAX_JOBS"]}, ["variable-absent"]),
        ([], {}, ["not-running"]),
        (
            [container(), container(name="qwen", image_name="vllm/vllm-openai:v1")],
            {},
            ["another-model"],
        ),
        ([container(environment={"RAY_AUTH_MODE": "token"})], {}, ["ray-auth"]),
    ],
)
def test_what_runs(
    containers: list[dict[str, Any]], more: dict[str, Any], failing: list[str]
) -> None:
    assert fails(with_containers(*containers, **more), "containers") == failing


@pytest.mark.parametrize(
    ("mounts", "failing"),
    [
        ([MOUNT], []),
        ([], ["not-mounted"]),
        ([{**MOUNT, "source": "/cache/" + "00" * 32}], ["mounted-elsewhere"]),
        (
            [{"source": "/cache/" + "ab" * 32, "target": "/root/.cache", "writable": False}],
            ["cache-read-only"],
        ),
    ],
)
def test_caches_are_mounted_by_digest(mounts: list[dict[str, Any]], failing: list[str]) -> None:
    given = evidence(
        host(engines=running(container(mounts=mounts))),
        host("magnetar", engines=running(container(mounts=[MOUNT]))),
        section=section(container={"name": "glm"}, caches=CACHE),
    )
    assert fails(given, "containers") == failing


def test_limits_and_devices() -> None:
    wanted = {"name": "glm", "devices": ["/dev/infiniband"], "memory_gib": 110, "memlock": True}
    given = evidence(
        host(engines=running(container())),
        host("magnetar", engines=running(container(devices=["/dev/infiniband/uverbs0"], memory_limit=110 * 2**30, memlock=[{"Name": "memlock", "Soft": -1}]))),
        section=section(container=wanted),
    )  # fmt: skip
    said = findings(given, "containers")
    assert [f.code.partition("/")[2] for f in said] == ["device", "no-limit", "memlock"]
    assert {f.subject for f in said} == {"pulsar: glm"}


# --- links, caches, hosts


def test_a_link_without_carrier_and_its_dead_device() -> None:
    links = {
        "links": [{"name": "a", "carrier": True, "addresses": ["10.0.0.1"], "rdma": ["rocea"]},
                  {"name": "b", "carrier": False, "rdma": ["roceb"]}],
        "rdma": [{"name": "rocea", "state": "4: ACTIVE", "links": ["a"]},
                 {"name": "roceb", "state": "1: DOWN", "links": ["b"]}],
        "dev_infiniband": ["uverbs0"], "listeners": [8000],
    }  # fmt: skip
    values = {"NCCL_IB_HCA": "rocea,roceb", "UCX_NET_DEVICES": "a"}
    given = evidence(
        host(network=links, engines=running(container(environment=values))), host("magnetar"),
        section=section(container={"name": "glm"}, network=["NCCL_IB_HCA"]),
    )  # fmt: skip
    assert fails(given, "network") == ["dead-device", "link-for-device"]
    assert notes(given, "network") == ["no-carrier"]
    before = evidence(host(network=links), host("magnetar"))
    assert fails(before, "network") == ["port-taken"]
    none: dict[str, Any] = {"links": [], "rdma": [], "dev_infiniband": [], "listeners": []}
    bare = evidence(host(network=none), host("b"), section=section(network=["NCCL_IB_HCA"]))
    assert fails(bare, "network") == ["no-rdma", "not-computed"]


def test_kernels_of_another_digest_do_not_count() -> None:
    wanted = {"command": ["build"], "expects": ["*moe*.so"]}
    other = [
        {
            "path": "/cache",
            "there": True,
            "writable": True,
            "folders": [{"name": "00" * 32, "libraries": ["moe.so"]}],
        }
    ]
    mine = [
        {
            "path": "/cache",
            "there": True,
            "writable": True,
            "folders": [{"name": "ab" * 32, "libraries": ["a/moe.so"]}],
        }
    ]
    held = [
        {
            "path": "/cache",
            "there": True,
            "folders": [{"name": "ab" * 32, "libraries": [], "locks": ["x.lock"]}],
        }
    ]
    serve = section(caches=CACHE, precompile=wanted)
    given = evidence(host(caches=other), host("magnetar", caches=mine), section=serve)
    assert (fails(given, "caches"), notes(given, "caches")) == ([], ["empty"])
    given = evidence(host(caches=held), host("magnetar", caches=mine), section=serve)
    assert fails(given, "caches") == ["locked", "incomplete"]


def test_a_hosts_hardening() -> None:
    engines = [{"kind": "docker", "cgroup_driver": "systemd", "images": []}]
    given = evidence(host(engines=engines, ssh={"pid": 1, "oom_score_adj": 0}), host("b"))
    assert (fails(given, "host"), notes(given, "host")) == (["cgroup-driver"], ["sshd-score"])


def test_the_images_demands_of_driver_and_device() -> None:
    demands = {
        "requires": {
            "NVIDIA_REQUIRE_CUDA": "cuda>=13.0 driver>=535,driver<536 driver>=550,driver<551",
            "TORCH_CUDA_ARCH_LIST": "12.0",
        }
    }
    given = evidence(host(engines=running(**demands)), host("b"))
    assert notes(given, "host") == ["require-cuda", "architectures"]


def test_nothing_seen_of_a_node_never_passes() -> None:
    given = evidence(host(memory={"available_kib": None}, engines=[]), host("b"), utilization=0.85)
    assert fails(given, "memory") == ["unseen"]
    assert fails(given, "image") == ["unseen"]
    assert fails(evidence(problems=None), "arguments") == ["unseen"]
