"""What a builder is called with, and what that comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.sending.ignorefile import NO_IGNORE_FILE, IgnoreFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.coverage.building.builder import Builder
    from imagegate.coverage.building.carrying import Cloud
    from imagegate.coverage.reading.dockerfile import Dockerfile
    from imagegate.coverage.reading.operations import BaseConfig, Failure, Stage
    from imagegate.coverage.sending.walk import ContextFilter
    from imagegate.coverage.tree import Context, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredContext:
    """A context with the ignore file that its builder reads for it."""

    context: Context
    ignore: IgnoreFile = NO_IGNORE_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A base image of which the path index is known."""

    root: Node
    config: BaseConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What a builder is called with.

    Attributes:
        dockerfile: the parsed Dockerfile.
        dockerfile_path: its path relative to the context root, empty when outside.
        builder: who builds.
        main: the context.
        named: contexts of ``--build-context`` by name.
        foreign: named contexts that are not folders, as what they are (``the image `alpine:3` ``).
        build_args: values of ``--build-arg``.
        args_complete: the real build is given these and no others; otherwise what hangs on an
            ARG without a value is unknown.
        target: the stage of ``--target``, or ``None``.
        bases: base images that are known, by the name in FROM.
        platform: what is built for, such as ``linux/arm64``; ``None`` when that is not known.
        host: the platform of the builder's own machine.
        run_keeps: paths that the caller vouches no RUN touches.
    """

    dockerfile: Dockerfile
    dockerfile_path: str = ""
    builder: Builder
    main: FilteredContext
    named: Mapping[str, FilteredContext] = field(default_factory=dict)
    foreign: Mapping[str, str] = field(default_factory=dict)
    build_args: Mapping[str, str] = field(default_factory=dict)
    args_complete: bool = True
    target: str | None = None
    bases: Mapping[str, Base] = field(default_factory=dict)
    platform: str | None = None
    host: str | None = None
    run_keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a build comes to.

    Attributes:
        stages: every stage of the Dockerfile.
        trees: the file system of each stage that was evaluated, by index.
        target: index of the stage that becomes the image.
        clouds: what each stage may hold that its tree does not list.
        needed: indexes of the stages that a builder builds for it.
        failures: where the builder gives up, in order; with any there is no image.
        filter: the rules applied to the main context.
    """

    stages: tuple[Stage, ...]
    trees: Mapping[int, Node]
    clouds: Mapping[int, Cloud]
    target: int
    needed: frozenset[int]
    failures: tuple[Failure, ...]
    filter: ContextFilter

    @property
    def image(self) -> Node:
        """The tree of the target stage."""
        return self.trees[self.target]
