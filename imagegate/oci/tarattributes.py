"""Extended attributes and access control lists in a tar, in every spelling that readers know.

=========================  ====================================================================
``SCHILY.xattr.NAME``      star, GNU tar and Go, whose reader the runtimes use; the value as it is
``LIBARCHIVE.xattr.NAME``  libarchive; the name percent-encoded, the value in base64
``RHT.security.selinux``   older GNU tar; the attribute ``security.selinux``
``SCHILY.acl.WHICH``       star, GNU tar and libarchive; an access control list as text
``SCHILY.fflags``          libarchive; file flags such as immutable
=========================  ====================================================================
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLAIN = "SCHILY.xattr."
_ENCODED = "LIBARCHIVE.xattr."
_SELINUX = "RHT.security.selinux"
_KEPT_AS_THEY_ARE = ("SCHILY.acl.", "SCHILY.fflags")
_PREFIXES = (_PLAIN, _ENCODED, _SELINUX, *_KEPT_AS_THEY_ARE)
# overlayfs obeys these in a layer's folder (Linux, Documentation/filesystems/overlayfs.rst), and
# fuse-overlayfs and containers/storage theirs: opaque folders, redirects, borrowed content,
# another owner and mode than the tar says
_DRIVERS = re.compile(
    r"(?:trusted|user|security)\.(?:overlay|fuseoverlayfs|aufs)\..*|user\.containers\..*",
    re.IGNORECASE | re.DOTALL,
)


class Damage(Exception):  # noqa: N818 - the name says what was found
    """What is wrong with the entry at hand; the scanner adds where it stands."""


def is_attribute(keyword: str) -> bool:
    """Say whether a pax keyword gives an attribute or an access control list."""
    return keyword.startswith(_PREFIXES)


def attributes_of(records: Mapping[str, bytes], path: str) -> tuple[tuple[str, bytes], ...]:
    """Return an entry's attributes by name, in order; what is not an xattr keeps its keyword.

    Raises:
        Damage: one speaks to the storage driver and not to the image's programs, or two spellings
            of one attribute have different values.
    """
    found: dict[str, bytes] = {}
    for name, value in _spelled_out(records):
        if _DRIVERS.fullmatch(name):
            raise Damage(
                f"`{path}` has the attribute `{name}`, which tells a storage driver to show "
                "something else in its place"
            )
        if found.setdefault(name, value) != value:
            raise Damage(f"`{path}` has the attribute `{name}` in two spellings that disagree")
    return tuple(sorted(found.items()))


def _spelled_out(records: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for keyword, value in records.items():
        if keyword.startswith(_PLAIN):
            yield keyword.removeprefix(_PLAIN), value
        elif keyword.startswith(_ENCODED):
            raw = unquote_to_bytes(
                keyword.removeprefix(_ENCODED).encode("utf-8", "surrogateescape")
            )
            yield raw.decode("utf-8", "surrogateescape"), _decoded(value)
        elif keyword == _SELINUX:
            yield "security.selinux", value
        elif keyword.startswith(_KEPT_AS_THEY_ARE):
            yield keyword, value


def _decoded(value: bytes) -> bytes:
    """Undo base64, whose padding libarchive leaves out; what is none is kept as it is."""
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return value
