"""What several commands share: options, the workspace, progress on standard error."""

from __future__ import annotations

import getpass
import os
import signal
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from imagegate.foreign import shown, shown_lines
from imagegate.localfiles import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from imagegate.signing.keys import Signer
    from imagegate.usecases.invocation import Invocation
    from imagegate.usecases.ports import Reporter, Task
    from imagegate.usecases.transfer import Moved
    from imagegate.workspace import Workspace

# hours of a century
_LONGEST_AGE = 876_600.0
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def workspace_option(command: _Command) -> _Command:
    """Add ``--workspace``."""
    return click.option(
        "--workspace",
        "-w",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The folder with images/ and locks/; by default the current folder or the nearest one above it.",
    )(command)


def passphrase_option(command: _Command) -> _Command:
    """Add ``--passphrase-file``."""
    return click.option(
        "--passphrase-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The file whose first line is the private key's passphrase.",
    )(command)


def read_key(key: Path, passphrase_file: Path | None) -> Signer:
    """Read a private key, with its passphrase out of a file: never out of an argument."""
    from imagegate.signing.keys import read_signer

    passphrase = None
    if passphrase_file is not None:
        passphrase = read_regular(passphrase_file).partition(b"\n")[0].rstrip(b"\r")
    return read_signer(key, passphrase=passphrase)


def attested_options(command: _Command) -> _Command:
    """Add ``--attested`` and ``--max-age``."""
    attested = click.option(
        "--attested",
        "key",
        metavar="KEYFILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Accept a stored verdict signed by this public key if it is still valid; judge otherwise.",
    )
    max_age = click.option(
        "--max-age",
        metavar="HOURS",
        type=click.FloatRange(min=0, max=_LONGEST_AGE),
        callback=_number,
        default=168.0,
        show_default=True,
        help="How old a stored verdict may be.",
    )
    return attested(max_age(command))


def _number(_ctx: click.Context, _parameter: click.Parameter, value: float) -> float:
    """Refuse ``nan``, which is neither too small nor too large."""
    if value != value:  # noqa: PLR0124 - IEEE 754: a NaN differs from itself
        raise click.BadParameter("nan is not a number of hours.")
    return value


def insecure_option(command: _Command) -> _Command:
    """Add ``--insecure``."""
    return click.option(
        "--insecure",
        is_flag=True,
        help="Also allow plain HTTP to remote registries.",
    )(command)


def jobs_option(command: _Command) -> _Command:
    """Add ``--jobs``."""
    return click.option(
        "--jobs",
        "-j",
        type=click.IntRange(1, 256),
        default=os.cpu_count() or 1,
        help="How many images are judged at the same time; the number of processors by default.",
    )(command)


def complete_recipe(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a recipe's name in the shell."""
    from imagegate.errors import ImagegateError
    from imagegate.workspace import Workspace

    try:
        found = Workspace.find(ctx.params.get("workspace") or Path.cwd())
    except ImagegateError:
        return []
    return [name for name in found.recipe_names() if name.startswith(incomplete)]


def complete_check(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a check's id in the shell."""
    from imagegate.checks.image import CHECKS

    return [check.id for check in CHECKS if check.id.startswith(incomplete)]


def find_workspace(chosen: Path | None) -> Workspace:
    """Return the chosen workspace, or the one around the current folder."""
    from imagegate.workspace import Workspace

    return Workspace.find((chosen or Path.cwd()).resolve())


def workspace_if_any(chosen: Path | None) -> Workspace | None:
    """Return the workspace if there is one, for commands that can do without."""
    from imagegate.errors import UsageError

    try:
        return find_workspace(chosen)
    except UsageError:
        if chosen is not None:
            raise
        return None


def cache_folder() -> Path:
    """Return the folder for downloads."""
    from imagegate.resolver.wheels import cache_folder as chosen

    return chosen(os.environ)


def describe_moved(moved: Moved) -> str:
    """Say what went over the wire, and how many blobs came to their place in which way."""
    ways = ", ".join(
        f"{moved.count(how)} {how}"
        for how in ("present", "mounted", "uploaded")
        if moved.count(how)
    )
    return f"{moved.sent} bytes sent, {moved.received} bytes received; blobs: {ways}"


def write_summary(text: str) -> None:
    """Add Markdown to the job's summary, where GitHub Actions asks for one."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as stream:
            stream.write(text)


def tell(text: str, *, err: bool = False) -> None:
    """Write one line for people; whatever others wrote in it is harmless and seen."""
    click.echo(shown(text), err=err)


def end_on_sigterm() -> None:
    """Let a termination end the work as Ctrl-C does, so that half-made files are removed."""

    def stop(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def invocation(
    chosen: Path | None, *, insecure: bool = False, threads: int | None = None
) -> Invocation:
    """Return what this call of the program has: its workspace, its clock, its streams."""
    return invocation_in(find_workspace(chosen), insecure=insecure, threads=threads)


def invocation_in(
    workspace: Workspace, *, insecure: bool = False, threads: int | None = None
) -> Invocation:
    """Return the same for a workspace that is known, or is yet to be made."""
    from imagegate.sources.connection import Connection
    from imagegate.usecases.invocation import Invocation

    return Invocation(
        workspace=workspace,
        now=datetime.now(UTC),
        cache=cache_folder(),
        reporter=reporter(),
        connection=Connection(insecure=insecure),
        threads=threads or os.cpu_count() or 1,
    )


def person() -> str:
    """Say who publishes: the account that started the workflow, or the user of this machine."""
    if os.environ.get("GITHUB_ACTIONS") == "true" and os.environ.get("GITHUB_ACTOR"):
        return os.environ["GITHUB_ACTOR"]
    return getpass.getuser()


def reporter() -> Reporter:
    """Return progress bars on a terminal, plain lines elsewhere."""
    return _Bars() if sys.stderr.isatty() else _Lines()


class _Lines:
    """Remarks as lines; no progress."""

    def say(self, text: str, /) -> None:
        click.echo(shown_lines(text), err=True)

    @contextmanager
    def task(self, _title: str, _total: int | None) -> Iterator[Task]:
        yield _Nothing()


class Named(_Lines):
    """Remarks as lines that say which of several images they are about."""

    def __init__(self, name: str) -> None:
        self._name = name

    def say(self, text: str, /) -> None:
        """Write each line behind the name."""
        super().say("\n".join(f"{self._name}: {line}" for line in text.split("\n")))


class _Nothing:
    def advance(self, _count: int, /) -> None:
        pass


class _Bars:
    """Bytes, rate and time left on standard error."""

    def say(self, text: str, /) -> None:
        click.echo(shown_lines(text), err=True)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Task]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            identifier = progress.add_task(shown(title), total=total)
            yield _Bar(lambda count: progress.advance(identifier, count))


class _Bar:
    def __init__(self, advance: Callable[[int], object]) -> None:
        self._advance = advance

    def advance(self, count: int, /) -> None:
        self._advance(count)
