"""BuildKit in its versions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.coverage.building import copy_buildkit
from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.placing import BuildFailureError, Source
from imagegate.coverage.reading.frontend import BUILDKIT_20_FRONTEND, BUILDKIT_FRONTEND
from imagegate.coverage.sending.transfer import TransferError, narrow
from imagegate.coverage.tree import walk

if TYPE_CHECKING:
    from imagegate.coverage.building.builder import Opening
    from imagegate.coverage.building.placing import Job
    from imagegate.coverage.tree import Node

_LOST = re.compile("[\ud800-\udfff]")
_SYNTAX = re.compile(r"(?:docker\.io/)?docker/dockerfile(?::(?P<tag>[\w.-]+))?(?:@.*)?")
_SINCE = {"chmod": (1, 2), "link": (1, 4), "exclude": (1, 19), "parents": (1, 20)}
_LABS = (1, 7)
_HEREDOCS = (1, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildKit(Builder):
    """BuildKit: the client sends what the Dockerfile names, the frontend can be another image."""

    def reading(self, syntax: str | None) -> Builder:
        """Return the builder with the frontend that ``# syntax=`` picks.

        A flag that a frontend does not have is a parse error with it, whatever the daemon knows.
        A frontend that is not Docker's own is taken for the builder's.
        """
        found = _SYNTAX.fullmatch(syntax or "")
        if found is None:
            return self
        version, _, channel = (found["tag"] or "1").partition("-")
        if version in {"latest", "1", "experimental", "labs"}:
            numbers: tuple[int, ...] = (1, 10_000)
        elif re.fullmatch(r"\d+(\.\d+)*", version):
            numbers = tuple(int(part) for part in version.split("."))[:2]
        else:
            return self
        labs = channel == "labs" and numbers >= _LABS
        missing = {
            flag
            for flag, since in _SINCE.items()
            if numbers < since and not (labs and flag in {"exclude", "parents"})
        }
        modern = numbers >= _HEREDOCS
        frontend = BUILDKIT_FRONTEND if modern else BUILDKIT_20_FRONTEND
        return replace(
            self,
            frontend=replace(
                frontend,
                flags=frontend.flags - missing,
                heredocs=modern,
                merges_links=self.frontend.merges_links,
            ),
        )

    def open(self, request: Opening) -> Source:
        """Return what is left of the context by both filters."""
        root = request.filtered.context.root
        try:
            sent = narrow(request.rules.send(root), root, request.named(), self.client.algorithm)
        except TransferError as refused:
            raise BuildFailureError(str(refused)) from refused
        if self.client.utf8_names:
            lost = next((path for path, _ in walk(sent) if _LOST.search(path)), None)
            if lost is not None:
                raise BuildFailureError(f"the name of `{lost!a}` is not UTF-8: it cannot be sent")
        return Source(root=sent, context=request.filtered.context)

    def copy(self, job: Job, image: Node) -> None:
        """Do a COPY or ADD as ``solver/llbsolver/file`` does."""
        copy_buildkit.copy(job, image)
