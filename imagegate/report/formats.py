"""The forms that a report can be had in, by the name that ``--format`` takes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from imagegate.verdict import Verdict


# control characters, which a terminal would obey, and lone surrogates, which stand for bytes of a
# path that are no UTF-8 and cannot be written
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Format(StrEnum):
    """A form of report."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


def render(verdicts: Sequence[Verdict], form: Format, *, version: str, details: bool) -> str:
    """Write verdicts in a form; SARIF and JUnit hold all of them in one document.

    Args:
        verdicts: what to report.
        form: how.
        version: this tool's version.
        details: whether text lists every single comparison.
    """
    match form:
        case Format.TEXT:
            from imagegate.report.text import render_text

            return printable("".join(render_text(v, details=details) for v in verdicts))
        case Format.JSON:
            from imagegate.report.document import render_json

            return b"".join(render_json(verdict) for verdict in verdicts).decode()
        case Format.MARKDOWN:
            from imagegate.report.markdown import render_markdown

            return printable(render_markdown(verdicts))
        case Format.SARIF:
            from imagegate.report.sarif import render_sarif

            return render_sarif(verdicts, version=version)
        case Format.JUNIT:
            from imagegate.report.junit import render_junit

            return render_junit(verdicts)
        case Format.GITHUB:
            from imagegate.report.github import render_github

            return printable(render_github(verdicts))


def printable(text: str) -> str:
    r"""Write what no terminal and no encoding may see as ``\xNN`` or ``\uNNNN``."""
    return _UNWRITABLE.sub(
        lambda match: (
            f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else f"\\u{ord(match[0]):04x}"
        ),
        text,
    )
