"""Build secrets: files that the engine shows to a step and that must not be in the result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import UsageError
from imagegate.localfiles import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# shorter words are found by chance; those that follow one of these names are secret all the same
_LONG_WORD = 12
_SHORT_WORD = 4
_NAMED = re.compile(
    rb"(?:password|passwd|token|secret|api[_-]?key)[\"']?[\s:=]+[\"']?([^\s\"',;]+)", re.IGNORECASE
)
_USERINFO = re.compile(rb"://[^/\s:@]*:([^/\s@]+)@")
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """One build secret.

    Attributes:
        name: the id that a step mounts it by.
        path: the file.
        needles: byte strings of which none may be in the result.
    """

    name: str
    path: Path
    needles: tuple[bytes, ...]

    @classmethod
    def read(cls, name: str, path: Path) -> Secret:
        """Read a secret file.

        Raises:
            UsageError: it cannot be read, is empty, or its name is none.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"`{name}` cannot be the id of a build secret")
        try:
            content = read_regular(path)
        except OSError as error:
            raise UsageError(
                f"cannot read the secret `{name}` from `{path}`: {error.strerror}"
            ) from error
        found = tuple(dict.fromkeys(_needles(content)))
        if not found:
            raise UsageError(f"the secret `{name}` from `{path}` holds nothing to keep")
        return cls(name=name, path=path, needles=found)


def _needles(content: bytes) -> Iterable[bytes]:
    """Choose what to search for: the whole, each line, each long word, each named password."""
    whole = content.strip()
    if whole:
        yield whole
    if _CERTIFICATE in content:
        return  # each certificate of a bundle is public and may be in the result for itself
    for line in content.splitlines():
        if len(line.strip()) >= _LONG_WORD:
            yield line.strip()
    for word in re.split(rb"[\s=\"',;]+", content):
        if len(word) >= _LONG_WORD:
            yield word
    for pattern in (_NAMED, _USERINFO):
        for word in pattern.findall(content):
            if len(word) >= _SHORT_WORD:
                yield word


class Search:
    """Looks for the needles of secrets in a stream of chunks, across their borders."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._needles = [(secret.name, needle) for secret in secrets for needle in secret.needles]
        longest = max((len(needle) for _, needle in self._needles), default=1)
        self._overlap = longest - 1
        self._tail = b""
        self.found: set[str] = set()

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        window = self._tail + bytes(chunk)
        for name, needle in self._needles:
            if name not in self.found and needle in window:
                self.found.add(name)
        self._tail = window[-self._overlap :] if self._overlap else b""
