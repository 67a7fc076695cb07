"""A daemon on loopback that answers the three requests of docker's API that reading an image takes."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tests.registry_routes import QuietServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Daemon:
    """What it holds.

    Attributes:
        name: of its only image.
        id: what it calls the image.
        archive: what it saves.
        cut: bytes of the archive after which it closes the connection.
        failure: the message of a 500 instead of the archive.
        digests: the manifests that it pulled the image under.
    """

    name: str
    id: str
    archive: bytes
    cut: int | None = None
    failure: str | None = None
    host: str = ""
    digests: tuple[str, ...] = ()

    @contextmanager
    def running(self) -> Iterator[Daemon]:
        server = QuietServer(("127.0.0.1", 0), _Handler)
        server.daemon = self  # type: ignore[attr-defined]
        self.host = f"tcp://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _inspected(daemon: Daemon) -> dict[str, object]:
    """Docker Engine API v1.44, "Inspect an image"."""
    return {
        "Id": daemon.id,
        "RepoTags": [daemon.name],
        "RepoDigests": [f"{daemon.name.partition(':')[0]}@{one}" for one in daemon.digests],
        "Os": "linux",
        "Architecture": "arm64",
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        daemon: Daemon = self.server.daemon  # type: ignore[attr-defined]
        path = unquote(urlsplit(self.path).path)
        path = path if path == "/version" else path[path.index("/", 1) :]
        if path == "/version":
            self._json(200, {"ApiVersion": "1.44", "MinAPIVersion": "1.24"})
        elif path == f"/images/{daemon.name}/json":
            self._json(200, _inspected(daemon))
        elif path == f"/images/{daemon.id}/get" and daemon.failure is None:
            self._archive(daemon)
        elif path == f"/images/{daemon.id}/get":
            self._json(500, {"message": daemon.failure})
        else:
            self._json(404, {"message": f"No such image: {path}"})

    def _archive(self, daemon: Daemon) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-tar")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        content = daemon.archive if daemon.cut is None else daemon.archive[: daemon.cut]
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        if daemon.cut is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def _json(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass
