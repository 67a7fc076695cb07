"""Running an image once, without a network, to ask it about itself."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from imagegate.checks.image.evidence import LoadedLibrary, Observation
from imagegate.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.engines.container.tools import Engine
    from imagegate.oci.digest import Digest
    from imagegate.oci.platform import Platform

# runs inside; prints one JSON object in the last line
_SCRIPT = """
import ctypes, importlib.metadata, json, os, subprocess, sys
def nccl(path):
    version = ctypes.c_int()
    try:
        if ctypes.CDLL("/" + path).ncclGetVersion(ctypes.byref(version)):
            return None
    except (OSError, AttributeError):
        return None
    return version.value
asked = subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, text=True)
done = subprocess.run([sys.executable, "-m", "pip", "freeze", "--disable-pip-version-check"],
                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
found = [[d.metadata["Name"], d.version] for d in importlib.metadata.distributions()]
print(json.dumps({
    "path": [os.path.realpath(p).lstrip("/") for p in sys.path if p],
    "freeze": done.stdout if done.returncode == 0 else None,
    "distributions": [[n, v] for n, v in found if n and v],
    "nccl": [[p, nccl(p)] for p in sys.argv[2:]],
    "loaded": json.loads(asked.stdout.splitlines()[-1]) if asked.returncode == 0 else None,
}))
"""
# in a process of its own: a torch that does not fit the machine may end it
_LOADED = """
import ctypes, json, os
def mapped(address):
    for line in open("/proc/self/maps"):
        area, *_, path = line.split(maxsplit=5)
        start, end = (int(one, 16) for one in area.split("-"))
        if start <= address < end:
            return path.strip()
torch = None
try:
    import torch
    torch = True
except ModuleNotFoundError as error:
    torch = None if error.name == "torch" else False
except BaseException:
    torch = False
library = ctypes.CDLL(os.environ.get("VLLM_NCCL_SO_PATH") or "libnccl.so.2")
version = ctypes.c_int()
assert library.ncclGetVersion(ctypes.byref(version)) == 0
path = mapped(ctypes.cast(library.ncclGetVersion, ctypes.c_void_p).value)
print(json.dumps([path, version.value, torch]))
"""


def probe(
    engine: Engine,
    identities: Sequence[str],
    *,
    platform: Platform,
    interpreter: str,
    libraries: Sequence[str],
) -> Observation:
    """Run an image that the engine holds and let it say what it is.

    Args:
        engine: runs it.
        identities: what the engine may call it; the first that it holds is run.
        platform: what the image is for.
        interpreter: its Python.
        libraries: copies of NCCL, paths without leading slash.

    Raises:
        EngineError: the engine runs another architecture, does not hold the image, or the image
            does not run.
    """
    if platform.architecture != engine.platform.architecture:
        raise EngineError(
            f"the image cannot be run here: image={platform} {engine.name}={engine.platform}",
            hint="probe on a machine of that architecture; the gate itself needs none",
        )
    held = next((name for name in identities if _holds(engine, name)), None)
    if held is None:
        raise EngineError(
            f"{engine.name} does not hold the image {identities[0]}",
            hint="build it with that engine, or name it with `--image registry/repository@sha256:…`",
        )
    command = [engine.name, "run", "--rm", "--network", "none", "--entrypoint", interpreter]
    command += [held, "-c", _SCRIPT, _LOADED, *libraries]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        said = done.stderr.strip().splitlines()
        raise EngineError(
            f"the image does not run `{interpreter}`: exit code {done.returncode}"
            + (f": {said[-1]}" if said else "")
        )
    answer = json.loads(lines[-1])
    return Observation(
        path=tuple(answer["path"]),
        freeze=answer["freeze"],
        distributions=tuple((name, version) for name, version in answer["distributions"]),
        nccl=tuple((path, code) for path, code in answer["nccl"] if code is not None),
        loaded_nccl=_loaded(answer["loaded"]),
    )


def _loaded(answer: Sequence[Any] | None) -> LoadedLibrary | None:
    if answer is None:
        return None
    path, code, with_torch = answer
    return LoadedLibrary(path=path.lstrip("/"), code=code, with_torch=with_torch)


def pull(engine: Engine, reference: str, *, insecure: bool) -> None:
    """Let the engine fetch an image by digest.

    Raises:
        EngineError: it cannot.
    """
    options = ["--tls-verify=false"] if insecure and engine.name == "podman" else []
    done = subprocess.run(
        [engine.name, "pull", "--quiet", *options, reference],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise EngineError(f"`{engine.name} pull {reference}` failed: {said[-1] if said else ''}")


def identities_of(config: Digest, manifest: Digest | None) -> list[str]:
    """Return what engines call an image: by its config, or in containerd's store its manifest."""
    return [str(digest) for digest in (config, manifest) if digest is not None]


def _holds(engine: Engine, name: str) -> bool:
    done = subprocess.run(
        [engine.name, "image", "inspect", name.removeprefix("sha256:")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0
