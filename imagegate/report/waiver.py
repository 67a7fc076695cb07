"""The waiver of a finding, as TOML to paste into ``image.toml``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.verdict import Finding

# what a basic string of TOML 1.0 has to escape, and what a terminal should not see
_ESCAPED = re.compile(
    r'["\\\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]'
)


def waiver_of(finding: Finding, base: str) -> tuple[str, ...]:
    """Return the lines of the waiver that accepts a finding; none where it cannot be waived.

    Reason and last day are left for the person who accepts it: as printed, the recipe is refused.

    Args:
        finding: what would be accepted.
        base: what the verdict says that a waiver names as its base; ``""`` where none counts.
    """
    if finding.about is None or not base:
        return ()
    return (
        "[[waivers]]",
        f"check = {quoted(finding.code)}",
        f"subject = {quoted(finding.subject)}",
        f"about = {quoted(str(finding.about))}",
        'reason = ""  # why it is accepted',
        'expires = ""  # the last day, for instance 2026-12-31 without quotes',
        f"base = {quoted(base)}",
    )


def quoted(text: str) -> str:
    """Write a basic string of TOML."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in '"\\':
        return f"\\{character}"
    code = ord(character)
    # TOML has no escape for half of a surrogate pair: such a subject cannot be pasted as it is
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
