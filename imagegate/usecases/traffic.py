"""Saying what a registry sent for an image that was read out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.report.text import format_bytes

if TYPE_CHECKING:
    from imagegate.oci.image import ImageSource
    from imagegate.usecases.ports import Reporter


def tell_traffic(source: ImageSource, reporter: Reporter, *, layers: str, size: int) -> None:
    """Say what came over the wire, where the image is in a registry; nothing otherwise.

    Args:
        source: what was read.
        reporter: takes the remark.
        layers: which layers were meant to come.
        size: their compressed bytes.
    """
    # a program that reads no registry does without its modules
    from imagegate.sources.registry import RegistrySource

    if isinstance(source, RegistrySource):
        traffic = source.client.traffic
        reporter.say(
            f"the registry sent {traffic.received} bytes in {traffic.requests} answers "
            f"({format_bytes(traffic.received)}; {layers}: {format_bytes(size)})"
        )
