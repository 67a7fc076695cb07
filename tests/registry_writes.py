"""What the loopback registry does with pushes (OCI distribution-spec v1.1, "Push")."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from io import BufferedIOBase

    from tests.registry import LoopbackRegistry

OCI_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    route: str
    path: str
    authorization: str | None
    headers: dict[str, str]


class Writes:
    """Uploads, manifests and what all answers have in common."""

    server: Any
    headers: Any
    wfile: BufferedIOBase
    command: str
    path: str
    close_connection: bool
    route: str
    repository: str
    query: dict[str, list[str]]
    content: bytes

    @property
    def registry(self) -> LoopbackRegistry:
        found: LoopbackRegistry = self.server.registry
        return found

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        if self.route in self.registry.lies.drop_answer:
            self.registry.lies.drop_answer.remove(self.route)
            self.close_connection = True
            return
        handler: Any = self
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if status != 204:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str, message: str = "") -> None:
        self.answer(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode())

    def upload_post(self, _upload: str = "") -> None:
        registry = self.registry
        if "mount" in self.query and "from" in self.query:
            digest, source = self.query["mount"][0], self.query["from"][0]
            blob = registry.blobs.get(source, {}).get(digest)
            if blob is not None:
                registry.blobs.setdefault(self.repository, {})[digest] = blob
                self.answer(201, Location=f"/v2/{self.repository}/blobs/{digest}")
                return
        name = str(next(registry.numbers))
        registry.uploads[name] = (self.repository, bytearray())
        headers: dict[str, Any] = {"Location": self._place(name)}
        if registry.chunk_minimum is not None:
            headers["OCI-Chunk-Min-Length"] = str(registry.chunk_minimum)
        self.answer(202, **headers)

    def upload_patch(self, name: str) -> None:
        upload = self._upload(name)
        if upload is None:
            return
        lies = self.registry.lies
        if lies.lose_uploads:
            lies.lose_uploads -= 1
            del self.registry.uploads[name]
            self.error(404, "BLOB_UPLOAD_UNKNOWN")
            return
        # "Pushing a blob in chunks": a chunk out of order is answered 416
        found = re.fullmatch(r"(\d+)-(\d+)", self.headers.get("Content-Range", ""))
        if not found or int(found[1]) != len(upload):
            self.answer(416, Location=self._place(name), Range=_range(upload))
            return
        assert int(found[2]) - int(found[1]) + 1 == len(self.content)
        if lies.cut_upload_after:
            upload += self.content[: lies.cut_upload_after.pop(0)]
            self.close_connection = True
            return
        upload += self.content
        self.answer(202, Location=self._place(name), Range=_range(upload))

    def upload_get(self, name: str) -> None:
        upload = self._upload(name)
        if upload is not None:
            self.answer(204, Location=self._place(name), Range=_range(upload))

    def upload_put(self, name: str) -> None:
        upload = self._upload(name)
        if upload is None:
            return
        content = bytes(upload + self.content)
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        if self.query.get("digest") != [digest]:
            self.error(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
            return
        del self.registry.uploads[name]
        self.registry.received[digest] += len(content)
        self.registry.blobs.setdefault(self.repository, {})[digest] = content
        self.answer(201, Location=f"/v2/{self.repository}/blobs/{digest}")

    def upload_delete(self, name: str) -> None:
        if self._upload(name) is not None:
            del self.registry.uploads[name]
            self.answer(204)

    def manifest_put(self, name: str) -> None:
        registry = self.registry
        content, media_type = self.content, self.headers["Content-Type"]
        document = json.loads(content)
        missing = self._missing(document)
        if missing:
            self.error(400, "MANIFEST_BLOB_UNKNOWN", f"blob unknown to registry: {missing}")
            return
        if registry.lies.rewrite:
            content = json.dumps(document, indent=3).encode()
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        with registry.lock:
            previous = registry.tags.get(self.repository, {}).get(name)
            registry.manifests.setdefault(self.repository, {})[digest] = (content, media_type)
            if ":" not in name:
                registry.tags.setdefault(self.repository, {})[name] = digest
                if "manifests" in document and registry.lies.fallback_races:
                    registry.lies.fallback_races -= 1
                    self._replaced_by_other(name, previous)
        headers: dict[str, Any] = {"Location": f"/v2/{self.repository}/manifests/{digest}"}
        headers["Docker-Content-Digest"] = digest
        # "Pushing Manifests with Subject": the header confirms that referrers are kept
        if registry.referrers_api and "subject" in document:
            headers["OCI-Subject"] = document["subject"]["digest"]
        self.answer(201, **headers)

    def manifest_delete(self, name: str) -> None:
        with self.registry.lock:
            tags = self.registry.tags.get(self.repository, {})
            if name in tags:
                del tags[name]
            elif self.registry.manifests.get(self.repository, {}).pop(name, None) is None:
                self.error(404, "MANIFEST_UNKNOWN")
                return
        self.answer(202)

    def _replaced_by_other(self, tag: str, previous: str | None) -> None:
        """Another writer read the index before this PUT and writes its own form after it."""
        registry = self.registry
        index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
        if previous is not None:
            index = json.loads(registry.manifests[self.repository][previous][0])
        other = {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": f"sha256:{next(registry.numbers):064x}",
            "size": 2,
        }
        index["manifests"] = [*index["manifests"], other]  # type: ignore[misc]
        registry.add_manifest(self.repository, index, OCI_INDEX, tag)

    def _missing(self, document: dict[str, Any]) -> str | None:
        if "manifests" in document:
            return None
        held = self.registry.blobs.get(self.repository, {})
        named = [document["config"], *document["layers"]]
        return next((one["digest"] for one in named if one["digest"] not in held), None)

    def _upload(self, name: str) -> bytearray | None:
        found = self.registry.uploads.get(name)
        if found is None or found[0] != self.repository:
            self.error(404, "BLOB_UPLOAD_UNKNOWN")
            return None
        return found[1]

    def _place(self, name: str) -> str:
        """Relative and with a query, as some registries answer; the query has to be kept."""
        return f"/v2/{self.repository}/blobs/uploads/{name}?_state=opaque"

    def _seen(self) -> Seen:
        return Seen(
            self.route,
            self.path,
            self.headers.get("Authorization"),
            {name.lower(): value for name, value in self.headers.items()},
        )

    def log_message(self, *_arguments: object) -> None:
        pass


def _range(upload: bytearray) -> str:
    return f"0-{max(0, len(upload) - 1)}"
