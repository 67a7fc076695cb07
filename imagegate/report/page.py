"""What the HTML pages share: an environment in which every text is escaped, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.foreign import Foreign
from imagegate.verdict import format_bytes

if TYPE_CHECKING:
    from jinja2 import Environment


def page_environment() -> Environment:
    """Return the environment of this package's templates.

    Each value that a page prints is taken for foreign: no credential, nothing unseen, and HTML's
    own characters escaped.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("imagegate.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    environment.filters["bytes"] = format_bytes
    return environment


def _finalize(value: object) -> object:
    from markupsafe import escape

    if type(value) is str:
        value = Foreign(value)
    return value.written(escape, lines=True) if isinstance(value, Foreign) else value
