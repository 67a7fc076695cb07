"""Credentials in files and texts, by the forms that their issuers gave them.

Only forms that are recognisable by themselves are looked for: a prefix that one issuer uses, or a
place in a known configuration file. What merely looks random is not guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.collect import Interest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from imagegate.rootfs import Node

# longer than every form that is looked for, so that none is missed between two chunks
_OVERLAP = 1024
_FEWEST_DIFFERENT = 8
_CONFIG_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """One form of a credential: what it is, what it begins with, and the whole of it."""

    what: str
    anchor: bytes
    pattern: re.Pattern[bytes]


def _form(what: str, anchor: bytes, rest: bytes) -> _Form:
    # a letter or digit before or behind would make it a part of something else
    pattern = rb"(?<![0-9A-Za-z_-])(" + re.escape(anchor) + rest + rb")(?![0-9A-Za-z_-])"
    return _Form(what=what, anchor=anchor, pattern=re.compile(pattern))


_WORD = rb"[0-9A-Za-z]"
_WIDE = rb"[0-9A-Za-z_-]"
_FORMS = (
    *(_form("GitHub token", b"gh%c_" % kind, _WORD + rb"{36}") for kind in b"pousr"),
    _form("GitHub token", b"github_pat_", _WORD + rb"{22}_" + _WORD + rb"{59}"),
    _form("GitLab token", b"glpat-", _WIDE + rb"{20,64}"),
    _form("Hugging Face token", b"hf_", rb"[A-Za-z]{34}"),
    _form("PyPI token", b"pypi-AgEIcHlwaS5vcmc", _WIDE + rb"{50,500}"),
    _form("TestPyPI token", b"pypi-AgENdGVzdC5weXBpLm9yZw", _WIDE + rb"{50,500}"),
    _form("npm token", b"npm_", _WORD + rb"{36}"),
    _form("NVIDIA API key", b"nvapi-", _WIDE + rb"{64}"),
    _form("Slack token", b"xoxb-", rb"[0-9]{8,}-[0-9A-Za-z-]{16,}"),
    _form("Slack token", b"xoxp-", rb"[0-9]{8,}-[0-9A-Za-z-]{16,}"),
    _form("model API key", b"sk-proj-", _WIDE + rb"{40,200}"),
    _form("model API key", b"sk-ant-", _WIDE + rb"{80,200}"),
    _form("AWS access key", b"AKIA", rb"[0-9A-Z]{16}"),
    _form("AWS access key", b"ASIA", rb"[0-9A-Z]{16}"),
    _form("Google API key", b"AIza", _WIDE + rb"{35}"),
)
_KEY_ANCHOR = b"-----BEGIN "
# a header alone is what every TLS library holds; a key has lines of base64 behind it
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----\s*?\r?\n"
    rb"(?:[A-Za-z-]+: [^\n]*\r?\n)*(?:\r?\n)?[ \t]*[0-9A-Za-z+/=]{40,}"
)
_URL = re.compile(rb"[a-z][a-z0-9+.-]*://[^\s/:@'\"<>{}$]+:([^\s/@'\"<>{}$]+)@[^\s'\"<>{}$]+")


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
        pattern=_URL,
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
# variables whose name says that their value is a credential
_NAMED = re.compile(
    r"(?P<name>[A-Z][A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|SECRET_KEY|API_KEY|ACCESS_KEY|AUTH_TOKEN"
    r"|ACCESS_TOKEN|_TOKEN|PRIVATE_KEY))=(?P<value>\"[^\"]*\"|'[^']*'|\S+)"
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
                if _is_literal(match[1]):
                    self._found[place.what] = None
        return "\n".join(self._found).encode()


def search(text: bytes) -> Iterator[str]:
    """Yield what kinds of credentials a text holds."""
    for form in _FORMS:
        # finding the anchor first is many times faster than trying the expression everywhere
        at = text.find(form.anchor)
        while at >= 0:
            match = form.pattern.match(text, at)
            if match is not None and _is_random(match[1][len(form.anchor) :]):
                yield form.what
                break
            at = text.find(form.anchor, at + 1)
    at = text.find(_KEY_ANCHOR)
    while at >= 0:
        if _KEY.match(text, at):
            yield "private key"
            return
        at = text.find(_KEY_ANCHOR, at + 1)


def search_text(text: str) -> Iterator[str]:
    """Yield what kinds of credentials a line of history or an environment variable holds."""
    raw = text.encode("utf-8", "replace")
    yield from search(raw)
    if any(_is_literal(match[1]) for match in _URL.finditer(raw)):
        yield "credentials in an address"
    for match in _NAMED.finditer(text):
        value = match["value"].strip("\"'")
        if len(value) >= 8 and _is_literal(value.encode("utf-8", "replace")):
            yield f"a value for `{match['name']}`"


def _is_random(body: bytes) -> bool:
    """Leave out examples: ``AKIAIOSFODNN7EXAMPLE``, ``ghp_xxxx…``, ``hf_AAAA…``."""
    lowered = body.lower()
    if any(word in lowered for word in (b"example", b"xxxxxx", b"123456789", b"abcdefgh")):
        return False
    return len(set(body)) >= _FEWEST_DIFFERENT


def _is_literal(value: bytes) -> bool:
    """Leave out what stands for a value: ``$TOKEN``, ``${TOKEN}``, ``<token>``, ``****``."""
    text = value.strip(b"\"'")
    if not text or text[:1] in (b"$", b"<", b"%", b"{") or len(set(text)) < 3:
        return False
    return text.lower() not in (
        b"none",
        b"null",
        b"true",
        b"false",
        b"password",
        b"token",
        b"secret",
    )


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
