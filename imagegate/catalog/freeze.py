"""What ``pip freeze`` prints of an image, byte for byte, and when two origins are one (PEP 610)."""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from packaging.direct_url import DirectUrl, DirectUrlValidationError
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from imagegate.facts import Checkout, Distribution


def freeze(
    distributions: Iterable[Distribution],
    python: str,
    order: Sequence[str] = (),
    checkouts: Iterable[Checkout] = (),
) -> str:
    """Write what ``pip freeze`` prints, byte for byte (pip 26.3, ``operations/freeze.py``).

    Below Python 3.12 pip leaves out setuptools, wheel and distribute, always itself and parts of the standard library. Of several
    copies of a name the one whose folder is searched first counts.

    Args:
        distributions: what is installed.
        python: ``major.minor`` of the interpreter.
        order: the site directories that it searches, first searched first; all if empty.
        checkouts: the working copies in which editable installs may lie.
    """
    hidden = {"pip", "python", "wsgiref", "argparse"}
    if _minor(python) < 12:
        hidden |= {"setuptools", "wheel", "distribute"}
    places = {site: place for place, site in enumerate(order)}
    chosen: dict[str, Distribution] = {}
    for found in sorted(
        distributions, key=lambda pin: (places.get(pin.site, 0), bool(pin.linked), pin.path)
    ):
        if not order or found.site in places:
            chosen.setdefault(canonicalize_name(found.name), found)
    printed = [pin for name, pin in chosen.items() if name not in hidden]
    # pip sorts by the name as written, in lower case, not by the normalised one
    checkouts = tuple(checkouts)
    old = _is_before_hashes(chosen.get("pip"))
    return "".join(
        f"{_frozen(pin, checkouts, old=old)}\n"
        for pin in sorted(printed, key=lambda p: p.name.lower())
    )


def _is_before_hashes(pip: Distribution | None) -> bool:
    """Say whether the image's pip is older than 23.1, which began to read ``hashes``."""
    try:
        return pip is not None and Version(pip.version) < Version("23.1")
    except InvalidVersion:
        return False


def _frozen(distribution: Distribution, checkouts: Iterable[Checkout], *, old: bool) -> str:
    """Write one entry: a pin, or PEP 610's direct reference where it was installed so."""
    pin = _name_version(distribution)
    if distribution.linked.endswith(".egg-link"):
        location = f"/{posixpath.dirname(distribution.path)}"
        return "\n".join(_editable(location, distribution.name, pin, checkouts))
    direct = _direct_url(distribution.direct_url)
    if direct is None:
        return pin
    if direct.dir_info is not None and direct.dir_info.editable:
        location = posixpath.normpath(unquote(urlsplit(direct.url).path))
        return "\n".join(_editable(location, distribution.name, pin, checkouts))
    url, fragments = direct.url, []
    if direct.vcs_info is not None:
        url = f"{direct.vcs_info.vcs}+{url}@{direct.vcs_info.commit_id}"
    elif direct.archive_info is not None:
        fragments += _hash_of(direct, distribution.direct_url, old=old)
    if direct.subdirectory:
        fragments.append(f"subdirectory={direct.subdirectory}")
    return f"{distribution.name} @ {url}" + (f"#{'&'.join(fragments)}" if fragments else "")


def _hash_of(direct: DirectUrl, text: str, *, old: bool) -> list[str]:
    """Return the hash that pip writes: the first of ``hashes``, formerly ``hash`` alone."""
    assert direct.archive_info is not None
    if old:
        single = json.loads(text)["archive_info"].get("hash")
        return [str(single)] if single else []
    hashes = direct.archive_info.hashes or {}
    return ["=".join(found) for found in list(hashes.items())[:1]]


def _editable(location: str, name: str, pin: str, checkouts: Iterable[Checkout]) -> Iterator[str]:
    """Write an editable install (pip, ``_get_editable_info``; images run as root)."""
    around = {one.path.removesuffix("/.git/HEAD"): one for one in checkouts}
    inside = [root for root in around if f"{location}/".startswith(f"/{root}/")]
    root = max(inside, key=len, default="")
    here = around.get(root)
    at_root = here is not None and location == f"/{root}"
    if here is None or (not at_root and (not here.program or here.owner)):
        yield f"# Editable install with no version control ({pin})"
        yield f"-e {location}"
        return
    if not here.program:
        yield f"-e {location}"
        return
    remote = _remote(here)
    if here.owner or (remote and not here.commit):
        yield "## !! Could not determine repository location"
        yield f"-e {location}"
    elif not remote:
        yield f"# Editable Git install with no remote ({pin})"
        yield f"-e {location}"
    elif (url := _pip_url(remote, here.local)) is None:
        yield f"# Editable Git install ({pin}) with either a deleted local remote or invalid URI:"
        yield f"# '{remote}'"
        yield f"-e {location}"
    else:
        subfolder = "" if at_root else f"&subdirectory={location.removeprefix(f'/{root}/')}"
        egg = name.replace("-", "_")
        yield f"-e git+{url}@{here.commit}#egg={egg}{subfolder}"


def _remote(checkout: Checkout) -> str:
    """Return the address of ``origin``, else of the first remote."""
    remotes = [line.split(" ", 1) for line in checkout.remotes]
    origin = next((url for name, url in remotes if name == "origin"), "")
    return (origin or (remotes[0][1] if remotes else "")).split(" ")[0].strip()


def _pip_url(remote: str, local: Iterable[str]) -> str | None:
    """Turn a remote's address into what pip prints; ``None`` for one that leads to nothing."""
    if re.match(r"\w+://", remote):
        return remote
    if remote in local:
        return f"file://{quote(remote)}"
    short = re.match(r"(\w+@)?([^/:]+):(\w[^:]*)$", remote)
    return f"ssh://{short[1] or ''}{short[2]}/{short[3]}" if short else None


def _name_version(distribution: Distribution) -> str:
    try:
        return f"{distribution.name}=={Version(distribution.version)}"
    except InvalidVersion:
        return f"{distribution.name}==={distribution.version}"


def _direct_url(text: str) -> DirectUrl | None:
    """Read ``direct_url.json``; ``None`` where there is none that is valid, as pip does."""
    try:
        return DirectUrl.from_dict(json.loads(text)) if text else None
    except (ValueError, TypeError, AttributeError, RecursionError, DirectUrlValidationError):
        return None


def same_origin(one: str, other: str) -> bool:
    """Say whether two ``direct_url.json`` name one origin (PEP 610).

    A path of the machine that installed it (``file:``) says nothing of what was installed, unless
    the install is editable: hash, commit and subdirectory do.
    """
    if one == other:
        return True
    left, right = _direct_url(one), _direct_url(other)
    return left is not None and right is not None and _origin(left) == _origin(right)


def _origin(direct: DirectUrl) -> tuple[object, ...]:
    editable = direct.dir_info is not None and bool(direct.dir_info.editable)
    local = urlsplit(direct.url).scheme == "file" and not editable and direct.vcs_info is None
    hashes = direct.archive_info.hashes if direct.archive_info is not None else None
    # of a local archive without a hash the path is all that is known
    path_counts = not local or (direct.archive_info is not None and not hashes)
    return (
        direct.url if path_counts else "",
        direct.subdirectory,
        editable,
        direct.dir_info is not None,
        tuple(sorted((hashes or {}).items())),
        (direct.vcs_info.vcs, direct.vcs_info.commit_id) if direct.vcs_info else None,
    )


def _minor(python: str) -> int:
    _, _, minor = python.partition(".")
    return int(minor) if minor.isdigit() else 0
