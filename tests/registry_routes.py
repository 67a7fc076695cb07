"""The routes of the loopback registry (OCI distribution-spec v1.1, "Endpoints")."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

from tests.registry_writes import Writes

if TYPE_CHECKING:
    from tests.registry import BlobHost

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_NAME = r"(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
_ROUTES = [
    (re.compile(rf"/v2/{_NAME}/blobs/uploads/"), "upload"),
    (re.compile(rf"/v2/{_NAME}/blobs/uploads/(?P<upload>[0-9]+)"), "upload"),
    (re.compile(rf"/v2/{_NAME}/blobs/(?P<digest>[a-z0-9]+:[0-9a-f]+)"), "blob"),
    (re.compile(rf"/v2/{_NAME}/manifests/(?P<name>[^/]+)"), "manifest"),
    (re.compile(rf"/v2/{_NAME}/referrers/(?P<digest>[^/]+)"), "referrers"),
    (re.compile(rf"/v2/{_NAME}/tags/list"), "tags"),
    (re.compile(r"/v2/"), "ping"),
    (re.compile(r"/token"), "token"),
]


class QuietServer(ThreadingHTTPServer):
    """Takes it calmly when a client goes away."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class RegistryHandler(Writes, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def dispatch(self) -> None:
        parts = urlsplit(self.path)
        self.query = parse_qs(parts.query, keep_blank_values=True)
        self.content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        matches = ((pattern.fullmatch(parts.path), route) for pattern, route in _ROUTES)
        match, route = next((found for found in matches if found[0]), (None, "unknown"))
        self.route = f"{route}.{self.command.lower()}"
        if match is None:
            self.error(404, "NAME_UNKNOWN")
            return
        given = match.groupdict()
        self.repository = given.get("repository", "")
        self.registry.seen.append(self._seen())
        failure = self.registry.failure(self.route)
        if failure is not None:
            self.answer(failure.status, failure.body, **failure.headers)
            return
        if route != "token" and not self._allowed(route):
            return
        arguments = [value for name, value in given.items() if name != "repository"]
        getattr(self, self.route.replace(".", "_"))(*arguments)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = dispatch  # noqa: N815 - http.server's names

    def ping_get(self) -> None:
        self.answer(200, b"{}")

    def token_get(self) -> None:
        """distribution, docs/spec/auth/token.md."""
        kind, _, value = (self.headers.get("Authorization") or "").partition(" ")
        known = kind == "Basic" and self.registry.account(value)
        assert self.registry.accounts is not None
        if kind and not known:
            self.error(401, "UNAUTHORIZED")
            return
        token = self.registry.grant(self.query.get("scope", []), known=known)
        self.answer(200, json.dumps({"token": token, "expires_in": 300}).encode())

    def token_post(self) -> None:
        """distribution, docs/spec/auth/oauth.md."""
        form = parse_qs(self.content.decode())
        assert self.registry.accounts is not None
        refresh = form.get("refresh_token", [""])[0]
        named = {"grant_type", "service", "client_id", "scope"} <= form.keys()
        if not named or refresh not in self.registry.accounts.identity_tokens:
            self.error(401, "UNAUTHORIZED")
            return
        token = self.registry.grant(form["scope"][0].split(" "), known=True)
        self.answer(200, json.dumps({"access_token": token}).encode())

    def blob_head(self, digest: str) -> None:
        self.blob_get(digest)

    def blob_get(self, digest: str) -> None:
        lies = self.registry.lies
        content = self.registry.blobs.get(self.repository, {}).get(digest)
        if content is None or digest in lies.forget_blob:
            self.error(404, "BLOB_UNKNOWN")
            return
        if lies.redirect_circle:
            self.answer(307, Location=self.path)
            return
        if lies.redirect_blobs and self.command == "GET":
            location = f"{lies.redirect_blobs}/{self.repository}/{digest}?signature=SECRETSIGNATURE"
            self.answer(307, Location=location)
            return
        content = lies.blobs.get(digest, content)
        headers = {"Docker-Content-Digest": digest}
        if lies.encode:
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(content) if lies.encode == "apply" else content
        serve_blob(self, digest, content, headers)

    def manifest_head(self, name: str) -> None:
        self.manifest_get(name)

    def manifest_get(self, name: str) -> None:
        registry = self.registry
        digest = registry.tags.get(self.repository, {}).get(name, name)
        moving = registry.lies.moving.get(name)
        if moving:
            digest = moving.pop(0) if len(moving) > 1 else moving[0]
        found = registry.manifests.get(self.repository, {}).get(digest)
        if found is None:
            self.error(404, "MANIFEST_UNKNOWN")
            return
        content, media_type = found
        content = registry.lies.manifests.get(name, content)
        header = registry.lies.digest_header or digest
        headers = {"Content-Type": media_type, "Docker-Content-Digest": header}
        if registry.lies.encode == "apply-manifest":
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(content)
        self.answer(200, content, **headers)

    def tags_get(self) -> None:
        tags = sorted(self.registry.tags.get(self.repository, {}))
        self.answer(200, json.dumps({"name": self.repository, "tags": tags}).encode())

    def referrers_get(self, digest: str) -> None:
        """distribution-spec, "Listing Referrers"."""
        registry = self.registry
        if not registry.referrers_api:
            self.error(404, "UNSUPPORTED")
            return
        found = [
            descriptor
            for content, media_type in registry.manifests.get(self.repository, {}).values()
            if (descriptor := _referrer(content, media_type, digest))
        ]
        wanted = self.query.get("artifactType")
        headers = {"Content-Type": OCI_INDEX}
        if wanted and registry.referrers_filter:
            found = [one for one in found if one["artifactType"] == wanted[0]]
            headers["OCI-Filters-Applied"] = "artifactType"
        start = int(self.query.get("from", ["0"])[0])
        end = start + registry.referrers_page
        if end < len(found):
            more = f"&artifactType={quote(wanted[0], safe='')}" if wanted else ""
            path = f"/v2/{self.repository}/referrers/{digest}?from={end}{more}"
            headers["Link"] = f'<{path}>; rel="next"'
        index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": found[start:end]}
        self.answer(200, json.dumps(index).encode(), **headers)

    def _allowed(self, route: str) -> bool:
        scopes = [] if route == "ping" else [f"repository:{self.repository}:pull"]
        if route == "upload" or self.command in ("PUT", "DELETE"):
            scopes.append(f"repository:{self.repository}:push")
        scopes += [
            f"repository:{source}:pull"
            for source in self.query.get("from", [])
            if route == "upload"
        ]
        authorization = self.headers.get("Authorization")
        if self.registry.allows(authorization, scopes):
            return True
        assert self.registry.accounts is not None
        if self.registry.accounts.scheme == "basic":
            challenge = 'Basic realm="loopback, test"'
        else:
            realm = f"{self.registry.scheme}://{self.registry.netloc}/token"
            challenge = f'Bearer realm="{realm}",service="loopback registry"'
            if self.repository:
                challenge += f',scope="repository:{self.repository}:pull"'
            if authorization:
                challenge += ',error="invalid_token"'
        body = json.dumps({"errors": [{"code": "UNAUTHORIZED", "message": "no"}]}).encode()
        self.answer(401, body, **{"WWW-Authenticate": challenge})
        return False


def serve_blob(
    handler: BaseHTTPRequestHandler, digest: str, content: bytes, headers: dict[str, str]
) -> None:
    """Send a blob, from the offset that is asked for, as far as the registry's lies let it."""
    server: Any = handler.server
    registry = getattr(server, "registry", None) or server.host.registry
    lies = registry.lies
    start, status = 0, 200
    asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    if asked and lies.ranges:
        start, status = int(asked[1]), 206
        if lies.wrong_range:
            start += 1
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    rest = content[start:]
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Type", "application/octet-stream")
    handler.send_header("Content-Length", str(len(rest)))
    handler.end_headers()
    if handler.command == "HEAD":
        return
    if lies.cut_after:
        rest = rest[: lies.cut_after.pop(0)]
        handler.close_connection = True
    with registry.lock:
        registry.served[digest] += len(rest)
    handler.wfile.write(rest)


class BlobHostHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        host: BlobHost = self.server.host  # type: ignore[attr-defined]
        if self.headers.get("Authorization"):
            host.authorized += 1
            self.send_response(400)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        host.answered += 1
        repository, _, digest = urlsplit(self.path).path.lstrip("/").rpartition("/")
        serve_blob(self, digest, host.registry.blobs[repository][digest], {})

    def log_message(self, *_arguments: object) -> None:
        pass


def _referrer(content: bytes, media_type: str, subject: str) -> dict[str, Any] | None:
    document = json.loads(content)
    if (document.get("subject") or {}).get("digest") != subject:
        return None
    return {
        "mediaType": media_type,
        "digest": "sha256:" + hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "artifactType": document.get("artifactType") or document["config"]["mediaType"],
        "annotations": document.get("annotations") or {},
    }
