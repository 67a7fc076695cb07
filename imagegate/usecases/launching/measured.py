"""What a good start of a digest took, kept beside the profile and used by the next check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from imagegate.localfiles import read_regular
from imagegate.oci.documents import canonical_json
from imagegate.workspace.atomic import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from imagegate.workspace import Workspace


class NodeMeasurement(BaseModel):
    """What the start took on one node, in GiB."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resident: float = Field(ge=0)
    other: float = Field(ge=0)


class ProbeRecord(BaseModel):
    """One probe of a served model.

    Attributes:
        digest: of the image.
        at: when, RFC 3339 in UTC.
        passed: whether every question was answered as it should be.
        results: what was measured, by question.
        nodes: memory by host.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    digest: str
    at: str
    passed: bool
    results: dict[str, Any]
    nodes: dict[str, NodeMeasurement] = Field(default_factory=dict)


def _path(workspace: Workspace, profile: str) -> Path:
    return workspace.profiles() / f"{profile}.probe.json"


def stored_measurements(
    workspace: Workspace, profile: str, digest: str
) -> dict[str, tuple[float, float]]:
    """Return resident and other GiB by host, of the last good probe of exactly this digest."""
    found = {}
    for record in read_records(workspace, profile):
        if record.digest == digest and record.passed:
            found.update({name: (one.resident, one.other) for name, one in record.nodes.items()})
    return found


def read_records(workspace: Workspace, profile: str) -> tuple[ProbeRecord, ...]:
    """Return the stored probes, oldest first; none where there is no such file."""
    try:
        document = json.loads(read_regular(_path(workspace, profile)))
        return tuple(ProbeRecord.model_validate(one) for one in document["probes"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return ()


def store_record(workspace: Workspace, profile: str, record: ProbeRecord) -> Path:
    """Add a probe; the last fifty are kept."""
    records = (*read_records(workspace, profile), record)[-50:]
    document: Mapping[str, Any] = {
        "schema": "imagegate-probe-1",
        "probes": [one.model_dump(mode="json") for one in records],
    }
    path = _path(workspace, profile)
    write_file(path, canonical_json(document))
    return path
