"""``native.caches``: does no new file take the place of code that is compiled when it is needed."""

from __future__ import annotations

from imagegate.checks.check import Check
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.places_watched import judge_caches

CHECK = Check(
    id="native.caches",
    question="does no new file take the place of code that is compiled when it is needed",
    why="FlashInfer, Triton, torch and vLLM use what lies in their caches without a look at the source",
    fix="build without a warm cache, or name the files in full under `[[layer.allow]]` with a reason",
    judge=judge_caches,
    revision=1,
    rests_on=ON_THE_BASE,
)
