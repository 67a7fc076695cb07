"""Whether an engine is there, what it can do, and what to install or start where it is not."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from imagegate.engines.container.tools import BUILDERS, INSTALL_BUILDX, INSTALL_DOCKER, Engine
from imagegate.errors import EngineError, UsageError
from imagegate.foreign.credentials import redact
from imagegate.oci.platform import Platform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imagegate.engines.container.tools import EngineName

# docker 23 took its own BuildKit client out; from there on only the plugin speaks to it
_BUILDKIT_WITHOUT_PLUGIN = 23
_SOCKET = "/var/run/docker.sock"
INSTALL_PODMAN = "install podman (Debian: `podman`)"


def find_engine(name: EngineName, builder: str = "auto") -> Engine:
    """Ask an engine whether it is there and what it can do.

    Raises:
        UsageError: the builder is none of this engine's.
        EngineError: it is absent or does not answer; says what to install or start.
    """
    if name == "podman":
        if builder != "auto":
            raise UsageError("`--builder` chooses among docker's; podman has its own")
        return _find_podman()
    if builder not in BUILDERS:
        return _find_instance(builder)
    answer = _ask(
        ["docker", "version", "--format", "{{json .}}"],
        absent=INSTALL_DOCKER,
        failing=_start_docker(os.environ),
    )
    server = answer.get("Server")
    client = answer.get("Client")
    if not isinstance(server, dict) or not isinstance(client, dict):
        raise EngineError("the docker daemon cannot be reached", hint=_start_docker(os.environ))
    return Engine(
        name="docker",
        builder=_choose_builder(builder, str(client.get("Version", ""))),
        platform=Platform.of(str(server["Os"]), str(server["Arch"]), None),
        version=str(server.get("Version", "")),
    )


def _find_instance(name: str) -> Engine:
    """Ask buildx for one of its builders; no daemon of this machine's takes part."""
    try:
        done = subprocess.run(
            ["docker", "buildx", "inspect", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise EngineError("`docker` does not run", hint=INSTALL_DOCKER) from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise EngineError(
            f"buildx has no builder `{name}`" + (f": {redact(said[-1])}" if said else ""),
            hint="`docker buildx ls` lists them; `docker buildx create` and `docker context create` "
            f"make one. Docker's own ways are {', '.join(f'`{one}`' for one in BUILDERS)}",
        )
    # buildx has no other form for this (docker/buildx#1013); nodes come below the builder
    told = [
        (key.strip(), value.strip())
        for key, colon, value in (line.partition(":") for line in done.stdout.splitlines())
        if colon
    ]
    known: dict[str, str] = {}
    for key, value in told:
        known.setdefault(key, value)
    if known.get("Error"):
        raise EngineError(
            f"the builder `{name}` cannot be reached: {redact(known['Error'])}",
            hint=f"`docker buildx inspect --bootstrap {name}` starts it, or says why it cannot",
        )
    platforms = known.get("Platforms", "").replace("*", "").split(",")
    return Engine(
        name="docker",
        builder="buildx",
        platform=Platform.parse(platforms[0].strip() or "linux/amd64"),
        version=known.get("BuildKit version", known.get("Buildkit", "")).removeprefix("v"),
        instance=name,
        driver=known.get("Driver", ""),
    )


def _find_podman() -> Engine:
    remote = os.environ.get("CONTAINER_HOST")
    answer = _ask(
        ["podman", "info", "--format", "json"],
        absent=INSTALL_PODMAN,
        failing=f"correct or unset `CONTAINER_HOST` (`{remote}`)"
        if remote
        else "`podman info` has to work for this user; podman(1) lists what it needs",
    )
    host, version = answer.get("host"), answer.get("version")
    if not isinstance(host, dict) or not isinstance(version, dict):
        raise EngineError("`podman info` says nothing of its host", hint="try `podman info`")
    return Engine(
        name="podman",
        builder="podman",
        platform=Platform.of(str(host["os"]), str(host["arch"]), None),
        version=str(version.get("Version", "")),
    )


def _choose_builder(wanted: str, client_version: str) -> str:
    has_buildx = (
        subprocess.run(
            ["docker", "buildx", "version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    major = client_version.partition(".")[0]
    has_buildkit = major.isdigit() and int(major) < _BUILDKIT_WITHOUT_PLUGIN
    if wanted == "buildx" and not has_buildx:
        raise EngineError("docker has no buildx", hint=INSTALL_BUILDX)
    if wanted == "buildkit" and not (has_buildkit or has_buildx):
        raise EngineError(
            f"docker {client_version} reaches BuildKit through buildx only, which is not there",
            hint=INSTALL_BUILDX,
        )
    if wanted != "auto":
        return wanted
    if has_buildx:
        return "buildx"
    return "buildkit" if has_buildkit else "classic"


def _start_docker(environment: Mapping[str, str]) -> str:
    """Say what to do about a client that is there and a daemon that does not answer."""
    if host := environment.get("DOCKER_HOST"):
        return f"correct `DOCKER_HOST` (`{host}`), or unset it for this machine's own daemon"
    if os.path.exists(_SOCKET) and not os.access(_SOCKET, os.R_OK | os.W_OK):  # noqa: PTH110
        return f"this user may not open `{_SOCKET}`: add it to the group `docker`, or use podman"
    return "start it (`systemctl start docker`), or name a running one in `DOCKER_HOST`"


def _ask(command: Sequence[str], *, absent: str, failing: str) -> dict[str, object]:
    """Run a command that prints a JSON object.

    Args:
        command: what to run.
        absent: what to do where it is not installed.
        failing: what to do where it is, and fails.
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise EngineError(f"`{command[0]}` is not installed", hint=absent) from error
    except OSError as error:
        raise EngineError(f"`{command[0]}` does not run: {error.strerror}", hint=failing) from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if done.returncode != 0 or not isinstance(answer, dict):
        said = done.stderr.strip().splitlines()
        raise EngineError(
            f"`{' '.join(command[:2])}` failed with exit code {done.returncode}"
            + (f": {said[-1]}" if said else ""),
            hint=failing,
        )
    return answer
