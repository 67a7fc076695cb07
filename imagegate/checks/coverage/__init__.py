"""The checks of a build's text: does every asset end up in the image?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.coverage import assets_arrive

if TYPE_CHECKING:
    from imagegate.checks.check import Check
    from imagegate.checks.coverage.covering import Covering

CHECKS: tuple[Check[Covering], ...] = (assets_arrive.CHECK,)
