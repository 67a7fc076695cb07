"""Layers to one tree: each read once, some at a time, applied in order."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog import new_collector
from imagegate.oci.budget import path_budget, text_budget
from imagegate.oci.layer import LayerReading, read_layer
from imagegate.rootfs import FileTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from imagegate.catalog.collect import Collector
    from imagegate.oci.image import ImageSource, Layer
    from imagegate.oci.layer import LayerBlob
    from imagegate.rootfs import PathIndex

# each layer that is read holds up to 40 MB between its threads
_READ_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOrder:
    """One layer that is to be read.

    Attributes:
        layer: which.
        collector: makes what keeps the wanted files of it; each layer has its own.
        blob: what its bytes must be, where that is not what the image says.
    """

    layer: Layer
    collector: Callable[[], Collector] = new_collector
    blob: LayerBlob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLayers:
    """Layers that were read and applied.

    Attributes:
        tree: what they make of what they stand on.
        collector: what was kept of the wanted files.
        compressed: bytes that were read.
    """

    tree: FileTree
    collector: Collector
    compressed: int


def read_layers(
    source: ImageSource,
    orders: Sequence[LayerOrder],
    *,
    onto: PathIndex | None = None,
    advance: Callable[[int], object],
) -> ReadLayers:
    """Read layers, some at a time, and apply them in order.

    Args:
        source: the image.
        orders: which layers, from the bottom.
        onto: what they stand on, if not on nothing.
        advance: called with the number of compressed bytes of each read.

    Raises:
        ImageError: a layer is missing, damaged or not what it must be.
    """
    lock = threading.Lock()
    texts, paths = text_budget(), path_budget()
    stopped = threading.Event()

    def counted(count: int) -> None:
        if stopped.is_set():
            raise _StoppedError
        texts.give(count)
        with lock:
            advance(count)

    def one(order: LayerOrder) -> tuple[LayerReading, Collector]:
        collector = order.collector().within(texts)
        reading = read_layer(
            source.open_layer(order.layer),
            order.blob or order.layer.blob,
            want=collector.want,
            progress=counted,
            paths=paths,
        )
        collector.end_layer(reading.entries)
        return reading, collector

    everything = new_collector()
    tree = FileTree(onto)
    compressed = 0
    workers = min(os.cpu_count() or 1, _READ_AT_ONCE)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        # the largest first, so that no thread is left alone with it at the end
        by_size = sorted(orders, key=_size_of, reverse=True)
        pending = {order.layer.number: pool.submit(one, order) for order in by_size}
        try:
            for order in orders:
                reading, collector = pending.pop(order.layer.number).result()
                tree.apply(reading.entries, order.layer.number)
                everything.absorb(collector)
                compressed += reading.compressed
        except BaseException:
            # a layer may have gigabytes to go; its next read ends it
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return ReadLayers(tree=tree, collector=everything, compressed=compressed)


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Keep the garbage collector from walking, again and again, what is read and has no cycles.

    Reading makes a few objects for each of some 100,000 paths; looking for cycles among them
    costs a fifteenth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _size_of(order: LayerOrder) -> int:
    return order.layer.descriptor.size if order.layer.descriptor is not None else 0


class _StoppedError(Exception):
    """Ends the reading of a layer that nobody waits for any more."""
