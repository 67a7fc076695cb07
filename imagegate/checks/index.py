"""Every check there is, whatever it is asked of: for ``explain`` and for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from imagegate.checks.coverage import CHECKS as COVERAGE
from imagegate.checks.image import CHECKS as IMAGE
from imagegate.checks.image.probe import PROBE
from imagegate.checks.launch import CHECKS as LAUNCH
from imagegate.checks.launch.served import ANSWERS, HEALTH, HEARD, TOOLS

if TYPE_CHECKING:
    from imagegate.checks.check import Check

EVERY: tuple[Check[Any], ...] = (*IMAGE, PROBE, *COVERAGE, HEARD, *LAUNCH, HEALTH, ANSWERS, TOOLS)


def find(identifier: str) -> Check[Any] | None:
    """Return the check of this name, ``None`` where there is none."""
    return next((check for check in EVERY if check.id == identifier), None)
