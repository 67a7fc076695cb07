"""What the checks judge: gathered once, read by all."""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.catalog.elfheader import machine_of
from imagegate.catalog.loader import Loader
from imagegate.catalog.pysearch import PythonSearch, start_folders
from imagegate.catalog.python import recorded_files
from imagegate.catalog.startup import search_order
from imagegate.checks.check import seal
from imagegate.oci.documents import ContainerConfig
from imagegate.oci.tar import Kind
from imagegate.rootfs import FileTree
from imagegate.verdict import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date

    from imagegate.catalog.collect import Collector
    from imagegate.checks.image.explained import Explained
    from imagegate.coverage.copying import Copying
    from imagegate.facts import Distribution, Facts
    from imagegate.lock import Lock, LockedAsset
    from imagegate.oci.digest import Digest
    from imagegate.oci.image import Image, Layer
    from imagegate.recipe import Recipe
    from imagegate.rootfs import Node


# written by whoever installs, so they differ between installers (PEP 376, PEP 627), and how long
# each may be: the name of a program, nothing at all; what RECORD says is compared
INSTALLERS_OWN = {"RECORD": 1 << 30, "INSTALLER": 40, "REQUESTED": 0}


# what a check rests on that compares what was added with what it stands on
ON_THE_BASE = "the base's layers are not the image's first, so what was added to it is not known"


class Proof(StrEnum):
    """How one of the base's layers was shown to be in the image."""

    DESCRIPTOR = "descriptor digest"
    DIFF_ID = "diff id computed from bytes"
    DIFFERENT = "other content"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLayer:
    """One layer of the locked base and what the image has in its place.

    Attributes:
        number: position from the bottom, counted from 1.
        locked: the locked descriptor's digest.
        locked_diff_id: the locked diff id.
        found: what the image names there, ``None`` where it has no such layer or no manifest.
        claimed_diff_id: what the image's config claims there.
        computed_diff_id: what the bytes gave, where they were read.
    """

    number: int
    locked: Digest
    locked_diff_id: Digest
    found: Digest | None
    claimed_diff_id: Digest | None
    computed_diff_id: Digest | None
    proof: Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One path that is not the base's, or no longer.

    Attributes:
        before: what the locked base has, ``None`` for a new path.
        after: what the image has, ``None`` for a removed path.
        layer: number of the layer that did it; 0 where the base itself could not be found.
    """

    path: str
    before: Node | None
    after: Node | None
    layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLibrary:
    """What a running Python got when it asked for a library by name.

    Attributes:
        path: the file that was mapped, without leading slash.
        code: what its version function answers.
        with_torch: whether torch was loaded before, ``None`` where the image has none.
    """

    path: str
    code: int
    with_torch: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an image said of itself when it ran.

    Attributes:
        path: where its Python looks, without leading slash.
        freeze: what ``pip freeze`` printed, ``None`` where there is no pip.
        distributions: name and version as ``importlib.metadata`` finds them, in its order.
        nccl: path of each library that could be asked, and its ``ncclGetVersion``.
        loaded_nccl: which one is loaded under NCCL's name, ``None`` where none is.
    """

    path: tuple[str, ...]
    freeze: str | None
    distributions: tuple[tuple[str, str], ...]
    nccl: tuple[tuple[str, int], ...]
    loaded_nccl: LoadedLibrary | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that a check may look at.

    Attributes:
        requirements: digest of the requirements as they are in the workspace now.
        requested: the requirements themselves, a line each.
        assets: the assets as they are in the workspace now.
        base_layers: one a layer of the locked base; empty for an image from scratch.
        added: the layers on top of the base.
        tree: the merged file system; base paths come from the lock.
        changes: every path that the added layers touched.
        added_facts: facts that lie in the added layers.
        facts: facts of the merged system.
        collector: contents of chosen files of the added layers.
        today: the day of the judgement.
        copying: what a build with the recipe's Dockerfile does to the assets.
        observation: what the image said when it ran, where it was asked.
    """

    recipe: Recipe
    requirements: Digest
    requested: tuple[str, ...]
    assets: tuple[LockedAsset, ...]
    lock: Lock
    image: Image
    base_layers: tuple[BaseLayer, ...]
    added: tuple[Layer, ...]
    tree: FileTree
    changes: tuple[Change, ...]
    added_facts: Facts
    facts: Facts
    collector: Collector
    today: date
    copying: Copying
    observation: Observation | None = None

    @cached_property
    def base_is_prefix(self) -> bool:
        """Whether every layer of the base is where it must be."""
        return all(layer.proof in (Proof.DESCRIPTOR, Proof.DIFF_ID) for layer in self.base_layers)

    @cached_property
    def links(self) -> dict[str, str]:
        """Path to target of the links that the recipe declares."""
        return {link.path.lstrip("/"): link.target for link in self.recipe.document.layer.links}

    @cached_property
    def explained(self) -> Explained:
        """Why each path that the added layers touched is there."""
        from imagegate.checks.image.explained import explain

        return explain(self)

    @cached_property
    def new_nodes(self) -> Mapping[str, Node]:
        """What the added layers bring where the base has nothing, by path."""
        return {
            change.path: change.after
            for change in self.changes
            if change.before is None and change.after is not None
        }

    @cached_property
    def base_entries(self) -> Mapping[str, Mapping[str, str]]:
        """Entries of the base's databases: path, key, digest of the entry."""
        found: dict[str, dict[str, str]] = {}
        for entry in self.lock.base.facts.entries:
            found.setdefault(entry.path, {})[entry.key] = entry.digest
        return found

    def behind(self, path: str) -> str:
        """Return where a path really lies once the links of its folders are followed."""
        folder, slash, name = path.rpartition("/")
        if folder not in self._behind:
            self._behind[folder] = self.tree.resolve(folder) or folder
        return f"{self._behind[folder]}{slash}{name}".lstrip("/")

    @cached_property
    def _behind(self) -> dict[str, str]:
        return {}

    def is_installers_own(self, node: Node) -> bool:
        """Say whether a file is what an installer writes into a locked wheel's metadata."""
        folder, _, name = node.path.rpartition("/")
        return (
            self.lock.layer.get(f"{folder}/METADATA") is not None
            and node.kind is Kind.FILE
            and not node.mode & 0o7111
            and node.size <= INSTALLERS_OWN.get(name, -1)
        )

    def allowed(self, path: str) -> bool:
        """Say whether the recipe's `allow` explains a path; watched ones it has to name in full."""
        from imagegate.checks.image.explained import By

        return self.explained.by.get(path) is By.ALLOWED

    @cached_property
    def named_in_full(self) -> frozenset[str]:
        """The paths that the recipe's `allow` names, not by a wildcard."""
        patterns = (entry.pattern for entry in self.recipe.document.layer.allow)
        return frozenset(pattern.lstrip("/") for pattern in patterns if "*" not in pattern)

    @cached_property
    def base_tree(self) -> FileTree:
        """The locked base's file system alone."""
        return FileTree(self.lock.files)

    @cached_property
    def base_owners(self) -> Mapping[str, int]:
        """How many paths of the locked base each owner claims."""
        return self.lock.files.owners()

    @cached_property
    def base_settings(self) -> ContainerConfig:
        """What the base's config says of the container, empty where it says nothing."""
        config = self.lock.config
        return (config.config if config else None) or ContainerConfig()

    @cached_property
    def settings(self) -> ContainerConfig:
        """What the image's config says of the container, empty where it says nothing."""
        return self.image.config.config or ContainerConfig()

    @cached_property
    def machine(self) -> str:
        """The platform's machine as ELF names it."""
        return machine_of(self.recipe.platform)

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """The site directories that the recipe's interpreter searches, in order."""
        return self._sites(self.facts)

    @cached_property
    def base_sites(self) -> tuple[str, ...]:
        """The same in the base alone."""
        return self._sites(self.lock.base.facts)

    def _sites(self, facts: Facts) -> tuple[str, ...]:
        python = self.recipe.python
        return search_order(python.interpreter, python.version, facts.sites, facts.interpreters)

    @cached_property
    def interpreters(self) -> tuple[tuple[PythonSearch, PythonSearch], ...]:
        """How each Python of the base searches for modules: in the base, and in the image."""
        recipe = self.recipe.python
        known = self.lock.base.facts.interpreters
        called = [recipe.interpreter]
        # a program that is called by another name searches alike, unless an environment is beside
        environments = {posixpath.dirname(one.path) for one in known if one.path.endswith(".cfg")}
        seen = {self.base_tree.resolve(recipe.interpreter)}
        for one in known:
            folder = posixpath.dirname(one.path)
            if not one.python or one.folder:
                continue
            program = self.base_tree.resolve(one.path)
            if program not in seen or environments & {folder, posixpath.dirname(folder)}:
                seen.add(program)
                called.append(f"/{one.path}")
        return tuple(
            (
                self._python(path, self.base_tree, self.lock.base.facts, self.base_settings),
                self._python(path, self.tree, self.facts, self.settings),
            )
            for path in dict.fromkeys(called)
        )

    @cached_property
    def python_starts(self) -> tuple[str, ...]:
        """The folders that may come first on ``sys.path``, for some way to start Python."""
        scripts = self.recipe.python.scripts
        found = [
            folder
            for tree, settings in (
                (self.base_tree, self.base_settings),
                (self.tree, self.settings),
            )
            for folder in start_folders(
                tree, settings, scripts, command_words(command_of(settings))
            )
        ]
        return tuple(dict.fromkeys(found))

    def _python(
        self, called: str, tree: FileTree, facts: Facts, settings: ContainerConfig
    ) -> PythonSearch:
        version = self.recipe.python.version
        return PythonSearch(
            tree=tree,
            facts=facts,
            settings=settings,
            interpreter=called,
            version=version,
            machine=self.machine,
        )

    @cached_property
    def loader(self) -> Loader:
        """The image's dynamic loader."""
        facts = self.facts
        return Loader(self.tree, facts.elf, self.settings.environment, facts.loader, self.machine)

    @cached_property
    def base_loader(self) -> Loader:
        """The base's dynamic loader."""
        facts, environment = self.lock.base.facts, self.base_settings.environment
        return Loader(self.base_tree, facts.elf, environment, facts.loader, self.machine)

    def locked_owner(self, path: str) -> str:
        """Return the locked wheel whose file this is byte for byte, ``""`` where it is none's."""
        locked, found = self.lock.layer.get(path), self.tree.get(path)
        return locked.owner if locked and found and locked.same_content(found) else ""

    def place(self, path: str, layer: int, *, secret: bool = False) -> Place:
        """Say where in the image something is, and what stands there.

        Args:
            path: without leading slash, ``""`` for no path.
            layer: the layer's number, 0 for none.
            secret: whether what stands there is a credential, whose hash must not be guessed at.
        """
        content = self._content(path) if path else ""
        owner = self.owner_of(path) if path else ""
        if secret and content:
            content = self.seal(content)
        found = next((one for one in self.image.layers if one.number == layer), None)
        if found is None:
            return Place(path=path, layer=layer, content=content, owner=owner)
        digest = found.descriptor.digest if found.descriptor else found.diff_id
        return Place(
            path=path,
            layer=layer,
            layer_digest=str(digest),
            step=found.created_by,
            content=content,
            owner=owner,
        )

    def owner_of(self, path: str) -> str:
        """Name the distribution or package that a path belongs to, ``""`` where none claims it.

        The base's index and the lock are asked first, then what added distributions record.
        """
        for node in (self.lock.files.get(path), self.lock.layer.get(path)):
            if node is not None and node.owner:
                return node.owner
        return self._recorded_by.get(path, "")

    @cached_property
    def _recorded_by(self) -> Mapping[str, str]:
        """Which distribution claims a path in its RECORD, of those that nobody locked."""
        base = {pin.path for pin in self.lock.base.facts.distributions}
        locked = {(wheel.name, wheel.version) for wheel in self.lock.wheels}
        return {
            path: label_of(pin)
            for pin in self.facts.distributions
            if pin.path not in base and (key_of(pin), pin.version) not in locked
            for path in (
                pin.path,
                *(path for path, _ in recorded_files(self.tree, self.collector, pin)),
            )
        }

    def seal(self, value: str) -> str:
        """Name a secret value so that nobody without the image can try values out.

        The key is the image's config, to the byte: whoever could guess the value from this digest
        could guess it from the image's id, which is the plain hash of the config and public.
        """
        return seal(value, self.image.config_bytes)

    def _content(self, path: str) -> str:
        """Say what stands at a path, for the digest of a finding."""
        node = self.tree.get(path)
        if node is None:
            return "nothing"
        return (
            f"{node.kind.name} {node.mode:o} {node.uid}:{node.gid} {node.sha256}{node.target}"
            f" {node.capabilities} {' '.join(f'{name}={value}' for name, value in node.attributes)}"
        ).rstrip()


def command_of(settings: ContainerConfig) -> tuple[str, ...]:
    """Return what a container runs: the entrypoint, then the command."""
    return (*(settings.entrypoint or ()), *(settings.cmd or ()))


def command_words(command: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command, those of a command line inside a word (``sh -c``) too."""
    for text in command:
        try:
            yield from shlex.split(text) if " " in text else (text,)
        except ValueError:
            yield from text.split()


# what BuildKit writes where neither base nor Dockerfile sets a PATH (util/system, DefaultPathEnv)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def program_folders(environment: Mapping[str, str]) -> list[str]:
    """Return the folders in which programs are looked for, first searched first."""
    return [entry for entry in environment.get("PATH", DEFAULT_PATH).split(":") if entry[:1] == "/"]


def key_of(distribution: Distribution) -> str:
    """Return a distribution's name as it is compared (PEP 503)."""
    return canonicalize_name(distribution.name)


def label_of(distribution: Distribution) -> str:
    """Return name and version as an index's owner column has them."""
    return f"{key_of(distribution)}=={distribution.version}"


def is_distributions(node: Node) -> bool:
    """Say whether a Python distribution, and not a Debian package, owns a path."""
    return "==" in node.owner


def present_components(facts: Facts) -> dict[str, set[str]]:
    """Return what the bytes say of each component's version, lookalikes of a file's name left out."""
    found: dict[str, set[str]] = {}
    for reading in facts.native:
        if reading.source not in ("build id", "sha256", "file name"):
            found.setdefault(reading.component, set()).add(reading.value)
    return found
