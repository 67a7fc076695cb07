"""What the HTML report shows beside the findings: layers, pins in three readings, assets."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from packaging.utils import canonicalize_name

from imagegate.checks.image.evidence import Proof

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from imagegate.checks.image.evidence import Evidence
    from imagegate.facts import Distribution, NativeReading
    from imagegate.lock import LockedAsset
    from imagegate.oci.documents import ImageConfig

_Key = TypeVar("_Key", str, tuple[str, str])
# how a reading says what a file is, as its name alone does
_CLAIMED = "file name"
_UNCHANGED = (Proof.DESCRIPTOR, Proof.DIFF_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLayer:
    """One layer of the image.

    Attributes:
        size: compressed bytes, ``None`` where the medium has no manifest.
        is_base: whether it stands where the locked base has a layer.
        proof: how that was shown; ``""`` for an added layer.
        is_proven: whether it is the base's layer, or no base layer was expected there.
        share: of the largest layer, in percent.
    """

    number: int
    digest: str
    step: str
    size: int | None
    is_base: bool
    proof: str
    is_proven: bool
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of a pin: how it was had and both sides, ``""`` for nothing."""

    source: str
    locked: str
    found: str

    @property
    def moved(self) -> bool:
        """Whether the two sides differ."""
        return self.locked != self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One watched file and what is said of it.

    Attributes:
        name: the component.
        path: the file.
        claimed: by the file's name and by variables of the image's config.
        recorded: by the distribution that owns it.
        real: by its bytes.
    """

    name: str
    path: str
    claimed: tuple[Reading, ...]
    recorded: tuple[Reading, ...]
    real: tuple[Reading, ...]

    @property
    def moved(self) -> bool:
        """Whether any reading moved."""
        return any(r.moved for r in (*self.claimed, *self.recorded, *self.real))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One asset of one model in the image: ``present``, ``changed``, ``absent`` or ``none``."""

    state: str
    target: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """Everything that the HTML report shows of one image beside its verdict.

    Attributes:
        layers: from the top to the bottom, as they lie on each other.
        pins: watched files, moved ones first.
        distributions: every distribution of base and image by name.
        assets: the columns of the matrix: paths inside a model's folder.
        matrix: model to one cell a column.
    """

    layers: tuple[ShownLayer, ...]
    pins: tuple[Pin, ...]
    distributions: tuple[Reading, ...]
    assets: tuple[str, ...]
    matrix: tuple[tuple[str, tuple[Cell, ...]], ...]


def exhibit(evidence: Evidence) -> Exhibit:
    """Gather what is shown."""
    columns = tuple(sorted({_column(asset) for asset in evidence.lock.assets}))
    return Exhibit(
        layers=tuple(reversed(_layers(evidence))),
        pins=tuple(sorted(_pins(evidence), key=lambda pin: (not pin.moved, pin.name, pin.path))),
        distributions=tuple(_distributions(evidence)),
        assets=columns,
        matrix=tuple(_matrix(evidence, columns)),
    )


def _layers(evidence: Evidence) -> list[ShownLayer]:
    base = {layer.number: layer for layer in evidence.base_layers}
    sizes = [layer.descriptor.size for layer in evidence.image.layers if layer.descriptor]
    largest = max(sizes, default=0)
    shown = []
    for layer in evidence.image.layers:
        proven = base.get(layer.number)
        size = layer.descriptor.size if layer.descriptor else None
        shown.append(
            ShownLayer(
                number=layer.number,
                digest=str(layer.descriptor.digest if layer.descriptor else layer.diff_id),
                step=layer.created_by,
                size=size,
                is_base=proven is not None,
                proof=proven.proof.value if proven else "",
                is_proven=proven is None or proven.proof in _UNCHANGED,
                share=100 * size / largest if size and largest else 0.0,
            )
        )
    return shown


def _pins(evidence: Evidence) -> Iterable[Pin]:
    lock = evidence.lock
    locked, found = _by_path(lock.base.facts.native), _by_path(evidence.facts.native)
    base_env, env = _environment(lock.config), _environment(evidence.image.config)
    before = _versions(lock.base.facts.distributions)
    now = _versions(evidence.facts.distributions)
    for path in sorted(locked.keys() | found.keys()):
        sides = locked.get(path, {}), found.get(path, {})
        readings = [
            (component, Reading(source=source, locked=value[0], found=value[1]))
            for (component, source), value in _joined(*sides).items()
        ]
        component = min((component for component, _ in readings), key=len)
        node = lock.files.get(path) or lock.layer.get(path)
        owner = node.owner.partition("==")[0] if node is not None else ""
        claimed = [reading for _, reading in readings if reading.source == _CLAIMED]
        claimed += [
            Reading(source=name, locked=value[0], found=value[1])
            for name, value in _joined(base_env, env).items()
            if _speaks_of(name, component)
        ]
        recorded = Reading(source=owner, locked=before.get(owner, ""), found=now.get(owner, ""))
        yield Pin(
            name=component,
            path=path,
            claimed=tuple(claimed),
            recorded=(recorded,) if owner else (),
            real=tuple(
                _labelled(reading, said_of, component)
                for said_of, reading in readings
                if reading.source != _CLAIMED
            ),
        )


def _labelled(reading: Reading, said_of: str, component: str) -> Reading:
    """Say what of the component a reading is about, where it is not its version (``commit``)."""
    part = said_of.removeprefix(f"{component} ")
    return reading if part == said_of else replace(reading, source=f"{part}, {reading.source}")


def _by_path(
    readings: Iterable[NativeReading],
) -> dict[str, dict[tuple[str, str], str]]:
    grouped: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for reading in readings:
        grouped[reading.path][reading.component, reading.source] = reading.value
    return grouped


def _joined(one: Mapping[_Key, str], other: Mapping[_Key, str]) -> dict[_Key, tuple[str, str]]:
    return {
        key: (one.get(key, ""), other.get(key, "")) for key in sorted(one.keys() | other.keys())
    }


def _environment(config: ImageConfig | None) -> dict[str, str]:
    return dict(config.config.environment) if config is not None and config.config else {}


def _speaks_of(variable: str, component: str) -> bool:
    """Say whether a variable such as ``NV_CUDNN_VERSION`` claims a component's version."""
    words = variable.upper().split("_")
    name = component.upper().removeprefix("LIB")
    return words[-1] == "VERSION" and bool({name, f"LIB{name}"} & set(words))


def _distributions(evidence: Evidence) -> Iterable[Reading]:
    before = _versions(evidence.lock.base.facts.distributions)
    for name, (locked, found) in _joined(before, _versions(evidence.facts.distributions)).items():
        yield Reading(source=name, locked=locked, found=found)


def _versions(distributions: Iterable[Distribution]) -> dict[str, str]:
    versions: dict[str, list[str]] = defaultdict(list)
    for found in distributions:
        versions[canonicalize_name(found.name)].append(found.version)
    return {name: ", ".join(sorted(several)) for name, several in versions.items()}


def _column(asset: LockedAsset) -> str:
    return asset.source.removeprefix(f"recipes/{asset.model}/")


def _matrix(evidence: Evidence, columns: tuple[str, ...]) -> Iterable[tuple[str, tuple[Cell, ...]]]:
    models: dict[str, dict[str, LockedAsset]] = defaultdict(dict)
    for asset in evidence.lock.assets:
        models[asset.model][_column(asset)] = asset
    for model, assets in sorted(models.items()):
        yield model, tuple(_cell(evidence, assets.get(column)) for column in columns)


def _cell(evidence: Evidence, asset: LockedAsset | None) -> Cell:
    if asset is None:
        return Cell(state="none")
    node = evidence.tree.get(asset.target)
    state = "absent"
    if node is not None:
        state = "present" if node.sha256 == asset.sha256 else "changed"
    return Cell(state=state, target=f"/{asset.target}", size=asset.size)
