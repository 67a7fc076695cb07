"""The bytes as runtimes read them: attributes, hard links, descriptors of the base's layers."""

from __future__ import annotations

from imagegate.errors import ImageError
from tests.closed_world.rows import Row, on_base
from tests.images import File, HardLink
from tests.judging import SITE, Case


def attribute(keyword: str, value: str = "y") -> File:
    return File(b"x", pax=((keyword, value),))


def refused(name: str, keyword: str, value: str = "y") -> Row:
    return Row(
        name=name,
        case=on_base({"opt/x": attribute(keyword, value)}),
        refused=(ImageError, "tells a storage driver"),
    )


ROWS: tuple[Row, ...] = (
    refused("2 a redirect of overlayfs", "SCHILY.xattr.trusted.overlay.redirect", "/opt/evil"),
    refused("3 an opaque folder of overlayfs", "SCHILY.xattr.trusted.overlay.opaque"),
    refused("3 the same for rootless mounts", "SCHILY.xattr.user.overlay.opaque"),
    refused("2 in libarchive's spelling", "LIBARCHIVE.xattr.trusted%2Eoverlay.redirect", "L2V2aWw"),
    refused("2 another owner by containers/storage", "SCHILY.xattr.user.containers.override_stat"),
    Row(
        name="4 a hard link in front of what it names",
        case=Case(
            added=[
                {"tmp/y": b"other bytes"},
                [(f"{SITE}/decode.py", HardLink("tmp/y")), ("tmp/y", b"the right bytes")],
            ]
        ),
        fails=("files.moves/link-before-target",),
    ),
)
