"""What an image claims costs no more than what it gives: memory, and CPU time by ratio.

The rows are those of the first report: 20 x 60 MB of RECORD in a layer of 1.2 MB took 1.4 GB, 30
sparse METADATA in a layer of 724 bytes took 297 s.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from imagegate.catalog import new_collector, secrets
from imagegate.errors import ImageError
from imagegate.oci.budget import Budget
from imagegate.oci.tar import scan_tar
from tests.images import ImageBuilder, tar, write_layout
from tests.judging import SITE
from tests.rawtar import END, header as rawheader, octal, padded, pax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_READ = """
import sys, time
from pathlib import Path
from imagegate.errors import ImageError
from imagegate.reading.stacked import read_whole
from imagegate.sources import open_image
source = open_image(sys.argv[1])
at = time.process_time()
try:
    read_whole(source, lambda count: None)
    said = "read"
except ImageError as error:
    said = error.message
# not getrusage(2), whose peak begins with that of who started the process
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
peak = int(status["VmHWM"].split()[0]) >> 10
print(peak, time.process_time() - at, said)
"""


def read(layer: bytes, folder: Path) -> tuple[int, float, str]:
    """Read an image of one layer in a process of its own: peak in MB, CPU seconds, what it said."""
    image = ImageBuilder().layer(layer).build()
    layout = write_layout(folder, image)
    done = subprocess.run(
        [sys.executable, "-c", _READ, f"oci:{layout}"], capture_output=True, text=True, check=True
    )
    peak, seconds, said = done.stdout.split(maxsplit=2)
    return int(peak), float(seconds), said


def many(names: Iterable[str], content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_twenty_large_records(tmp_path: Path) -> None:
    # the report's form: 20 x 60 MB
    line = b"a/b,sha256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,1\n"
    layer = many(
        (f"{SITE}/x{n}-1.dist-info/RECORD" for n in range(20)), line * (60_000_000 // len(line))
    )
    peak, _, said = read(layer, tmp_path / "l")
    assert "at most" in said
    assert peak < 250


def test_a_million_folders(tmp_path: Path) -> None:
    header = rawheader(b"d/", flag=b"5")
    layer = header * 400_000 + END
    peak, _, said = read(layer, tmp_path / "l")
    assert "list of paths" in said
    assert peak < 400


def sparse(name: str, size: int) -> bytes:
    """A file that is one hole (pax 0.1)."""
    records = ((b"GNU.sparse.size", b"%d" % size), (b"GNU.sparse.numblocks", b"0"))
    return pax(*records) + rawheader(name.encode(), size=octal(0, 12))


def test_sparse_metadata_in_a_layer_of_a_few_bytes(tmp_path: Path) -> None:
    layer = b"".join(sparse(f"{SITE}/x{n}.dist-info/METADATA", 60 << 20) for n in range(30)) + END
    _, seconds, said = read(layer, tmp_path / "l")
    assert "at most" in said or "holes" in said
    assert seconds < 5  # CPU seconds, where it was 297


def test_holes_alone_have_a_limit() -> None:
    with pytest.raises(ImageError, match="holes of sparse files"):
        list(scan_tar([sparse("a", 400 << 20) + sparse("b", 400 << 20) + END]))


def test_a_budget_grows_with_what_is_given() -> None:
    budget = Budget("it", fixed=10, each=2, most=100)
    budget.keep(10, "a")
    with pytest.raises(ImageError, match="at most 10 are kept"):
        budget.keep(1, "b")
    budget.give(45)
    budget.keep(89, "c")
    budget.give(1000)
    with pytest.raises(ImageError, match="at most 100"):
        budget.keep(1, "d")


# --- ten times the input takes about ten times the CPU time


def header_text(size: int) -> None:
    collect({f"{SITE}/x-1.dist-info/METADATA": b"Name: x\r\n" * (size // 9)})


def carriage_returns(size: int) -> None:
    collect({f"{SITE}/x-1.dist-info/METADATA": b"\r" * size})


def anchors(size: int) -> None:
    collect({"opt/x": b"hf_sk-proj-AKIAxoxb-" * (size // 20)})


def keys(size: int) -> None:
    collect({"opt/x": b"-----BEGIN PRIVATE KEY-----\n \n a: b\n" * (size // 37)})


def collect(files: dict[str, bytes]) -> None:
    collector = new_collector(secrets.interest(lambda _: None)).within(
        Budget("it", fixed=1 << 40, each=0, most=1 << 40)
    )
    content = b"".join(tar({name: b""})[:0] + _entry(name, text) for name, text in files.items())
    pieces = [content[at : at + 65536] for at in range(0, len(content), 65536)]
    collector.end_layer(scan_tar([*pieces, END], collector.want))


def _entry(name: str, content: bytes) -> bytes:
    return rawheader(name.encode(), size=len(content)) + padded(content)


@pytest.mark.parametrize("work", [header_text, carriage_returns, anchors, keys])
def test_ten_times_the_input_is_about_ten_times_the_time(work: Callable[[int], None]) -> None:
    assert ratio(work, 300_000) <= 12


def ratio(work: Callable[[int], None], size: int) -> float:
    """CPU time of ten times the input over that of the input; the best of three of each."""
    work(size)

    def cost(amount: int) -> float:
        best = float("inf")
        for _ in range(3):
            at = time.thread_time()
            work(amount)
            best = min(best, time.thread_time() - at)
        return best

    return cost(10 * size) / cost(size)
