"""docker and podman as stores: what they hold, how they take an image, what they say of it then.

======================  ========  ==========================  ===================================
store                   form      known by                    layers that are there
======================  ========  ==========================  ===================================
docker, classic         docker    the config's digest         left out (moby, image/tarexport:
                                                              a chain that is known is not opened)
docker, containerd      oci       the manifest's digest       sent: an import wants them all
podman                  oci       the config's digest         sent: it opens them before it looks
======================  ========  ==========================  ===================================

Programs are used and not libraries, for what they reach: contexts, ssh and its configuration.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from imagegate.engines.store.archive import Sending
from imagegate.errors import EngineError, ImageError, UsageError
from imagegate.foreign.credentials import redact
from imagegate.oci.digest import Digest
from imagegate.oci.platform import Platform
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from imagegate.oci.image import Image

EngineName = Literal["docker", "podman"]
Kind = Literal["classic", "containerd", "podman"]
# moby 23 (API 1.42) is the first whose classic store unpacks zstd (moby/moby#41759)
_ZSTD_SINCE = 23
# arguments of one command line stay far below the kernel's limit
_BATCH = 100
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An image in an engine's store, as the engine describes it.

    Attributes:
        id: what the engine calls it.
        diff_ids: of its layers.
        config: what it starts with.
        platform: what it is for.
    """

    id: Digest
    diff_ids: tuple[Digest, ...]
    config: dict[str, Any]
    platform: Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One engine's store.

    Attributes:
        engine: docker or podman.
        kind: which of its stores.
        command: what the engine's commands begin with.
        version: the engine's.
        platform: what the engine runs on.
        where: how messages name it.
    """

    engine: EngineName
    kind: Kind
    command: tuple[str, ...]
    version: str
    platform: Platform
    where: str

    def identity(self, image: Image) -> Digest:
        """What the engine will call the image.

        Raises:
            ImageError: this store goes by manifests, and the image has none.
        """
        if self.kind != "containerd":
            return image.config_digest
        if image.digest is None:
            raise ImageError(
                f"{image.location} has no manifest, and {self.where} knows images by theirs",
                hint="load it from an OCI layout or a registry",
            )
        return image.digest

    def describe(self, name: str) -> Held | None:
        """Ask for one image; ``None`` where the store has none of that name.

        Raises:
            EngineError: the engine fails.
        """
        found = self._run("image", "inspect", name, allowed=(0, 1, 125))
        if found.returncode != 0:
            if b"no such" in found.stderr.lower() or b"not known" in found.stderr.lower():
                return None
            raise self._failed("image inspect", found.returncode, found.stderr)
        return _held(found.stdout, f"the answer of {self.where} on `{name}`")

    def sending(self, image: Image) -> Sending:
        """Decide what has to be sent.

        Raises:
            EngineError: the engine fails.
        """
        if self.kind == "classic":
            major = self.version.partition(".")[0]
            old = not major.isdigit() or int(major) < _ZSTD_SINCE
            return Sending(image=image, form="docker", held=self._shared(image), inflate=old)
        # podman reads docker's schema 2 out of docker's own form alone
        oci = image.manifest is not None and all(
            layer.descriptor is not None and ".oci." in layer.descriptor.media_type
            for layer in image.layers
        )
        return Sending(image=image, form="oci" if oci or self.kind == "containerd" else "docker")

    def _shared(self, image: Image) -> int:
        """Count the layers, from the bottom, that some image of the store has as its lowest."""
        wanted = tuple(layer.diff_id for layer in image.layers)
        shared = 0
        for held in self._all():
            count = 0
            for one, other in zip(wanted, held, strict=False):
                if one != other:
                    break
                count += 1
            shared = max(shared, count)
        return shared

    def _all(self) -> Iterator[tuple[Digest, ...]]:
        listed = self._run("image", "ls", "--all", "--quiet", "--no-trunc").stdout.decode()
        ids = sorted(set(listed.split()))
        for start in range(0, len(ids), _BATCH):
            found = self._run(
                *("image", "inspect", "--format", "{{json .RootFS.Layers}}"),
                *ids[start : start + _BATCH],
                allowed=(0, 1),  # one that is gone by now
            )
            for line in found.stdout.decode(errors="replace").splitlines():
                layers = json.loads(line or "null")
                if isinstance(layers, list):
                    yield tuple(Digest.parse(str(layer)) for layer in layers)

    def load(self, write: Callable[[IO[bytes]], None]) -> None:
        """Give the engine an archive.

        Args:
            write: writes it; what it raises ends the load, and nothing is loaded.

        Raises:
            EngineError: the engine refuses it.
        """
        with scratch_folder() as folder, (folder / "said").open("w+b") as said:
            try:
                process = subprocess.Popen(
                    [*self.command, *self._words("load")],
                    stdin=subprocess.PIPE,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                raise _absent(self.command[0], error) from error
            assert process.stdin is not None
            try:
                with process.stdin as sink:
                    write(sink)
            except BrokenPipeError:
                pass  # it says itself why it hung up
            except BaseException:
                process.kill()
                process.wait()
                raise
            code = process.wait()
            said.seek(0)
            if code != 0:
                raise self._failed("load", code, said.read())

    def tag(self, identity: Digest, name: str) -> None:
        """Give an image a name, so that it is not collected.

        Raises:
            EngineError: the engine fails.
        """
        self._run("tag", str(identity), name)

    def _words(self, *words: str) -> list[str]:
        """Write a command's words for a shell on the other host, where it goes through one."""
        return [shlex.quote(word) for word in words] if self.command[0] == "ssh" else list(words)

    def _run(
        self, *words: str, allowed: Sequence[int] = (0,)
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            done = subprocess.run(
                [*self.command, *self._words(*words)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise _absent(self.command[0], error) from error
        if done.returncode not in allowed:
            raise self._failed(" ".join(words[:2]), done.returncode, done.stderr)
        return done

    def _failed(self, what: str, code: int, said: bytes) -> EngineError:
        return _failure(f"`{self.engine} {what}` of {self.where}", code, said)


def find_store(engine: EngineName, host: str | None) -> Store:
    """Ask an engine what its store is.

    Args:
        engine: docker or podman.
        host: ``ssh://[user@]host[:port]``, ``unix://…`` or ``tcp://…``; ``None`` for the engine
            that the engine's own configuration names (`DOCKER_HOST`, docker's context).

    Raises:
        UsageError: the host cannot be understood.
        EngineError: the engine is absent or does not answer.
    """
    command = _command(engine, host)
    where = f"{engine} on `{redact(host)}`" if host else engine
    form = "{{json .}}" if engine == "docker" else "json"
    words = ["info", "--format", form]
    words = [shlex.quote(word) for word in words] if command[0] == "ssh" else words
    try:
        done = subprocess.run(
            [*command, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise _absent(command[0], error) from error
    try:
        answer = json.loads(done.stdout or b"null")
    except ValueError:
        answer = None
    reached = isinstance(answer, dict) and not answer.get("ServerErrors")
    if done.returncode != 0 or not reached or not isinstance(answer, dict):
        said = done.stderr or "; ".join((answer or {}).get("ServerErrors") or ()).encode()
        raise _failure(f"{where} cannot be reached: `{engine} info`", done.returncode, said)
    return (
        _podman(answer, command, where) if engine == "podman" else _docker(answer, command, where)
    )


def _docker(answer: dict[str, Any], command: tuple[str, ...], where: str) -> Store:
    # moby, daemon/info.go: the containerd store names its driver so
    status = answer.get("DriverStatus") or ()
    containerd = ["driver-type", "io.containerd.snapshotter.v1"] in [list(one) for one in status]
    return Store(
        engine="docker",
        kind="containerd" if containerd else "classic",
        command=command,
        version=str(answer.get("ServerVersion", "")),
        platform=Platform.of(str(answer.get("OSType", "linux")), str(answer.get("Architecture"))),
        where=where,
    )


def _podman(answer: dict[str, Any], command: tuple[str, ...], where: str) -> Store:
    host = answer.get("host") or {}
    return Store(
        engine="podman",
        kind="podman",
        command=command,
        version=str((answer.get("version") or {}).get("Version", "")),
        platform=Platform.of(str(host.get("os", "linux")), str(host.get("arch"))),
        where=where,
    )


def _command(engine: EngineName, host: str | None) -> tuple[str, ...]:
    if host is None:
        return (engine,)
    if engine == "docker":
        if not re.match(r"(ssh|unix|tcp|npipe|fd)://", host):
            raise UsageError(f"`{host}` is not a docker host", hint="write `ssh://user@host`")
        return ("docker", "--host", host)
    parts = urlsplit(host)
    if parts.scheme == "unix":
        return ("podman", "--remote", "--url", host)
    name, user = parts.hostname or "", parts.username
    plain = _HOST.fullmatch(name) and (user is None or _HOST.fullmatch(user))
    if parts.scheme != "ssh" or not plain or parts.path.strip("/"):
        raise UsageError(
            f"`{host}` does not name a host of podman",
            hint="write `ssh://user@host` or `ssh://user@host:port`",
        )
    port = ("-p", str(parts.port)) if parts.port else ()
    return ("ssh", *port, "--", f"{user}@{name}" if user else name, "podman")


def _held(content: bytes, what: str) -> Held:
    try:
        answer = json.loads(content)
        (document,) = answer
        return Held(
            id=_digest(document["Id"]),
            diff_ids=tuple(_digest(one) for one in document["RootFS"].get("Layers") or ()),
            config=dict(document.get("Config") or {}),
            platform=Platform.of(
                str(document["Os"]), str(document["Architecture"]), document.get("Variant")
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{what} cannot be understood") from error


def _digest(text: object) -> Digest:
    """Read an id; podman writes its own without the algorithm."""
    return Digest.parse(str(text) if ":" in str(text) else f"sha256:{text}")


def _absent(program: str, error: OSError) -> EngineError:
    if isinstance(error, FileNotFoundError):
        return EngineError(f"`{program}` is not installed", hint=f"install `{program}`")
    return EngineError(f"`{program}` does not run: {(error.strerror or 'unknown error').lower()}")


def _failure(what: str, code: int, said: bytes) -> EngineError:
    lines = said.decode(errors="replace").strip().splitlines()
    return EngineError(
        f"{what} failed with exit code {code}" + (f": {redact(lines[-1])}" if lines else ""),
        hint="the same command has to work for this user without imagegate",
    )
