"""The gate's answer to a draw, over one base that is locked once."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from imagegate.lock import decode_base, decode_lock
from imagegate.sources import Connection, open_image
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from tests.generator.root import ARCHITECTURE, CONFIG, INTERPRETER, PYTHON, SITE
from tests.images import ImageBuilder, tar, write_layout
from tests.judging import COMPOSED, TODAY, Case

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.lock import Lock
    from imagegate.recipe import Recipe
    from imagegate.verdict import ImageVerdict
    from imagegate.workspace import RecipeState
    from tests.images import BuiltImage, Content

_ASSET: dict[str, Content] = {"usr/share/models/m/chat_template.jinja": b"{{ messages }}"}


@dataclass
class _Case(Case):
    """A case for this machine's own Python."""

    def state(self, base: BuiltImage) -> RecipeState:
        from dataclasses import replace

        from imagegate.recipe import parse_recipe

        state = super().state(base)
        text = self._text.replace("BASE", str(base.digest))
        recipe: Recipe = parse_recipe("case", text, "image.toml")
        return replace(state, recipe=recipe)

    @property
    def _text(self) -> str:
        return f"""
schema = 1
platform = "linux/{ARCHITECTURE}"
repository = "registry.example/image"
[base]
image = "registry.example/base@BASE"
[python]
version = "{PYTHON}"
site = "/{SITE}"
interpreter = "/{INTERPRETER}"
glibc = "2.36"
[assets]
models = ["m"]
target = "/usr/share/models/{{model}}"
{self.recipe}
"""


@dataclass
class Gate:
    """One base, and verdicts over it.

    Attributes:
        folder: where layouts are written.
        files: the base's files.
    """

    folder: Path
    files: dict[str, Content]

    @cached_property
    def _base(self) -> bytes:
        return tar(self.files)

    @cached_property
    def _built(self) -> BuiltImage:
        return self._image([])

    def _image(self, layers: list[dict[str, Content]]) -> BuiltImage:
        builder = ImageBuilder(config=CONFIG, architecture=ARCHITECTURE, compression="plain")
        builder.layer(self._base, "ADD root")
        for layer in layers:
            builder.layer(layer, "RUN something")
        return builder.build()

    @cached_property
    def _read(self) -> dict[str, bytes]:
        read, _ = _Case().lock_files(self.folder / "base", self._built, _Case().state(self._built))
        return read

    def judge(
        self,
        layers: list[dict[str, Content]],
        *,
        locked: dict[str, dict[str, Content]] | None = None,
    ) -> ImageVerdict:
        """Judge what some layers make of the base; the recipe names each added path in full."""
        paths = dict.fromkeys(path for layer in layers for path in layer if path not in self.files)
        recipe = "".join(
            f'[[layer.allow]]\npattern = "/{path}"\nreason = "drawn"\n'
            for path in ([] if locked else paths)
        )
        case = _Case(recipe=recipe, locked=locked or {}, requested=tuple(locked or ()))
        state = case.state(self._built)
        lock = self._lock(case, state)
        image = self._image([_ASSET, *layers])
        layout = self.folder / "image"
        shutil.rmtree(layout, ignore_errors=True)
        write_layout(layout, image)
        source = open_image(f"oci:{layout}", Connection(platform=state.recipe.platform))
        return judge(state, lock, source, Silent(), copying=COMPOSED, today=TODAY)[0]

    def _lock(self, case: _Case, state: RecipeState) -> Lock:
        from imagegate.lock import BaseName, LockParts, encode_lock
        from imagegate.oci.digest import Digest

        base = decode_base(self._read, "locks/bases/case")
        wheels, layer = case._wheels()
        parts = LockParts(
            name="case",
            recipe=state.recipe.digest,
            requirements_in=state.requirements_digest,
            made_of=state.recipe.made_of,
            requested=state.requirements,
            platform=str(state.recipe.platform),
            base=BaseName(
                image=str(state.recipe.base),
                digest=Digest.parse(str(self._built.digest)),
                lock=base.digest,
            ),
            wheels=wheels,
            layer=layer,
            assets=state.assets,
        )
        return decode_lock("case", encode_lock(parts), "locks/case", base)
