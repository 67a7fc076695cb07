"""Credentials in files and texts, by the forms that their issuers gave them.

Only forms that are recognisable by themselves are looked for: a prefix that one issuer uses, or a
place in a known configuration file. What merely looks random is not guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest
from imagegate.foreign.credentials import (
    ADDRESS,
    FORMS,
    KEY,
    KEY_ANCHOR,
    find_credentials,
    is_literal,
    is_random,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from imagegate.rootfs import Node

# longer than every form that is looked for, so that none is missed between two chunks
_OVERLAP = 1024
_CONFIG_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A configuration file that may hold credentials, and how they stand in it."""

    what: str
    path: re.Pattern[str]
    pattern: re.Pattern[bytes]


_PLACES = (
    _Place(
        what="netrc password",
        path=re.compile(r"(?:.*/)?[._]netrc"),
        pattern=re.compile(rb"(?:^|\s)password\s+(\S+)"),
    ),
    _Place(
        what="credentials in an index address",
        path=re.compile(
            r"(?:.*/)?(?:pip\.conf|pip\.ini|uv\.toml|\.condarc|condarc|\.pypirc|requirements[^/]*\.txt"
            r"|[^/]*\.sources|sources\.list|auth\.conf|poetry\.toml|pyproject\.toml)"
            r"|(?:.*/)?(?:sources\.list\.d|auth\.conf\.d|apt\.conf\.d)/[^/]+|(?:.*/)?\.git/config"
            r"|(?:.*/)?\.git-credentials|(?:.*/)?\.gitconfig|(?:.*/)direct_url\.json"
        ),
        pattern=ADDRESS,
    ),
    _Place(
        what="apt password",
        path=re.compile(r"etc/apt/auth\.conf(?:\.d/[^/]+)?"),
        pattern=re.compile(rb"(?:^|\s)password\s+(\S+)"),
    ),
    _Place(
        what="package index password",
        path=re.compile(r"(?:.*/)?\.pypirc"),
        pattern=re.compile(rb"(?m)^\s*password\s*[=:]\s*(\S+)"),
    ),
    _Place(
        what="npm token",
        path=re.compile(r"(?:.*/)?\.npmrc"),
        pattern=re.compile(rb"_(?:authToken|auth|password)\s*=\s*\"?([^\s\"$]+)"),
    ),
    _Place(
        what="registry credentials",
        path=re.compile(
            r"(?:.*/)?\.docker/config\.json|(?:.*/)?\.dockercfg|(?:.*/)?containers/auth\.json"
        ),
        pattern=re.compile(rb'"(?:auth|identitytoken|password)"\s*:\s*"([^"]+)"'),
    ),
    _Place(
        what="AWS secret key",
        path=re.compile(r"(?:.*/)?\.aws/(?:credentials|config)"),
        pattern=re.compile(rb"aws_secret_access_key\s*=\s*(\S{30,})"),
    ),
    _Place(
        what="Hugging Face token",
        path=re.compile(r"(?:.*/)?(?:\.cache/)?huggingface/(?:token|stored_tokens)"),
        pattern=re.compile(rb"(hf_\w+)"),
    ),
)


class SecretSearch:
    """Looks for credentials in one file as it streams past; keeps what was found, never its text."""

    def __init__(self, path: str, size: int) -> None:
        self._places = [place for place in _PLACES if place.path.fullmatch(path)]
        self._config = bytearray() if self._places and size <= _CONFIG_LIMIT else None
        self._found: dict[str, None] = {}
        if self._places and self._config is None:
            self._found["a credentials file that is too long to be one"] = None
        self._tail = b""

    def write(self, chunk: bytes | memoryview, /) -> None:
        """Take the next bytes."""
        if self._config is not None:
            self._config += chunk
        text = self._tail + bytes(chunk)
        self._found.update(dict.fromkeys(search(text)))
        self._tail = text[-_OVERLAP:]

    def finish(self) -> bytes:
        """Return what was found, a line each."""
        for place in self._places if self._config else ():
            assert self._config is not None
            for match in place.pattern.finditer(bytes(self._config)):
                if is_literal(match[1].decode("utf-8", "replace")):
                    self._found[place.what] = None
        return "\n".join(self._found).encode()


def search(text: bytes) -> Iterator[str]:
    """Yield what kinds of credentials a text holds."""
    for form in FORMS:
        # finding the anchor first is many times faster than trying the expression everywhere
        at = text.find(form.anchor)
        while at >= 0:
            match = form.pattern.match(text, at)
            if match is not None and is_random(match[1][len(form.anchor) :]):
                yield form.what
                break
            at = text.find(form.anchor, at + 1)
    at = text.find(KEY_ANCHOR)
    while at >= 0:
        if KEY.match(text, at):
            yield "private key"
            return
        at = text.find(KEY_ANCHOR, at + 1)


def search_text(text: str) -> Iterator[str]:
    """Yield what kinds of credentials a line of history or an environment variable holds."""
    yield from (one.what for one in find_credentials(text))


def interest(locked: Callable[[str], Node | None]) -> Interest:
    """Want every file that is not a locked wheel's: those are compared by hash.

    Args:
        locked: returns what the lock has at a path, ``None`` for nothing.
    """

    def compared(path: str) -> bool:
        # what an installer writes in words of its own, launchers among it, has no hash to compare
        folder, _, name = path.rpartition("/")
        own = name in ("RECORD", "INSTALLER", "REQUESTED") or folder.rpartition("/")[2] == "bin"
        return not own and locked(path) is not None

    return Interest(name="secrets", keep=SecretSearch, unless=compared)


def found_in(content: bytes) -> tuple[str, ...]:
    """Read what :class:`SecretSearch` kept."""
    return tuple(line for line in content.decode().split("\n") if line)
