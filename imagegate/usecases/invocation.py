"""What every command of a workspace has in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.sources.connection import Connection
from imagegate.usecases.ports import Silent

if TYPE_CHECKING:
    from datetime import date, datetime
    from pathlib import Path

    from imagegate.oci.image import ImageSource
    from imagegate.oci.platform import Platform
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of the program: where it works, when, and with whom it speaks.

    Attributes:
        workspace: where recipes and locks are.
        now: the moment; its day is what waivers are compared with.
        cache: folder for downloads.
        reporter: where progress and remarks go.
        connection: how registries are spoken to.
        threads: how many threads compress.
    """

    workspace: Workspace
    now: datetime
    cache: Path
    reporter: Reporter = field(default_factory=Silent)
    connection: Connection = field(default_factory=Connection)
    threads: int = 1

    @property
    def today(self) -> date:
        """The day."""
        return self.now.date()

    def open(self, location: str, platform: Platform | None) -> ImageSource:
        """Open an image; a relative path is relative to the current folder."""
        from imagegate.sources import open_image

        return open_image(location, self.connection.of(platform))
