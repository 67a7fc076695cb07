"""The engines: docker with one of three builders, and podman. Each turns a context into an image.

=========  ==========================  =====================================================
builder    driven through              what it cannot do
=========  ==========================  =====================================================
buildx     python-on-whales
a name     python-on-whales            (a builder of buildx's own, local, remote or Kubernetes)
buildkit   ``docker build``            named builders, output forms
classic    ``docker build``            bind mounts, build secrets, ``SOURCE_DATE_EPOCH``
podman     ``podman build``            ``SOURCE_DATE_EPOCH`` (it sets times with ``--timestamp``)
=========  ==========================  =====================================================
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from imagegate.engines.container.context import EPOCH
from imagegate.engines.container.dockerfile import Dialect
from imagegate.errors import EngineError, UsageError
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imagegate.engines.container.context import Context
    from imagegate.engines.container.secrets import Secret
    from imagegate.oci.platform import Platform

EngineName = Literal["docker", "podman"]
# of docker: one of these ways, or the name of a builder of buildx's, wherever that runs
BUILDERS = ("auto", "buildx", "buildkit", "classic")
Network = Literal["none", "default", "host"]
# how much of what an engine said is shown when it fails
_LAST_LINES = 30
INSTALL_DOCKER = (
    "install docker (Debian: `docker.io`) and start it (`systemctl start docker`), "
    "or name a running one in `DOCKER_HOST`"
)
INSTALL_BUILDX = "install the plugin (Debian 13: `docker-buildx`), or choose another `--builder`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to build, and how.

    Attributes:
        context: the staged folder.
        tag: what the engine calls the image afterwards.
        platform: what it is built for.
        network: what steps may reach.
        secrets: shown to the steps that mount them.
        insecure: let the engine read the base over plain http.
        say: takes the engine's last words when it fails.
    """

    context: Context
    tag: str
    platform: Platform
    network: Network
    secrets: tuple[Secret, ...]
    insecure: bool
    say: Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that answers.

    Attributes:
        name: which.
        builder: ``buildx``, ``buildkit``, ``classic`` or ``podman``.
        platform: what it runs on.
        version: what it says of itself.
    """

    name: EngineName
    builder: str
    platform: Platform
    version: str
    instance: str = ""
    driver: str = ""

    @property
    def label(self) -> str:
        """How messages name its builder."""
        return f"{self.builder}, `{self.instance}`" if self.instance else self.builder

    @property
    def dialect(self) -> Dialect:
        """What its builder understands."""
        return Dialect.of(self.builder)

    @property
    def shortcomings(self) -> str:
        """What its builder cannot do, for a person; empty if nothing."""
        if self.builder != "classic":
            return ""
        return (
            "docker's classic builder has no bind mounts, build secrets or SOURCE_DATE_EPOCH: "
            "wheels are unpacked in a stage that is left behind, and files carry the time of the "
            "build; install buildx to do without"
        )

    def build(self, order: Order) -> str:
        """Build an image.

        Returns:
            The engine's id of it; of a named builder, which may have no store that is reached
            from here, the path of the archive in the order's folder that holds it.

        Raises:
            UsageError: the builder cannot do what is asked for.
            EngineError: it fails.
        """
        if order.secrets and self.builder == "classic":
            raise UsageError("the classic builder knows no build secrets", hint=INSTALL_BUILDX)
        if self.builder == "buildx":
            return _build_with_buildx(order, self.instance, self.driver)
        if self.name == "podman":
            return _build_with_podman(order)
        return _build_with_docker(order, buildkit=self.builder == "buildkit")


def _build_with_buildx(order: Order, instance: str, driver: str) -> str:
    from python_on_whales import ClientNotFoundError, DockerClient, DockerException

    # the docker driver's builders are daemons, which are chosen by their context
    context = instance if driver == "docker" else None
    docker = DockerClient(context=context)
    last: deque[str] = deque(maxlen=_LAST_LINES)
    archive = order.context.folder.parent / "built.tar"
    # buildx, "exporters": an archive is what every driver can give, a store is the docker driver's
    into: dict[str, Any] = (
        {
            "builder": None if context else instance,
            "output": {"type": "oci", "dest": str(archive)},
        }
        if instance
        else {"tags": [order.tag], "load": True}
    )
    try:
        logs = docker.buildx.build(
            order.context.folder,
            file=order.context.dockerfile,
            provenance=False,
            network=order.network,
            platforms=[str(order.platform)],
            build_args={"SOURCE_DATE_EPOCH": str(EPOCH)},
            secrets=[f"id={secret.name},src={secret.path}" for secret in order.secrets],
            progress="plain",
            stream_logs=True,
            **into,
        )
        for line in logs if isinstance(logs, Iterator) else ():
            last.append(line.rstrip())
        return str(archive) if instance else str(docker.image.inspect(order.tag).id)
    except ClientNotFoundError as error:
        raise EngineError("docker does not run", hint=INSTALL_DOCKER) from error
    except DockerException as error:
        _show(order, last)
        raise EngineError(
            f"`docker buildx build{f' --builder {instance}' if instance else ''}` failed with exit "
            f"code {error.return_code}",
            hint=_WHY,
        ) from error


def _build_with_docker(order: Order, *, buildkit: bool) -> str:
    command = ["docker", "build", "--network", order.network, "--tag", order.tag]
    command += ["--file", str(order.context.dockerfile)]
    if buildkit:
        command += ["--progress", "plain", "--platform", str(order.platform)]
        command += ["--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}"]
        command += _secret_arguments(order)
    return _run_build(order, command, {"DOCKER_BUILDKIT": "1" if buildkit else "0"})


def _build_with_podman(order: Order) -> str:
    # without --no-cache it takes layers of earlier builds that were made with other times
    command = ["podman", "build", "--no-cache", "--timestamp", str(EPOCH)]
    command += ["--identity-label=false"]
    command += ["--network", order.network, "--tag", order.tag]
    command += ["--platform", str(order.platform), "--file", str(order.context.dockerfile)]
    command += ["--tls-verify=false"] if order.insecure else []
    return _run_build(order, [*command, *_secret_arguments(order)], {})


def _secret_arguments(order: Order) -> list[str]:
    return [
        part
        for secret in order.secrets
        for part in ("--secret", f"id={secret.name},src={secret.path}")
    ]


def _run_build(order: Order, command: Sequence[str], environment: dict[str, str]) -> str:
    """Run a build command and read the image's id from the file that it writes."""
    with scratch_folder() as folder:
        written = Path(folder, "iid")
        command = [*command, "--iidfile", str(written), str(order.context.folder)]
        last: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            with subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **environment},
            ) as process:
                try:
                    last.extend(line.rstrip() for line in process.stdout or ())
                    code = process.wait()
                except BaseException:
                    process.terminate()
                    raise
        except FileNotFoundError as error:
            raise EngineError(f"`{command[0]}` is not installed") from error
        if code != 0:
            _show(order, last)
            raise EngineError(f"`{command[0]} build` failed with exit code {code}", hint=_WHY)
        return written.read_text().strip()


_WHY = (
    "its last output is shown above; the base has to be in a registry that the engine reaches "
    "(`imagegate mirror`), and needs a shell and pip"
)


def _show(order: Order, last: Sequence[str]) -> None:
    for line in last:
        order.say(f"| {line}")
