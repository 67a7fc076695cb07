"""Local files: regular ones are read, everything else is an error at once."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from imagegate.localfiles import read_regular, read_regular_text


def test_a_regular_file_and_a_link_to_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\rc\n")
    (tmp_path / "l").symlink_to("f")
    assert read_regular(tmp_path / "l") == b"a\r\nb\rc\n"
    assert read_regular_text(tmp_path / "f") == "a\nb\nc\n"


def test_a_pipe_that_nobody_writes_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    with pytest.raises(OSError, match="it is a named pipe, not a regular file"):
        read_regular(tmp_path / "p")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
def test_a_device(device: str) -> None:
    with pytest.raises(OSError, match="it is a device"):
        read_regular(Path(device))


def test_a_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(tmp_path)  # such a name has at most 107 bytes
        listening.bind("s")
        with pytest.raises(OSError, match="it is a socket"):
            read_regular(tmp_path / "s")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        read_regular(tmp_path)


def test_what_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 11)
    assert len(read_regular(tmp_path / "f", limit=11)) == 11
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_regular(tmp_path / "f", limit=10)


def test_a_hole_as_large_as_a_disk(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(OSError, match="the limit of its kind"):
        read_regular(tmp_path / "f")
