"""Placing a wheel's files where the image's Python finds them (binary distribution format)."""

from __future__ import annotations

import base64
import io
import posixpath
import zipfile
from hashlib import sha256
from os import PathLike, fspath
from typing import TYPE_CHECKING, BinaryIO, Protocol

from installer import install
from installer.destinations import WheelDestination
from installer.exceptions import InstallerError
from installer.records import Hash, RecordEntry
from installer.scripts import Script
from installer.sources import WheelFile
from installer.utils import construct_record_file, fix_shebang

from imagegate.errors import FetchError
from imagegate.oci.blob import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from installer.scripts import ScriptSection
    from installer.utils import Scheme

    from imagegate.recipe import PythonSection

INSTALLER = b"imagegate\n"


class Receiver(Protocol):
    """Takes the files of installed wheels in order."""

    def receive(self, path: str, mode: int, stream: BinaryIO, /) -> tuple[str, int]:
        """Take one file.

        Args:
            path: where it goes, without leading slash.
            mode: its permission bits.
            stream: its bytes.

        Returns:
            Hex SHA-256 and number of bytes.
        """


def digest_stream(stream: BinaryIO, write: Writer | None = None) -> tuple[str, int]:
    """Read a stream to its end; returns hex SHA-256 and number of bytes."""
    hasher = sha256()
    size = 0
    while chunk := stream.read(CHUNK):
        hasher.update(chunk)
        size += len(chunk)
        if write is not None:
            write(chunk)
    return hasher.hexdigest(), size


class Writer(Protocol):
    """Takes bytes."""

    def __call__(self, chunk: bytes, /) -> object:
        """Take the next bytes."""


def install_wheel(wheel: Path, python: PythonSection, name: str, receiver: Receiver) -> None:
    """Give a wheel's files to a receiver, with launchers and a RECORD of the installed paths.

    Args:
        wheel: the wheel file.
        python: the interpreter that it is installed for.
        name: the distribution's name, for the headers' folder.
        receiver: takes every file.

    Raises:
        FetchError: the file is not a valid wheel.
    """
    try:
        with WheelFile.open(wheel) as source:
            install(
                source=source,
                destination=_Destination(python, name, receiver),
                additional_metadata={"INSTALLER": INSTALLER},
            )
    except (InstallerError, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise FetchError(f"`{wheel.name}` is not a valid wheel: {error}") from error


class _Destination(WheelDestination):
    """Hands the files of a wheel to a receiver instead of writing them."""

    def __init__(self, python: PythonSection, name: str, receiver: Receiver) -> None:
        self._python = python
        self._receiver = receiver
        prefix = posixpath.dirname(python.scripts)
        self._site = python.site.lstrip("/")
        self._roots: dict[str, str] = {
            "purelib": self._site,
            "platlib": self._site,
            "scripts": python.scripts.lstrip("/"),
            "data": prefix.lstrip("/"),
            "headers": f"{prefix}/include/python{python.version}/{name}".lstrip("/"),
        }

    def write_script(
        self, name: str, module: str, attr: str, section: ScriptSection
    ) -> RecordEntry:
        """Write the launcher of an entry point (entry points specification)."""
        script = Script(name, module, attr, section)
        script_name, content = script.generate(self._python.interpreter, kind="posix")
        return self._give("scripts", script_name, io.BytesIO(content), executable=True)

    def write_file(
        self, scheme: Scheme, path: str | PathLike[str], stream: BinaryIO, is_executable: bool
    ) -> RecordEntry:
        """Write one file of the wheel."""
        path = fspath(path)
        if scheme != "scripts":
            return self._give(scheme, path, stream, executable=is_executable)
        with fix_shebang(stream, self._python.interpreter) as fixed:
            return self._give(scheme, path, fixed, executable=is_executable)

    def finalize_installation(
        self,
        scheme: Scheme,
        record_file_path: str,
        records: Iterable[tuple[Scheme, RecordEntry]],
    ) -> None:
        """Write RECORD with the installed paths, in order (PEP 376, PEP 627)."""

        def prefix_for_scheme(file_scheme: str) -> str | None:
            if self._roots[file_scheme] == self._roots[scheme]:
                return None
            return posixpath.relpath(self._roots[file_scheme], self._roots[scheme]) + "/"

        ordered = sorted(records, key=lambda item: (item[0], item[1].path))
        with construct_record_file(ordered, prefix_for_scheme) as record:
            content = record.read()
        self._give(scheme, record_file_path, io.BytesIO(content), executable=False)

    def _give(self, scheme: str, path: str, stream: BinaryIO, *, executable: bool) -> RecordEntry:
        placed = posixpath.normpath(f"{self._roots[scheme]}/{path}")
        if not placed.startswith(f"{self._roots[scheme]}/"):
            raise ValueError(f"the file `{path}` leaves its folder")
        digest, size = self._receiver.receive(placed, 0o755 if executable else 0o644, stream)
        encoded = base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()
        return RecordEntry(path, Hash("sha256", encoded), size)
