"""What holds for any pattern of broken connections."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings, strategies as st

from imagegate.oci.layer import read_layer
from tests.images import ImageBuilder
from tests.registry_source.support import ManualClock, client, digest, noise, sink, source

if TYPE_CHECKING:
    from tests.registry import LoopbackRegistry

_SLOW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SLOW
@given(
    cuts=st.lists(st.integers(0, 30_000), max_size=6),
    ranges=st.booleans(),
    compression=st.sampled_from(["plain", "gzip", "zstd"]),
)
def test_a_download_that_ends_is_whole_wherever_it_was_cut(
    registry: LoopbackRegistry, cuts: list[int], ranges: bool, compression: str
) -> None:
    image = ImageBuilder(compression=compression).layer({"noise": noise(20_000)}).build()  # type: ignore[arg-type]
    found = source(client(registry, ManualClock()), registry.add("team/app", image))
    registry.lies.ranges = ranges
    # a cut that brings nothing new counts as an attempt, of which there are five
    registry.lies.cut_after = (
        cuts[:4] if not ranges else [*cuts[:4], *(cut + 1 for cut in cuts[4:])]
    )
    layer = found.image.layers[0]
    assert read_layer(found.open_layer(layer), layer.blob).compressed == len(image.layers[0])


@_SLOW
@given(
    size=st.integers(0, 5000),
    chunk=st.integers(2, 2000),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
)
def test_an_upload_that_ends_is_whole_wherever_it_was_cut(
    registry: LoopbackRegistry, size: int, chunk: int, cuts: list[int]
) -> None:
    content = noise(size, seed=size)
    registry.lies.cut_upload_after = [*cuts]
    registry.blobs.clear()
    sink(client(registry, ManualClock()), chunk=chunk).push_blob(
        digest=digest(content), size=size, open_stream=lambda: io.BytesIO(content)
    )
    assert registry.blobs["team/app"][str(digest(content))] == content
