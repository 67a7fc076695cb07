"""What the stages of a Dockerfile do, with every word expanded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.coverage.reading.dockerfile import Instruction


# what ADD fetches instead of taking it from the context
REMOTE = ("http://", "https://", "git://", "git@", "ssh://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The builder gives up at a line.

    Attributes:
        line: line of the Dockerfile, from 1.
        message: what is wrong.
        source: the context path that is missing, where one is.
    """

    line: int
    message: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """COPY or ADD, expanded.

    Attributes:
        line: line of the Dockerfile.
        add: it is ADD.
        sources: paths and globs as expanded.
        documents: heredocs as (file name, content).
        destination: as expanded, relative or absolute.
        workdir: the working directory at this line, absolute.
        from_: the value of ``--from``, or an empty string.
        link: ``--link``.
        parents: ``--parents``.
        excludes: values of ``--exclude``, in order.
        unpack: value of ``--unpack``, or ``None``.
        owner: value of ``--chown``, empty without.
        doubt: why the words may come out differently in a real build.
        anchor: the part of the destination that does not depend on it.
    """

    line: int
    add: bool
    sources: tuple[str, ...]
    documents: tuple[tuple[str, str], ...]
    destination: str
    workdir: str
    from_: str = ""
    link: bool = False
    parents: bool = False
    excludes: tuple[str, ...] = ()
    unpack: bool | None = None
    owner: str = ""
    doubt: str | None = None
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """RUN: a command that changes files.

    Attributes:
        text: the command as its shell gets it, heredocs included.
        words: the arguments of the JSON form, else empty.
        mounts: values of ``--mount``.
        foreign_shell: SHELL named something that is not a POSIX shell.
        environment: the variables that it uses, as far as they are known.
    """

    line: int
    text: str
    words: tuple[str, ...]
    mounts: tuple[str, ...]
    workdir: str
    foreign_shell: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workdir:
    """WORKDIR: makes a directory."""

    line: int
    path: str


Operation = Copy | Run | Workdir | Failure


@dataclass(slots=True, kw_only=True)
class Stage:
    """One stage.

    Attributes:
        index: from 0.
        name: of ``AS``, empty without.
        base: what FROM names, expanded.
        parent: index of the stage that it starts from, or ``None``.
        line: line of FROM.
        operations: in order.
        triggers: ONBUILD instructions that it leaves behind.
        doubt: why the base cannot be named.
    """

    index: int
    name: str
    base: str
    parent: int | None
    line: int
    operations: list[Operation] = field(default_factory=list)
    triggers: list[Instruction] = field(default_factory=list)
    doubt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseConfig:
    """What is known of the config of a base image that has no ONBUILD.

    Attributes:
        env: its environment; ``None`` when not known.
        workdir: its working directory; ``None`` when not known.
    """

    env: Mapping[str, str] | None = None
    workdir: str | None = None


SCRATCH = BaseConfig(env={}, workdir="/")
