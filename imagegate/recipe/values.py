"""The values that a recipe may hold: what each kind looks like, and nothing else gets through.

Most of them end up in a Dockerfile, an image config or a file that a shell reads. A value is
matched as a whole: a line break, a NUL or a blank in it would begin another instruction there.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Annotated

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator

from imagegate.errors import ImageError, UsageError
from imagegate.oci.digest import Digest
from imagegate.oci.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable

# what make, docker compose, systemd and sh read alike without quoting; no `~`, which sh expands
PLAIN_VALUE = re.compile(r"[A-Za-z0-9_@%+=:,./^-]*")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RECIPE_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
# letters of any script; nothing that a Dockerfile, a shell or an ignore file gives a meaning to
_PATH_PART = r"[\w@%+=:,.~^-]+"
_ROOTED = re.compile(rf"(?:/{_PATH_PART})+")
_TEMPLATE = re.compile(rf"(?:/(?:{_PATH_PART}|\{{model\}})+)+")
_LINK_TARGET = re.compile(rf"/?{_PATH_PART}(?:/{_PATH_PART})*")
# image-spec, config.md, "User"
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
# Docker, "Object labels": letters, digits, `.`, `_`, `-`, `/`
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_VERSION = re.compile(r"3\.\d+")
_GLIBC = re.compile(r"2\.\d+")
_WORD = re.compile(r"[^/\s]+")
# Debian policy 5.6.1 and 5.6.12
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9-]+)?=(?:\d+:)?\d[A-Za-z0-9.+~:-]*")
# adduser.conf(5), NAME_REGEX of Debian's own system users
_LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PORT = re.compile(r"[1-9]\d{0,4}(?:/(?:tcp|udp|sctp))?")
_SIGNAL = re.compile(r"SIG[A-Z0-9+-]+|[1-9]\d?")


def _matching(form: re.Pattern[str], rule: str) -> Callable[[str], str]:
    """Require that the whole of a value has a form."""

    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"{value!r} cannot stand here; write {rule}")
        return value

    return check


def _normal(value: str) -> str:
    if any(part in (".", "..") for part in value.split("/")):
        raise ValueError("write a path without `.` and `..`")
    return value


def _one_line(value: str) -> str:
    """Refuse what would end a line, or would not show where it stands."""
    for character in value:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            raise ValueError(
                f"{value!r} holds a line break or another character that does not print"
            )
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("write something here")
    return value


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError(f"{value!r} holds a NUL, which ends a word for every program")
    return value


def _pinned(value: str) -> str:
    try:
        Reference.parse_pinned(value)
    except UsageError as error:
        hint = f"`imagegate lock NAME --base docker://{value}` pins what it leads to now"
        raise ValueError(f"{error.message}; {hint if '@' not in value else error.hint}") from error
    return value


def _repository(value: str) -> str:
    reference = Reference.parse(value)
    if reference.tag or reference.digest:
        raise ValueError("write the repository alone, without tag and digest")
    return value


def _requirement(value: str) -> str:
    try:
        Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(str(error)) from error
    return value


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from error
    return value


def _digest(value: str) -> str:
    try:
        return str(Digest.parse(value))
    except ImageError as error:
        raise ValueError(error.message) from error


def _base_digest(value: str) -> str:
    if value != "scratch":
        try:
            Digest.parse(value)
        except ImageError as error:
            raise ValueError(f"{error.message}; write the base's digest or `scratch`") from error
    return value


_PATH_RULE = (
    "an absolute path of letters, digits and `_ @ % + = : , . ~ ^ -`, without a trailing slash"
)
Line = Annotated[str, AfterValidator(_one_line)]
Text = Annotated[str, AfterValidator(_one_line), AfterValidator(_filled)]
Argument = Annotated[str, AfterValidator(_no_nul)]
AbsolutePath = Annotated[
    str, AfterValidator(_matching(_ROOTED, _PATH_RULE)), AfterValidator(_normal)
]
TargetTemplate = Annotated[
    str, AfterValidator(_matching(_TEMPLATE, _PATH_RULE)), AfterValidator(_normal)
]
LinkTarget = Annotated[
    str,
    AfterValidator(_matching(_LINK_TARGET, "a path of letters, digits and `_ @ % + = : , . ~`")),
]
EnvName = Annotated[
    str,
    AfterValidator(_matching(ENV_NAME, "letters, digits and `_`, with no digit at the beginning")),
]
LabelName = Annotated[
    str, AfterValidator(_matching(_LABEL, "letters, digits and `.`, `_`, `-`, `/`"))
]
User = Annotated[str, AfterValidator(_matching(_USER, "`user`, `uid`, `user:group` or `uid:gid`"))]
Login = Annotated[str, AfterValidator(_matching(_LOGIN, "lower-case letters, digits, `_` and `-`"))]
ModelName = Annotated[
    str, AfterValidator(_matching(RECIPE_NAME, "lower-case letters, digits, `.`, `_` and `-`"))
]
PythonVersion = Annotated[str, AfterValidator(_matching(_VERSION, "`major.minor`, as in `3.12`"))]
GlibcVersion = Annotated[str, AfterValidator(_matching(_GLIBC, "`major.minor`, as in `2.39`"))]
Word = Annotated[str, AfterValidator(_matching(_WORD, "one word without `/`"))]
DebianPin = Annotated[
    str, AfterValidator(_matching(_DEBIAN, "`package=version` with the exact version"))
]
Port = Annotated[str, AfterValidator(_matching(_PORT, "`8000`, `8000/tcp` or `8000/udp`"))]
Signal = Annotated[str, AfterValidator(_matching(_SIGNAL, "`SIGTERM` or a number"))]
PinnedReference = Annotated[str, AfterValidator(_pinned)]
Repository = Annotated[str, AfterValidator(_repository)]
RequirementLine = Annotated[str, AfterValidator(_requirement)]
Specifier = Annotated[str, AfterValidator(_specifier)]
BaseDigest = Annotated[str, AfterValidator(_base_digest)]
DigestText = Annotated[str, AfterValidator(_digest)]
