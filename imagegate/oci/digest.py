"""Content digests: ``algorithm:encoded`` (OCI image-spec, descriptor.md, "Digests")."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import ImageError

if TYPE_CHECKING:
    from hashlib import _Hash

# registered algorithms and the length of their lower-case hex encoding
_ENCODED_LENGTH = {"sha256": 64, "sha384": 96, "sha512": 128}
_GRAMMAR = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]+")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A digest of bytes, such as a blob's or a layer's uncompressed tar (its diff id)."""

    algorithm: str
    encoded: str

    @classmethod
    def parse(cls, text: str) -> Digest:
        """Read ``algorithm:encoded``.

        Raises:
            ImageError: the text is not a digest, or its algorithm is not a registered one.
        """
        if not _GRAMMAR.fullmatch(text):
            raise ImageError(
                f"not a digest: `{text}`", hint="a digest reads `sha256:<64 hex digits>`"
            )
        algorithm, _, encoded = text.partition(":")
        length = _ENCODED_LENGTH.get(algorithm)
        if length is None:
            raise ImageError(
                f"digest algorithm `{algorithm}` of `{text}` is not supported",
                hint=f"supported are {', '.join(sorted(_ENCODED_LENGTH))}",
            )
        if len(encoded) != length or not re.fullmatch(r"[0-9a-f]+", encoded):
            raise ImageError(
                f"not a digest: `{text}`",
                hint=f"{algorithm} has {length} lower-case hex digits",
            )
        return cls(algorithm, encoded)

    @classmethod
    def of(cls, content: bytes, algorithm: str = "sha256") -> Digest:
        """Compute the digest of `content`."""
        return cls(algorithm, hashlib.new(algorithm, content).hexdigest())

    def hasher(self) -> _Hash:
        """Start a hash of this digest's algorithm."""
        return hashlib.new(self.algorithm)

    @property
    def short(self) -> str:
        """The first twelve digits, for tables that a person reads."""
        return self.encoded[:12]

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.encoded}"
