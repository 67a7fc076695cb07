"""What a registry's answer means: statuses, error codes, digests of what it holds."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from imagegate.errors import DigestMismatch, FetchError, ImageError
from imagegate.oci.digest import Digest
from imagegate.oci.strictjson import read_json
from imagegate.sources.registry.authorization import RETRIED_STATUS, DeniedError
from imagegate.sources.registry.retry import TransientError, retry_after

if TYPE_CHECKING:
    from imagegate.sources.registry.retry import Clock
    from imagegate.sources.registry.wire import Answer

REDIRECTED = frozenset({301, 302, 303, 307, 308})
# distribution-spec, "Error codes": what a manifest names is not there
UNKNOWN_CODES = frozenset({"MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN", "MANIFEST_UNKNOWN"})
# of a registry's own words, as much as fits a message
_WORDS = 200


def failure(method: str, answer: Answer, clock: Clock) -> FetchError:
    """Say what a status means (distribution-spec, "Error codes")."""
    words = registry_words(answer)
    text = f"`{answer.where}` answers {answer.status} to {method}{words}"
    wait = retry_after(answer.headers.get("retry-after"), clock)
    match answer.status:
        case 429:
            hint = "the registry limits requests; an account may have a higher limit"
        case 403:
            hint = "the account lacks the right, or the repository is read-only"
        case 405:
            hint = "the registry is read-only or a mirror; push to another one"
        case 404:
            hint = "check the repository's name"
        case 413 | 507:
            hint = "the registry has no room for it; free space or raise its limit"
        case status if status in REDIRECTED:
            hint = "the registry sends requests in a circle or elsewhere; check its address"
        case _:
            hint = "the registry fails; its log says why"
    if answer.status in RETRIED_STATUS:
        return TransientError(text, hint=hint, retry_after=wait)
    if answer.status == 403:
        return DeniedError(text, hint=hint)
    return FetchError(text, hint=hint)


def verify(content: bytes, digest: Digest, what: str, answer: Answer | None = None) -> None:
    """Require that bytes have a digest.

    Raises:
        DigestMismatch: they have another.
    """
    found = Digest.of(content, digest.algorithm)
    if found != digest:
        encoding = answer.headers.get("content-encoding") if answer else None
        raise DigestMismatch(
            f"{what} has other bytes than asked for: expected={digest} found={found}"
            + (f" content-encoding={encoding}" if encoding else ""),
            hint="the registry or something in front of it changes what it serves",
        )


def check_digest_header(answer: Answer, content: bytes, what: str) -> None:
    """Require that a ``Docker-Content-Digest``, where there is one, is the digest of `content`.

    Raises:
        DigestMismatch: it is another's.
    """
    header = answer.headers.get("docker-content-digest")
    if header is None:
        return
    try:
        announced = Digest.parse(header)
    except ImageError as error:
        raise DigestMismatch(f"{what} is announced with a bad digest: {error.message}") from error
    found = Digest.of(content, announced.algorithm)
    if found != announced:
        raise DigestMismatch(
            f"{what} is announced under another digest: announced={announced} found={found}",
            hint="the registry contradicts itself; do not use what it serves",
        )


def registry_words(answer: Answer) -> str:
    """The registry's own codes and messages, made safe for a message of ours."""
    try:
        errors = read_json(answer.content, "the answer")["errors"]
        said = "; ".join(f"{one['code']}: {one.get('message', '')}" for one in errors)
    except (ImageError, KeyError, TypeError, AttributeError):
        return ""
    # a registry that repeats what it was sent must not put it into somebody's log
    for secret in _secrets(answer.authorization):
        said = said.replace(secret, "…")
    return f" ({re.sub(r'[^ -~…]+', ' ', said)[:_WORDS].strip()})" if said else ""


def _secrets(authorization: str) -> list[str]:
    scheme, _, value = authorization.partition(" ")
    found = [value]
    if scheme == "Basic":
        found.append(base64.b64decode(value).decode().partition(":")[2])
    return [secret for secret in found if secret]


def error_codes(answer: Answer) -> frozenset[str]:
    """The registry's error codes."""
    try:
        return frozenset(
            str(one["code"]) for one in read_json(answer.content, "the answer")["errors"]
        )
    except (ImageError, KeyError, TypeError):
        return frozenset()
