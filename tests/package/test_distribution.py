"""What is published: one version, the licence, the type marker, the same bytes each time."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import imagegate

ROOT = Path(__file__).parents[2]


def _build(outdir: Path) -> Path:
    # without isolation: the backend is the environment's own, so nothing is downloaded
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(outdir)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True, timeout=300)
    (wheel,) = outdir.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("first"))


def test_the_wheel_built_twice_is_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    again = _build(tmp_path)
    assert again.name == wheel.name
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (wheel, again)}
    assert len(digests) == 1


def test_the_wheel_carries_licence_type_marker_and_every_packaged_text(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"imagegate-{imagegate.__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"{info}/licenses/imagegate/LICENSE" in names
    assert "imagegate/py.typed" in names
    # PEP 639: the expression, and the file that has the text
    assert "License-Expression: Apache-2.0\n" in metadata
    assert "License-File: imagegate/LICENSE\n" in metadata
    tracked = subprocess.run(
        ["git", "ls-files", "imagegate"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    assert tracked
    assert set(tracked) <= names
    assert not [name for name in names if name.startswith(("tests", "images", "locks"))]


def test_version_and_changelog_agree() -> None:
    changelog = (ROOT / ".github/CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == imagegate.__version__
