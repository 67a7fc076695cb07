"""Every measured row of `data/ignore_cases.tsv`, for every builder in it.

The table holds what real builders did with a context, an ignore file and one path in it; see its
header for the builders.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from imagegate.coverage.building.profiles import find_profile
from imagegate.coverage.sending.ignorefile import read_ignore_file
from imagegate.coverage.sending.walk import ContextFilter
from imagegate.coverage.tree import build_tree, file, lookup
from imagegate.errors import CoverageError

COLUMNS = {
    "bkhead": "buildkit",
    "bk20": "buildkit-20.10",
    "classic28": "classic",
    "classic20": "classic-20.10",
    "buildah143": "buildah",
    "buildah128": "buildah-1.28",
}
TABLE = Path(__file__).parent / "data" / "ignore_cases.tsv"


def rows() -> list[tuple[str, str, str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        table = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        (profile, json.loads(row["patterns"]), json.loads(row["path"]), row[column])
        for row in table
        for column, profile in COLUMNS.items()
    ]


def test_the_table_is_whole() -> None:
    assert len(rows()) == 319 * 6


@pytest.mark.parametrize(("profile", "patterns", "path", "measured"), rows())
def test_a_path_fares_as_it_did_in_the_real_builder(
    profile: str, patterns: str, path: str, measured: str
) -> None:
    root = build_tree({path: file(size=1), "Dockerfile": file(size=1)})
    builder = find_profile(profile)
    ignore = read_ignore_file(patterns.encode(), ".dockerignore", builder.client.reader)

    if measured == "ERROR":
        with pytest.raises(CoverageError, match=r"^\.dockerignore:\d+: "):
            ContextFilter(ignore, builder.client).send(root)
        return

    chosen = ContextFilter(ignore, builder.client)
    sent = chosen.send(root)
    node = lookup(sent, path)
    found = "dropped" if node is None else "EMPTY" if node.emptied else "kept"
    assert found == measured
    decision = chosen.decide(path, root)
    assert (decision.kept, decision.emptied) == (measured != "dropped", measured == "EMPTY")
