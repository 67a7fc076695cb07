"""``MANIFEST.in``: what is in a source distribution, and so may be data of a package.

Source: setuptools.pypa.io, "Controlling files in the distribution": commands are done in order, on
all files of the project; ``*`` does not cross ``/``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from imagegate.coverage.packages.answer import glob_regexp


@dataclass(frozen=True, slots=True)
class Manifest:
    """The commands as tests of a path: what they match is taken in, or taken out."""

    rules: tuple[tuple[bool, re.Pattern[str]], ...] = ()

    def _last(self, path: str) -> bool | None:
        found: bool | None = None
        for includes, rule in self.rules:
            if rule.fullmatch(path):
                found = includes
        return found

    def includes(self, path: str) -> bool:
        """Tell whether the commands take `path` in."""
        return self._last(path) is True

    def excludes(self, path: str) -> bool:
        """Tell whether the commands take `path` out."""
        return self._last(path) is False


def parse_manifest(text: str | None) -> Manifest:
    """Read ``MANIFEST.in``; lines that nobody understands are warnings to setuptools, too."""
    rules: list[tuple[bool, re.Pattern[str]]] = []
    for line in re.sub(r"\\\n", " ", text or "").splitlines():
        words = line.partition("#")[0].split()
        if len(words) < 2:
            continue
        command, first, *rest = words
        patterns = [glob_regexp(word.strip("/")) for word in (first, *rest)]
        if command in {"include", "exclude"}:
            tests = patterns
        elif command in {"recursive-include", "recursive-exclude"}:
            # the patterns are of a path's last name, or of a path below the folder
            tests = [f"{patterns[0]}/(?:.*/)?{pattern}" for pattern in patterns[1:]]
        elif command in {"global-include", "global-exclude"}:
            tests = [f"(?:.*/)?{pattern}" for pattern in patterns]
        elif command in {"graft", "prune"}:
            tests = [f"{pattern}/.*" for pattern in patterns]
        else:
            continue
        includes = command in {"include", "recursive-include", "global-include", "graft"}
        rules += [(includes, re.compile(test)) for test in tests]
    return Manifest(tuple(rules))
