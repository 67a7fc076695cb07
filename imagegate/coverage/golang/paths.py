"""Go's ``path/filepath`` on Unix: ``Clean``, ``Join`` and ``Match``.

Every builder is a Go program and leans on these rules, including where they surprise: ``*`` does
not cross ``/``, a leading dot is nothing special, ``[^a]`` negates and ``[!a]`` does not, and a
pattern is refused only when its syntax is broken.
"""

from __future__ import annotations


class BadPatternError(ValueError):
    """A pattern whose syntax Go refuses (``filepath.ErrBadPattern`` or a regexp error)."""


# what Go's strings.TrimSpace removes (Unicode White_Space); Python's strip() removes more
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def trim_space(text: str) -> str:
    """Remove Unicode white space at both ends, as ``strings.TrimSpace`` does."""
    return text.strip(_SPACE)


def clean(path: str) -> str:
    """Return the shortest equivalent of `path`, purely lexically, as ``filepath.Clean`` does."""
    if not path:
        return "."
    rooted = path.startswith("/")
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if kept and kept[-1] != "..":
                kept.pop()
            elif not rooted:
                kept.append(part)
            continue
        kept.append(part)
    joined = "/".join(kept)
    return "/" + joined if rooted else joined or "."


def join(*parts: str) -> str:
    """Join the non-empty `parts` with ``/`` and clean the result; nothing joins to nothing."""
    filled = [part for part in parts if part]
    return clean("/".join(filled)) if filled else ""


def inside(path: str) -> str:
    """Return `path` cleaned as seen from a root, without the leading ``/``; the root is ``""``."""
    return clean("/" + path)[1:]


def split(path: str) -> tuple[str, str]:
    """Split after the last ``/`` as ``filepath.Split`` does; the first half keeps its slash."""
    cut = path.rfind("/") + 1
    return path[:cut], path[cut:]


def base(path: str) -> str:
    """Return the last element of `path` as ``filepath.Base`` does."""
    stripped = path.rstrip("/")
    if not path:
        return "."
    return stripped.rsplit("/", 1)[-1] if stripped else "/"


def has_wildcards(name: str) -> bool:
    """Tell whether `name` holds an unescaped ``*``, ``?`` or ``[``."""
    position = 0
    while position < len(name):
        character = name[position]
        if character == "\\":
            position += 1
        elif character in "*?[":
            return True
        position += 1
    return False


def split_wildcards(path: str) -> tuple[str, str]:
    """Split a cleaned path before its first component with a wildcard."""
    parts = path.split("/")
    for number, part in enumerate(parts):
        if has_wildcards(part):
            return "/".join(parts[:number]), "/".join(parts[number:])
    return path, ""


def match(pattern: str, name: str) -> bool:
    """Tell whether `name` as a whole matches the shell `pattern` (``filepath.Match``).

    Raises:
        BadPatternError: the pattern's syntax is wrong; Go checks the rest of a pattern even after
            a mismatch, so a broken one is refused whatever the name is.
    """
    while pattern:
        star, chunk, pattern = _scan_chunk(pattern)
        if star and not chunk:
            return "/" not in name
        rest = _match_chunk(chunk, name)
        if rest is not None and (not rest or pattern):
            name = rest
            continue
        if star:
            advanced = _match_after_star(chunk, name, last=not pattern)
            if advanced is not None:
                name = advanced
                continue
        while pattern:
            _, chunk, pattern = _scan_chunk(pattern)
            _match_chunk(chunk, "")
        return False
    return not name


def check(pattern: str) -> None:
    """Raise `BadPatternError` if Go's ``filepath.Match`` would refuse `pattern`."""
    match(pattern, ".")


def _match_after_star(chunk: str, name: str, *, last: bool) -> str | None:
    for start in range(len(name)):
        if name[start] == "/":
            return None
        rest = _match_chunk(chunk, name[start + 1 :])
        if rest is not None and (not last or not rest):
            return rest
    return None


def _scan_chunk(pattern: str) -> tuple[bool, str, str]:
    """Take a leading run of ``*`` and the literal chunk behind it off `pattern`."""
    star = pattern.startswith("*")
    pattern = pattern.lstrip("*")
    in_range = False
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif character == "[":
            in_range = True
        elif character == "]":
            in_range = False
        elif character == "*" and not in_range:
            break
        position += 1
    return star, pattern[:position], pattern[position:]


def _match_chunk(chunk: str, name: str) -> str | None:
    """Match a chunk without ``*`` at the start of `name`; return what is left of the name."""
    failed = False
    while chunk:
        failed = failed or not name
        character = chunk[0]
        if character == "[":
            current = "" if failed else name[0]
            name = name[1:]
            matched, chunk = _match_range(chunk[1:], current)
            failed = failed or not matched
            continue
        if character == "?":
            failed = failed or name[0] == "/"
            chunk = chunk[1:]
        else:
            if character == "\\":
                chunk = chunk[1:]
                if not chunk:
                    raise BadPatternError("trailing `\\`")
            failed = failed or chunk[0] != name[0]
            chunk = chunk[1:]
        name = name[1:]
    return None if failed else name


def _match_range(chunk: str, current: str) -> tuple[bool, str]:
    negated = chunk.startswith("^")
    if negated:
        chunk = chunk[1:]
    matched = False
    ranges = 0
    while True:
        if chunk.startswith("]") and ranges > 0:
            chunk = chunk[1:]
            break
        low, chunk = _range_end(chunk)
        high = low
        if chunk[0] == "-":
            high, chunk = _range_end(chunk[1:])
        matched = matched or (bool(current) and low <= current <= high)
        ranges += 1
    return matched != negated, chunk


def _range_end(chunk: str) -> tuple[str, str]:
    """Take one possibly escaped character of a range (Go's ``getEsc``)."""
    if not chunk or chunk[0] in "-]":
        raise BadPatternError("character class is broken")
    if chunk[0] == "\\":
        chunk = chunk[1:]
        if not chunk:
            raise BadPatternError("trailing `\\`")
    character, chunk = chunk[0], chunk[1:]
    if not chunk:
        raise BadPatternError("character class is not closed")
    return character, chunk
