"""A registry on loopback that serves images built in memory, takes pushes and lies on demand.

Written from the OCI distribution-spec v1.1 and distribution's token authentication, not from the
client under test. It counts what goes over the wire: requests by route, bytes by blob.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.registry_routes import BlobHostHandler, QuietServer, RegistryHandler

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from tests.images import BuiltImage
    from tests.registry_writes import Seen

FOREVER = 1 << 30


@dataclass
class Failure:
    """An answer that a route gives instead of its own, `times` times."""

    route: str
    status: int
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    after: int = 0


@dataclass
class Accounts:
    """Who may do what.

    Attributes:
        users: names and passwords; all of them may pull and push.
        identity_tokens: refresh tokens that the token service takes.
        scheme: ``basic`` or ``bearer``.
        anonymous_pull: whether the token service lets anyone pull.
        private: repositories that no token is given for.
        token_uses: requests after which a token has expired.
    """

    users: dict[str, str] = field(default_factory=dict)
    identity_tokens: set[str] = field(default_factory=set)
    scheme: str = "bearer"
    anonymous_pull: bool = False
    private: set[str] = field(default_factory=set)
    token_uses: int = FOREVER


@dataclass
class Lies:
    """Every way in which the registry misbehaves; empty is honest.

    Attributes:
        blobs: bytes served instead of a blob's, by digest.
        manifests: bytes served instead of a manifest's, by digest or tag.
        digest_header: served as ``Docker-Content-Digest`` of every manifest.
        rewrite: keeps pushed manifests re-serialised, as another digest.
        forget_blob: digests that are answered 404.
        cut_after: for each following blob answer, bytes after which the connection is closed.
        cut_upload_after: for each following PATCH, bytes that are kept before it is closed.
        drop_answer: routes whose work is done and whose next answer is lost.
        lose_uploads: how many uploads are forgotten at their first PATCH.
        ranges: whether ``Range`` is understood.
        wrong_range: answers 206 from another offset than asked for.
        encode: ``label`` says gzip and sends the blob as it is; ``apply`` sends it gzipped.
        moving: tags that lead to the next digest at each read.
        redirect_blobs: root of another host that blobs are redirected to.
        redirect_circle: redirects blobs to themselves.
        fallback_races: how often another writer replaces the referrers index right after a PUT.
    """

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    digest_header: str | None = None
    rewrite: bool = False
    forget_blob: set[str] = field(default_factory=set)
    cut_after: list[int] = field(default_factory=list)
    cut_upload_after: list[int] = field(default_factory=list)
    drop_answer: list[str] = field(default_factory=list)
    lose_uploads: int = 0
    ranges: bool = True
    wrong_range: bool = False
    encode: str | None = None
    moving: dict[str, list[str]] = field(default_factory=dict)
    redirect_blobs: str | None = None
    redirect_circle: bool = False
    fallback_races: int = 0


class LoopbackRegistry:
    """The registry: what it holds, how it lies, what it saw."""

    def __init__(
        self,
        *,
        accounts: Accounts | None = None,
        referrers_api: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.accounts = accounts
        self.referrers_api = referrers_api
        self.referrers_page = 100
        self.referrers_filter = True
        self.chunk_minimum: int | None = None
        self.lies = Lies()
        self.failures: list[Failure] = []
        # repository -> digest -> bytes
        self.blobs: dict[str, dict[str, bytes]] = {}
        self.manifests: dict[str, dict[str, tuple[bytes, str]]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.uploads: dict[str, tuple[str, bytearray]] = {}
        self.tokens: dict[str, tuple[set[str], list[int]]] = {}
        self.seen: list[Seen] = []
        self.served: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        self.lock = threading.RLock()
        self._server = QuietServer(("127.0.0.1", 0), RegistryHandler)
        self._server.registry = self  # type: ignore[attr-defined]
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.scheme = "https" if tls is not None else "http"

    @property
    def netloc(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> Counter[str]:
        """Requests by route, such as ``blob.get``."""
        return Counter(one.route for one in self.seen)

    @contextmanager
    def running(self) -> Iterator[LoopbackRegistry]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def add(self, repository: str, image: BuiltImage, *tags: str) -> str:
        """Hold an image as if it had been pushed; returns its reference by digest."""
        blobs = {name: blob for name, blob in image.blobs.items() if name != image.digest}
        self.blobs.setdefault(repository, {}).update(blobs)
        return self.add_manifest(repository, image.manifest, image.media_type, *tags)

    def add_manifest(
        self, repository: str, document: bytes | dict[str, Any], media_type: str, *tags: str
    ) -> str:
        """Hold a manifest or index; returns its reference by digest."""
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        name = "sha256:" + hashlib.sha256(content).hexdigest()
        self.manifests.setdefault(repository, {})[name] = (content, media_type)
        for tag in tags:
            self.tags.setdefault(repository, {})[tag] = name
        return f"{self.netloc}/{repository}@{name}"

    def add_blob(self, repository: str, content: bytes) -> str:
        name = "sha256:" + hashlib.sha256(content).hexdigest()
        self.blobs.setdefault(repository, {})[name] = content
        return name

    def fail(
        self,
        route: str,
        status: int,
        *,
        times: int = 1,
        after: int = 0,
        body: bytes = b"",
        **headers: str,
    ) -> None:
        """Let a route answer otherwise, `times` times, after `after` honest answers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.failures.append(Failure(route, status, times, named, body, after))

    def failure(self, route: str) -> Failure | None:
        """The failure that is due for a request, if any."""
        with self.lock:
            for one in self.failures:
                if one.route != route or one.times == 0:
                    continue
                if one.after:
                    one.after -= 1
                    return None
                one.times -= 1
                return one
            return None

    def allows(self, authorization: str | None, scopes: list[str]) -> bool:
        """Whether a request may do what `scopes` name."""
        accounts = self.accounts
        if accounts is None:
            return True
        kind, _, value = (authorization or "").partition(" ")
        if accounts.scheme == "basic":
            return kind == "Basic" and self.account(value)
        with self.lock:
            granted, uses = self.tokens.get(value, (set(), [0]))
            if kind != "Bearer" or not uses[0]:
                return False
            uses[0] -= 1
            return all(scope in granted for scope in scopes)

    def account(self, basic: str) -> bool:
        """Whether the value of a basic ``Authorization`` header is an account's."""
        assert self.accounts is not None
        try:
            name, _, password = base64.b64decode(basic).decode().partition(":")
        except ValueError:
            return False
        return name in self.accounts.users and self.accounts.users[name] == password

    def grant(self, scopes: list[str], *, known: bool) -> str:
        """Give a token for what the asking account may do."""
        assert self.accounts is not None
        granted = set()
        for scope in scopes:
            kind, repository, actions = scope.split(":")
            for action in actions.split(","):
                allowed = known or (action == "pull" and self.accounts.anonymous_pull)
                if allowed and repository not in self.accounts.private:
                    granted.add(f"{kind}:{repository}:{action}")
        token = f"token-{next(self.numbers)}"
        self.tokens[token] = (granted, [self.accounts.token_uses])
        return token


class BlobHost:
    """Another host that keeps a registry's blobs and refuses any ``Authorization`` header.

    Storage providers do that where the address is signed; anything else would send them the
    registry's token.
    """

    def __init__(self, registry: LoopbackRegistry) -> None:
        self.registry = registry
        self.authorized = 0
        self.answered = 0
        self._server = QuietServer(("127.0.0.1", 0), BlobHostHandler)
        self._server.host = self  # type: ignore[attr-defined]

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[BlobHost]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
