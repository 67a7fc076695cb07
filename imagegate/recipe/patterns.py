"""The patterns of ``[[layer.allow]]``: which paths a recipe's author takes upon himself.

The whole language: an absolute path, in which ``*`` stands for any part of one name and ``**``,
as a name of its own, for any number of folders (none too). Every other character stands for
itself. ``/opt/app/**`` covers the folder itself and everything below; ``/opt/app`` covers the
folder or file of this name alone.

A pattern is meant to name one thing. It begins with a folder that is written out, in the folders
of the system with two; what it covers by ``*`` never reaches a watched place, which has to be named
in full. A path of the base is never covered: what is accepted there is one content, by a waiver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# folders of the system (FHS 3.0); whole projects live elsewhere, as `/opt` and `/srv`
_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run"}
    | {"sbin", "sys", "tmp", "usr", "var"}
)


@dataclass(frozen=True, slots=True)
class PathPattern:
    """One pattern.

    Attributes:
        text: as the recipe has it.
        form: fits whole paths without leading slash.
        literal: whether it names exactly one path.
    """

    text: str
    form: re.Pattern[str]
    literal: bool

    def covers(self, path: str) -> bool:
        """Say whether a path, without leading slash, is one of those that are meant."""
        return self.form.fullmatch(path) is not None


def parse_pattern(text: str) -> PathPattern:
    """Read a pattern.

    Raises:
        ValueError: it is not an absolute path in normal form, or covers too much; says what to
            write.
    """
    parts = text.split("/")[1:]
    if not text.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"`{text}`: write an absolute path without `.`, `..` and trailing slash")
    if any("**" in part and part != "**" for part in parts):
        raise ValueError(f"`{text}`: `**` stands for folders and is a name of its own: `/opt/**`")
    if parts.count("**") > 1 or any(part != "**" and part.count("*") > 2 for part in parts):
        raise ValueError(f"`{text}`: write `**` once at most, and `*` twice at most in one name")
    written = next((n for n, part in enumerate(parts) if "*" in part), len(parts))
    needed = 2 if parts[0] in _SYSTEM else 1
    if written < len(parts) and written < needed:
        raise ValueError(
            f"`{text}` covers too much: write out the first "
            + ("folder" if needed == 1 else f"two names below `/`, as in `/{parts[0]}/name/**`")
        )
    return PathPattern(text=text, form=_form(parts), literal=written == len(parts))


def _form(parts: list[str]) -> re.Pattern[str]:
    pattern = ""
    for number, part in enumerate(parts):
        slash = "/" if number else ""
        if part == "**":
            pattern += "(?:/.+)?" if number == len(parts) - 1 else "(?:/[^/]+)*"
        else:
            name = "[^/]*".join(re.escape(piece) for piece in part.split("*"))
            pattern += f"{slash}{name}"
    return re.compile(pattern, re.DOTALL)
