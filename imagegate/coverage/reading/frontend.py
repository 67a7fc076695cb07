"""What a Dockerfile may say to one builder and what it then means, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from imagegate.coverage.reading.dockerfile import Dockerfile, parse_dockerfile
from imagegate.coverage.reading.words import Dialect


class StageNumbers(Enum):
    """Which stages ``--target`` names by their number."""

    NONE = "none"
    UNNAMED = "those without a name"
    ALL = "all"


class Looks(Enum):
    """In which stages a reference that leads nowhere fails the build."""

    NEEDED = "those that are built"
    UP_TO_TARGET = "all up to the target"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """What a Dockerfile may say and what it then means.

    Attributes:
        dialect: which forms of ``${name…}`` exist.
        heredocs: ``<<EOF`` is a heredoc and not a word.
        blank_heredocs: ``<< EOF`` is a heredoc too.
        escape_alone: ``# escape=`` is the only directive; any other line ends them.
        mounts: RUN takes ``--mount``.
        flags: flags of COPY and ADD that exist.
        plain_defaults: ``${x-d}``, ``${x+a}`` (no colon) exist.
        dot_is_directory: a destination that ends in ``/.`` is a directory.
        arg_beats_env: an ARG after an ENV of the same name wins.
        args_inherited: ``FROM stage`` sees the ARGs of that stage.
        bare_arg_unsets: an ARG without a value takes away the one that it had.
        platform_args: the builder sets ``TARGETARCH`` and its like, where they are declared.
        fixed_escape: ``# escape=`` has no effect inside words.
        keeps_escapes: escape characters stay in heredocs.
        stage_names_fold_case: ``--from=A`` finds ``AS a``.
        from_folds_case: ``FROM A`` finds ``AS a``.
        stage_names_unique: two stages of one name are an error.
        scratch_is_reserved: ``--from=scratch`` is refused.
        scratch_is_no_stage: ``FROM scratch`` is the empty base, whatever a stage is called.
        numbers_are_names: ``--from=0`` means a stage without a name before one by its place.
        references_looked_at: in which stages a reference that leads nowhere fails the build.
        runs_onbuild: ONBUILD of a stage runs in ``FROM that stage``.
        skips_unneeded_stages: a stage that the target does not need is not built.
        forms_first: forms of instructions are looked at before anything is built.
        flags_first: flags of COPY and ADD too.
        octal_modes_only: ``--chmod`` takes octal numbers alone.
        flags_repeat: a flag may stand twice.
        empty_values: ``--flag=`` is a value.
        empty_workdir_fails: WORKDIR with a variable that is empty fails.
        empty_platform_fails: ``FROM --platform=$X`` with nothing in it fails.
        lenient_json: text behind a JSON array is not looked at.
        without_effect: flags that are taken and do nothing.
        target_numbers: which stages ``--target`` names by number.
        refuses_climbing_members: ADD of an archive with a member above its root fails.
        first_target_wins: of two stages with the name in ``--target`` the first is built.
        merges_links: ``--link`` makes a layer of its own; a daemon without the containerd image
            store accepts the flag and copies as without it.
    """

    dialect: Dialect
    heredocs: bool
    flags: frozenset[str]
    plain_defaults: bool
    dot_is_directory: bool
    arg_beats_env: bool
    args_inherited: bool
    mounts: bool = True
    blank_heredocs: bool = False
    escape_alone: bool = False
    bare_arg_unsets: bool = False
    platform_args: bool = True
    fixed_escape: bool = False
    keeps_escapes: bool = False
    stage_names_fold_case: bool = True
    from_folds_case: bool = False
    stage_names_unique: bool = False
    scratch_is_reserved: bool = False
    scratch_is_no_stage: bool = False
    numbers_are_names: bool = False
    references_looked_at: Looks = Looks.ALL
    runs_onbuild: bool = True
    skips_unneeded_stages: bool = True
    forms_first: bool = True
    flags_first: bool = False
    octal_modes_only: bool = False
    flags_repeat: bool = False
    empty_values: bool = True
    empty_workdir_fails: bool = False
    empty_platform_fails: bool = False
    merges_links: bool = True
    lenient_json: bool = False
    without_effect: frozenset[str] = frozenset()
    target_numbers: StageNumbers = StageNumbers.NONE
    first_target_wins: bool = False
    refuses_climbing_members: bool = False

    @property
    def modern_words(self) -> bool:
        """``${x#p}``, ``${x%s}``, ``${x/a/b}`` exist."""
        return self.dialect in {Dialect.MODERN, Dialect.BUILDAH}


_FLAGS_20 = frozenset({"from", "chown"})
_BUILDKIT_FLAGS = frozenset({"from", "chown", "chmod", "link", "parents", "exclude"})
_ADD_ONLY = frozenset({"keep-git-dir", "checksum"})

BUILDKIT_FRONTEND = Frontend(
    dialect=Dialect.MODERN,
    heredocs=True,
    flags=_BUILDKIT_FLAGS | _ADD_ONLY | {"unpack"},
    plain_defaults=True,
    dot_is_directory=True,
    arg_beats_env=True,
    args_inherited=True,
    flags_first=True,
    refuses_climbing_members=True,
    blank_heredocs=True,
)
BUILDKIT_20_FRONTEND = replace(
    BUILDKIT_FRONTEND,
    dialect=Dialect.OLD,
    heredocs=False,
    blank_heredocs=False,
    flags=_FLAGS_20 | {"chmod"},
    plain_defaults=False,
    dot_is_directory=False,
    lenient_json=True,
    refuses_climbing_members=False,
)
CLASSIC_FRONTEND = replace(
    BUILDKIT_FRONTEND,
    flags=_FLAGS_20 | _ADD_ONLY | {"link", "exclude", "unpack"},
    without_effect=frozenset({"checksum", "exclude", "link", "unpack"}),
    mounts=False,
    blank_heredocs=False,
    dot_is_directory=False,
    arg_beats_env=False,
    args_inherited=False,
    bare_arg_unsets=True,
    platform_args=False,
    from_folds_case=True,
    stage_names_unique=True,
    scratch_is_reserved=True,
    # it goes from stage to stage and ends with the target
    references_looked_at=Looks.UP_TO_TARGET,
    skips_unneeded_stages=False,
    flags_first=False,
    empty_workdir_fails=True,
    empty_platform_fails=True,
    first_target_wins=True,
)
CLASSIC_20_FRONTEND = replace(
    CLASSIC_FRONTEND,
    dialect=Dialect.OLD,
    heredocs=False,
    flags=_FLAGS_20,
    without_effect=frozenset(),
    plain_defaults=False,
    lenient_json=True,
    refuses_climbing_members=False,
)
BUILDAH_FRONTEND = replace(
    BUILDKIT_FRONTEND,
    dialect=Dialect.BUILDAH,
    flags=_BUILDKIT_FLAGS | _ADD_ONLY,
    plain_defaults=False,
    arg_beats_env=False,
    fixed_escape=True,
    escape_alone=True,
    keeps_escapes=True,
    lenient_json=True,
    refuses_climbing_members=False,
    stage_names_fold_case=False,
    scratch_is_no_stage=True,
    numbers_are_names=True,
    references_looked_at=Looks.NEEDED,
    runs_onbuild=False,
    forms_first=False,
    flags_first=False,
    octal_modes_only=True,
    flags_repeat=True,
    empty_values=False,
    target_numbers=StageNumbers.ALL,
)
BUILDAH_128_FRONTEND = replace(
    BUILDAH_FRONTEND,
    dialect=Dialect.BUILDAH_OLD,
    heredocs=False,
    blank_heredocs=False,
    flags=_FLAGS_20 | {"chmod"},
    dot_is_directory=False,
    args_inherited=False,
    target_numbers=StageNumbers.UNNAMED,
    first_target_wins=True,
)


def reads(frontend: Frontend, content: bytes, path: str) -> Dockerfile:
    """Parse a Dockerfile as a builder's version reads it.

    Raises:
        CoverageError: a line cannot be read.
    """
    return parse_dockerfile(
        content,
        path,
        blank_heredocs=frontend.blank_heredocs,
        escape_alone=frontend.escape_alone,
    )


def docker_frontend(major: int, *, containerd: bool) -> Frontend:
    """Return the frontend that Docker 23 to 28 brings along (BuildKit 0.10 to 0.25).

    Args:
        major: of the daemon.
        containerd: it keeps images in containerd's store, which can merge layers (``--link``).
    """
    missing = {"parents"}
    if major < 28:
        missing |= {"exclude", "unpack"}
    if major < 25:
        missing |= {"checksum"}
    return replace(
        BUILDKIT_FRONTEND,
        flags=BUILDKIT_FRONTEND.flags - missing,
        dialect=Dialect.MODERN if major >= 26 else Dialect.OLD,
        blank_heredocs=False,
        merges_links=containerd,
    )
