"""Ways in which a registry fails, and what each has to be told as."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from imagegate.errors import BlobMissing, DigestMismatch, FetchError, ImagegateError
from tests.registry import FOREVER, Accounts, Lies, LoopbackRegistry


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        cause: makes the registry fail; is told the digest of a manifest and of a layer under it.
        kind: the error that it has to end in.
        said: words of its message.
    """

    cause: Callable[[LoopbackRegistry, str, str], object]
    kind: type[ImagegateError]
    said: str


def heal(registry: LoopbackRegistry) -> None:
    registry.failures.clear()
    registry.accounts = None
    registry.lies = Lies()


def _told(*codes: str, message: str = "") -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message} for code in codes]}).encode()


def _cut_uploads(registry: LoopbackRegistry, _manifest: str, _layer: str) -> None:
    registry.lies.drop_answer = ["upload.post"] * 100


def _cut_blobs(registry: LoopbackRegistry, _manifest: str, _layer: str) -> None:
    # a server without ranges that always breaks at the same byte gets nowhere
    registry.lies.ranges = False
    registry.lies.cut_after = [10] * 100


def _rewrite(registry: LoopbackRegistry, _manifest: str, _layer: str) -> None:
    registry.lies.rewrite = True


def _expire(registry: LoopbackRegistry, _manifest: str, _layer: str) -> None:
    registry.accounts = Accounts(users={}, token_uses=0, anonymous_pull=True)


def _expire_midway(registry: LoopbackRegistry, _manifest: str, _layer: str) -> None:
    registry.accounts = Accounts(users={"ann": "secret"}, anonymous_pull=True)
    registry.fail("blob.get", 401, times=FOREVER)


def _other_bytes(registry: LoopbackRegistry, _manifest: str, layer: str) -> None:
    content = next(blobs[layer] for blobs in registry.blobs.values() if layer in blobs)
    registry.lies.blobs[layer] = content[:-1] + bytes([content[-1] ^ 1])


def _other_manifest(registry: LoopbackRegistry, manifest: str, _layer: str) -> None:
    registry.lies.manifests[manifest] = b'{"schemaVersion":2,"layers":[]}'


def _forget(registry: LoopbackRegistry, _manifest: str, layer: str) -> None:
    registry.lies.forget_blob.add(layer)


WRITING: dict[str, Fault] = {
    "answers 429": Fault(
        lambda r, _m, _l: r.fail("upload.post", 429, times=FOREVER, Retry_After="3600"),
        FetchError,
        "3600 s",
    ),
    "answers 500": Fault(
        lambda r, _m, _l: r.fail("upload.post", 500, times=FOREVER), FetchError, "500"
    ),
    "cuts connections": Fault(_cut_uploads, FetchError, "attempts"),
    "refuses the manifest": Fault(
        lambda r, _m, _l: r.fail("manifest.put", 500, times=FOREVER), FetchError, "500"
    ),
    "refuses the tag": Fault(
        lambda r, _m, _l: r.fail("manifest.put", 403, times=FOREVER, after=1), FetchError, "403"
    ),
    "has no space": Fault(
        lambda r, _m, _l: r.fail(
            *("upload.put", 507),
            times=FOREVER,
            body=_told("UNKNOWN", message="no space left on device"),
        ),
        FetchError,
        "no space left on device",
    ),
    "is read-only": Fault(
        lambda r, _m, _l: r.fail("upload.post", 405, times=FOREVER, body=_told("UNSUPPORTED")),
        FetchError,
        "405",
    ),
    "rewrites manifests": Fault(_rewrite, DigestMismatch, ""),
    "loses a blob": Fault(
        lambda r, _m, _l: r.fail(
            "manifest.put", 404, times=FOREVER, body=_told("MANIFEST_BLOB_UNKNOWN")
        ),
        BlobMissing,
        "lacks",
    ),
    "takes no token": Fault(_expire, FetchError, "credentials"),
}

READING: dict[str, Fault] = {
    "answers 429": Fault(
        lambda r, _m, _l: r.fail("blob.get", 429, times=FOREVER, Retry_After="3600"),
        FetchError,
        "3600 s",
    ),
    "answers 500": Fault(
        lambda r, _m, _l: r.fail("blob.get", 500, times=FOREVER), FetchError, "500"
    ),
    "answers 500 to manifests": Fault(
        lambda r, _m, _l: r.fail("manifest.get", 500, times=FOREVER), FetchError, "500"
    ),
    "cuts connections": Fault(_cut_blobs, FetchError, "received=10"),
    "serves other bytes": Fault(_other_bytes, DigestMismatch, "other bytes than promised"),
    "serves another manifest": Fault(_other_manifest, DigestMismatch, "expected="),
    "lacks a layer": Fault(_forget, BlobMissing, ""),
    "lacks the manifest": Fault(
        lambda r, _m, _l: r.fail("manifest.get", 404, times=FOREVER), BlobMissing, ""
    ),
    "takes no token": Fault(_expire, FetchError, "credentials"),
    "takes no token any more": Fault(_expire_midway, FetchError, "credentials"),
}
