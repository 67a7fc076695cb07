"""The checks, in the order in which a report has them."""

from __future__ import annotations

from imagegate.checks import (
    base,
    files_moves,
    native_pins,
    python_content,
    python_locked,
    python_pins,
    workspace_state,
)
from imagegate.checks.evidence import Check

CHECKS: tuple[Check, ...] = (
    base.DIGEST,
    base.ANNOTATIONS,
    python_pins.CHECK,
    python_content.CHECK,
    python_locked.CHECK,
    native_pins.CHECK,
    files_moves.CHECK,
    workspace_state.PRESENT,
    workspace_state.FRESH,
)

__all__ = ["CHECKS", "Check"]
