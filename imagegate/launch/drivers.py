"""Kernel and driver: is there a module now, and at the next boot."""

from __future__ import annotations

import re
from functools import cmp_to_key
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_IMAGE = re.compile(r"linux-image-(?:unsigned-)?(\d[\w.+~-]*)")


def compare_kernels(left: str, right: str) -> int:
    """Compare kernel releases as ``linux-version sort`` does: numbers numerically."""
    parts = [re.findall(r"\d+|[a-zA-Z]+", text) for text in (left, right)]
    for one, other in zip(*parts, strict=False):
        if one == other:
            continue
        if one.isdigit() and other.isdigit():
            return -1 if int(one) < int(other) else 1
        return -1 if one < other else 1
    return (len(parts[0]) > len(parts[1])) - (len(parts[0]) < len(parts[1]))


def next_kernel(packages: Iterable[Mapping[str, str]]) -> str | None:
    """Return the newest kernel whose image is fully installed (state ``installed``, dpkg's ``ii``)."""
    releases = [
        match[1]
        for package in packages
        if package["state"] == "installed" and (match := _IMAGE.fullmatch(package["name"]))
    ]
    return max(releases, key=cmp_to_key(compare_kernels), default=None)


def covered(
    kernel: str, modules: Mapping[str, Sequence[str]], packages: Iterable[Mapping[str, str]]
) -> str:
    """Return what brings the driver to a kernel: a file, a package, or ``""`` for nothing.

    A package counts where it names exactly this kernel and is fully installed; metapackages prove
    nothing about a kernel.
    """
    if files := modules.get(kernel):
        return files[0]
    named = re.compile(
        rf"linux-(?:modules|objects)-nvidia-\d+(?:-server)?(?:-open)?-{re.escape(kernel)}"
    )
    for package in packages:
        if package["state"] == "installed" and named.fullmatch(package["name"]):
            return package["name"]
    return ""
