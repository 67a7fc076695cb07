"""The members of an image archive, refused where two loaders can take them differently.

docker and podman (as ``oci-archive``) unpack an archive and read files: the last of two members
counts, and links lead on. skopeo and podman (as ``docker-archive``) look a name up in the stream:
the first counts, and what lies below a link is not found. Only what is one thing to all passes.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.errors import ImageError
from imagegate.oci.tar import Kind
from imagegate.rootfs.nodes import ancestors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from imagegate.oci.tarindex import Member

_FILES_AND_FOLDERS = (Kind.FILE, Kind.DIRECTORY)


def require_one_reading(members: Iterable[Member]) -> dict[str, Member]:
    """Return the members by path; each is a file, a folder, or a link to a file that is one.

    Raises:
        ImageError: two members have one name, or one but for case; one lies below another that is
            not a folder; a link leads to nothing, through another link, or out of the archive;
            a hard link stands in front of its file; a member is something else.
    """
    found: dict[str, Member] = {}
    cased: dict[str, str] = {}
    for member in members:
        path = member.path
        if not path:
            continue
        earlier = found.get(path)
        if earlier is not None:
            if earlier.kind is member.kind is Kind.DIRECTORY:
                continue
            raise ImageError(
                f"it has two members `{path}`: some loaders take the first, some the last"
            )
        other = cased.setdefault(path.casefold(), path)
        if other != path:
            raise ImageError(
                f"its members `{other}` and `{path}` differ in case alone: they are one file where "
                "a file system ignores case"
            )
        if member.kind is Kind.HARDLINK:
            target = found.get(member.target)
            if target is None or target.kind is not Kind.FILE:
                raise ImageError(
                    f"its member `{path}` is a hard link to `{member.target}`, which is not a file "
                    "in front of it: loaders make such links in order, or not at all"
                )
        found[path] = member
    folders = {path for path, member in found.items() if member.kind is Kind.DIRECTORY}
    for path in found:
        _require_place(path, found)
        folders.update(ancestors(path))
    for path, member in found.items():
        if member.kind is Kind.SYMLINK:
            _require_link(path, member.target, found, folders)
        elif member.kind not in (*_FILES_AND_FOLDERS, Kind.HARDLINK):
            raise ImageError(f"its member `{path}` is a {member.kind.name.lower()}")
    return found


def _require_place(path: str, found: Mapping[str, Member]) -> None:
    for parent in ancestors(path):
        above = found.get(parent)
        if above is not None and above.kind is not Kind.DIRECTORY:
            raise ImageError(
                f"its member `{path}` lies below `{parent}`, which is a "
                f"{above.kind.name.lower()}: some loaders write it where the link leads"
            )


def _require_link(
    path: str, text: str, found: Mapping[str, Member], folders: Collection[str]
) -> None:
    """Require that a link leads, over folders alone, to a file of the archive."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    at = posixpath.dirname(path)
    leads = bool(parts) and not text.startswith("/")
    for part in parts[:-1]:
        leads = leads and (part != ".." or bool(at))
        at = posixpath.dirname(at) if part == ".." else posixpath.join(at, part)
        leads = leads and (not at or at in folders)
    target = found.get(posixpath.join(at, parts[-1])) if parts else None
    if not leads or target is None or target.kind is not Kind.FILE:
        raise ImageError(
            f"its member `{path}` is a link to `{text}`, which is not a file of the archive: "
            "loaders differ on where it leads"
        )
