"""What a command is given, with everything that a test does not care about filled in."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING

from imagegate.sources import Connection
from imagegate.usecases.invocation import Invocation
from imagegate.usecases.ports import Silent

if TYPE_CHECKING:
    from imagegate.sources.registry import Clock
    from imagegate.usecases.ports import Reporter
    from imagegate.workspace import Workspace

TODAY = date(2026, 11, 29)


def calling(
    workspace: Workspace,
    *,
    now: datetime | None = None,
    today: date = TODAY,
    cache: Path | None = None,
    reporter: Reporter | None = None,
    clock: Clock | None = None,
    insecure: bool = False,
    threads: int = 1,
) -> Invocation:
    """Call the program in a workspace."""
    return Invocation(
        workspace=workspace,
        now=now or datetime.combine(today, time(12), UTC),
        cache=cache or workspace.root.parent / "cache",
        reporter=reporter or Silent(),
        connection=Connection(clock=clock, insecure=insecure),
        threads=threads,
    )
