"""What one can ask for: paths, globs, ``**``, ``{a,b}``, and where they have to end.

Two small languages of imagegate's own, documented in the help of ``imagegate coverage``:

* a *pattern* names files and folders of a context: ``models.json``, ``recipes/*``,
  ``examples/*.jinja``, ``recipes/**``, ``conf/{a,b}.yaml``, ``.`` for all of it;
* an *expectation* ``SRC=DST`` says where they belong: ``recipes/{model}=/opt/recipes/{model}``.

``*`` and ``?`` stand for anything inside one name, ``[ab]`` and ``[!ab]`` for one character,
``**`` for any number of folders, a backslash takes the next character as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from imagegate.coverage.golang.paths import clean
from imagegate.errors import UsageError

# braces hold alternatives; `{model}`, one word, is a placeholder of an expectation
_PLACEHOLDER = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")
_MOST_ALTERNATIVES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One thing that is asked for.

    Attributes:
        written: as the user wrote it.
        parts: a test for each name of a path; ``None`` is ``**``.
        unit: a test of a whole path, of which the group ``unit`` is what the pattern names.
        head: the folder that everything named lies in.
        deep: it ends with ``/**``: everything below, kept as it lies.
        folders_only: it ends with ``/``.
        wild: it holds a wildcard.
    """

    written: str
    parts: tuple[re.Pattern[str] | None, ...]
    unit: re.Pattern[str]
    head: str
    deep: bool
    folders_only: bool
    wild: bool

    def unit_of(self, path: str) -> str | None:
        """Return the part of `path` that the pattern names: itself or a folder above it."""
        found = self.unit.fullmatch(path)
        return None if found is None else found["unit"]


def parse_pattern(written: str) -> tuple[Pattern, ...]:
    """Read a pattern; braces make several of it.

    Raises:
        UsageError: it is empty, leads out of the context, or has a bracket that does not close.
    """
    return tuple(_pattern(written, text) for text in expand_braces(written))


def _pattern(written: str, text: str) -> Pattern:
    if not text.strip():
        raise UsageError("an empty pattern names nothing", hint="`.` is the whole context")
    if ".." in text.split("/"):
        raise UsageError(
            f"`{written}` leads out of the context", hint="patterns are relative to the context"
        )
    names, deep = _names(text)
    tests = [None if name == "**" else _name_regexp(name, written) for name in names]
    wild = _first_wild(names)
    # a thing without wildcards is itself, and not the folder that all of it lies in
    fixed = wild if wild is not None else len(names) if deep else max(len(names) - 1, 0)
    return Pattern(
        written=written,
        parts=tuple(None if test is None else re.compile(test, re.DOTALL) for test in tests),
        unit=re.compile(
            f"(?P<unit>{_joined(tests)})(?:(?<!^)/.*)?" if names else "(?P<unit>).*", re.DOTALL
        ),
        head="/".join(_unescaped(name) for name in names[:fixed]),
        deep=deep or not names,
        folders_only=text.endswith("/") and bool(names),
        wild=wild is not None,
    )


_GLOB = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")


def _names(text: str) -> tuple[list[str], bool]:
    """Return the names of a path without those that say nothing, and whether it ends in ``**``."""
    names = [name for name in text.split("/") if name not in ("", ".")]
    deep = bool(names) and names[-1] == "**"
    while names and names[-1] == "**":
        names.pop()
    return names, deep


def _first_wild(names: list[str]) -> int | None:
    return next((at for at, name in enumerate(names) if _GLOB.search(name)), None)


def _joined(tests: list[str | None]) -> str:
    """Return one regular expression for the tests of several names."""
    *above, last = tests
    assert last is not None
    return "".join("(?:[^/]+/)*?" if test is None else f"{test}/" for test in above) + last


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _name_regexp(name: str, written: str) -> str:
    """Return the regular expression of one name, without placeholders."""
    out: list[str] = []
    position = 0
    while position < len(name):
        character = name[position]
        position += 1
        if character == "*":
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "\\" and position < len(name):
            out.append(re.escape(name[position]))
            position += 1
        elif character == "[":
            end = name.find("]", position + 1 + (name[position : position + 1] in {"!", "^"}))
            if end < 0:
                raise UsageError(
                    f"`{written}` is not a valid glob: a `[` does not close",
                    hint=r"write `\[` for the character",
                )
            out.append(_class(name[position:end]))
            position = end + 1
        else:
            out.append(re.escape(character))
    return "".join(out)


def _class(inner: str) -> str:
    negated = inner[0] in {"!", "^"}
    listed = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner[negated:])
    return f"[{'^/' if negated else ''}{listed}]"


def expand_braces(text: str) -> tuple[str, ...]:
    """Return what ``{a,b}`` stands for, as shells read it; ``{word}`` stays.

    Raises:
        UsageError: it stands for more than anybody can mean.
    """
    done: list[str] = []
    waiting = [text]
    while waiting:
        if len(done) + len(waiting) > _MOST_ALTERNATIVES:
            raise UsageError(f"`{text}` stands for more than {_MOST_ALTERNATIVES} patterns")
        current = waiting.pop()
        found = _first_braces(current)
        if found is None:
            done.append(current)
            continue
        start, end, alternatives = found
        waiting += [
            current[:start] + alternative + current[end:] for alternative in reversed(alternatives)
        ]
    return tuple(dict.fromkeys(done))


def _first_braces(text: str) -> tuple[int, int, list[str]] | None:
    """Return where the first braces with a comma stand, and their alternatives."""
    opened: list[tuple[int, list[int]]] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "{":
            opened.append((position, []))
        elif character == "," and opened:
            opened[-1][1].append(position)
        elif character == "}" and opened:
            start, commas = opened.pop()
            if commas:
                cuts = [start, *commas, position]
                parts = [text[a + 1 : b] for a, b in pairwise(cuts)]
                return start, position + 1, parts
        position += 1
    return None


# -- expectations


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Where something of the context has to lie in the image.

    Attributes:
        written: as the user wrote it.
        source: a test of a whole path; the group ``_kept`` is what stays below the destination.
        destination: the path in the image, with placeholders.
    """

    written: str
    source: re.Pattern[str]
    destination: str

    def place(self, path: str) -> str | None:
        """Return where `path` has to end, or ``None`` if nothing is said of it.

        What lies below a folder that the source names ends below the destination.
        """
        found = self.source.fullmatch(path)
        if found is None:
            return None
        values = found.groupdict()
        goal = _PLACEHOLDER.sub(lambda word: values[word[1]], self.destination)
        kept = values["_kept"] or ""
        if not kept and self.destination.endswith("/"):
            kept = path.rpartition("/")[2]
        return clean(f"{goal}/{kept}")


def parse_expectation(written: str) -> tuple[Expectation, ...]:
    """Read ``SRC=DST``; braces in SRC make several of it.

    Raises:
        UsageError: it does not have that form, or DST names a placeholder that SRC has not.
    """
    source, equals, destination = written.partition("=")
    if not (source and equals and destination):
        raise UsageError(
            f"`{written}` is not of the form `SRC=DST`",
            hint="e.g. `recipes/{model}=/opt/recipes/{model}` or `models.json=/etc/models.json`",
        )
    if not destination.startswith("/"):
        raise UsageError(
            f"`{written}`: `{destination}` is not an absolute path in the image",
            hint=f"write `/{destination}` if that is meant",
        )
    sources = expand_braces(source)
    alike = _shared([_names(text)[0] for text in sources]) if len(sources) > 1 else None
    return tuple(_expectation(written, text, destination, alike) for text in sources)


def _shared(paths: list[list[str]]) -> int:
    """Return how many names at the front are the same in all of `paths`."""
    alike = 0
    while all(len(names) > alike and names[alike] == paths[0][alike] for names in paths):
        alike += 1
    return alike


def _expectation(written: str, source: str, destination: str, braces: int | None) -> Expectation:
    """Read one alternative, of which the braces began in the name number `braces`."""
    if ".." in source.split("/"):
        raise UsageError(
            f"`{written}`: `{source}` leads out of the context",
            hint="the left side is relative to the context",
        )
    names, _ = _names(source)
    placed, wanted = (set(_PLACEHOLDER.findall(side)) for side in (source, destination))
    if wanted - placed:
        known = ", ".join(f"`{{{name}}}`" for name in sorted(placed)) or "none"
        raise UsageError(
            f"`{written}`: `{{{min(wanted - placed)}}}` is not on the left side",
            hint=f"placeholders on the left side: {known}",
        )
    seen: set[str] = set()
    tests = [None if name == "**" else _template_regexp(name, written, seen) for name in names]
    starts = [at for at in (_first_wild(names), braces) if at is not None and at < len(names)]
    wild = min(starts, default=None)
    if not names:
        regexp = "(?P<_kept>.*)"
    elif wild is None or wanted:
        regexp = f"{_joined(tests)}(?:/(?P<_kept>.*))?"
    else:
        # many things cannot all be the destination: what the wildcard names is kept below it
        above = "".join(f"{test}/" for test in tests[:wild])
        regexp = f"{above}(?P<_kept>{_joined(tests[wild:])}(?:/.*)?)"
    return Expectation(
        written=written, source=re.compile(regexp, re.DOTALL), destination=destination
    )


def _template_regexp(name: str, written: str, seen: set[str]) -> str:
    """Return the test of one name in which ``{word}`` captures one or more characters."""
    pieces: list[str] = []
    position = 0
    for found in _PLACEHOLDER.finditer(name):
        pieces.append(_name_regexp(name[position : found.start()], written))
        word = found[1]
        pieces.append(f"(?P={word})" if word in seen else f"(?P<{word}>[^/]+?)")
        seen.add(word)
        position = found.end()
    pieces.append(_name_regexp(name[position:], written))
    return "".join(pieces)
