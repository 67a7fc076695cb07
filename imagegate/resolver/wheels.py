"""Fetching locked wheels through pip, and keeping them by hash."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.errors import FetchError
from imagegate.oci.blob import CHUNK
from imagegate.resolver.pipconfig import PIP
from imagegate.workspace.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from imagegate.lock import LockedWheel
    from imagegate.resolver.target import Target

# how often a running download is measured, in seconds
_INTERVAL = 0.5
# of a warning before each further attempt only the reason differs from what is said once
_RETRYING = re.compile(r"Retrying \(Retry\([^)]*\)\) after ")
_OF_NO_USE = re.compile(r"new release of pip|Running pip as the 'root' user")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return where downloads are kept (XDG base directory specification)."""
    chosen = environment.get("IMAGEGATE_CACHE")
    if chosen:
        return Path(chosen)
    home = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home, "imagegate")


class WheelCache:
    """Wheels in a folder, each under its SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "wheels"

    def find(self, wheel: LockedWheel) -> Path | None:
        """Return the cached wheel's path, if there is one; its bytes are not looked at."""
        folder = self._folder / wheel.sha256
        found = sorted(folder.glob("*.whl")) if folder.is_dir() else []
        return found[0] if found else None

    def missing(self, wheels: Sequence[LockedWheel]) -> tuple[LockedWheel, ...]:
        """Return the wheels that are not cached."""
        return tuple(wheel for wheel in wheels if self.find(wheel) is None)

    def fetch(
        self,
        wheels: Sequence[LockedWheel],
        target: Target,
        *,
        advance: Callable[[int], object],
    ) -> dict[LockedWheel, Path]:
        """Return every wheel's path, downloading those that are not cached.

        Args:
            wheels: what is needed.
            target: what the wheels were chosen for.
            advance: called with the number of bytes that came in.

        Raises:
            FetchError: pip cannot get one, or got other bytes than locked.
        """
        for wheel in wheels:
            self._drop_damaged(wheel)
        missing = self.missing(wheels)
        if missing:
            self._download(missing, target, advance)
        paths: dict[LockedWheel, Path] = {}
        for wheel in wheels:
            path = self.find(wheel)
            if path is None:
                raise FetchError(f"pip brought no wheel {wheel.label} with sha256 {wheel.sha256}")
            paths[wheel] = path
        return paths

    def _download(
        self, wheels: Sequence[LockedWheel], target: Target, advance: Callable[[int], object]
    ) -> None:
        """Run pip once for all; what it brings is put into the cache by its hash."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(self._folder) as folder:
            listing = folder / "requirements.txt"
            listing.write_text("".join(f"{wheel.requirement}\n" for wheel in wheels))
            arrived = folder / "wheels"
            arrived.mkdir()
            command = [*PIP, "download", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
            command += ["--quiet", "--no-input", "--no-cache-dir", "--progress-bar", "off"]
            command += ["--python-version", target.python_version, "--implementation", "cp"]
            for abi in (f"cp{target.python[0]}{target.python[1]}", "abi3", "none"):
                command += ["--abi", abi]
            for platform in (*target.platform_tags, "any"):
                command += ["--platform", platform]
            command += ["--dest", str(arrived), "--requirement", str(listing)]
            # pip builds what it downloads under TMPDIR, so the bytes can be counted there
            scratch = folder / "scratch"
            scratch.mkdir()
            self._run(command, (arrived, scratch), advance, {**os.environ, "TMPDIR": str(scratch)})
            for path in sorted(arrived.glob("*.whl")):
                self._adopt(path, {wheel.sha256 for wheel in wheels})

    def _run(
        self,
        command: Sequence[str],
        watched: Sequence[Path],
        advance: Callable[[int], object],
        environment: Mapping[str, str],
    ) -> None:
        said: list[str] = []
        seen = 0
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
            reader.start()
            status: int | None = None
            try:
                while status is None:
                    try:
                        status = process.wait(_INTERVAL)
                    except subprocess.TimeoutExpired:
                        status = None
                    # pip downloads into one folder, then copies into the other
                    size = max(_size(folder) for folder in watched)
                    advance(max(0, size - seen))
                    seen = max(seen, size)
            except BaseException:
                process.terminate()
                raise
            reader.join()
        if status != 0:
            causes = pip_causes(said)
            raise FetchError(
                "\n".join(["pip could not fetch the locked wheels:", *causes])
                if causes
                else f"pip could not fetch the locked wheels: it ended with code {status}",
                hint="pip's own configuration says where wheels come from: `pip config list`",
            )

    def _drop_damaged(self, wheel: LockedWheel) -> None:
        path = self.find(wheel)
        if path is not None and file_sha256(path) != wheel.sha256:
            path.unlink()

    def _adopt(self, path: Path, expected: set[str]) -> None:
        digest = file_sha256(path)
        if digest not in expected:
            raise FetchError(f"`{path.name}` has sha256 {digest}, which is not locked")
        folder = self._folder / digest
        folder.mkdir(exist_ok=True)
        path.replace(folder / path.name)


def pip_causes(said: Iterable[str]) -> list[str]:
    """Return every cause that pip names, each once, the first one first.

    An index that cannot be reached is a warning of pip's; the error behind it says only that no
    version was found.
    """
    causes = (
        _RETRYING.sub("", line).strip()
        for line in said
        if line.startswith(("ERROR", "WARNING")) and not _OF_NO_USE.search(line)
    )
    return list(dict.fromkeys(causes))


def file_sha256(path: Path) -> str:
    """Hash a file; returns the hex digest."""
    hasher = sha256()
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


def _size(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(directory, name).lstat().st_size
            except FileNotFoundError:
                continue  # pip moves files while they are counted
    return total
