"""Blobs into a repository (distribution-spec, "Pushing blobs"): mounted, whole or in chunks."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urljoin, urlsplit, urlunsplit

from imagegate.errors import DigestMismatch, FetchError
from imagegate.oci.blob import VerifiedReader
from imagegate.sources.registry.answers import error_codes, registry_words
from imagegate.sources.registry.authorization import Access, DeniedError
from imagegate.sources.registry.retry import Backoff, TransientError
from imagegate.sources.registry.wire import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from imagegate.oci.digest import Digest
    from imagegate.sources.registry.client import RegistryClient
    from imagegate.sources.registry.wire import Answer

# held in memory until the registry has it, so that it can be sent again
CHUNK = 16 << 20
_RANGE = re.compile(r"(?:bytes=)?0-(\d+)")
_OCTETS = {"Content-Type": "application/octet-stream"}


class _SessionLostError(TransientError):
    """The registry no longer knows the upload; it has to start again."""


def mount_blob(client: RegistryClient, repository: str, digest: Digest, source: str) -> bool:
    """Have the registry take a blob from another of its repositories; no byte is sent.

    Returns:
        Whether it did. It may decline: the blob is not there, or the account may not read it.

    Raises:
        FetchError: the registry fails.
    """
    access = Access(repository=repository, push=True, mount_from=source)
    try:
        answer = client.call(
            "POST",
            f"/v2/{repository}/blobs/uploads/?mount={digest}&from={source}",
            access,
            expect=(201, 202, 403, 404),
            body=b"",
        )
    except DeniedError:
        # not allowed to read the source, perhaps; whether pushing is allowed shows at once
        return False
    if answer.status == 202 and (location := answer.headers.get("location")):
        # declined with an upload begun instead; one that is left behind ends by itself
        with contextlib.suppress(FetchError):
            client.attempt(
                "DELETE",
                urljoin(answer.where, location),
                Access(repository=repository, push=True),
                expect=(200, 202, 204, 404),
            )
    return answer.status == 201


def upload_blob(
    client: RegistryClient,
    repository: str,
    *,
    digest: Digest,
    size: int,
    open_stream: Callable[[], BinaryIO],
    chunk: int = CHUNK,
) -> None:
    """Upload a blob in chunks; after a broken connection the rest of the chunk is sent.

    Registries that cancel an upload that broke (docker-registry 2.8) get it from its start again.

    Args:
        client: of the registry.
        repository: where to.
        digest: what the bytes must be; compared before the registry is asked to keep them.
        size: in bytes.
        open_stream: opens the blob at its start; again where the registry lost the upload.
        chunk: bytes held in memory and sent at once.

    Raises:
        DigestMismatch: the stream has other bytes, or the registry received others.
        FetchError: the registry refuses or fails.
    """
    backoff = Backoff(client.clock)
    while True:
        try:
            with VerifiedReader(
                open_stream(), what=f"the blob {digest} to be pushed", digest=digest, size=size
            ) as reader:
                _Session(client, repository, digest).send(reader, size, chunk)
        except _SessionLostError as error:
            backoff.wait(error)
        else:
            return


class _Session:
    """One upload: POST, a PATCH for each chunk, PUT."""

    def __init__(self, client: RegistryClient, repository: str, digest: Digest) -> None:
        self._client = client
        self._repository = repository
        self._digest = digest
        self._access = Access(repository=repository, push=True)
        self._location = ""

    def send(self, reader: VerifiedReader, size: int, chunk: int) -> None:
        begun = self._client.call(
            "POST",
            f"/v2/{self._repository}/blobs/uploads/",
            self._access,
            expect=(202,),
            body=b"",
        )
        self._moved(begun)
        minimum = begun.headers.get("oci-chunk-min-length", "")
        if minimum.isdecimal():
            chunk = max(chunk, int(minimum))
        start = 0
        piece = b""
        while piece := _exactly(reader, chunk):
            if len(piece) == size:
                # "POST then PUT": a blob of one chunk needs no PATCH
                break
            self._patch(piece, start)
            start += len(piece)
        reader.finish()
        self._put(piece)

    def _patch(self, piece: bytes, start: int) -> None:
        """Send one chunk; after a failure, ask what arrived and send the rest."""
        backoff = Backoff(self._client.clock)
        end = start + len(piece)
        offset = start
        while offset < end:
            try:
                answer = self._client.attempt(
                    "PATCH",
                    self._location,
                    self._access,
                    expect=(202, 404, 416),
                    headers={**_OCTETS, "Content-Range": f"{offset}-{end - 1}"},
                    body=piece[offset - start :],
                )
            except TransientError as error:
                backoff.wait(error)
                arrived = self._arrived(offset, refused=False)
            else:
                if answer.status == 202:
                    self._moved(answer)
                    return
                backoff.wait(self._lost(answer.where))
                arrived = self._arrived(offset, refused=True)
            if not start <= arrived <= end:
                raise self._lost(self._location)
            if arrived > offset:
                backoff.reset()
            offset = arrived

    def _arrived(self, offset: int, *, refused: bool) -> int:
        """Ask how many bytes the registry has.

        Args:
            offset: how many were thought to be there.
            refused: whether the registry has contradicted that.
        """
        answer = self._client.call("GET", self._location, self._access, expect=(204, 404))
        if answer.status == 404:
            raise self._lost(answer.where)
        if answer.headers.get("location"):
            self._moved(answer)
        found = _RANGE.fullmatch(answer.headers.get("range", "").strip())
        received = int(found[1]) + 1 if found else 0
        if received != 1:
            return received
        # `0-0` says one byte, and is what registries answer for none as well
        believed = min(offset, 1)
        return 1 - believed if refused else believed

    def _put(self, piece: bytes) -> None:
        """Have the registry verify and keep the blob."""
        backoff = Backoff(self._client.clock)
        while True:
            try:
                answer = self._client.attempt(
                    "PUT",
                    _with_query(self._location, f"digest={self._digest}"),
                    self._access,
                    expect=(201, 204, 400, 404),
                    headers=_OCTETS,
                    body=piece,
                )
            except TransientError as error:
                backoff.wait(error)
                # the answer may have been lost, not the blob
                if self._client.has_blob(self._repository, self._digest):
                    return
                continue
            if answer.status == 400 and "DIGEST_INVALID" in error_codes(answer):
                raise DigestMismatch(
                    f"`{answer.where}` received other bytes than were sent for {self._digest}",
                    hint="something between here and the registry changes bytes",
                )
            if answer.status == 400:
                raise FetchError(
                    f"`{answer.where}` refuses the blob {self._digest}{registry_words(answer)}"
                )
            if answer.status == 404:
                raise self._lost(answer.where)
            return

    def _moved(self, answer: Answer) -> None:
        """Follow ``Location``, which may be relative and may carry a query."""
        location = answer.headers.get("location")
        if not location:
            raise FetchError(
                f"`{answer.where}` names no place to upload to",
                hint="check that it is a registry and not a web site",
            )
        self._location = urljoin(answer.where, location)

    def _lost(self, where: str) -> _SessionLostError:
        return _SessionLostError(
            f"`{shown(where)}` lost the upload of {self._digest}",
            hint="its storage may be cleaned too early, or several instances do not share it",
        )


def _exactly(reader: VerifiedReader, size: int) -> bytes:
    """Read `size` bytes, fewer at the end only."""
    pieces = []
    stream = cast("BinaryIO", reader)
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _with_query(url: str, more: str) -> str:
    parts = urlsplit(url)
    query = f"{parts.query}&{more}" if parts.query else more
    return urlunsplit(parts._replace(query=query))
