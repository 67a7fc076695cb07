"""The builders that are known, by name and by engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imagegate.coverage.building.buildah import Buildah
from imagegate.coverage.building.buildkit import BuildKit
from imagegate.coverage.building.classic import Classic
from imagegate.coverage.building.copy_buildah import Copier
from imagegate.coverage.reading.frontend import (
    BUILDAH_128_FRONTEND,
    BUILDAH_FRONTEND,
    BUILDKIT_20_FRONTEND,
    BUILDKIT_FRONTEND,
    CLASSIC_20_FRONTEND,
    CLASSIC_FRONTEND,
    docker_frontend,
)
from imagegate.coverage.sending.client import COPIER, FSUTIL, FSUTIL_20, TAR, TAR_20
from imagegate.errors import UsageError

if TYPE_CHECKING:
    from imagegate.coverage.building.builder import Builder

BUILDKIT = BuildKit(
    name="buildkit",
    title="BuildKit 0.25 and later",
    client=FSUTIL,
    frontend=BUILDKIT_FRONTEND,
)
BUILDKIT_20 = BuildKit(
    name="buildkit-20.10",
    title="BuildKit in Docker 20.10",
    client=FSUTIL_20,
    frontend=BUILDKIT_20_FRONTEND,
)
CLASSIC = Classic(
    name="classic",
    title="classic builder, docker CLI 23 and later",
    client=TAR,
    frontend=CLASSIC_FRONTEND,
)
CLASSIC_20 = replace(
    CLASSIC,
    name="classic-20.10",
    title="classic builder of Docker 20.10",
    client=TAR_20,
    frontend=CLASSIC_20_FRONTEND,
)
BUILDAH = Buildah(
    name="buildah",
    title="buildah 1.43",
    client=COPIER,
    frontend=BUILDAH_FRONTEND,
    copier=Copier(deep_globs=True),
)
BUILDAH_128 = replace(
    BUILDAH,
    name="buildah-1.28",
    title="buildah 1.28",
    frontend=BUILDAH_128_FRONTEND,
    copier=Copier(globs_again=True),
)

PROFILES: dict[str, Builder] = {
    builder.name: builder
    for builder in (BUILDKIT, BUILDKIT_20, CLASSIC, CLASSIC_20, BUILDAH, BUILDAH_128)
}


_STORES = {"": False, "-containerd": True}

DOCKER: dict[str, Builder] = {
    f"docker-{major}{store}": BuildKit(
        name=f"docker-{major}{store}",
        title=f"BuildKit in Docker {major}"
        + (" with containerd's image store" if containerd else " with a graph driver"),
        # the opener judges on its own since BuildKit 0.13, names have to be UTF-8 since 0.17
        client=replace(FSUTIL, opener_checks=major >= 26, utf8_names=major >= 28),
        frontend=docker_frontend(major, containerd=containerd),
    )
    for major in range(23, 29)
    for store, containerd in _STORES.items()
}
"""Docker 23 to 28 by version and image store; ``buildkit`` is what comes after them."""


def find_profile(name: str) -> Builder:
    """Return the builder called `name`.

    Raises:
        UsageError: there is none.
    """
    known = PROFILES.get(name) or DOCKER.get(name)
    if known is None:
        listed = ", ".join([*PROFILES, *DOCKER])
        raise UsageError(f"no builder `{name}`", hint=f"known builders: {listed}")
    return known


# docker 23 took BuildKit 0.10 in, podman 5 buildah 1.35
_MODERN_DOCKER = 23
_MODERN_PODMAN = 5


def profile_of_engine(builder: str, version: str) -> Builder:
    """Return what an engine builds as.

    Args:
        builder: ``buildx``, ``buildkit``, ``classic`` or ``podman``.
        version: of the docker daemon or of podman; one that cannot be read is taken for current.
    """
    major = version.partition(".")[0]
    number = int(major) if major.isdigit() else None
    if builder == "podman":
        return BUILDAH if number is None or number >= _MODERN_PODMAN else BUILDAH_128
    modern = number is None or number >= _MODERN_DOCKER
    if builder == "classic":
        return CLASSIC if modern else CLASSIC_20
    if modern:
        return BUILDKIT
    if builder == "buildx":
        # the plugin filters the context, the daemon's older frontend reads the Dockerfile
        return replace(
            BUILDKIT,
            name="buildx-20.10",
            title="buildx on Docker 20.10",
            frontend=BUILDKIT_20.frontend,
        )
    return BUILDKIT_20
