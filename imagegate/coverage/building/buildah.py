"""buildah, which is also podman's builder, in its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.coverage.building import copy_buildah
from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.placing import Source, follow, make_directories
from imagegate.coverage.building.references import mount_options
from imagegate.coverage.golang.paths import inside
from imagegate.coverage.tree import Kind, lookup

if TYPE_CHECKING:
    from imagegate.coverage.building.builder import Opening
    from imagegate.coverage.building.copy_buildah import Copier
    from imagegate.coverage.building.placing import Job
    from imagegate.coverage.reading.operations import Run
    from imagegate.coverage.tree import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildah(Builder):
    """buildah with openshift/imagebuilder.

    Attributes:
        copier: what its sources mean.
    """

    copier: Copier

    def open(self, request: Opening) -> Source:
        """Return the whole context: the ignore lines are applied while something is copied."""
        context = request.filtered.context
        return Source(root=context.root, context=context, filter=request.rules)

    def copy(self, job: Job, image: Node) -> None:
        """Do a COPY or ADD as ``add.go`` and ``copier`` do."""
        copy_buildah.copy(job, image, self.copier)

    def working_directory(self, image: Node, path: str) -> None:
        """Make the directory; a file in its place stays, and the build goes on."""
        there = lookup(image, target := follow(image, inside(path)))
        if there is None or there.kind is Kind.DIRECTORY:
            make_directories(image, target)

    def removed_after(self, run: Run) -> list[str]:
        """Return the targets of mounts: buildah 1.28 removes them behind the step."""
        options = [mount_options(mount) for mount in run.mounts]
        return [found["target"] for found in options if "target" in found]

    def takes_dot(self, *, relative: bool) -> bool:
        """Relative destinations are made absolute with it in every version (``makeAbsolute``)."""
        return relative or self.frontend.dot_is_directory
