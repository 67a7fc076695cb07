"""Extended attributes and ACLs: every spelling is read, and what speaks to storage is refused.

Spellings: star and Go ``SCHILY.xattr.``; libarchive ``LIBARCHIVE.xattr.`` (archive_write_set_
format_pax.c: name percent-encoded, value in base64); GNU tar ``RHT.security.selinux``;
``SCHILY.acl.*``. Names: Linux, Documentation/filesystems/overlayfs.rst; fuse-overlayfs, main.c.
"""

from __future__ import annotations

import pytest

from imagegate.errors import ImageError
from imagegate.oci.tar import scan_tar
from tests.rawtar import END, entry, pax

STORAGE = [
    b"trusted.overlay.opaque",
    b"trusted.overlay.redirect",
    b"trusted.overlay.metacopy",
    b"user.overlay.opaque",
    b"trusted.overlay.overlay.opaque",
    b"user.fuseoverlayfs.opaque",
    b"security.fuseoverlayfs.override_stat",
    b"user.containers.override_stat",
    b"Trusted.Overlay.redirect",
]


def attributes(*records: tuple[bytes, bytes]) -> tuple[tuple[str, bytes], ...]:
    content = pax(*records) + entry(b"d/", flag=b"5") + END
    return next(iter(scan_tar([content]))).xattrs


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("value", [b"y", b"", b"/opt/evil"])
def test_what_speaks_to_a_storage_driver_is_broken_input(name: bytes, value: bytes) -> None:
    with pytest.raises(ImageError, match="tells a storage driver"):
        attributes((b"SCHILY.xattr." + name, value))


@pytest.mark.parametrize("name", STORAGE)
def test_so_it_is_in_libarchives_spelling(name: bytes) -> None:
    spelled = name.replace(b".o", b"%2E%6F").replace(b"y", b"%79")
    with pytest.raises(ImageError, match="tells a storage driver"):
        attributes((b"LIBARCHIVE.xattr." + spelled, b"eQ"))


def test_every_other_attribute_is_kept_by_its_own_name() -> None:
    assert attributes(
        (b"SCHILY.xattr.user.note", b"x=y"),
        (b"LIBARCHIVE.xattr.user.a%20b", b"AAEC/w"),
        (b"RHT.security.selinux", b"system_u:object_r:bin_t:s0"),
        (b"SCHILY.acl.access", b"user::rwx"),
        (b"SCHILY.xattr.system.posix_acl_default", b"\x02\0\0\0"),
    ) == (
        ("SCHILY.acl.access", b"user::rwx"),
        ("security.selinux", b"system_u:object_r:bin_t:s0"),
        ("system.posix_acl_default", b"\x02\0\0\0"),
        ("user.a b", b"\x00\x01\x02\xff"),
        ("user.note", b"x=y"),
    )


def test_both_spellings_may_stand_side_by_side_as_libarchive_writes_them() -> None:
    records = ((b"LIBARCHIVE.xattr.user.a", b"AQ=="), (b"SCHILY.xattr.user.a", b"\x01"))
    assert attributes(*records) == (("user.a", b"\x01"),)


def test_two_spellings_that_disagree_are_refused() -> None:
    records = ((b"LIBARCHIVE.xattr.user.a", b"AQ=="), (b"SCHILY.xattr.user.a", b"\x02"))
    with pytest.raises(ImageError, match="two spellings"):
        attributes(*records)


@pytest.mark.parametrize("name", [b"LIBARCHIVE.xattr.user.a", b"SCHILY.acl.access"])
def test_a_global_header_may_set_none(name: bytes) -> None:
    content = pax((name, b"AQ=="), flag=b"g") + entry(b"f") + END
    with pytest.raises(ImageError, match="global pax header"):
        list(scan_tar([content]))
