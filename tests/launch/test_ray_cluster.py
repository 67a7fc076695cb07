"""The probe through a real Ray cluster of three nodes on this machine, of the locked version.

Needs ray in an environment of its own: ``IMAGEGATE_RAY`` names its Python (`.ci/peers` makes it).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from imagegate.errors import EngineError
from imagegate.usecases.launch_check import probe_ray
from tests.launch.hosts import evidence, fails, section

PYTHON = os.environ.get("IMAGEGATE_RAY", "")

pytestmark = pytest.mark.peers

# a driver that keeps the cluster and obeys lines: `kill N`, `end`
CLUSTER = """
import json, os, sys
from ray.cluster_utils import Cluster
folder = sys.argv[1]
def node(number, **env):
    return dict(num_cpus=0, num_gpus=1, object_store_memory=80 * 2**20, env_vars={"MAX_JOBS": "2", **env})
cluster = Cluster(initialize_head=True, head_node_args=node(0))
one = cluster.add_node(**node(1))
two = cluster.add_node(**node(2, MAX_JOBS="20"))
cluster.wait_for_nodes(timeout=120)
print(json.dumps({"address": cluster.address}), flush=True)
for line in sys.stdin:
    if line.strip() == "kill":
        two.kill_raylet()
        print("killed", flush=True)
    else:
        break
cluster.shutdown()
"""


class Running:
    """The cluster's driver and how it is reached."""

    def __init__(self, process: subprocess.Popen[str], address: str, folder: Path) -> None:
        self.process = process
        self.address = address
        self.folder = folder

    def prefix(self, **env: str) -> str:
        """A command that reaches the head's Python: what `docker exec HEAD` is elsewhere."""
        values = {"RAY_ADDRESS": self.address, "HOME": str(self.folder), **env}
        words = ["env", *(f"{name}={value}" for name, value in values.items())]
        return " ".join([*words, "PATH=" + str(Path(PYTHON).parent) + ":/usr/bin:/bin"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("ray")
    script = folder / "cluster.py"
    script.write_text(textwrap.dedent(CLUSTER))
    environment = {**os.environ, "HOME": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 64,
                   "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}  # fmt: skip
    process = subprocess.Popen(
        [PYTHON, str(script), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=environment, cwd=folder,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    address = ""
    for line in process.stdout:
        if line.startswith('{"address"'):
            address = json.loads(line)["address"]
            break
    assert address, "the cluster did not start"
    yield Running(process, address, folder)
    process.stdin.write("end\n")
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def test_all_is_seen_on_every_node_and_the_odd_one_is_found(
    cluster: Running, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"12345")
    serve = section(
        nodes=1, gpus_per_node=3, forward=["MAX_JOBS"], weights=[{"path": str(tmp_path)}]
    )
    prefix = cluster.prefix(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="t" * 64)
    seen = probe_ray(serve, prefix, 60)
    assert len(seen) == 3
    assert [one.error for one in seen] == ["", "", ""]
    assert sorted(str(one.environment["MAX_JOBS"]) for one in seen) == ["2", "2", "20"]
    assert {one.weights[str(tmp_path)] for one in seen} == {5}
    assert sum(one.gpus for one in seen) == 3
    given = evidence(section=serve, ray=seen)
    assert fails(given, "ray") == ["variable"]
    alike = tuple(replace(one, environment={"MAX_JOBS": "2"}) for one in seen)
    assert fails(evidence(section=serve, ray=alike), "ray") == []
    # one host with three GPUs is not two hosts
    assert fails(evidence(section=serve.model_copy(update={"nodes": 2}), ray=alike), "ray") == [
        "hosts",
        "gpus",
    ]


@pytest.mark.parametrize(
    "token", [{"RAY_AUTH_TOKEN": "x" * 64, "RAY_AUTH_MODE": "token"}, {"RAY_AUTH_MODE": "disabled"}]
)
def test_a_wrong_token_or_mode_ends_within_its_time(
    cluster: Running, token: dict[str, str]
) -> None:
    begun = time.monotonic()
    with pytest.raises(EngineError):
        probe_ray(section(), cluster.prefix(**token), 5)
    # a limit, not a benchmark: without one it waits for ever
    assert time.monotonic() - begun < 120


def test_a_node_that_dies_is_an_error_and_never_fine(cluster: Running) -> None:
    assert cluster.process.stdin is not None
    assert cluster.process.stdout is not None
    cluster.process.stdin.write("kill\n")
    cluster.process.stdin.flush()
    assert cluster.process.stdout.readline().strip() == "killed"
    serve = section(nodes=1, gpus_per_node=3, forward=["MAX_JOBS"])
    seen = probe_ray(serve, cluster.prefix(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="t" * 64), 20)
    given = evidence(section=serve, ray=seen)
    assert set(fails(given, "ray")) & {"unseen", "gpus"}


def test_the_probe_is_one_file_of_the_standard_library_and_ray() -> None:
    import ast

    from imagegate.nodes import rayprobe

    tree = ast.parse(Path(rayprobe.__file__).read_text())
    names = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names - set(sys.stdlib_module_names) == {"ray"}
