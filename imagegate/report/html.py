"""The HTML report: one file without scripts that asks nothing of any network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from imagegate.foreign import visible
from imagegate.foreign.credentials import redact
from imagegate.report.exhibit import exhibit
from imagegate.report.formats import printable
from imagegate.report.page import page_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Template
    from markupsafe import Markup

    from imagegate.checks.image.evidence import Evidence
    from imagegate.report.exhibit import Exhibit
    from imagegate.verdict import ImageVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """One image of the report."""

    verdict: ImageVerdict
    exhibit: Exhibit


def render_html(judged: Sequence[tuple[ImageVerdict, Evidence]], *, version: str) -> str:
    """Write verdicts and what they rest on; the same arguments give the same bytes.

    Args:
        judged: each verdict with its evidence.
        version: this tool's version.
    """
    sections = [
        _Section(verdict=verdict, exhibit=exhibit(evidence)) for verdict, evidence in judged
    ]
    text = _template().render(
        sections=sections, version=version, passed=all(v.passed for v, _ in judged)
    )
    return printable(text)


@cache
def _template() -> Template:
    environment = page_environment()
    environment.filters["ticked"] = _ticked
    return environment.get_template("report.html.j2")


def _ticked(text: str) -> Markup:
    """Write a message of ours with its literals, which stand in backticks, as code."""
    from markupsafe import Markup, escape

    text = visible(redact(text), "\n")
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)  # an unpaired backtick came out of an image
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )
