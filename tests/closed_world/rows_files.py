"""Files that neither lock nor recipe explain, and the honest steps that look like them."""

from __future__ import annotations

from tests.closed_world.rows import Row, on_base
from tests.images import Directory, File

ROWS = (
    Row(
        name="a new program that runs with root's rights",
        case=on_base({"usr/local/bin/x": File(b"#!/bin/sh\n", mode=0o4755)}),
        fails=("files.moves/setuid",),
        control=on_base({"usr/local/bin": Directory()}),
    ),
)
