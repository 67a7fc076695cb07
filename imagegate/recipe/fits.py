"""Whether a recipe's ``[python]`` is true of the base that it stands on."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.catalog.startup import SYSTEM_PREFIXES, prefix_of, search_order
from imagegate.errors import RecipeError
from imagegate.recipe.origin import NAMED, glibc_of
from imagegate.rootfs import FileTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.facts import Facts
    from imagegate.recipe import Recipe
    from imagegate.rootfs import PathIndex


def require_fit(recipe: Recipe, facts: Facts, files: PathIndex) -> None:
    """Refuse a recipe that says another Python or glibc than its base has.

    What the base does not show is left to the recipe: a base without an interpreter of its own
    contradicts nothing.

    Args:
        recipe: the recipe.
        facts: what was read of the base.
        files: the base's paths.

    Raises:
        RecipeError: recipe and base contradict each other; names both sides of each key.
    """
    found = [
        f"`python.{key}`: recipe={said} base={is_there}"
        for key, said, is_there in _contradictions(recipe, facts, files)
    ]
    if found:
        raise RecipeError(
            f"`images/{recipe.name}/image.toml` does not fit its base: {'; '.join(found)}",
            hint="write what the base has, or take a base that has what is written",
        )


def _contradictions(
    recipe: Recipe, facts: Facts, files: PathIndex
) -> Iterator[tuple[str, str, str]]:
    section = recipe.python
    programs = sorted(f"/{one.path}" for one in facts.interpreters if "/bin/" in f"/{one.path}")
    if programs:
        resolved = FileTree(files).resolve(section.interpreter)
        if resolved is None:
            yield "interpreter", section.interpreter, ", ".join(programs)
        else:
            named = NAMED.fullmatch(posixpath.basename(resolved))
            if named is not None and named[1] != section.version:
                yield "version", section.version, f"{named[1]} (/{resolved})"
            elif named is not None:
                searched = _searched(section.interpreter, section.version, facts)
                if section.site.lstrip("/") not in searched:
                    yield "site", section.site, ", ".join(f"/{one}" for one in searched)
    glibc = glibc_of(recipe.platform, facts)
    if glibc is not None and section.glibc != glibc:
        yield "glibc", section.glibc, glibc


def _searched(interpreter: str, version: str, facts: Facts) -> tuple[str, ...]:
    """List the site directories that the interpreter searches, there or not (module ``site``)."""
    known = search_order(interpreter, version, facts.sites, facts.interpreters)
    prefix = prefix_of(interpreter)
    prefixes = SYSTEM_PREFIXES if prefix in SYSTEM_PREFIXES else (prefix,)
    # how its standard library names them: Debian's `site` says `dist-packages`
    folders = [
        one.folder
        for one in facts.interpreters
        if one.folder and f"/python{version}/" in f"/{one.path}"
    ] or ["site-packages", "dist-packages"]
    made = [f"{p}/lib/python{version}/{folder}" for p in prefixes for folder in folders]
    if prefix in SYSTEM_PREFIXES and "dist-packages" in folders:
        made.append("usr/lib/python3/dist-packages")
    return tuple(dict.fromkeys([*known, *made]))
