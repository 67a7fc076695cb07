"""What a Dockerfile may say to one builder and what it then means, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class StageNumbers(Enum):
    """Which stages ``--target`` names by their number."""

    NONE = "none"
    UNNAMED = "those without a name"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """What a Dockerfile may say and what it then means.

    Attributes:
        heredocs: ``<<EOF`` is a heredoc and not a word.
        flags: flags of COPY and ADD that exist.
        modern_words: ``${x#p}``, ``${x%s}``, ``${x/a/b}`` exist.
        plain_defaults: ``${x-d}``, ``${x+a}`` (no colon) exist.
        dot_is_directory: a destination that ends in ``/.`` is a directory.
        arg_beats_env: an ARG after an ENV of the same name wins.
        args_inherited: ``FROM stage`` sees the ARGs of that stage.
        stage_names_fold_case: ``--from=A`` finds ``AS a``.
        stage_names_unique: two stages of one name are an error.
        runs_onbuild: ONBUILD of a stage runs in ``FROM that stage``.
        skips_unneeded_stages: a stage that the target does not need is not built.
        lenient_json: text behind a JSON array is not looked at.
        without_effect: flags that are taken and do nothing.
        target_numbers: which stages ``--target`` names by number.
        refuses_climbing_members: ADD of an archive with a member above its root fails.
        first_target_wins: of two stages with the name in ``--target`` the first is built.
        merges_links: ``--link`` makes a layer of its own; a daemon without the containerd image
            store accepts the flag and copies as without it.
    """

    heredocs: bool
    flags: frozenset[str]
    modern_words: bool
    plain_defaults: bool
    dot_is_directory: bool
    arg_beats_env: bool
    args_inherited: bool
    stage_names_fold_case: bool = True
    stage_names_unique: bool = False
    runs_onbuild: bool = True
    skips_unneeded_stages: bool = True
    merges_links: bool = True
    lenient_json: bool = False
    without_effect: frozenset[str] = frozenset()
    target_numbers: StageNumbers = StageNumbers.NONE
    first_target_wins: bool = False
    refuses_climbing_members: bool = False


_FLAGS_20 = frozenset({"from", "chown"})


_BUILDKIT_FLAGS = frozenset({"from", "chown", "chmod", "link", "parents", "exclude"})


_ADD_ONLY = frozenset({"keep-git-dir", "checksum"})


BUILDKIT_FRONTEND = Frontend(
    heredocs=True,
    flags=_BUILDKIT_FLAGS | _ADD_ONLY | {"unpack"},
    modern_words=True,
    plain_defaults=True,
    dot_is_directory=True,
    arg_beats_env=True,
    args_inherited=True,
    refuses_climbing_members=True,
)


BUILDKIT_20_FRONTEND = replace(
    BUILDKIT_FRONTEND,
    heredocs=False,
    flags=_FLAGS_20 | {"chmod"},
    modern_words=False,
    plain_defaults=False,
    dot_is_directory=False,
    lenient_json=True,
    refuses_climbing_members=False,
)


CLASSIC_FRONTEND = replace(
    BUILDKIT_FRONTEND,
    flags=_FLAGS_20 | _ADD_ONLY | {"link", "exclude", "unpack"},
    without_effect=frozenset({"checksum", "exclude", "link", "unpack"}),
    dot_is_directory=False,
    arg_beats_env=False,
    args_inherited=False,
    stage_names_unique=True,
    skips_unneeded_stages=False,
    first_target_wins=True,
)


CLASSIC_20_FRONTEND = replace(
    CLASSIC_FRONTEND,
    heredocs=False,
    flags=_FLAGS_20,
    without_effect=frozenset(),
    modern_words=False,
    plain_defaults=False,
    lenient_json=True,
    refuses_climbing_members=False,
)


BUILDAH_FRONTEND = replace(
    BUILDKIT_FRONTEND,
    flags=_BUILDKIT_FLAGS | _ADD_ONLY,
    plain_defaults=False,
    arg_beats_env=False,
    lenient_json=True,
    refuses_climbing_members=False,
    stage_names_fold_case=False,
    runs_onbuild=False,
    target_numbers=StageNumbers.ALL,
)


BUILDAH_128_FRONTEND = replace(
    BUILDAH_FRONTEND,
    heredocs=False,
    flags=_FLAGS_20 | {"chmod"},
    modern_words=False,
    dot_is_directory=False,
    args_inherited=False,
    target_numbers=StageNumbers.UNNAMED,
    first_target_wins=True,
)
