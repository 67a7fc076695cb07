"""Recipe and lock to a Dockerfile and an ignore file; text in, text out."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.errors import RecipeError
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from imagegate.lock import Lock
    from imagegate.recipe import Recipe

# the folder of the context that holds the wheels, and pip's list of them
WHEELHOUSE = "imagegate-wheelhouse"
REQUIREMENTS = "requirements.txt"
# where things are mounted by custom (FHS 3.0); one that the base has leaves no trace, and it has
# to be empty there, or the mount would hide what lies in it
_MOUNT_POINTS = ("mnt", "media", "srv")
_PACKAGED = "Dockerfile.j2"
# what a line of an ignore file cannot hold: moby/patternmatcher trims blanks and splits lines
_UNWRITABLE = re.compile(r"^\s|\s$|[\x00-\x1f\x7f]")
_PATTERN_META = re.compile(r"([\\*?\[\]])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symbolic link that the image gets."""

    path: str
    folder: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What a builder understands.

    Attributes:
        mounts: ``RUN --mount``.
        epoch: ``SOURCE_DATE_EPOCH`` as a build argument.
        removes_mount_point: a mount's target is removed after the step, even one of the base.
    """

    mounts: bool
    epoch: bool
    removes_mount_point: bool

    @classmethod
    def of(cls, builder: str) -> Dialect:
        """Return what ``buildx``, ``buildkit``, ``classic`` or ``podman`` understands."""
        return cls(
            mounts=builder != "classic",
            epoch=builder in ("buildx", "buildkit"),
            # buildah 1.28 does, and so would delete a folder of the base
            removes_mount_point=builder == "podman",
        )


def render_dockerfile(
    recipe: Recipe, lock: Lock, dialect: Dialect, *, template: str | None, where: str
) -> str:
    """Write the Dockerfile of a recipe.

    Args:
        recipe: what to build.
        lock: its lock, which names the base by digest.
        dialect: what the builder understands.
        template: the recipe's own ``Dockerfile.j2``, the packaged one if ``None``.
        where: the recipe's own template, for messages.

    Raises:
        RecipeError: the recipe cannot be written as a Dockerfile, or its template is broken.
    """
    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        loader=jinja2.PackageLoader("imagegate.engines.container"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - a Dockerfile is no markup; its own quoting is below
    )
    environment.filters.update(json=_json, quoted=_quoted, shell=shlex.quote)
    try:
        chosen = (
            environment.from_string(template)
            if template is not None
            else environment.get_template(_PACKAGED)
        )
        return chosen.render(_values(recipe, lock, dialect))
    except jinja2.TemplateError as error:
        line = f" line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise RecipeError(
            f"`{where}`{line}: {error.message}",
            hint="the README's section on Dockerfile.j2 lists what a template may use",
        ) from error


def render_ignore_file(paths: Iterable[str]) -> str:
    """Write an ignore file that lets exactly these files of the context through.

    Raises:
        RecipeError: a path cannot be written in an ignore file.
    """
    lines = ["**"]
    for path in sorted(paths):
        if _UNWRITABLE.search(path):
            raise RecipeError(
                f"`{path!r}` cannot be named in an ignore file",
                hint="rename the file: no blank at its ends, no control characters",
            )
        escaped = _PATTERN_META.sub(r"\\\1", path)
        lines.append(f"!{escaped}")
    return "".join(f"{line}\n" for line in lines)


def pip_install(interpreter: str, wheelhouse: str, root: str | None = None) -> list[str]:
    """Return the command that installs the locked wheels and nothing else.

    Args:
        interpreter: the image's Python.
        wheelhouse: the folder with the wheels and pip's list of them, inside.
        root: install below this folder instead of in place.
    """
    below = ["--root", root] if root is not None else []
    return [
        # PEP 668: the base's Python is the image's own to extend
        *("/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1"),
        *("PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_ROOT_USER_ACTION=ignore"),
        *(interpreter, "-m", "pip", "install", "--no-index", "--no-deps", "--require-hashes"),
        *("--no-compile", "--no-cache-dir", "--disable-pip-version-check", *below),
        *("--find-links", wheelhouse, "--requirement", f"{wheelhouse}/{REQUIREMENTS}"),
    ]


def _values(recipe: Recipe, lock: Lock, dialect: Dialect) -> dict[str, object]:
    """Return what a template may use."""
    document = recipe.document
    if recipe.base is None or lock.config is None:
        raise RecipeError(
            f"`{recipe.name}` starts from scratch, where no engine has a Python to run pip with",
            hint="build it with `--engine compose`",
        )
    settings = lock.config.config
    base_cmd = settings.cmd if settings else None
    config = document.config
    cmd = config.cmd
    if config.entrypoint is not None and cmd is None and base_cmd is not None:
        cmd = base_cmd  # a Dockerfile's ENTRYPOINT would reset the base's CMD
    section = document.assets
    return {
        "name": recipe.name,
        "base": f"{recipe.base.name}@{recipe.base.digest}",
        "base_user": (settings.user if settings else None) or "",
        "platform": str(recipe.platform),
        "python": recipe.python,
        "wheels": [wheel.label for wheel in lock.wheels],
        "wheelhouse": WHEELHOUSE,
        "mount_point": f"/{WHEELHOUSE}" if dialect.removes_mount_point else _mount_point(lock),
        "mounts": dialect.mounts,
        "epoch": dialect.epoch,
        "pip_install": lambda wheelhouse, root=None: pip_install(
            recipe.python.interpreter, wheelhouse, root
        ),
        "assets": [
            (f"recipes/{model}", section.target.replace("{model}", model))
            for model in section.models
        ]
        if section
        else [],
        "links": [
            Link(path=link.path, folder=posixpath.dirname(link.path), target=link.target)
            for link in document.layer.links
        ],
        "env": recipe.env_over(lock.base.digest),
        "labels": recipe.labels_over(lock.base.digest),
        "ports": recipe.ports,
        "volumes": config.volumes,
        "stop_signal": config.stop_signal or "",
        "entrypoint": config.entrypoint,
        "cmd": cmd,
        "user": config.user or "",
        "working_dir": config.working_dir or "",
    }


def _mount_point(lock: Lock) -> str:
    for name in _MOUNT_POINTS:
        node = lock.files.get(name)
        if node is None or node.kind is not Kind.DIRECTORY:
            continue
        if not any(True for _ in lock.files.under(name)):
            return f"/{name}"
    return f"/{_MOUNT_POINTS[0]}"


def _json(value: Sequence[str]) -> str:
    """Write the exec form of an instruction."""
    # ASCII alone: no character of a word ends the line for any reader
    return json.dumps(list(value))


def _quoted(value: str) -> str:
    """Quote a value so that the builder neither splits nor expands it."""
    if re.search(r"[\x00-\x1f]", value):
        raise RecipeError(
            f"`{value!r}` holds a line break or control character, which no Dockerfile can say",
            hint="write it without",
        )
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'
