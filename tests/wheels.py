"""Wheels made in memory (binary distribution format), for locks without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: dict[str, str | bytes],
    *,
    requires: tuple[str, ...] = (),
    scripts: dict[str, str] | None = None,
    tag: str = "py3-none-any",
    executable: tuple[str, ...] = (),
) -> Path:
    """Write one wheel and return its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    everything: dict[str, bytes] = {
        path: content.encode() if isinstance(content, str) else content
        for path, content in files.items()
    }
    everything[f"{info}/METADATA"] = metadata.encode()
    everything[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    )
    if scripts:
        lines = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        everything[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    record = "".join(f"{path},{record_hash(c)},{len(c)}\n" for path, c in everything.items())
    everything[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in everything.items():
            entry = zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if member in executable else 0o100644) << 16
            archive.writestr(entry, content)
    return path


def record_hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return "sha256=" + digest.decode()


def installed(
    site: str,
    name: str,
    version: str,
    files: dict[str, str | bytes],
    *,
    requires: tuple[str, ...] = (),
    direct_url: str | None = None,
    installer: str = "pip",
) -> dict[str, bytes]:
    """Return the paths of an installed distribution, as pip leaves them."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    content = {path: c.encode() if isinstance(c, str) else c for path, c in files.items()}
    content[f"{info}/METADATA"] = metadata.encode()
    content[f"{info}/INSTALLER"] = f"{installer}\n".encode()
    if direct_url is not None:
        content[f"{info}/direct_url.json"] = direct_url.encode()
    record = "".join(f"{path},{record_hash(c)},{len(c)}\n" for path, c in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return {f"{site}/{path}": c for path, c in content.items()}
