"""``imagegate launch`` as it is called: exit codes, what is printed, what is stored."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagegate.cli import run
from imagegate.serving.command_line import config_arguments
from imagegate.usecases.launching.measured import read_records
from imagegate.usecases.launching.plan import make_plan
from imagegate.workspace import Workspace
from tests.launch.hosts import container, running
from tests.launch.workspaces import fact_file, published


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    folder = tmp_path / "work"
    folder.mkdir()
    found = published(folder)
    monkeypatch.chdir(folder)
    return found


def check(*words: str, files: tuple[Path, ...] = ()) -> int:
    given = [word for path in files for word in ("--facts", str(path))]
    return run(["launch", "check", "glm", *given, *words])


def test_two_healthy_hosts_pass(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (fact_file(tmp_path, "pulsar", 106.94), fact_file(tmp_path, "magnetar", 110.97))
    assert check("--details", files=files) == 0
    said = capsys.readouterr().out
    assert "PASSED" in said
    assert "pulsar (the tighter node): needed=103.39 GiB found=106.94 GiB, +3.55" in said


def test_a_share_that_does_not_fit_is_refused_with_both_figures(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (fact_file(tmp_path, "pulsar", 106.94), fact_file(tmp_path, "magnetar", 110.97))
    code = check("--override=--gpu-memory-utilization", "--override=0.88", files=files)
    said = capsys.readouterr().out
    assert code == 1
    assert "107.03 GiB" in said
    assert "106.94 GiB" in said


@pytest.mark.parametrize("form", ["text", "json", "markdown", "sarif", "junit", "github"])
def test_every_format(
    workspace: Workspace, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (fact_file(tmp_path, "pulsar", 90.0), fact_file(tmp_path, "magnetar", 110.97))
    assert check("--format", form, files=files) == 1
    assert "launch.memory" in capsys.readouterr().out


def test_a_node_without_facts_is_never_a_pass_and_hides_no_other(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = fact_file(tmp_path, "pulsar", 106.94)
    assert check("--on", "/nowhere/ssh magnetar", files=(good,)) in (1, 3)
    said = capsys.readouterr().out
    assert "`/nowhere/ssh` is not there" in said
    assert "pulsar" in said
    assert check("--on", "/nowhere/ssh magnetar") == 3
    assert "NOT JUDGED" in capsys.readouterr().out
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema": 2}')
    assert check(files=(broken,)) == 3
    assert check(files=(tmp_path / "absent.json",)) == 3


def test_a_container_as_a_host_is_not_judged(workspace: Workspace, tmp_path: Path) -> None:
    seen = {
        "name": "pulsar",
        "boot_id": "x",
        "cpus": 20,
        "in_container": True,
        "architecture": "aarch64",
    }
    files = (
        fact_file(tmp_path, "pulsar", 106.94, host=seen),
        fact_file(tmp_path, "magnetar", 110.97),
    )
    assert check(files=files) == 3


def test_no_profile_names_the_ones_there_are(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["launch", "check"], ["launch", "check", ""], ["launch", "check", "other"]):
        assert run(words) == 2
        assert "published are: glm" in capsys.readouterr().err
    assert run(["launch", "check", "glm"]) == 2
    assert run(["launch", "check", "glm", "--variant", "nosuch", "--here"]) == 2
    assert "long" in capsys.readouterr().err


def test_what_runs_is_compared(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = container(
        environment={"MAX_JOBS": "1", "GLM_RECIPES": "/usr/share/glm/recipes", "RAY_memory_monitor_refresh_ms": "0"},
        devices=["/dev/infiniband/uverbs0"], memlock=[{"Name": "memlock", "Soft": -1}],
        mounts=[{"source": "/models/glm-5.3-flash", "target": "/models/glm-5.3-flash", "writable": False},
                {"source": "/var/cache/glm/" + "ab" * 32, "target": "/root/.cache/flashinfer"}],
    )  # fmt: skip
    wrong = {**right, "environment": {**right["environment"], "MAX_JOBS": "20"}}
    one = fact_file(tmp_path, "pulsar", 14.0, engines=running(right))
    for held, code in ((right, 0), (wrong, 1)):
        two = fact_file(tmp_path, "magnetar", 16.0, engines=running(held))
        assert check("--running", files=(one, two)) == code
    said = capsys.readouterr().out
    assert "magnetar: MAX_JOBS" in said


def test_another_lock_than_the_published_one_judges_nothing(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workspace.profiles() / "glm.env"
    digest = str(workspace.lock("glm").digest)
    for file in (path, workspace.profiles() / "glm.json"):
        file.write_text(file.read_text().replace(digest, "sha256:" + "7" * 64))
    files = (fact_file(tmp_path, "pulsar", 106.94), fact_file(tmp_path, "magnetar", 110.97))
    assert check(files=files) == 3
    assert run(["launch", "args", "glm"]) == 1


# --- args


def test_args_are_quoted_for_sh_and_judged(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["launch", "args", "glm"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[:3] == ["vllm", "serve", "/models/glm-5.3-flash"]
    assert '{"image":0,"video":0}' in words
    assert run(["launch", "args", "glm", "--variant", "long", "--json"]) == 0
    long = json.loads(capsys.readouterr().out)
    assert "--gpu-memory-utilization" not in long
    assert long[-2:] == ["--kv-cache-memory-bytes", "6G"]
    assert run(["launch", "args", "glm", "--override=--swap-space=16"]) == 1
    assert "no option `--swap-space`" in capsys.readouterr().err


def test_variables_are_computed_for_one_node(
    workspace: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = fact_file(tmp_path, "pulsar", 106.94), fact_file(tmp_path, "magnetar", 110.97)
    assert run(["launch", "args", "glm", "--what", "env"]) == 2
    assert (
        run(["launch", "args", "glm", "--what", "env", "--facts", str(one), "--facts", str(two)])
        == 2
    )
    capsys.readouterr()
    assert run(["launch", "args", "glm", "--what", "env", "--facts", str(one)]) == 0
    said = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert said["NCCL_IB_HCA"] == "=rocep1s0f0"
    assert said["NCCL_SOCKET_IFNAME"] == "enp1s0f0"
    assert said["MAX_JOBS"] == "1"
    assert run(["launch", "args", "glm", "--what", "container", "--facts", str(one)]) == 0
    started = shlex.split(capsys.readouterr().out)
    assert "/var/cache/glm/" + "ab" * 32 + ":/root/.cache/flashinfer" in started
    assert run(["launch", "args", "glm", "--what", "ray-head"]) == 0
    assert capsys.readouterr().out.startswith("ray start --head")


def test_the_published_yaml_says_the_same_to_vllm(workspace: Workspace) -> None:
    text = (workspace.profiles() / "glm.serve.yaml").read_text()
    plan = make_plan(workspace, "glm", None, ())
    from imagegate.usecases.launching.plan import published_options

    options = published_options(workspace, "glm", plan.state)
    assert options is not None
    program = options.program("vllm serve")
    assert program is not None
    words = config_arguments(program, yaml.safe_load(text))
    assert words == ["--model", plan.section.model, *plan.section.arguments]


# --- precompile and down, against an engine that is a script


ENGINE = """#!/bin/sh
echo "$@" >> {log}
case "$1" in
info) echo '{{"ServerVersion": "28", "CgroupDriver": "cgroupfs"}}';;
images) echo {image};;
image) echo '[{{"Id": "{image}", "RepoDigests": ["localhost/glm@{digest}"]}}]';;
ps) cat {running};;
container) cat {inspected};;
stop) : > {running};;
run) {build};;
esac
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name in ("running", "inspected", "log"):
        (folder / name).touch()
    return folder


def scripted(folder: Path, build: str = "true") -> None:
    from tests.launch.hosts import DIGEST, IMAGE_ID

    path = folder / "docker"
    path.write_text(
        ENGINE.format(log=folder / "log", image=IMAGE_ID, digest=DIGEST, build=build,
                      running=folder / "running", inspected=folder / "inspected")
    )  # fmt: skip
    path.chmod(0o755)


def runs(folder: Path, name: str = "glm") -> None:
    from tests.launch.hosts import IMAGE_ID

    (folder / "running").write_text("abc\n")
    one = {"Id": "abc", "Name": f"/{name}", "Image": IMAGE_ID, "Config": {"Image": "x", "Env": [], "Cmd": ["sleep"]},
           "HostConfig": {"DeviceRequests": [{}]}, "State": {}, "Mounts": []}  # fmt: skip
    (folder / "inspected").write_text(json.dumps([one]))


def test_precompile_refuses_beside_a_model_and_proves_what_it_built(
    tmp_path: Path,
    engine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cache = tmp_path / "cache"
    published(
        folder,
        caches=[{"path": f"{cache}/{{digest}}", "target": "/root/.cache"}],
        precompile={"command": ["build-kernels"], "expects": ["*moe*.so"]},
        jobs={"serving": 1, "precompile": 4, "gib_per_job": 0.1},
        memory={"reserve": 0.1},
    )
    monkeypatch.chdir(folder)
    built = cache / ("ab" * 32)
    scripted(engine, f"mkdir -p {built} && touch {built}/fused_moe.so")
    runs(engine)
    assert run(["launch", "precompile", "glm", "--here"]) == 1
    assert "beside a resident model" in capsys.readouterr().err
    (engine / "running").write_text("")
    assert run(["launch", "precompile", "glm", "--here"]) == 0
    started = (engine / "log").read_text()
    assert f"{built}:/root/.cache" in started
    assert "localhost/glm@sha256:abab" in started
    assert "--rm" in started
    scripted(engine, "true")
    (built / "fused_moe.so").unlink()
    assert run(["launch", "precompile", "glm", "--here"]) == 1
    assert "missing: *moe*.so" in capsys.readouterr().out


def test_down_ends_the_profiles_containers_and_names_what_is_left(
    workspace: Workspace, engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(engine)
    runs(engine)
    assert run(["launch", "down", "glm", "--here"]) == 0
    assert "ended glm" in capsys.readouterr().out
    runs(engine, "somebody-elses")
    assert run(["launch", "down", "glm", "--here"]) == 1
    said = capsys.readouterr().out
    assert "ended nothing" in said
    assert "left somebody-elses" in said
    assert run(["launch", "down", "glm", "--on", "/nowhere/ssh x"]) == 3


# --- probe


class Model(BaseHTTPRequestHandler):
    """A small OpenAI-compatible server, right or with one fault."""

    fault = ""

    def do_GET(self) -> None:
        if self.path == "/health":
            self._say(503 if self.fault == "health" else 200, {})
        else:
            self._say(200, {"data": [] if self.fault == "models" else [{"id": "glm"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message: dict[str, Any] = {"content": "It is not: 17 x 23.", "reasoning": "391 = 17 x 23"}
        finish = "stop"
        if "tools" in body:
            arguments = "{'city'" if self.fault == "arguments" else '{"city": "Oslo"}'
            message = {
                "content": None,
                "tool_calls": [{"function": {"name": "get_weather", "arguments": arguments}}],
            }
            if self.fault == "tool":
                message = {"content": "<tool_call>get_weather</tool_call>"}
        elif self.fault == "dropped":
            message.pop("reasoning")
        elif self.fault == "swallowed":
            message["content"] = ""
        elif self.fault == "inside":
            message = {"content": "<think>391</think> No."}
        elif self.fault == "cut":
            finish = "length"
        status = 500 if self.fault == "status" else 200
        usage = {} if self.fault == "uncounted" else {"usage": {"completion_tokens": 30}}
        self._say(status, {"choices": [{"message": message, "finish_reason": finish}], **usage})

    def _say(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[tuple[str, type[Model]]]:
    handler = type("OneModel", (Model,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_model_that_answers_well_passes_and_is_stored(
    workspace: Workspace,
    served: tuple[str, type[Model]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = fact_file(tmp_path, "pulsar", 106.94)
    (tmp_path / "after").mkdir()
    after = fact_file(tmp_path / "after", "pulsar", 8.0)
    words = ["launch", "probe", "glm", "--variant", "long", "--url", served[0]]
    assert run([*words, "--before", str(before), "--facts", str(after)]) == 0
    assert "tokens_per_second" in capsys.readouterr().out
    (record,) = read_records(workspace, "glm")
    assert record.passed
    assert record.results["tokens_per_second"] > 0
    # 106.94 - 8.00 - 6 GiB of cache
    assert round(record.nodes["pulsar"].resident + record.nodes["pulsar"].other, 2) == 92.94
    # the next check calculates from it
    files = (fact_file(tmp_path, "pulsar", 100.0), fact_file(tmp_path, "magnetar", 110.97))
    assert check("--variant", "long", files=files) == 1
    said = capsys.readouterr().out
    assert "measured after a start of this digest" in said


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("health", "probe.health/health"),
        ("models", "probe.health/models"),
        ("dropped", "probe.answers/answer"),
        ("swallowed", "probe.answers/answer"),
        ("inside", "probe.answers/answer"),
        ("cut", "probe.answers/answer"),
        ("status", "probe.answers/status"),
        ("tool", "probe.tools/tool"),
        ("arguments", "probe.tools/tool"),
    ],
)
def test_each_fault_of_a_served_model(
    workspace: Workspace,
    served: tuple[str, type[Model]],
    fault: str,
    code: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    served[1].fault = fault
    assert run(["launch", "probe", "glm", "--url", served[0], "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    found = [
        f["code"] for c in document["checks"] for f in c["findings"] if f["severity"] == "fail"
    ]
    assert code in found
    assert not read_records(workspace, "glm")[-1].passed


def test_a_server_that_is_not_there_is_not_judged(workspace: Workspace) -> None:
    assert run(["launch", "probe", "glm", "--url", "http://127.0.0.1:1"]) == 3


def test_a_server_that_does_not_count_is_told(
    workspace: Workspace, served: tuple[str, type[Model]], capsys: pytest.CaptureFixture[str]
) -> None:
    served[1].fault = "uncounted"
    assert run(["launch", "probe", "glm", "--url", served[0]]) == 0
    assert "does not say how many tokens" in capsys.readouterr().out
