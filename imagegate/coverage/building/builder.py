"""The one thing that all builders are: what they filter, what they read, how they copy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.building.placing import follow, make_directories
from imagegate.coverage.golang.paths import clean, inside, join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imagegate.coverage.building.build import FilteredContext
    from imagegate.coverage.building.placing import Job, Source
    from imagegate.coverage.reading.frontend import Frontend
    from imagegate.coverage.reading.operations import Copy, Run
    from imagegate.coverage.sending.client import Client
    from imagegate.coverage.sending.walk import ContextFilter
    from imagegate.coverage.tree import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder(ABC):
    """One builder in one version.

    The filter for a context runs in the client and the Dockerfile is read by the frontend in the
    daemon, so a builder names both halves, and they combine freely.

    Attributes:
        name: the word for it on the command line and in reports.
        title: the builder as a person would name it.
        client: what filters a context.
        frontend: what its Dockerfile may say.
    """

    name: str
    title: str
    client: Client
    frontend: Frontend = field(repr=False)

    def reading(self, _syntax: str | None) -> Builder:
        """Return the builder that reads a Dockerfile with the directive ``# syntax=``."""
        return self

    @abstractmethod
    def open(self, request: Opening) -> Source:
        """Return a context as COPY sees it.

        Raises:
            BuildFailureError: the client refuses to send it.
            CoverageError: a line of the ignore file does not compile.
        """

    @abstractmethod
    def copy(self, job: Job, image: Node) -> None:
        """Do a COPY or ADD on the stage's tree `image`.

        Raises:
            BuildFailureError: the build fails here.
            NotKnownError: the result depends on something unknown.
        """

    def working_directory(self, image: Node, path: str) -> None:
        """Make the directory of a WORKDIR.

        Raises:
            BuildFailureError: something else is in the way.
        """
        make_directories(image, follow(image, inside(path)))

    def removed_after(self, _run: Run) -> Sequence[str]:
        """Return the paths that the builder itself takes away behind a RUN, from its mounts."""
        return ()

    def destination(self, operation: Copy) -> tuple[str, bool]:
        """Return the absolute destination, and whether it is written as a directory.

        Raises:
            BuildFailureError: it leads out of the image.
        """
        written = operation.destination
        relative = not written.startswith("/")
        dotted = self.takes_dot(relative=relative)
        into = written.endswith("/") or (dotted and written.endswith("/."))
        if relative:
            into = into or (self.empty_is_directory and written in ("", "."))
            written = join(operation.workdir, written)
        else:
            self.check_destination(written)
            written = clean(written)
        return (written.rstrip("/") + "/" if into else written), into

    def takes_dot(self, *, relative: bool) -> bool:  # noqa: ARG002 - families differ in it
        """Say whether a destination that ends in ``/.`` is a directory."""
        return self.frontend.dot_is_directory

    @property
    def empty_is_directory(self) -> bool:
        """A destination that is ``.`` or nothing is the working directory."""
        return True

    def check_destination(self, written: str) -> None:  # noqa: B027 - most refuse none
        """Refuse an absolute destination.

        Raises:
            BuildFailureError: it leads out of the image.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A context that is to be opened.

    Attributes:
        filtered: the context.
        rules: its ignore rules.
        named: returns the paths that the Dockerfile reads from it.
        dockerfile_path: the Dockerfile in it, empty where it lies elsewhere.
        main: it is the main context.
    """

    filtered: FilteredContext
    rules: ContextFilter
    named: Callable[[], list[str]]
    dockerfile_path: str = ""
    main: bool = True
