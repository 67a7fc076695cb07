"""``native.plugins``: does no new file bear a name by which a library is loaded without being needed."""

from __future__ import annotations

from imagegate.checks.check import Check
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.places_watched import judge_plugins

CHECK = Check(
    id="native.plugins",
    question="does no new file bear a name by which a library is loaded without being needed",
    why="NCCL, UCX, NVSHMEM and others load plugins by name; a file of that name is enough",
    fix="keep it out of the layer, or name it in full under `[[layer.allow]]` with a reason",
    judge=judge_plugins,
    revision=2,
    rests_on=ON_THE_BASE,
)
