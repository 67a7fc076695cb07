"""Forms of declaring options, each as a small source tree."""

from __future__ import annotations

from textwrap import dedent

from imagegate.serving.read import read_options, wants_source
from imagegate.serving.table import Option, Program

SITE = "usr/local/lib/python3.12/dist-packages/"
SERVE = """
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.somewhere.cli_args import make_arg_parser
class ServeSubcommand:
    name = "serve"
    def subparser_init(self, subparsers):
        parser = subparsers.add_parser(self.name)
        return make_arg_parser(parser)
"""


def read(body: str, **more: str) -> Program:
    files = {
        "vllm/entrypoints/cli/serve.py": SERVE,
        "vllm/somewhere/cli_args.py": dedent(body),
        **{path.replace("__", "/") + ".py": dedent(text) for path, text in more.items()},
    }
    found = read_options({SITE + path: text.encode() for path, text in files.items()})
    program = found.program("vllm serve")
    assert program is not None
    return program


def option(program: Program, string: str) -> Option:
    found = program.option(string)
    assert found is not None, program
    return found


def test_the_parsers_module_is_found_through_the_import() -> None:
    program = read("def make_arg_parser(p):\n    p.add_argument('--a', type=int)\n    return p\n")
    assert program.status == "read"
    assert (option(program, "--a").type, option(program, "--a").module) == (
        "int",
        "vllm/somewhere/cli_args.py:2",
    )


def test_loops_conditions_and_helpers_are_followed() -> None:
    program = read("""
        import argparse
        NAMES = {"x": int, "y": float}
        def more(group, *, prefix="--"):
            for name, kind in NAMES.items():
                group.add_argument(f"{prefix}{name.replace('_', '-')}", type=kind)
        def make_arg_parser(p):
            g = p.add_argument_group("g")
            more(g)
            for flag, kind in [("--one", str), ("--two", bool)]:
                g.add_argument(flag, type=kind, deprecated=True)
            g.add_argument("--deep", action=argparse.BooleanOptionalAction)
            if platform():
                g.add_argument("--perhaps", action="store_true")
            return p
    """)
    found = {s: o.type for o in program.options for s in o.strings if s not in ("-h", "--help")}
    assert found == {"--x": "int", "--y": "float", "--one": "str", "--two": "bool",
                     "--deep": "str", "--no-deep": "str", "--perhaps": "str"}  # fmt: skip
    assert option(program, "--one").deprecated
    assert [note for note in program.notes if "under a condition" in note]
    assert (program.declared, program.interpreted) == (4, 4)


def test_what_is_not_understood_is_named_and_never_passes_silently() -> None:
    program = read("""
        import elsewhere
        def make_arg_parser(p):
            p.add_argument("--known")
            p.add_argument(elsewhere.name())
            elsewhere.extend(p)
            for one in elsewhere.all():
                p.add_argument(one.flag)
            return p
        def never(p):
            p.add_argument("--never")
    """)
    text = "\n".join(program.notes)
    assert "whose name is not in the text" in text
    assert "`elsewhere.extend(p)` may add options" in text
    assert "in a loop over `elsewhere.all()`" in text
    assert "was not reached" in text
    assert program.declared > program.interpreted


def test_a_dataclass_gives_its_options_types_and_bounds() -> None:
    program = read(
        """
        from vllm.engine.arg_utils import get_kwargs
        from vllm.config import Cache
        def make_arg_parser(p):
            k = get_kwargs(Cache)
            p.add_argument("--share", **k["share"])
            p.add_argument("--kind", **k["kind"])
            p.add_argument("--open", **k["open"])
            p.add_argument("--names", **k["names"])
            p.add_argument("--limits", **k["limits"])
            p.add_argument("--inner", **k["inner"])
            return p
        """,
        vllm__config="""
        from typing import Literal, Any
        from pydantic import Field
        from pydantic.dataclasses import dataclass
        Kind = Literal["b", "a"]
        @dataclass
        class Inner:
            mode: Kind = "a"
        @dataclass
        class Cache:
            share: float = Field(default=0.9, gt=0, le=1)
            kind: Kind | None = None
            open: Kind | str = "a"
            names: list[str] | None = None
            limits: dict[str, int] | None = None
            inner: Inner | None = None
        """,
        vllm__engine__arg_utils="""
        def get_kwargs(cls): ...
        class AsyncEngineArgs: ...
        """,
    )
    share, kind = option(program, "--share"), option(program, "--kind")
    assert (share.type, share.lower, share.upper) == ("float", ("gt", 0.0), ("le", 1.0))
    assert kind.choices == ("a", "b", "None")
    assert (option(program, "--open").choices, option(program, "--open").known) == (
        None,
        ("a", "b"),
    )
    assert (option(program, "--names").nargs, option(program, "--names").optional) == ("+", True)
    assert option(program, "--limits").type == "json"
    assert option(program, "--inner").type == "json:Inner"
    assert program.structures["Inner"].fields["mode"].choices == ("b", "a")


def test_a_vllm_without_a_known_parser_is_unread_and_says_why() -> None:
    found = read_options({SITE + "vllm/envs.py": b"environment_variables = {'VLLM_X': 1}\n"})
    program = found.program("vllm serve")
    assert program is not None
    assert (program.status, program.options) == ("unread", ())
    assert "vllm.entrypoints.cli.serve" in program.why
    assert program.environment == ("VLLM_X",)


def test_source_that_is_not_python_is_named() -> None:
    program = read("def make_arg_parser(p:\n")
    assert program.status == "unread"
    assert any("not readable as Python" in note for note in program.notes)


def test_click_options_of_a_second_decorator_are_found() -> None:
    files = {
        "ray/scripts/scripts.py": """
import click
from ray.autoscaler._private.cli_logger import add_options
@click.group()
def cli(): ...
@cli.command()
@click.option("--head", is_flag=True)
@click.option("--port", type=int, help="x")
@add_options
def start(head, port): ...
""",
        "ray/autoscaler/_private/cli_logger.py": """
import click
OPTIONS = [click.option("--style", type=click.Choice(["a", "b"])), click.option("-v", "--verbose", count=True)]
def add_options(f):
    for option in reversed(OPTIONS):
        f = option(f)
    return f
""",
    }
    program = read_options({p: t.encode() for p, t in files.items()}).program("ray start")
    assert program is not None
    found = [o.strings for o in program.options]
    assert found == [("--head",), ("--port",), ("--style",), ("-v", "--verbose"), ("--help",)]


def test_plugins_are_named() -> None:
    program = read_options(
        {
            "vllm/entrypoints/cli/serve.py": b"",
            "my_plugin-1.0.dist-info/entry_points.txt": b"[vllm.general_plugins]\nx = my:register\n",
        }
    ).program("vllm serve")
    assert program is not None
    assert program.plugins == ("my_plugin-1.0: vllm.general_plugins x = my:register",)


def test_only_sources_that_declare_are_wanted() -> None:
    assert wants_source(SITE + "vllm/engine/arg_utils.py")
    assert wants_source(SITE + "vllm/model_executor/models/registry.py")
    assert not wants_source(SITE + "vllm/model_executor/models/llama.py")
    assert not wants_source(SITE + "torch/__init__.py")
