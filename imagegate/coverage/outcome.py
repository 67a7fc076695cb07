"""What can become of an asset, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class Outcome(Enum):
    """What became of an asset; the value is the word in reports."""

    COVERED = "covered"
    NOT_IN_CONTEXT = "not in the context"
    UNTRACKED = "not tracked by git"
    LFS_POINTER = "a Git LFS pointer"
    IGNORED = "ignored"
    EMPTY = "kept but empty"
    NOT_COPIED = "no COPY reaches it"
    OTHER_STAGE = "only in a stage that is not the target"
    ELSEWHERE = "at another path"
    OVERWRITTEN = "overwritten"
    DANGLING = "a dangling link"
    BUILD_FAILS = "the build fails"
    BY_RUN = "by a RUN"
    PACKAGED = "installed as a package"
    UNKNOWN = "unknown"


class Standing(Enum):
    """What an outcome means for the caller."""

    COVERED = "covered"
    NOTED = "covered, with a note"
    """Nothing speaks against it, and the image's bytes have the last word."""
    MISSING = "missing"
    UNKNOWN = "unknown"


_NOTED = frozenset({Outcome.BY_RUN, Outcome.PACKAGED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file that has to be in the image.

    Attributes:
        model: name of the recipe, or another label that people know it by.
        path: path in the context.
        folder: the recipe's folder in the context; empty for the context's root.
        expected: absolute path in the image, or ``None`` when nobody said it.
        tracked: git tracks it; ``None`` when that is not known.
        gitignored: git is told to leave it alone.
        pointer: its content is a Git LFS pointer and not the asset.
        tail: what is kept of it below the place that the assets of its group share in the image;
            ``model/path in the folder`` when empty.
        group: what asked for it, a pattern; assets of one group are expected at one place.
        single: it was asked for as a file: repairs name its path and not its folder.
        missing: why it is not in the context, where more is known than that it is not.
    """

    model: str
    path: str
    folder: str
    expected: str | None = None
    tracked: bool | None = None
    gitignored: bool = False
    pointer: bool = False
    tail: str = ""
    group: str = ""
    single: bool = False
    missing: str = ""

    @property
    def inner(self) -> str:
        """Its path inside the recipe's folder."""
        return self.path.removeprefix(self.folder).lstrip("/")

    @property
    def kept(self) -> str:
        """What is kept of it below the place that its group shares in the image."""
        return self.tail or f"{self.model}/{self.inner}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of a file."""

    path: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetVerdict:
    """What became of one asset with one builder.

    Attributes:
        asset: the asset, its expected path filled in.
        builder: name of the profile.
        outcome: what became of it.
        reason: why, one clause.
        place: the line that decided, where one did.
        found: paths at which the image holds the asset.
        behind: for an ignored asset, what would become of it if it were sent.
        notes: what is to be known besides; with one, ``covered`` is not quite certain.
    """

    asset: Asset
    builder: str
    outcome: Outcome
    reason: str
    place: Place | None = None
    found: tuple[str, ...] = ()
    behind: AssetVerdict | None = None
    notes: tuple[str, ...] = ()

    @property
    def standing(self) -> Standing:
        """What the outcome means for the caller."""
        if self.outcome in _NOTED:
            return Standing.NOTED
        if self.outcome is Outcome.COVERED:
            return Standing.NOTED if self.notes else Standing.COVERED
        return Standing.UNKNOWN if self.outcome is Outcome.UNKNOWN else Standing.MISSING

    @property
    def covered(self) -> bool:
        """Nothing speaks against the asset being where it should be."""
        return self.passes(strict=False)

    def passes(self, *, strict: bool) -> bool:
        """Say whether the asset is good enough; `strict` takes no notes."""
        good = {Standing.COVERED} if strict else {Standing.COVERED, Standing.NOTED}
        return self.standing in good


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """One asset over all builders that were asked for.

    Attributes:
        verdicts: one per builder.
    """

    verdicts: tuple[AssetVerdict, ...]

    @property
    def asset(self) -> Asset:
        """The asset."""
        return self.verdicts[0].asset

    @property
    def covered(self) -> bool:
        """Every builder puts it where it should be."""
        return all(verdict.covered for verdict in self.verdicts)

    @property
    def builders_disagree(self) -> bool:
        """The outcome depends on the builder."""
        return len({verdict.outcome for verdict in self.verdicts}) > 1

    @property
    def certain(self) -> bool:
        """Every builder puts it where it should be, without a note."""
        return all(verdict.passes(strict=True) for verdict in self.verdicts)

    def fails_only_with(self, refused: Collection[str]) -> bool:
        """Say whether the builders of `refused` alone do not put it where it should be."""
        return all(verdict.covered or verdict.builder in refused for verdict in self.verdicts)
