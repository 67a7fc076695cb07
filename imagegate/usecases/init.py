"""``imagegate init``: a workspace with one recipe, over a base whose bytes fill it in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import RecipeError
from imagegate.oci.platform import Platform
from imagegate.oci.reference import Reference
from imagegate.recipe import parse_recipe
from imagegate.usecases.bases import obtain_base, write_base
from imagegate.workspace.template import new_workspace, recipe_text, require_free

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.recipe import PythonSection
    from imagegate.usecases.invocation import Invocation

_ZEROS = "sha256:" + "0" * 64
_TRANSPORTS = ("oci", "oci-archive", "docker-archive", "docker-daemon", "podman")
_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A recipe that was written.

    Attributes:
        files: what was written, the base's lock besides.
        base: the base that it stands on, ``None`` where none was named.
        others: interpreters of the base that the recipe does not name.
        remark: what a person should correct, or empty.
    """

    files: tuple[Path, ...]
    base: str | None = None
    others: tuple[str, ...] = ()
    remark: str = ""


def begin(root: Path, name: str, machine: str) -> Begun:
    """Write a workspace without a base.

    Args:
        root: the folder.
        name: the recipe's name.
        machine: of this host, as ``uname -m`` has it; containers on it are Linux ones.

    Raises:
        UsageError: the name is none, or taken.
    """
    text = recipe_text(name, platform=Platform.of("linux", machine))
    return Begun(files=new_workspace(root, name, text))


def begin_over(call: Invocation, name: str, base: str, *, name_as: str | None = None) -> Begun:
    """Write a workspace whose recipe stands on a base; the base is read once, or its lock is taken.

    Args:
        call: its workspace is the folder, which need not be there yet.
        name: the recipe's name.
        base: where the base's bytes are.
        name_as: where the base is published, if `base` is not a registry's reference.

    Raises:
        UsageError: the name is none, or taken, or there is no such base.
        ImageError: the base cannot be read.
    """
    root = call.workspace.root
    require_free(root, name)
    local = _local_name(base)
    # a recipe that says nothing of the base but where it is from; its digest comes with its bytes
    draft = parse_recipe(
        name,
        f'schema = 1\nrepository = "localhost/{name}"\n[base]\nimage = "{local}@{_ZEROS}"\n',
        f"images/{name}/image.toml",
    )
    obtained = obtain_base(call, draft, location=base, name_as=name_as)
    recipe = draft.over(obtained.lock)
    python: PythonSection | None = None
    remark = ""
    try:
        python = recipe.python
    except RecipeError as error:
        remark = f"{error.message}; {error.hint}"
    assert recipe.origin is not None
    text = recipe_text(name, platform=recipe.platform, image=str(obtained.image), python=python)
    files = new_workspace(root, name, text)
    if obtained.files is not None:
        write_base(call.workspace, obtained.lock.base, obtained.files)
    if obtained.image.registry == "localhost" and not remark:
        remark = (
            f"`{base}` does not say where it is published, so the recipe calls it "
            f"`{obtained.image.name}`; write the registry's name once it is in one, or give `--base-name`"
        )
    return Begun(
        files=(*files, call.workspace.base_folder(obtained.lock.base)),
        base=str(obtained.image),
        others=recipe.origin.others if python is not None else (),
        remark=remark,
    )


def _local_name(location: str) -> Reference:
    """Make a name of this machine's for a base that has none, out of where it lies."""
    transport, colon, rest = location.partition(":")
    path = rest if colon and transport in _TRANSPORTS else location.removeprefix("docker://")
    last = path.partition("@")[0].rstrip("/").rpartition("/")[2]
    if transport in ("docker-daemon", "podman"):
        last = last.partition(":")[0]
    last = last.removesuffix(".tar")
    return Reference("localhost", _NO_NAME.sub("-", last.lower()).strip("-") or "base")
