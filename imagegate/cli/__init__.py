"""The command line. Commands are imported when they are called, so that help answers at once."""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from imagegate import __version__
from imagegate.cli.manual import COMPLETION, INTERRUPTED, write_section
from imagegate.errors import TRACEBACK, ImagegateError, as_told
from imagegate.foreign import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

# name, module, and the one line that the list of commands shows
COMMANDS = {
    "init": ("imagegate.cli.init", "Write a workspace with one commented recipe."),
    "lock": ("imagegate.cli.lock", "Resolve what a recipe adds against its base, and lock both."),
    "base": ("imagegate.cli.base", "List, read, publish and fetch base locks."),
    "build": ("imagegate.cli.build", "Build an image from its lock and judge it."),
    "verify": ("imagegate.cli.verify", "Judge images from their bytes."),
    "promote": ("imagegate.cli.promote", "Judge an image again and publish its profile."),
    "load": ("imagegate.cli.load", "Bring an image to docker or podman without a registry."),
    "inspect": ("imagegate.cli.inspect", "Print the facts of one image."),
    "diff": ("imagegate.cli.diff", "Show how two images or locks differ."),
    "coverage": (
        "imagegate.cli.coverage",
        "Show where each model's assets end up in an image, without building it.",
    ),
    "profile": (
        "imagegate.cli.profile",
        "Show a published profile, and check that it is still right.",
    ),
    "node": ("imagegate.cli.node", "Show what a host has that a launch depends on."),
    "launch": ("imagegate.cli.launch", "Check a launch on all nodes, and show what it starts."),
    "keygen": ("imagegate.cli.keygen", "Write a key pair that signs what promote publishes."),
    "overview": (
        "imagegate.cli.overview",
        "Show all images at a glance: what is live, on which base, with which pins.",
    ),
    "admission": (
        "imagegate.cli.admission",
        "Print a policy that lets only judged images run in a cluster.",
    ),
    "drift": (
        "imagegate.cli.drift",
        "Check whether a base's tag has moved and its digest is still served.",
    ),
    "mv": ("imagegate.cli.mv", "Rename a recipe with its lock."),
    "mirror": ("imagegate.cli.mirror", "Copy a base, by digest, to your own registry."),
    "explain": ("imagegate.cli.explain", "Explain what a check asks, why, and what to do."),
}
EXIT_INTERRUPTED = 130
_EXITS = (
    ("0", "passed"),
    ("1", "judged, and rejected: findings, or a refused promotion"),
    ("2", "invalid input: an argument, a name, a recipe, a Dockerfile"),
    ("3", "could not judge: a blob, a lock or the network failed"),
    INTERRUPTED,
)


_ENVIRONMENT = ((TRACEBACK, "if set, show where an unexpected error comes from"),)


class _LazyGroup(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_section(formatter, "Exit codes", _EXITS)
        write_section(formatter, "Environment", _ENVIRONMENT)
        write_section(formatter, "Shell completion, for your shell's startup file", COMPLETION)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            message = f"{error.message} Did you mean '{near[0]}'?"
            raise click.UsageError(message, ctx) from error


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="imagegate")
def cli() -> None:
    """Build GPU serving images and publish one only when its bytes prove that no base pin moved.

    A workspace is a folder with images/ and locks/; `imagegate init` writes one. Each command's
    own help, `imagegate COMMAND --help`, shows examples, exit codes, files and environment.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return the exit code; every error ends here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a file's name need not be text; what cannot be written is written as an escape
            stream.reconfigure(errors="backslashreplace")
    try:
        result = cli.main(list(arguments), prog_name="imagegate", standalone_mode=False)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(text)
        # usage in lines of its own; the caller's words as harmless as everybody's
        for line in text.getvalue().rstrip("\n").split("\n"):
            click.echo(shown(line), err=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("imagegate: interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # whoever read standard output has gone; nothing can be said to it any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 3
    except Exception as error:  # noqa: BLE001 - exit code 1 would say that something was judged
        if os.environ.get(TRACEBACK) and not isinstance(error, ImagegateError | OSError):
            traceback.print_exc()
        told = as_told(error)
        click.echo(f"imagegate: {shown_lines(told.message)}", err=True)
        if told.hint:
            click.echo(f"hint: {shown_lines(told.hint)}", err=True)
        return told.exit_code
    return result if isinstance(result, int) else 0
