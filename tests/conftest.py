"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# a promise about time would be a promise about the machine
settings.register_profile("imagegate", deadline=None)
settings.load_profile("imagegate")
