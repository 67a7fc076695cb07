"""Tests read like the promises that they hold."""

from hypothesis import settings

# a promise about time would be a promise about the machine
settings.register_profile("imagegate", deadline=None)
settings.load_profile("imagegate")
