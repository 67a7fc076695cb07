"""The facts of one image, written for people and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from imagegate.foreign import shown
from imagegate.foreign.credentials import redact, redact_document
from imagegate.report.document import escape_unseen
from imagegate.report.snapshot import shown_groups
from imagegate.report.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.facts import Facts
    from imagegate.oci.image import Image
    from imagegate.report.snapshot import Snapshot

SCHEMA = "imagegate-inspection-1"
# groups that are shown whole; files are counted
_SHOWN = ("pins", "distributions", "packages", "libraries", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was read out of one image.

    Attributes:
        compressed: bytes of blobs that were read.
        lock: the recipe whose lock told what the base's layers hold, ``""`` if all were read.
        snapshot: the same facts, in groups.
    """

    image: Image
    facts: Facts
    snapshot: Snapshot
    compressed: int
    lock: str = ""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be read, or was not."""
        kept_back = ("what the base's programs need: its lock does not keep that",)
        return self.snapshot.unknown + (kept_back if self.lock else ())


def render_inspection(inspection: Inspection) -> str:
    """Write the facts for a person."""
    return "".join(f"{shown(line)}\n" for line in _lines(inspection))


def _lines(inspection: Inspection) -> Iterator[str]:
    image, facts = inspection.image, inspection.facts
    yield f"image     {image.digest or 'no manifest digest'} ({image.config.platform})"
    yield f"from      {image.location}"
    if image.index_digest is not None:
        yield f"index     {image.index_digest}"
    told = f"; the base's layers by the lock of `{inspection.lock}`" if inspection.lock else ""
    yield f"read      {format_bytes(inspection.compressed)}{told}"
    yield ""
    yield f"layers: {len(image.layers)}"
    for layer in image.layers:
        size = format_bytes(layer.descriptor.size) if layer.descriptor else "unknown size"
        name = layer.descriptor.digest if layer.descriptor else layer.diff_id
        yield f"  {layer.number} {name} {size} {layer.created_by}".rstrip()
    # what is known of a standard library's own `site` is not an interpreter
    found = [one for one in facts.interpreters if not one.folder]
    yield f"interpreters: {len(found)}"
    yield from (f"  {one.path} {one.python}".rstrip() for one in found)
    yield f"site directories: {len(facts.sites)}"
    yield from (f"  {site.path} ({site.python})" for site in facts.sites)
    groups = shown_groups(inspection.snapshot)
    for group in _SHOWN:
        members = groups[group]
        yield f"{group}: {len(members)}"
        yield from (f"  {name}: {value}" for name, value in sorted(members.items()))
    yield f"start-up files: {len(facts.startup)}"
    for file in facts.startup:
        yield f"  {file.path}: {'; '.join([*file.code, *file.inserts]) or 'nothing'}"
    yield f"loader: {len(facts.loader)}"
    yield from (f"  {one.path}: {', '.join(one.lines) or 'nothing'}" for one in facts.loader)
    yield f"programs and libraries: {len(facts.elf)}"
    yield f"files: {len(inspection.snapshot.groups['files'])}"
    unknown = inspection.unknown
    yield f"unknown: {len(unknown)}"
    yield from (f"  {line}" for line in unknown)


def render_inspection_json(inspection: Inspection) -> bytes:
    """Write the facts as canonical JSON; the same image gives the same bytes."""
    image = inspection.image
    return escape_unseen(
        {
            "schema": SCHEMA,
            "image": {
                "digest": None if image.digest is None else str(image.digest),
                "index": None if image.index_digest is None else str(image.index_digest),
                "location": redact(image.location),
                "platform": str(image.config.platform),
            },
            "layers": [
                {
                    "number": layer.number,
                    "digest": str(layer.descriptor.digest) if layer.descriptor else None,
                    "diff_id": str(layer.diff_id),
                    "step": layer.created_by,
                }
                for layer in image.layers
            ],
            "config": shown_groups(inspection.snapshot)["config"],
            "facts": redact_document(asdict(inspection.facts)),
            "lock": inspection.lock or None,
            "files": len(inspection.snapshot.groups["files"]),
            "unknown": list(inspection.unknown),
        }
    )
