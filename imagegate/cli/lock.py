"""``imagegate lock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from imagegate.cli.common import (
    complete_recipe,
    end_on_sigterm,
    insecure_option,
    invocation,
    workspace_option,
)
from imagegate.cli.manual import Command
from imagegate.cli.trusting import read_trusted, trust_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from imagegate.report.locking import LockReport
    from imagegate.signing.identity import Trusted
    from imagegate.usecases.invocation import Invocation

_FORMS = ("text", "json", "markdown")


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_recipe)
@click.option("--all", "everything", is_flag=True, help="Lock every recipe of the workspace.")
@click.option(
    "--base",
    metavar="REF",
    help="Where the base's bytes are: oci:FOLDER, docker-archive:FILE, registry/repository@sha256:…",
)
@click.option(
    "--name",
    "name_as",
    metavar="REPO[:TAG]",
    help="Where that base is published, if REF does not say; image.toml then names it.",
)
@trust_options
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a lock is stale.")
@click.option(
    "--verify-base",
    is_flag=True,
    help="Change nothing; read the base and exit with 1 if its lock differs.",
)
@click.option(
    "--format", "form", type=click.Choice(_FORMS), default="text", show_default=True,
    help="Report format.",
)  # fmt: skip
@insecure_option
@workspace_option
def command(
    names: tuple[str, ...],
    everything: bool,
    base: str | None,
    name_as: str | None,
    keys: tuple[Path, ...],
    identities: tuple[tuple[str, str], ...],
    trust_config: Path | None,
    check: bool,
    verify_base: bool,
    form: str,
    insecure: bool,
    workspace: Path | None,
) -> int:
    """Resolve what each NAME adds against its base, and write locks/NAME.

    The base is read where locks/bases/ holds no lock of it, and never again. What differs from the
    lock that was there is printed; files are replaced in one step. A base with another digest
    than the recipe's, named with --base, is taken over into image.toml.
    """
    from imagegate.errors import UsageError
    from imagegate.report.locking import render_locking

    end_on_sigterm()
    call = invocation(workspace, insecure=insecure)
    chosen = call.workspace.recipe_names() if everything else names
    if everything == bool(names) or not chosen:
        raise UsageError("name the recipes to lock, or give `--all`")
    if len(chosen) != 1 and (base is not None or name_as is not None):
        raise UsageError("`--base` and `--name` need exactly one recipe")
    if check and (verify_base or base is not None):
        raise UsageError("`--check` reads no base: leave `--base` and `--verify-base` out")
    trusted = read_trusted(keys, identities, trust_config)
    if verify_base and (trusted or name_as is not None):
        raise UsageError("`--verify-base` reads the base's bytes and writes nothing")

    def one(name: str) -> LockReport:
        if check:
            return _checked(call, name)
        if verify_base:
            return _verified(call, name, base)
        return _locked(call, name, base, name_as, trusted)

    reports, code = _each(chosen, one)
    click.echo(render_locking(reports, form), nl=False)
    return code


def _each(names: Sequence[str], one: Callable[[str], LockReport]) -> tuple[list[LockReport], int]:
    """Do it for each; one that cannot be locked hides no other."""
    from imagegate.errors import ImagegateError
    from imagegate.report.locking import LockReport

    reports, code = [], 0
    for name in names:
        try:
            report = one(name)
        except ImagegateError as error:
            if len(names) == 1:
                raise
            report = LockReport(
                name=name, result="failed", problem=error.message, hint=error.hint or ""
            )
            code = max(code, error.exit_code)
        if report.result in ("stale", "differs"):
            code = max(code, 1)
        reports.append(report)
    return reports, code


def _locked(
    call: Invocation,
    name: str,
    base: str | None,
    name_as: str | None,
    trusted: Sequence[Trusted],
) -> LockReport:
    from imagegate.report.locking import LockReport
    from imagegate.usecases.lock import lock_recipe

    outcome = lock_recipe(call, name, base=base, name_as=name_as, trusted=trusted)
    return LockReport(
        name=name,
        result="locked" if outcome.replaced else "unchanged",
        digest=str(outcome.lock.digest),
        base=outcome.base,
        pinned=outcome.rewritten_base or "",
        differences=outcome.differences,
    )


def _checked(call: Invocation, name: str) -> LockReport:
    from imagegate.report.locking import LockReport
    from imagegate.usecases.staleness import check_lock

    found = check_lock(call.workspace, name)
    return LockReport(
        name=name,
        result="stale" if found.problem else "fresh",
        digest=str(found.digest) if found.digest is not None else "",
        differences=found.differences,
        problem=found.problem,
        hint=found.hint,
    )


def _verified(call: Invocation, name: str, base: str | None) -> LockReport:
    from imagegate.report.locking import LockReport
    from imagegate.usecases.base_locks import verify_base

    if base is None and call.workspace.recipe(name).base is None:
        return LockReport(name=name, result="no base")
    found = verify_base(call, name, location=base)
    digest = str(call.workspace.lock(name).digest)
    if found.holds:
        return LockReport(name=name, result="holds", digest=digest, base="read")
    return LockReport(
        name=name,
        result="differs",
        digest=digest,
        base="read",
        differences=found.differences,
        problem=f"the lock of the base {found.digest} does not say what the base's bytes say: "
        f"{', '.join(found.files)} differ",
        hint="find out who changed it, then read the base: `imagegate base read REF --again`",
    )
