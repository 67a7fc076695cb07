"""``imagegate lock``: take the base's lock or read the base, resolve the layer, write the lock."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from imagegate.engines.compose.index import index_wheels
from imagegate.errors import LockError, UsageError
from imagegate.localfiles import read_regular, read_regular_text
from imagegate.lock import (
    BASE_FILES,
    CONTENTS,
    LOCK_FILES,
    LockedWheel,
    LockParts,
    OlderRevisionError,
    decode_lock,
    encode_base,
    encode_lock,
)
from imagegate.lock.oldform import decode_old, is_old_form
from imagegate.oci.digest import Digest
from imagegate.oci.documents import OWN_LIMIT
from imagegate.oci.platform import Platform
from imagegate.oci.reference import Reference
from imagegate.reading.options import options_of_wheels
from imagegate.recipe import parse_recipe
from imagegate.recipe.fits import require_fit
from imagegate.report.lockdiff import Difference, compare_locks
from imagegate.resolver.resolve import Question, resolve
from imagegate.resolver.target import Target
from imagegate.resolver.wheels import WheelCache
from imagegate.usecases.bases import ObtainedBase, obtain_base, write_base
from imagegate.workspace.atomic import write_file, write_folder
from imagegate.workspace.exclusive import exclusive
from imagegate.workspace.ownership import foreign_in_lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from imagegate.facts import Facts
    from imagegate.lock import BaseName, Lock
    from imagegate.lock.oldform import OldLock
    from imagegate.recipe import Recipe
    from imagegate.rootfs import Node
    from imagegate.signing.identity import Trusted
    from imagegate.usecases.invocation import Invocation
    from imagegate.workspace import RecipeState, Workspace


# seconds to wait for another process that writes locks
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOutcome:
    """What locking did.

    Attributes:
        name: the recipe.
        differences: what differs from the lock that was there before.
        replaced: whether files were written; an equal lock is left alone.
        rewritten_base: the new ``[base] image`` where it was changed.
        base: how the base's lock came: `locked`, `read`, `published`, `moved`, or `scratch`.
    """

    name: str
    lock: Lock
    differences: tuple[Difference, ...]
    replaced: bool
    rewritten_base: str | None
    base: str


def lock_recipe(
    call: Invocation,
    name: str,
    *,
    base: str | None = None,
    name_as: str | None = None,
    trusted: Sequence[Trusted] = (),
) -> LockOutcome:
    """Write a recipe's lock anew.

    Args:
        call: where the recipe is.
        name: the recipe.
        base: where the base's bytes are; a base with another digest than the recipe's replaces it.
        name_as: where such a base is published, if `base` is not a registry's reference.
        trusted: whose published base locks count, beside those of the workspace's file.

    Raises:
        UsageError: the recipe or the base's location cannot be used.
        LockError: the base is another one than the recipe pins.
        ImageError: the base cannot be read.
        ResolveError: the requirements cannot be met without moving the base.
        FetchError: a wheel could not be had.
    """
    workspace = call.workspace
    _pin_tag(call, name, base)
    state = workspace.state(name)
    if state.recipe.base is None and base is not None:
        raise UsageError(f"the recipe `{name}` starts from scratch; it has no base to lock")
    old = None
    if base is None and name_as is None:
        old = _old_form(call, name)
        if old is not None:
            _move_base(call, old)
            if _is_fresh(old, state):
                return _move_over(call, state, old)
    obtained = None
    rewritten: str | None = None
    if state.recipe.base is not None:
        obtained = obtain_base(call, state.recipe, location=base, name_as=name_as, trusted=trusted)
        if obtained.image != state.recipe.base:
            rewritten = str(obtained.image)
            state = replace(state, recipe=_with_base(workspace, state.recipe, rewritten))
        if state.recipe.leaves_out:
            state = replace(state, recipe=state.recipe.over(obtained.lock))
            _tell_origin(call, state.recipe)
        require_fit(state.recipe, obtained.lock.document.facts, obtained.lock.files)
    parts = _complete(call, state, obtained)
    return _write(
        call, parts, obtained, rewritten=rewritten, how=obtained.how if obtained else "scratch"
    )


def _tell_origin(call: Invocation, recipe: Recipe) -> None:
    """Say what was taken from the base, and what else it has."""
    keys, origin = recipe.document.python, recipe.origin
    assert origin is not None
    taken = [f"platform {origin.platform}"] if recipe.written_platform is None else []
    taken += [
        f"{name} {found}"
        for name, written, found in (
            ("version", keys.version, origin.version),
            ("interpreter", keys.interpreter, origin.interpreter),
            ("site", keys.site, origin.site),
            ("glibc", keys.glibc, origin.glibc),
        )
        if written is None and found is not None
    ]
    others = f"; the base also has {', '.join(origin.others)}" if origin.others else ""
    if taken:
        call.reporter.say(f"taken from the base: {', '.join(taken)}{others}")


def _write(
    call: Invocation,
    parts: LockParts,
    obtained: ObtainedBase | None,
    *,
    rewritten: str | None,
    how: str,
) -> LockOutcome:
    """Write base lock, lock and recipe in this order.

    A crash in between leaves whole files: a base lock that nobody names yet, or a recipe that
    the lock does not fit, which every command refuses.
    """
    with exclusive(call.workspace.root / "locks", "a lock of this workspace", patience=_PATIENCE):
        return _write_alone(call, parts, obtained, rewritten=rewritten, how=how)


def _write_alone(
    call: Invocation,
    parts: LockParts,
    obtained: ObtainedBase | None,
    *,
    rewritten: str | None,
    how: str,
) -> LockOutcome:
    workspace, name = call.workspace, parts.name
    old = _previous(call, name)
    files = encode_lock(parts)
    folder = workspace.lock_folder(name)
    new = decode_lock(
        name, files, workspace.relative(folder), obtained.lock if obtained is not None else None
    )
    if obtained is not None and obtained.files is not None:
        write_base(workspace, obtained.lock.base, obtained.files)
    present = (
        {
            path.name: read_regular(path, limit=OWN_LIMIT)
            for path in folder.iterdir()
            if path.is_file()
        }
        if folder.is_dir()
        else {}
    )
    replaced = present != files
    if replaced:
        # of the first form too, which held the base's files as well
        write_folder(folder, files, foreign_in_lock((*LOCK_FILES, *BASE_FILES), CONTENTS))
    if rewritten is not None:
        path = workspace.recipe_path(name)
        write_file(path, _rewrite_base(read_regular_text(path), rewritten).encode())
    return LockOutcome(
        name=name,
        lock=new,
        differences=compare_locks(old, new) if how != "moved" else (),
        replaced=replaced,
        rewritten_base=rewritten,
        base=how,
    )


# --- locks of the first form


def _old_form(call: Invocation, name: str) -> OldLock | None:
    """Read a lock of the first form, where one is there and of use."""
    workspace = call.workspace
    if not workspace.lock_folder(name).is_dir():
        return None
    try:
        files = workspace.lock_files(name)
        if not is_old_form(files):
            return None
        return decode_old(name, files, workspace.relative(workspace.lock_folder(name)))
    except LockError as error:
        call.reporter.say(f"the lock that was there is not moved over: {error.message}")
        return None


def _is_fresh(old: OldLock, state: RecipeState) -> bool:
    return (old.recipe, old.requirements, old.assets) == (
        state.recipe.digest,
        state.requirements_digest,
        state.assets,
    )


def _move_base(call: Invocation, old: OldLock) -> None:
    """Give a base the lock that a recipe's held; one that is there already is left alone."""
    if old.base is None:
        return
    workspace, digest = call.workspace, Digest.of(old.base.manifest_bytes)
    if not workspace.has_base(digest):
        write_base(workspace, digest, encode_base(old.base))
        where = workspace.relative(workspace.base_folder(digest))
        call.reporter.say(f"the base's part of the lock was moved over to `{where}`")


def _move_over(call: Invocation, state: RecipeState, old: OldLock) -> LockOutcome:
    """Write what a lock of the first form says as two."""
    recipe = state.recipe
    obtained = None
    if old.base is not None and recipe.base is not None:
        obtained = ObtainedBase(
            lock=call.workspace.base_lock(Digest.of(old.base.manifest_bytes)),
            files=None,
            index=old.index,
            image=recipe.base,
            how="moved",
        )
    parts = LockParts(
        **_of_state(state, obtained.name if obtained is not None else None),
        wheels=old.wheels,
        wheel_sizes=old.wheel_sizes,
        layer=old.layer,
    )
    return _write(call, parts, obtained, rewritten=None, how="moved")


# --- image.toml


def _pin_tag(call: Invocation, name: str, base: str | None) -> None:
    """Give a base that the recipe names by tag alone the digest that the tag leads to now.

    Raises:
        UsageError: nobody said where; names the command that does.
    """
    path = call.workspace.recipe_path(name)
    try:
        document = tomllib.loads(read_regular_text(path))
        image = document["base"]["image"]
        platform = Platform.parse(document["platform"]) if "platform" in document else None
        named = Reference.parse(image)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UsageError):
        return  # whoever reads the recipe says what is wrong
    if named.digest is not None:
        return
    if base is None:
        raise UsageError(
            f"the recipe `{name}` names its base by tag alone: `{image}`; a tag can move",
            hint=f"pin what it leads to now: `imagegate lock {name} --base docker://{image}`",
        )
    found = call.open(base, platform).image
    digest = found.index_digest or found.digest
    if digest is not None:
        pinned = str(Reference(named.registry, named.repository, named.tag, digest))
        text = _rewrite_base(path.read_text(encoding="utf-8"), pinned)
        parse_recipe(name, text, call.workspace.relative(path))
        write_file(path, text.encode())
        call.reporter.say(f"image.toml now pins {pinned}")


def _with_base(workspace: Workspace, recipe: Recipe, image: str) -> Recipe:
    path = workspace.recipe_path(recipe.name)
    text = _rewrite_base(read_regular_text(path), image)
    return parse_recipe(recipe.name, text, workspace.relative(path))


def _rewrite_base(text: str, image: str) -> str:
    """Put another base into ``image.toml`` and leave everything else as its author wrote it."""
    import tomlkit

    document = tomlkit.parse(text)
    base = document["base"]
    assert isinstance(base, tomlkit.items.Table)
    if not str(base.get("image", "")).startswith(image.partition("@")[0]):
        base.pop("recipe", None)
    base["image"] = image
    return tomlkit.dumps(document)


# --- the layer


def _complete(call: Invocation, state: RecipeState, obtained: ObtainedBase | None) -> LockParts:
    """Resolve and index what the layer adds, and put everything together."""
    wheels: tuple[LockedWheel, ...] = ()
    layer: tuple[Node, ...] = ()
    sizes: dict[str, int] = {}
    options = b""
    if state.requirements:
        facts = obtained.lock.document.facts if obtained is not None else None
        paths, layer = _lock_wheels(call, state, facts)
        wheels = tuple(paths)
        sizes = {wheel.name: path.stat().st_size for wheel, path in paths.items()}
        site = state.recipe.python.site.lstrip("/")
        options = options_of_wheels(site, paths.values())
    return LockParts(
        **_of_state(state, obtained.name if obtained is not None else None),
        wheels=wheels,
        wheel_sizes=sizes,
        layer=layer,
        options=options,
    )


def _of_state(state: RecipeState, base: BaseName | None) -> Mapping[str, Any]:
    recipe = state.recipe
    return {
        "name": recipe.name,
        "recipe": recipe.digest,
        "made_of": recipe.made_of,
        "requirements_in": state.requirements_digest,
        "requested": state.requirements,
        "platform": str(recipe.platform),
        "base": base,
        "assets": state.assets,
    }


def _lock_wheels(
    call: Invocation, state: RecipeState, base: Facts | None
) -> tuple[dict[LockedWheel, Path], tuple[Node, ...]]:
    recipe, reporter = state.recipe, call.reporter
    target = Target.of(recipe)
    reporter.say(f"resolving {len(state.requirements)} requirements against the base")
    section = recipe.document.layer
    resolution = resolve(
        Question(
            requirements=state.requirements,
            base=base.distributions if base is not None else (),
            overrides=section.overrides,
            exclude_newer=section.exclude_newer,
            target=target,
            cache=call.cache / "uv",
        )
    )
    for name in resolution.not_held:
        reporter.say(
            f"`{name}` of the base has a version outside PEP 440; it was left out of resolving"
        )
    with reporter.task("fetching wheels", resolution.size) as task:
        paths = WheelCache(call.cache).fetch(resolution.wheels, target, advance=task.advance)
    total = sum(path.stat().st_size for path in paths.values())
    with reporter.task("reading wheels", total) as task:
        layer = index_wheels(recipe, paths, advance=task.advance)
    return paths, layer


def _previous(call: Invocation, name: str) -> Lock | None:
    workspace = call.workspace
    if not workspace.lock_folder(name).is_dir():
        return None
    try:
        if is_old_form(workspace.lock_files(name)):
            return None
        return workspace.lock(name)
    except OlderRevisionError:
        return None
    except LockError as error:
        call.reporter.say(f"the lock that was there cannot be compared: {error.message}")
        return None
