"""Reading ``requirements.in`` without letting anything pass that is not understood.

The parser used here drops what it cannot read into lists of its own; each of those lists has to
be empty.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from imagegate.errors import RecipeError
from imagegate.localfiles import read_regular

if TYPE_CHECKING:
    from pathlib import Path

# pip's requirements file format: another file that is read with this one
_NESTED = re.compile(rb"^\s*(?:-r|-c|--requirement|--constraint)(?:\s|=)*(\S+)", re.MULTILINE)


def read_requirements(path: Path, where: str) -> tuple[str, ...]:
    """Read a requirements file, nested ones included.

    Args:
        path: the file.
        where: how messages name it.

    Returns:
        One PEP 508 requirement each, normalised, in the order of the file.

    Raises:
        RecipeError: a line is not understood, is an option, or names no requirement.
    """
    from pip_requirements_parser import InstallationError, RequirementsFile

    try:
        _require_regular(path, set())
        parsed = RequirementsFile.from_file(str(path), include_nested=True)
    except (OSError, InstallationError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot read `{where}`: {error}") from error
    for invalid in parsed.invalid_lines:
        raise RecipeError(
            f"`{where}` line {invalid.line_number}: `{invalid.line.strip()}` is not a requirement: "
            f"{str(invalid.error_message).splitlines()[0] if invalid.error_message else 'not understood'}",
            hint="write one requirement a line, like `ray[default]>=2.50`",
        )
    for option in parsed.options:
        if set(option.options) - {"requirements"}:
            raise RecipeError(
                f"`{where}` line {option.line_number}: options are not read here: `{option.line.strip()}`",
                hint="indexes and certificates come from pip's own configuration",
            )
    found: list[str] = []
    for requirement in parsed.requirements:
        line = requirement.requirement_line
        if requirement.is_editable or requirement.req is None or requirement.hash_options:
            raise RecipeError(
                f"`{where}` line {line.line_number}: only names and versions are locked here: `{line.line.strip()}`",
                hint="hashes are the lock's; local and editable projects have no published wheel",
            )
        found.append(str(requirement.req))
    return tuple(found)


def _require_regular(path: Path, seen: set[Path]) -> None:
    """Require regular files; the parser would wait for a pipe and read a device for ever.

    What is not there is the parser's to tell.

    Raises:
        OSError: this file, or one that it names, is not a regular file.
    """
    if path in seen:
        return
    seen.add(path)
    for name in _NESTED.findall(read_regular(path)):
        nested = path.parent / os.fsdecode(name)
        if nested.exists():
            _require_regular(nested, seen)
