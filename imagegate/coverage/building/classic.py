"""The classic builder in its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.coverage.building import copy_classic
from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.placing import BuildFailureError, Source, make_directories
from imagegate.coverage.tree import clone, lookup

if TYPE_CHECKING:
    from imagegate.coverage.building.builder import Opening
    from imagegate.coverage.building.placing import Job
    from imagegate.coverage.tree import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Classic(Builder):
    """moby's ``builder/dockerfile``: the CLI sends a tar archive, the daemon copies from it."""

    def open(self, request: Opening) -> Source:
        """Return what the CLI sends, without the files that the daemon takes away again.

        The CLI always sends the Dockerfile and the ignore file; the daemon drops them where they
        are ignored. What stays of an excluded one is the directories above it.
        """
        whole = request.filtered.context.root
        sent = request.rules.send(whole)
        ignored = [
            path
            for path in (".dockerignore", request.dockerfile_path)
            if request.main
            and path
            and request.filtered.ignore.lines
            and lookup(whole, path) is not None
            and not request.rules.decide(path, whole).kept
        ]
        sent = clone(sent) if ignored else sent
        for path in ignored:
            make_directories(sent, path.rpartition("/")[0])
        return Source(root=sent, context=request.filtered.context)

    def copy(self, job: Job, image: Node) -> None:
        """Do a COPY or ADD as ``builder/dockerfile/copy.go`` does."""
        copy_classic.copy(job, image)

    @property
    def empty_is_directory(self) -> bool:
        """A destination of ``.`` gets no slash here; it is looked at when it is copied to."""
        return False

    def check_destination(self, written: str) -> None:
        """Refuse an absolute destination that climbs above the root."""
        if copy_classic.escapes(written):
            raise BuildFailureError(f"`{written}` leads out of the image's root")
