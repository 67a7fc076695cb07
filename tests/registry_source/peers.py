"""Real peers for the registry source: Debian's docker-registry, and a wire that breaks."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER, PASSWORD = "ann", "throw-away"
# bcrypt of the password above, with the smallest cost
_HTPASSWD = f"{USER}:$2b$04$jkMWmKtk/.FL92ldClu0s.iu5JlQoBxxBocmM6A98hlcSfl0vt3..\n"


def run(*command: str, stdin: bytes | None = None) -> bytes:
    """Run a tool that has to succeed; its own words are in the failure otherwise."""
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr.decode()}"
    return done.stdout


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as held:
        held.bind((host, 0))
        port: int = held.getsockname()[1]
        return port


@contextmanager
def docker_registry(
    folder: Path,
    *,
    basic_auth: bool = False,
    host: str = "127.0.0.1",
    tls: tuple[Path, Path] | None = None,
    read_only: bool = False,
) -> Iterator[str]:
    """Run Debian's docker-registry on loopback; yields ``host:port``."""
    program = shutil.which("docker-registry")
    assert program, "install the Debian package docker-registry"
    port = free_port(host)
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    config: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {
            "filesystem": {"rootdirectory": str(folder / "blobs")},
            "delete": {"enabled": True},
            "maintenance": {"readonly": {"enabled": read_only}},
        },
        "http": {
            "addr": name,
            **({"tls": {"certificate": str(tls[0]), "key": str(tls[1])}} if tls else {}),
        },
    }
    if basic_auth:
        htpasswd = folder / "htpasswd"
        htpasswd.write_text(_HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "test", "path": str(htpasswd)}}
    # JSON is YAML
    (folder / "config.yml").write_text(json.dumps(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", str(folder / "config.yml")], stdout=log, stderr=log
        )
    try:
        _wait_for((host, port), folder / "log")
        yield name
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: tuple[str, int], log: Path) -> None:
    for _ in range(200):
        try:
            socket.create_connection(address, timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"docker-registry does not start: {log.read_text()}")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own that is soon full; needs root, as the engines do."""
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        run("umount", str(folder))


class CuttingWire:
    """Forwards connections to a registry and breaks those that carry too much.

    Args:
        target: ``host:port`` of the registry.
        up: bytes towards the registry after which a connection is broken, one for each time.
        down: likewise for bytes from the registry.
    """

    def __init__(self, target: str, *, up: list[int], down: list[int]) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._limits = {"up": up, "down": down}
        self.cuts = 0
        # every byte of the connections, headers included, whatever either end says of itself
        self.moved = {"up": 0, "down": 0}
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield f"127.0.0.1:{server.getsockname()[1]}"
            server.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for way, source, sink in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self._pump, args=(way, source, sink), daemon=True).start()

    def _pump(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        moved = 0
        with source, sink:
            try:
                while content := source.recv(1 << 16):
                    sink.sendall(content)
                    moved += len(content)
                    with self._lock:
                        self.moved[way] += len(content)
                    limits = self._limits[way]
                    if limits and moved >= limits[0]:
                        limits.pop(0)
                        self.cuts += 1
                        for end in (source, sink):
                            end.shutdown(socket.SHUT_RDWR)
                        return
            except OSError:
                return
