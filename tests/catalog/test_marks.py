"""What is looked for first in a path never hides a file from the pattern that wants it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from imagegate.catalog import CATALOGS, python, system
from imagegate.catalog.collect import Interest

INTERESTS = [
    interest
    for interest in (
        *(want for catalog in CATALOGS for want in catalog.wants),
        *python.CONTENTS,
        *system.OWNERSHIP_INTERESTS,
        *system.content_interests(lambda _: None),
    )
    if interest.pattern is not None
]


@pytest.mark.parametrize("interest", INTERESTS, ids=lambda one: one.name)
@given(data=st.data())
def test_each_path_that_fits_a_pattern_has_one_of_its_marks(
    interest: Interest, data: st.DataObject
) -> None:
    assert interest.pattern is not None
    path = data.draw(st.from_regex(interest.pattern, fullmatch=True))
    assert any(mark in path for mark in interest.marks)


def test_a_pattern_with_few_marks_names_them() -> None:
    # without a mark every path of an image would be matched against the pattern
    assert all("" not in interest.marks for interest in INTERESTS)
