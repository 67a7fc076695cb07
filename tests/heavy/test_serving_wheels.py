"""The published wheels, read again: the tables are the recorded ones, to the byte."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from imagegate.serving.read import read_options, wants_source
from tests.serving.recorded import PROGRAMS, recorded

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_published_wheel_gives_its_recorded_table(name: str, tmp_path: Path) -> None:
    project, _, version = name.rpartition("-")
    platforms = [
        f"manylinux{tag}_x86_64" for tag in ("1", "2014", "_2_28", "_2_31", "_2_34", "_2_35")
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
         "--python-version", "3.12", *(f"--platform={one}" for one in platforms), "--dest", str(tmp_path),
         f"{project}=={version}"],
        check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {one: archive.read(one) for one in archive.namelist() if wants_source(one)}
    options = read_options(files)
    assert options.encode() == recorded(name).options
