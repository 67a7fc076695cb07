"""What the programs' own parsers said, recorded by ``record.py`` over the published wheels."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagegate.serving.table import Program, decode_options

DATA = Path(__file__).parent / "data"
PROGRAMS = ("vllm-0.29.0", "vllm-0.20.0", "vllm-0.11.0", "sglang-0.5.23", "ray-2.60.0")


@dataclass(frozen=True)
class Recorded:
    """One program: its own parser's table and answers, and our table of it."""

    name: str
    table: list[dict[str, Any]]
    lists: list[tuple[list[str], bool]]
    program: Program
    options: bytes


def recorded(name: str) -> Recorded:
    """Read what is recorded of one program."""
    truth = json.loads(gzip.decompress((DATA / f"{name}.parser.json.gz").read_bytes()))
    options = gzip.decompress((DATA / f"{name}.options.json.gz").read_bytes())
    program = decode_options(options, name).programs[0]
    return Recorded(name, truth["table"], [(a, ok) for a, ok in truth["lists"]], program, options)
