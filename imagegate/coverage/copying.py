"""What a recipe's own build does to its assets: the values that the gate's checks judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagegate.coverage.repair import Edit
    from imagegate.coverage.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """What becomes of a recipe's assets in a build with a Dockerfile.

    Attributes:
        dockerfile: where the Dockerfile's text comes from, for a person.
        why: how it is known which builder builds it, one clause.
        judgement: the verdict of each asset; ``None`` where no Dockerfile takes part.
        edits: lines that would cover what is not covered.
        nothing_because: why no Dockerfile takes part.
    """

    dockerfile: str = ""
    why: str = ""
    judgement: Judgement | None = None
    edits: tuple[Edit, ...] = ()
    nothing_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBuilder:
    """Which builder runs the recipe's Dockerfile.

    Attributes:
        builder: ``buildx``, ``buildkit``, ``classic`` or ``podman``.
        version: of the docker daemon or of podman.
    """

    builder: str
    version: str
