"""One row of the table: an image, and the right answer to it."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.closed_world.debian import BASE, CONFIG
from tests.judging import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from imagegate.verdict import ImageVerdict
    from tests.images import Layer


@dataclass(frozen=True, kw_only=True)
class Row:
    """One image and the right answer.

    Attributes:
        name: the form, as short as it can be said.
        case: the image; a function of a folder where it takes more than layers and a config.
        fails: codes of findings that have to fail the verdict, each at least once; ``x.y/*`` for
            any finding of a check, ``*`` for any at all. Empty where the image is honest and passes.
        notes: codes that have to be noted.
        failing: how many failing findings there are in all, where that is part of the answer.
        refused: the error (class and a text in its message) where the image or the recipe cannot
            be judged at all.
        control: the same image without what is wrong, which passes; the bare base if ``None``.
    """

    name: str
    case: Case | Callable[[Path], ImageVerdict]
    fails: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failing: int | None = None
    refused: tuple[type[Exception], str] | None = None
    control: Case | None = None

    def judge(self, folder: Path) -> ImageVerdict:
        """Build it and judge it."""
        return self.case.judge(folder) if isinstance(self.case, Case) else self.case(folder)


def on_base(*added: Layer, config: dict[str, Any] | None = None, **more: Any) -> Case:
    """Layers on the Debian-like base; `config` is merged over the base's."""
    merged = {**CONFIG, **(config or {})}
    return Case(
        base=BASE, base_config=CONFIG, added=list(added), config=merged, closed=True, **more
    )


def with_base(case: Case, base: Layer) -> Case:
    """The same image on a base that has more files."""
    return replace(case, base={**case.base, **dict(base)})


def all_rows() -> Iterator[Row]:
    """Yield the rows of every module ``rows_*.py`` beside this one."""
    package = importlib.import_module("tests.closed_world")
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        if module.startswith("rows_"):
            rows = importlib.import_module(f"tests.closed_world.{module}").ROWS
            assert rows, module
            yield from rows
