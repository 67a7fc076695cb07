"""A base, what stands on it, and the verdict: the gate on images of a few files.

The base is locked by the code that locks real ones, and the image is read back from a layout, so
that every reader is on the way. Only the resolver is left out: the wheels of a lock are given.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from imagegate.catalog.watched import watched_place
from imagegate.coverage.copying import Copying
from imagegate.lock import (
    BaseName,
    LockedAsset,
    LockedWheel,
    LockParts,
    decode_base,
    decode_lock,
    encode_lock,
)
from imagegate.oci.digest import Digest
from imagegate.oci.tar import scan_tar
from imagegate.recipe import parse_recipe
from imagegate.rootfs import FileTree
from imagegate.sources import Connection, open_image
from imagegate.usecases.bases import read_base
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from imagegate.verdict import Finding, ImageVerdict, Severity
from imagegate.workspace import RecipeState
from tests.images import BuiltImage, Content, ImageBuilder, Layer, tar, write_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from imagegate.checks.image.evidence import Evidence
    from imagegate.lock import Lock
    from imagegate.rootfs import Node

SITE = "usr/local/lib/python3.12/dist-packages"
TODAY = date(2026, 3, 1)
# what the gate is told of a composed image
COMPOSED = Copying(nothing_because="no Dockerfile takes part: the image is composed")
_ASSET = b"{{ messages }}"
_ASSET_PATH = "usr/share/models/m/chat_template.jinja"


_FILLER = re.compile(r"[\w@%+=:,.~^-]+(?:/[\w@%+=:,.~^-]+)*")


def _pairs(layer: Layer) -> Iterable[tuple[str, Content]]:
    return layer.items() if isinstance(layer, dict) else layer


def dist(
    name: str,
    version: str,
    *,
    requires: tuple[str, ...] = (),
    extras: tuple[str, ...] = (),
    site: str = SITE,
    direct_url: str = "",
    files: Mapping[str, Content] | None = None,
) -> dict[str, Content]:
    """An installed distribution as pip leaves it: metadata, RECORD and files."""
    folder = f"{site}/{name.replace('-', '_')}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {line}\n" for line in requires]
    lines += [f"Provides-Extra: {extra}\n" for extra in extras]
    layer: dict[str, Content] = {f"{folder}/METADATA": "".join(lines)}
    if direct_url:
        layer[f"{folder}/direct_url.json"] = direct_url
    layer.update({f"{site}/{path}": content for path, content in (files or {}).items()})
    record = []
    for path, content in layer.items():
        raw = content.encode() if isinstance(content, str) else content
        assert isinstance(raw, bytes)
        import base64

        digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
        record.append(f"{path.removeprefix(site + '/')},sha256={digest},{len(raw)}\n")
    info = f"{folder.removeprefix(site + '/')}/RECORD,,\n"
    layer[f"{folder}/RECORD"] = "".join([*record, info])
    return layer


@dataclass
class Case:
    """One image to be judged.

    Attributes:
        base: the base's one layer.
        base_config: its ``config``.
        added: layers on top; the recipe's one asset comes first and by itself.
        config: the image's ``config``, the base's if ``None``.
        recipe: further TOML for the recipe.
        locked: wheels of the lock by ``name==version``, each with the files that it installs.
        requested: lines of requirements.in.
        steps: history of the added layers.
        closed: whether the added files that lie in no watched place have to be explained too;
            else the recipe takes them upon itself.
        allow: added paths in watched places that the recipe names in full.
    """

    base: dict[str, Content] = field(default_factory=dict)
    base_config: dict[str, Any] = field(default_factory=dict)
    added: list[Layer] = field(default_factory=list)
    config: dict[str, Any] | None = None
    recipe: str = ""
    locked: dict[str, dict[str, Content]] = field(default_factory=dict)
    requested: tuple[str, ...] = ()
    steps: list[str] = field(default_factory=list)
    interpreter: str = "/usr/bin/python3"
    python: str = "3.12"
    skip: tuple[str, ...] = ()
    closed: bool = False
    allow: tuple[str, ...] = ()

    def _allowed(self) -> str:
        """Explain the files that a test adds to try something else with them."""
        if self.closed:
            return ""
        paths = (path for layer in self.added for path, _ in _pairs(layer))
        return "".join(
            f'[[layer.allow]]\npattern = "/{path}"\nreason = "the test brings it"\n'
            for path in dict.fromkeys(paths)
            if path not in self.base
            and _FILLER.fullmatch(path)
            and (path in self.allow or not watched_place(path))
        )

    def images(self) -> tuple[BuiltImage, BuiltImage]:
        """The base and the image that stands on it."""
        base = tar({"etc/os-release": "ID=test\n", **self.base})
        builder = ImageBuilder(config=self.base_config).layer(base, "ADD rootfs")
        built = builder.build()
        config = self.base_config if self.config is None else self.config
        image = ImageBuilder(config=config).layer(base, "ADD rootfs")
        image.layer({_ASSET_PATH: _ASSET}, "COPY recipes")
        for number, layer in enumerate(self.added):
            step = self.steps[number] if number < len(self.steps) else "RUN something"
            image.layer(layer, step)
        return built, image.build()

    def judge(self, folder: Path, *, today: date = TODAY) -> ImageVerdict:
        """Lock the base, write the image, judge it."""
        return self.evidence(folder, today=today)[0]

    def evidence(self, folder: Path, *, today: date = TODAY) -> tuple[ImageVerdict, Evidence]:
        """Return what was judged beside the verdict."""
        base, image = self.images()
        state = self.state(base)
        lock = self.lock(folder / "base", base, state)
        write_layout(folder / "image", image)
        source = open_image(f"oci:{folder / 'image'}", Connection(platform=state.recipe.platform))
        return judge(state, lock, source, Silent(), copying=COMPOSED, today=today, skip=self.skip)

    def state(self, base: BuiltImage) -> RecipeState:
        text = f"""
            schema = 1
            platform = "linux/arm64"
            repository = "registry.example/image"
            {"" if "[base]" in self.recipe else f'[base]{chr(10)}image = "registry.example/base@{base.digest}"'}
            [python]
            version = "{self.python}"
            site = "/{SITE}"
            interpreter = "{self.interpreter}"
            glibc = "2.39"
            [assets]
            models = ["m"]
            target = "/usr/share/models/{{model}}"
            {self.recipe.replace("BASE_DIGEST", base.digest)}
            {self._allowed()}
        """
        recipe = parse_recipe("case", text, "image.toml")
        asset = LockedAsset(
            model="m",
            source="recipes/m/chat_template.jinja",
            target=_ASSET_PATH,
            size=len(_ASSET),
            sha256=hashlib.sha256(_ASSET).hexdigest(),
        )
        return RecipeState(
            recipe=recipe,
            requirements=self.requested,
            requirements_digest=Digest.of("".join(f"{r}\n" for r in self.requested).encode()),
            assets=(asset,),
        )

    def lock(self, folder: Path, base: BuiltImage, state: RecipeState) -> Lock:
        read, files = self.lock_files(folder, base, state)
        return decode_lock("case", files, "locks/case", decode_base(read, "locks/bases/case"))

    def lock_files(
        self, folder: Path, base: BuiltImage, state: RecipeState
    ) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the files of the base's lock and of the recipe's."""
        write_layout(folder, base)
        source = open_image(f"oci:{folder}", Connection(platform=state.recipe.platform))
        read = read_base(source, Silent())
        locked = decode_base(read, "locks/bases/case")
        assert source.image.digest is not None
        wheels, layer = self._wheels()
        parts = LockParts(
            name="case",
            recipe=state.recipe.digest,
            requirements_in=state.requirements_digest,
            made_of=state.recipe.made_of,
            requested=state.requirements,
            platform=str(state.recipe.platform),
            base=BaseName(
                image=str(state.recipe.base), digest=source.image.digest, lock=locked.digest
            ),
            wheels=wheels,
            layer=layer,
            assets=state.assets,
        )
        return read, encode_lock(parts)

    def _wheels(self) -> tuple[list[LockedWheel], list[Node]]:
        from dataclasses import replace

        wheels, nodes = [], []
        for label, files in self.locked.items():
            name, _, version = label.partition("==")
            wheels.append(LockedWheel(name=name, version=version, sha256="0" * 64))
            tree = FileTree()
            kept = {p: c for p, c in files.items() if not p.endswith("/RECORD")}
            tree.apply(scan_tar([tar(kept)]), 1)
            nodes += [replace(n, owner=label, layer=0) for n in tree.under("") if n.sha256]
        return wheels, nodes


def failed(verdict: ImageVerdict) -> set[str]:
    """The codes of everything that fails the verdict."""
    return {finding.code for finding in verdict.failures}


def noted(verdict: ImageVerdict) -> set[str]:
    """The codes of everything that is only said."""
    return {f.code for f in verdict.findings if f.severity is Severity.NOTE}


def found(verdict: ImageVerdict, code: str, subject: str | None = None) -> Finding:
    """The one finding of a code."""
    every = [f for f in verdict.findings if f.code == code and subject in (None, f.subject)]
    assert len(every) == 1, [(f.code, f.subject) for f in verdict.findings]
    return every[0]
