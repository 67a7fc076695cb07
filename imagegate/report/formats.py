"""The forms that a report can be had in, by the name that ``--format`` takes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.report.several import Unjudged
    from imagegate.verdict import Verdict


# control characters, which a terminal would obey, and lone surrogates, which stand for bytes of a
# path that are not UTF-8 and cannot be written
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Format(StrEnum):
    """A form of report."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


def render(
    results: Sequence[Verdict | Unjudged], form: Format, *, version: str, details: bool
) -> str:
    """Write results in a form; every form holds all of them in one document.

    Args:
        results: what to report; what could not be judged is one too.
        form: how.
        version: this tool's version.
        details: whether text lists every single comparison, and what passed.
    """
    from imagegate.report import several

    results = [several.without_secrets(one) for one in results]
    match form:
        case Format.TEXT:
            return printable(several.several_as_text(results, details=details))
        case Format.JSON:
            return several.several_as_json(results)
        case Format.MARKDOWN:
            return printable(several.several_as_markdown(results))
        case Format.SARIF:
            return several.several_as_sarif(results, version=version)
        case Format.JUNIT:
            return several.several_as_junit(results)
        case Format.GITHUB:
            return printable(several.several_as_github(results))


def printable(text: str) -> str:
    r"""Write what no terminal and no encoding may see as ``\xNN`` or ``\uNNNN``."""
    return _UNWRITABLE.sub(
        lambda match: (
            f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else f"\\u{ord(match[0]):04x}"
        ),
        text,
    )
