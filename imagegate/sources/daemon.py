"""Images in the store of an engine on this machine: docker (or what speaks its API) and podman.

An engine can only be asked for a whole image. Its archive is spooled to a temporary file and read
like any other; the file's name is gone before it is read and its space when the source is.

What an engine calls an image's *id* is one of three digests, and no field says which:

=====================================  ==================================================
docker, classic store; podman          of the config
docker, containerd store, one platform of the manifest
docker, containerd store, several      of the index
=====================================  ==================================================

So the id is compared with all three (DataBiosphere/azul#6656, kubernetes/kubernetes#33014).
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imagegate.errors import DigestMismatch, EngineError, ImageError
from imagegate.oci.blob import CHUNK, read_document
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DOCUMENT_LIMIT, parse_json
from imagegate.oci.platform import Platform
from imagegate.sources.archive import Archive, open_archive
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.oci.image import ImageSource

# a classic daemon collects the whole archive before it sends the first byte
_SILENCE = 1800
_INSTALL_DOCKER = (
    "install docker (Debian: `docker.io`) and start it (`systemctl start docker`), "
    "or name a running one in `DOCKER_HOST`"
)
_INSTALL_PODMAN = "install podman (Debian: `podman`)"


def open_docker_image(name: str, *, platform: Platform | None = None) -> ImageSource:
    """Open an image of the docker daemon that ``DOCKER_HOST`` or docker's context names.

    Args:
        name: a name, `name@digest`, or an id.
        platform: what to choose where an image has several.

    Raises:
        EngineError: the daemon is absent, refuses or fails.
        ImageError: it holds no such image, or the image is damaged.
    """
    import docker.errors

    location = f"the docker image `{name}`"
    with _docker() as client, _spool() as path:
        try:
            image = client.images.get(name)
            with path.open("wb") as file:
                for chunk in image.save(chunk_size=CHUNK):
                    file.write(chunk)
        except (docker.errors.ImageNotFound, docker.errors.NullResource) as error:
            raise ImageError(
                f"the docker daemon holds no image `{name}`",
                hint="`docker images` lists what it holds",
            ) from error
        except (docker.errors.DockerException, OSError) as error:
            # what requests and urllib3 raise here is an OSError or wrapped by the SDK
            raise _failed(error, location) from error
        return _open(path, identity=Digest.parse(image.id), platform=platform, location=location)


def open_podman_image(name: str, *, platform: Platform | None = None) -> ImageSource:
    """Open an image of podman's store.

    It is saved in the docker form, whose config is the stored one byte for byte: the OCI form
    converts configs and compresses layers anew, under a manifest digest that is nobody's.

    Args:
        name: a name, `name@digest`, or an id.
        platform: what to choose where an image has several.

    Raises:
        EngineError: podman is absent or fails.
        ImageError: it holds no such image, or the image is damaged.
    """
    location = f"the podman image `{name}`"
    # podman-image-exists(1): 1 says no, anything else that it could not tell
    if _podman("image", "exists", "--", name, allowed=(0, 1)).returncode == 1:
        raise ImageError(
            f"podman holds no image `{name}`", hint="`podman images` lists what it holds"
        )
    found = _podman("image", "inspect", "--format", "{{.Id}}", "--", name).stdout
    identity = Digest.parse(f"sha256:{found.decode(errors='replace').strip()}")
    with _spool() as path:
        _podman("save", "--format", "docker-archive", "--output", str(path), identity.encoded)
        return _open(path, identity=identity, platform=platform, location=location)


def _open(path: Path, *, identity: Digest, platform: Platform | None, location: str) -> ImageSource:
    """Open what the engine saved and require that it is what the engine named."""
    pinned = identity if _is_manifest_or_index(Archive(path), identity, location) else None
    source = open_archive(path, digest=pinned, platform=platform, location=location)
    image = source.image
    if identity not in (image.digest, image.index_digest, Digest.of(image.config_bytes)):
        raise DigestMismatch(
            f"the engine saved another image than it named: named={identity} "
            f"saved={image.digest or Digest.of(image.config_bytes)} ({location})",
            hint="the name may have been moved meanwhile; run again or give the id",
        )
    return source


def _is_manifest_or_index(archive: Archive, identity: Digest, location: str) -> bool:
    """Decide what an id is by what it resolves to."""
    stream = archive.open(f"blobs/{identity.algorithm}/{identity.encoded}")
    if stream is None:
        return False
    what = f"the blob {identity} in {location}"
    content = read_document(stream, what=what, digest=identity, size=None, limit=DOCUMENT_LIMIT)
    document = parse_json(content, what)
    return "manifests" in document or "layers" in document


@contextmanager
def _docker() -> Iterator[Any]:
    """Connect to the daemon: ``DOCKER_HOST``, else docker's current context."""
    import docker
    import docker.errors
    from docker.context import ContextAPI

    try:
        context = None if os.environ.get("DOCKER_HOST") else ContextAPI.get_current_context()
        if context is None or context.Name == "default":
            client = docker.from_env(timeout=_SILENCE, use_ssh_client=True)
        else:
            client = docker.DockerClient(
                base_url=context.Host,
                tls=context.TLSConfig,
                timeout=_SILENCE,
                use_ssh_client=True,
            )
    except (docker.errors.DockerException, OSError, ValueError) as error:
        raise _absent(error) from error
    try:
        yield client
    finally:
        client.close()


def _absent(error: BaseException) -> EngineError:
    for one in _chain(error):
        if isinstance(one, PermissionError):
            return EngineError(
                "this user may not speak to the docker daemon",
                hint="add the user to the group `docker`, or use `podman:`",
            )
    host = os.environ.get("DOCKER_HOST")
    return EngineError(
        "the docker daemon cannot be reached",
        hint=f"correct `DOCKER_HOST` (`{host}`), or unset it for this machine's own daemon"
        if host
        else _INSTALL_DOCKER,
    )


def _failed(error: Exception, location: str) -> EngineError:
    """Say why saving broke off."""
    if any(isinstance(one, OSError) and one.errno == errno.ENOSPC for one in _chain(error)):
        return EngineError(
            f"{location} does not fit into `{tempfile.gettempdir()}`",
            hint="name a folder with more space in `TMPDIR`",
        )
    explanation = getattr(error, "explanation", None)
    said = f": {str(explanation).splitlines()[0]}" if explanation else ""
    return EngineError(
        f"the docker daemon did not save {location}{said}",
        hint="its log says why: `journalctl -u docker`",
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    waiting: list[object] = [error]
    seen: list[object] = []
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and one not in seen:
            seen.append(one)
            yield one
            waiting += [getattr(one, "reason", None), one.__cause__, one.__context__, *one.args]


def _podman(*arguments: str, allowed: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(["podman", *arguments], capture_output=True, check=False)
    except OSError as error:
        raise EngineError(
            "`podman` is not installed"
            if isinstance(error, FileNotFoundError)
            else f"podman does not run: {(error.strerror or 'unknown error').lower()}",
            hint=_INSTALL_PODMAN,
        ) from error
    if done.returncode not in allowed:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise EngineError(
            f"`podman {' '.join(arguments[:2])}` failed with exit code {done.returncode}"
            + (f": {said[-1]}" if said else ""),
            hint=f"correct or unset `CONTAINER_HOST` (`{host}`)"
            if (host := os.environ.get("CONTAINER_HOST"))
            else "`podman info` has to work for this user; podman(1) lists what it needs",
        )
    return done


@contextmanager
def _spool() -> Iterator[Path]:
    """Give a path for the archive; whoever has opened it when this ends keeps reading it."""
    with scratch_folder() as folder:
        yield Path(folder) / "image.tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """What an engine says of an image, without saving it.

    Attributes:
        digests: every digest that it has the image under, whatever each is of.
        platform: operating system and architecture.
    """

    digests: frozenset[Digest]
    platform: Platform


def describe_docker_image(name: str) -> EngineImage | None:
    """Ask the docker daemon for an image; ``None`` where it holds none of that name.

    Raises:
        EngineError: the daemon is absent, refuses or fails.
    """
    import docker.errors

    with _docker() as client:
        try:
            attributes = client.images.get(name).attrs
        except (docker.errors.ImageNotFound, docker.errors.NullResource):
            return None
        except (docker.errors.DockerException, OSError) as error:
            raise _failed(error, f"the docker image `{name}`") from error
    return _described(json.dumps(attributes).encode(), f"docker's answer on `{name}`")


def describe_podman_image(name: str) -> EngineImage | None:
    """Ask podman for an image; ``None`` where it holds none of that name.

    Raises:
        EngineError: podman is absent or fails.
    """
    if _podman("image", "exists", "--", name, allowed=(0, 1)).returncode == 1:
        return None
    # as a list of one: what `--format "{{json .}}"` writes differs between versions
    found = _podman("image", "inspect", "--", name).stdout.strip()
    if not (found.startswith(b"[") and found.endswith(b"]")):
        raise EngineError(f"podman's answer on `{name}` is not a list", hint="try `podman info`")
    return _described(found[1:-1], f"podman's answer on `{name}`")


def _described(content: bytes, what: str) -> EngineImage:
    document = parse_json(content, what)
    names = [str(name) for name in document.get("RepoDigests") or ()]
    texts = [name.rpartition("@")[2] for name in names]
    texts += [str(document.get(key) or "") for key in ("Id", "Digest")]
    # podman writes an id without its algorithm
    texts = [f"sha256:{t}" if re.fullmatch(r"[0-9a-f]{64}", t) else t for t in texts]
    # the containerd store says so of what it resolved the name to
    texts.append(str((document.get("Descriptor") or {}).get("digest") or ""))
    return EngineImage(
        digests=frozenset(Digest.parse(text) for text in texts if ":" in text),
        platform=Platform.of(
            str(document.get("Os")), str(document.get("Architecture")), document.get("Variant")
        ),
    )
