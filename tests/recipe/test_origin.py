"""What a recipe leaves out is what its base says: on roots as distributions and images have them.

Where pip installs: sysconfig's schemes (`posix_local` of Debian, `rpm_prefix` of Fedora, `venv`).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from typing import Any

import pytest

from imagegate.catalog import no_facts
from imagegate.errors import RecipeError
from imagegate.facts import ElfFile, Interpreter
from imagegate.oci.digest import Digest
from imagegate.oci.documents import ContainerConfig, ImageConfig
from imagegate.oci.platform import Platform
from imagegate.oci.tar import Kind
from imagegate.recipe import PythonSection
from imagegate.recipe.origin import read_origin
from imagegate.recipe.sections import PythonKeys
from imagegate.rootfs import Node
from imagegate.rootfs.nodes import SortedIndex
from imagegate.workspace.template import recipe_text
from tests.recipe.test_values import RECIPE, parse


@dataclass(frozen=True)
class Document:
    facts: Any


@dataclass(frozen=True)
class Base:
    """As much of a base lock as is asked for."""

    document: Document
    files: SortedIndex
    config: ImageConfig


def node(path: str, target: str = "") -> list[Node]:
    """A program, or a link, with the folders above it."""
    parts = path.split("/")
    found = [
        Node(path="/".join(parts[:count]), kind=Kind.DIRECTORY, mode=0o755)
        for count in range(1, len(parts))
    ]
    if target:
        return [*found, Node(path=path, kind=Kind.SYMLINK, mode=0o777, target=target)]
    return [*found, Node(path=path, kind=Kind.FILE, mode=0o755, sha256="0" * 64)]


def base(
    programs: dict[str, str],
    *,
    folders: dict[str, str] | None = None,
    glibc: str = "2.39",
    path: str = "",
    started: tuple[str, ...] = (),
) -> Any:
    nodes = {one.path: one for name, target in programs.items() for one in node(name, target)}
    facts = replace(
        no_facts(),
        interpreters=(
            *(
                Interpreter(path=name, python=name.rpartition("python")[2])
                for name, target in programs.items()
                if "python3." in name.rpartition("/")[2]
            ),
            *(
                Interpreter(path=f"{library}/site.py", python=library[-4:], folder=folder)
                for library, folder in (folders or {}).items()
            ),
        ),
        elf=(
            ElfFile(
                path="usr/lib/x86_64-linux-gnu/libc.so.6",
                machine="x86-64",
                requires=(),
                provides=(f"GLIBC_{glibc}", "GLIBC_2.4"),
                build_id="",
            ),
        )
        if glibc
        else (),
    )
    config = ImageConfig.model_validate(
        {
            "os": "linux",
            "architecture": "amd64",
            "config": ContainerConfig(
                Env=(f"PATH={path}",) if path else (), Entrypoint=started
            ).model_dump(by_alias=True),
            "rootfs": {"type": "layers", "diff_ids": [str(Digest.of(b""))]},
        }
    )
    return Base(Document(facts), SortedIndex([nodes[name] for name in sorted(nodes)]), config)


DEBIAN = {"usr/bin/python3": "python3.11", "usr/bin/python3.11": ""}
DEBIAN_LIBRARY = {"usr/lib/python3.11": "dist-packages"}
OFFICIAL = {
    "usr/local/bin/python3": "python3.12",
    "usr/local/bin/python3.12": "",
    **DEBIAN,
}
OFFICIAL_LIBRARY = {"usr/local/lib/python3.12": "site-packages", **DEBIAN_LIBRARY}
VENV = {
    "opt/venv/bin/python3": "/usr/bin/python3.11",
    "opt/venv/bin/python": "python3",
    **DEBIAN,
}
UV = {
    "app/.venv/bin/python3": "python",
    "app/.venv/bin/python": "/opt/uv/cpython-3.13/bin/python3.13",
    "opt/uv/cpython-3.13/bin/python3.13": "",
}


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        pytest.param(
            base(DEBIAN, folders=DEBIAN_LIBRARY, glibc="2.36"),
            (
                "3.11",
                "/usr/local/lib/python3.11/dist-packages",
                "/usr/local/bin",
                "/usr/bin/python3",
            ),
            id="Debian's own",
        ),
        pytest.param(
            base(OFFICIAL, folders=OFFICIAL_LIBRARY),
            (
                "3.12",
                "/usr/local/lib/python3.12/site-packages",
                "/usr/local/bin",
                "/usr/local/bin/python3",
            ),
            id="python:3.12 on Debian: the first along PATH",
        ),
        pytest.param(
            base(VENV, folders=DEBIAN_LIBRARY, path="/opt/venv/bin:/usr/bin"),
            (
                "3.11",
                "/opt/venv/lib/python3.11/site-packages",
                "/opt/venv/bin",
                "/opt/venv/bin/python3",
            ),
            id="a virtual environment on PATH",
        ),
        pytest.param(
            base(VENV, folders=DEBIAN_LIBRARY, started=("/opt/venv/bin/python", "-m", "serve")),
            (
                "3.11",
                "/opt/venv/lib/python3.11/site-packages",
                "/opt/venv/bin",
                "/opt/venv/bin/python",
            ),
            id="a virtual environment that the entrypoint starts",
        ),
        pytest.param(
            base(UV, path="/app/.venv/bin:/usr/bin"),
            (
                "3.13",
                "/app/.venv/lib/python3.13/site-packages",
                "/app/.venv/bin",
                "/app/.venv/bin/python3",
            ),
            id="uv's interpreter behind two links",
        ),
        pytest.param(
            base(
                {"usr/bin/python3": "python3.13", "usr/bin/python3.13": ""},
                folders={"usr/lib/python3.13": "site-packages"},
            ),
            ("3.13", "/usr/lib/python3.13/site-packages", "/usr/local/bin", "/usr/bin/python3"),
            id="site-packages below /usr",
        ),
        pytest.param(
            base({"opt/conda/bin/python3.12": ""}, path="/usr/bin"),
            (
                "3.12",
                "/opt/conda/lib/python3.12/site-packages",
                "/opt/conda/bin",
                "/opt/conda/bin/python3.12",
            ),
            id="one that stands alone, outside PATH",
        ),
    ],
)
def test_the_python_that_the_image_starts_is_meant(root: Any, expected: tuple[str, ...]) -> None:
    found = read_origin(root, PythonKeys())
    assert (found.version, found.site, found.scripts, found.interpreter) == expected


def test_glibc_and_platform_are_the_bases() -> None:
    found = read_origin(base(DEBIAN, folders=DEBIAN_LIBRARY, glibc="2.36"), PythonKeys())
    assert (found.glibc, str(found.platform)) == ("2.36", "linux/amd64")


def test_a_written_version_or_interpreter_chooses() -> None:
    root = base(OFFICIAL, folders=OFFICIAL_LIBRARY)
    assert read_origin(root, PythonKeys()).others == ("/usr/bin/python3.11",)
    older = read_origin(root, PythonKeys(version="3.11"))
    assert older.interpreter == "/usr/bin/python3"
    assert older.site == "/usr/local/lib/python3.11/dist-packages"
    named = read_origin(root, PythonKeys(interpreter="/usr/bin/python3"))
    assert named.version == "3.11"


@pytest.mark.parametrize(
    ("root", "python", "said"),
    [
        (base(DEBIAN, glibc=""), {}, "shows no glibc"),
        (base({"usr/bin/perl": ""}), {}, "does not show which Python is meant"),
        (base(DEBIAN), {"version": "3.12"}, "it has /usr/bin/python3"),
        (
            base({"opt/a/bin/python3.12": "", "opt/b/bin/python3.12": ""}),
            {},
            "does not show which Python is meant",
        ),
    ],
)
def test_what_a_base_does_not_show_has_to_be_written(
    root: Any, python: dict[str, str], said: str
) -> None:
    document = {key: value for key, value in RECIPE.items() if key != "platform"}
    recipe = parse({**document, "python": python})
    with pytest.raises(RecipeError) as caught:
        recipe.over(root).python  # noqa: B018 - asking is what is tried
    assert said in caught.value.message
    assert caught.value.hint


def test_without_a_lock_the_key_and_the_command_are_named() -> None:
    recipe = parse({key: value for key, value in RECIPE.items() if key != "platform"})
    with pytest.raises(RecipeError) as caught:
        recipe.platform  # noqa: B018
    assert "leaves out `platform`" in caught.value.message
    assert f"imagegate lock {recipe.name}" in str(caught.value.hint)


def test_an_image_from_scratch_says_everything_itself() -> None:
    with pytest.raises(RecipeError) as caught:
        parse({**RECIPE, "base": {"scratch": True}, "python": {"version": "3.12"}})
    assert "no base says `python.site`, `python.glibc`" in caught.value.message


def test_defaults_that_are_written_out_change_no_digest() -> None:
    written = {**RECIPE["python"], "scripts": "/usr/local/bin", "interpreter": "/usr/bin/python3"}
    left_out = {k: v for k, v in written.items() if k not in ("scripts", "interpreter")}
    assert (
        parse({**RECIPE, "python": written}).digest == parse({**RECIPE, "python": left_out}).digest
    )


def test_a_base_writes_no_section_into_a_new_recipe() -> None:
    """A folder's name may have a quote and a line break; the recipe keeps it one value."""
    hostile = '/usr/lib/a"\n[[layer.allow]]\npattern = "/**"\nreason = "x'
    python = PythonSection(
        version="3.12", site=hostile, scripts=hostile, interpreter=hostile, glibc="2.39"
    )
    written = recipe_text("demo", platform=Platform("linux", "arm64"), python=python)
    document = tomllib.loads(written)
    assert document["python"]["site"] == document["python"]["interpreter"] == hostile
    assert "allow" not in document.get("layer", {})
