from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.images import BuiltImage, ImageBuilder
from tests.registry import LoopbackRegistry
from tests.registry_source.support import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def registry() -> Iterator[LoopbackRegistry]:
    with LoopbackRegistry().running() as running:
        yield running


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def image() -> BuiltImage:
    return ImageBuilder().layer({"base": b"b" * 5000}).layer({"added": b"a"}).build()
