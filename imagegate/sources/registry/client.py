"""A client of one registry (OCI distribution-spec v1.1): requests, and what is read through them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urljoin, urlsplit

from imagegate.errors import BlobMissing, FetchError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST
from imagegate.sources.registry.answers import REDIRECTED, check_digest_header, failure, verify
from imagegate.sources.registry.authorization import Access, Authorizer
from imagegate.sources.registry.credentials import DOCKER_HUB, DockerCredentials
from imagegate.sources.registry.download import ResumingReader
from imagegate.sources.registry.failures import UntrustedError
from imagegate.sources.registry.retry import Backoff, SystemClock, TransientError
from imagegate.sources.registry.wire import Answer, Wire, is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from imagegate.sources.registry.credentials import CredentialStore
    from imagegate.sources.registry.retry import Clock
    from imagegate.sources.registry.wire import Traffic

_DOCKER_HUB_ENDPOINT = "registry-1.docker.io"
_ACCEPT = f"{OCI_INDEX}, {OCI_MANIFEST}, {DOCKER_INDEX}, {DOCKER_MANIFEST}"
_REDIRECTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedManifest:
    """A manifest or index as the registry sent it.

    Attributes:
        content: its bytes, never re-serialised.
        digest: computed from `content`.
        media_type: the answer's ``Content-Type``.
    """

    content: bytes
    digest: Digest
    media_type: str


class RegistryClient:
    """Reads from one registry, and carries the requests of those who write.

    Args:
        registry: host and port as they stand in references.
        insecure: allow plain http to other hosts than loopback.
        credentials: where credentials are looked up; default: docker's and podman's files.
        clock: waits between attempts; default: the machine's.
        environment: default: the process's.
    """

    def __init__(
        self,
        registry: str,
        *,
        insecure: bool = False,
        credentials: CredentialStore | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        self.registry = registry
        self.clock: Clock = clock or SystemClock()
        self._wire = Wire(insecure=insecure, environment=environment)
        if credentials is None:
            home = environment.get("HOME")
            credentials = DockerCredentials(environment, Path(home) if home else None)
        self._authorizer = Authorizer(registry, self._wire, credentials, self.clock)
        self._base: str | None = None

    @property
    def traffic(self) -> Traffic:
        """What went over the wire so far."""
        return self._wire.traffic

    def close(self) -> None:
        """Close all connections."""
        self._wire.close()

    def find_manifest(self, repository: str, name: Digest | str) -> FetchedManifest | None:
        """Read a manifest or index by digest or by tag; ``None`` where there is none.

        Raises:
            DigestMismatch: the bytes are not those of the digest asked for or announced.
            FetchError: the registry refuses or fails.
        """
        what = f"the manifest `{name}` of `{self.registry}/{repository}`"
        answer = self.call(
            "GET",
            f"/v2/{repository}/manifests/{name}",
            Access(repository=repository),
            expect=(200, 404),
            headers={"Accept": _ACCEPT},
        )
        if answer.status == 404:
            return None
        if isinstance(name, Digest):
            verify(answer.content, name, what, answer)
        check_digest_header(answer, answer.content, what)
        return FetchedManifest(
            content=answer.content,
            digest=name if isinstance(name, Digest) else Digest.of(answer.content),
            media_type=answer.headers.get("content-type", "").partition(";")[0].strip(),
        )

    def manifest(self, repository: str, name: Digest | str) -> FetchedManifest:
        """Read a manifest or index by digest or by tag.

        Raises:
            BlobMissing: there is none.
            DigestMismatch: the bytes are not those of the digest asked for or announced.
            FetchError: the registry refuses or fails.
        """
        found = self.find_manifest(repository, name)
        if found is None:
            raise BlobMissing(
                f"`{self.registry}/{repository}` holds no manifest `{name}`",
                hint="it may have been deleted, or the account may not see it",
            )
        return found

    def has_blob(self, repository: str, digest: Digest) -> bool:
        """Say whether the repository holds a blob.

        Raises:
            FetchError: the registry refuses or fails.
        """
        answer = self.call(
            "HEAD",
            f"/v2/{repository}/blobs/{digest}",
            Access(repository=repository),
            expect=(200, 404),
        )
        return answer.status == 200

    def open_blob(self, repository: str, digest: Digest, size: int) -> BinaryIO:
        """Open a blob of `size` bytes; a cut connection is resumed where it broke.

        The stream is as the registry sends it: its reader verifies size and digest.

        Raises:
            BlobMissing: the repository does not hold it.
            FetchError: the registry refuses or fails.
        """

        def open_at(offset: int) -> Answer:
            answer = self.call(
                "GET",
                f"/v2/{repository}/blobs/{digest}",
                Access(repository=repository),
                expect=(200, 206, 404) if offset else (200, 404),
                headers={"Range": f"bytes={offset}-"} if offset else {},
                stream=True,
            )
            if answer.status == 404:
                raise BlobMissing(
                    f"the blob {digest} is not in `{self.registry}/{repository}`",
                    hint="push it again; what refers to it cannot be read without it",
                )
            return answer

        return cast("BinaryIO", ResumingReader(open_at, size=size, clock=self.clock))

    def call(
        self,
        method: str,
        target: str,
        access: Access,
        *,
        expect: Collection[int],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        stream: bool = False,
    ) -> Answer:
        """Send a request that may be repeated, until it is answered or no attempt is left.

        Args:
            method: of HTTP.
            target: a path, or a whole address that the registry gave.
            access: what a token has to allow.
            expect: the statuses that the caller handles.
            headers: further headers.
            body: sent as it is.
            stream: leave the body of a 200 or 206 to be read.

        Raises:
            FetchError: another status, or no answer.
        """
        backoff = Backoff(self.clock)
        while True:
            try:
                return self.attempt(
                    method,
                    target,
                    access,
                    expect=expect,
                    headers=headers,
                    body=body,
                    stream=stream,
                )
            except TransientError as error:
                backoff.wait(error)

    def attempt(
        self,
        method: str,
        target: str,
        access: Access,
        *,
        expect: Collection[int],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        stream: bool = False,
    ) -> Answer:
        """Send a request once, for what must not be repeated blindly; see :meth:`call`.

        Raises:
            TransientError: another attempt may succeed.
            FetchError: another status.
        """
        url = urljoin(f"{self._root()}/v2/", target)
        for _ in range(_REDIRECTS):
            answer = self._authorized(method, url, access, headers or {}, body, stream)
            location = answer.headers.get("location")
            if answer.status not in REDIRECTED or method not in ("GET", "HEAD") or not location:
                break
            url = urljoin(url, location)
        if answer.status in expect:
            return answer
        if answer.body is not None:
            answer.body.close()
        raise failure(method, answer, self.clock)

    def _authorized(
        self,
        method: str,
        url: str,
        access: Access,
        headers: Mapping[str, str],
        body: bytes | None,
        stream: bool,
    ) -> Answer:
        # credentials go to the registry itself, never to where it redirects
        own = _origin(url) == _origin(self._root())
        header = self._authorizer.header(access) if own else None

        def send(authorization: str | None) -> Answer:
            given = {"Authorization": authorization} if authorization else {}
            return self._wire.exchange(
                method, url, headers={**headers, **given}, body=body, stream=stream
            )

        answer = send(header)
        if answer.status == 401 and own:
            # an expired token, or the first word about how this registry asks
            challenge = answer.headers.get("www-authenticate", "")
            answer = send(self._authorizer.renew(challenge, access, header))
            if answer.status == 401:
                raise self._authorizer.denied(access)
        return answer

    def _root(self) -> str:
        """Find out once whether the registry speaks https or, where allowed, http.

        distribution-spec, "Determining support": ``GET /v2/`` answers 200 or 401.
        """
        if self._base is not None:
            return self._base
        host = _DOCKER_HUB_ENDPOINT if self.registry == DOCKER_HUB else self.registry
        schemes = ["https"]
        if self._wire.permits_http(host):
            # nobody listens in on loopback; elsewhere the safe one comes first
            schemes = ["http", "https"] if is_loopback(host) else ["https", "http"]
        backoff = Backoff(self.clock)
        while True:
            failed: list[FetchError] = []
            for scheme in schemes:
                try:
                    answer = self._wire.exchange("GET", f"{scheme}://{host}/v2/", headers={})
                except FetchError as error:
                    failed.append(error)
                    continue
                # what a TLS port answers to plain http is 400
                if answer.status != 400 or scheme == schemes[-1]:
                    self._authorizer.learn(answer.headers.get("www-authenticate", ""))
                    self._base = f"{scheme}://{host}"
                    return self._base
            # a certificate that is not trusted says that the other scheme was the wrong one
            worst = next((e for e in failed if isinstance(e, UntrustedError)), failed[0])
            if not isinstance(worst, TransientError):
                raise worst
            backoff.wait(worst)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
