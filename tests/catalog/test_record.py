"""RECORD: what a distribution claims, by PEP 376's paths and PEP 427's hashes."""

from __future__ import annotations

import base64
import csv
import io
import posixpath

from hypothesis import given, strategies as st

from imagegate.catalog import new_collector
from imagegate.catalog.python import recorded_files
from imagegate.facts import Distribution
from imagegate.oci.tar import scan_tar
from imagegate.rootfs import FileTree
from tests.images import tar
from tests.judging import SITE

PARTS = st.sampled_from(["", ".", "..", "bin", "a", ".hidden", "x.py", "...", "b c", "ü"])
NAMES = st.lists(PARTS, min_size=1, max_size=6).map("/".join).filter(bool)


@given(st.lists(st.tuples(NAMES, st.binary(min_size=32, max_size=32)), min_size=1, max_size=5))
def test_a_name_is_resolved_against_the_site_and_a_hash_is_decoded(
    rows: list[tuple[str, bytes]],
) -> None:
    text = io.StringIO()
    for name, sha256 in rows:
        encoded = base64.urlsafe_b64encode(sha256).rstrip(b"=").decode()
        csv.writer(text).writerow([name, f"sha256={encoded}", "1"])
    folder = f"{SITE}/x-1.dist-info"
    collector = new_collector()
    content = tar({f"{folder}/RECORD": text.getvalue()})
    entries = list(scan_tar([content], collector.want))
    collector.end_layer(entries)
    tree = FileTree()
    tree.apply(entries, 1)
    distribution = Distribution(name="x", version="1", path=folder, site=SITE)

    assert list(recorded_files(tree, collector, distribution)) == [
        (posixpath.normpath(posixpath.join("/", SITE, name)).lstrip("/"), sha256.hex())
        for name, sha256 in rows
    ]
