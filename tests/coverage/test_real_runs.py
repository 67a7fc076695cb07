"""Real builds with RUN lines: nothing that is there is called missing, nothing absent is vouched for.

``COVERAGE_BUSYBOX`` names a static busybox (also looked for in ``.peers`` and on the path).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.builder import Builder as Known
from imagegate.coverage.outcome import Asset, Outcome, Standing
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.verdict import Judgement, judge
from imagegate.errors import CoverageError
from imagegate.usecases.covering.contexts import read_context
from tests.coverage.drawing_runs import MODELS, ROOT, RunCase, a_run_case
from tests.coverage.test_real_builders import Builder, BuilderFaultError, Tree, builders

PEER = Path(__file__).parents[2] / ".peers/usr/bin/busybox"
BUSYBOX = os.environ.get("COVERAGE_BUSYBOX") or (
    str(PEER) if PEER.exists() else shutil.which("busybox") or ""
)
CASES = int(os.environ.get("COVERAGE_CASES", "75"))
MANY_CASES = 750
MOST_UNKNOWN = 0.10
# a share of fewer assets is chance: at 200, one in ten is told from one in six
ENOUGH = 200

pytestmark = pytest.mark.engines


def said_before(folder: Path, builder: Known) -> Judgement | None:
    assets = [
        Asset(
            model=model,
            path=f"recipes/{model}/t.jinja",
            folder=f"recipes/{model}",
            expected=f"{ROOT}/{model}/t.jinja",
        )
        for model in MODELS
    ]
    try:
        return judge(
            Build(
                dockerfile=parse_dockerfile((folder / "Dockerfile").read_bytes(), "Dockerfile"),
                dockerfile_path="Dockerfile",
                builder=builder,
                main=FilteredContext(context=read_context(folder)),
            ),
            assets,
        )
    except CoverageError:
        return None


def in_image(tree: Tree, path: str) -> str | None:
    """Return the text of the file at `path`, links followed."""
    for _ in range(40):
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            entry = tree.get(above, "")
            if entry.startswith("-> "):
                target = entry[3:]
                rest = "/".join(parts[depth:])
                joined = (
                    target if target.startswith("/") else f"{'/'.join(parts[: depth - 1])}/{target}"
                )
                path = os.path.normpath(f"/{joined}/{rest}").lstrip("/")
                break
        else:
            entry = tree.get(path, "")
            return entry.removeprefix("file ") if entry.startswith("file ") else None
    return None


def compare(builder: Builder, seed: int, cases: int) -> str:
    """Build random cases; the answer says how often which standing was right."""
    counts: Counter[str] = Counter()
    for number in range(cases):
        rng = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory(prefix="coverage-") as scratch:
            for attempt in range(20):
                case = a_run_case(rng)
                folder = Path(scratch) / f"case{attempt}" / "context"
                folder.mkdir(parents=True)
                case.write(folder, Path(BUSYBOX))
                (folder.with_name("options.json")).write_text("[]")
                said = said_before(folder, builder.profile)
                if said is not None and not said.evaluation.failures:
                    break
            if said is None:
                continue
            try:
                real = builder.build(folder)
            except BuilderFaultError:
                counts["faults"] += 1
                continue
            counts["failed" if real is None else "built"] += 1
            judge_case(builder, case, said, real, counts, f"seed {seed}, case {number}")
    told = counts["covered"] + counts["noted"] + counts["missing"] + counts["unknown"]
    if told >= ENOUGH:
        assert counts["unknown"] <= MOST_UNKNOWN * told, counts
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def judge_case(
    builder: Builder,
    case: RunCase,
    said: Judgement,
    real: Tree | None,
    counts: Counter[str],
    where: str,
) -> None:
    if real is None:
        # a command may have failed: that is nobody's claim
        return
    for verdict in said.verdicts:
        model = verdict.asset.model
        there = in_image(real, f"{ROOT}/{model}/t.jinja".lstrip("/")) == f"template of {model}\n"
        counts[verdict.standing.name.lower()] += 1
        wrong = (verdict.standing is Standing.MISSING and there) or (
            verdict.standing is Standing.COVERED and not there
        )
        fails = verdict.outcome is Outcome.BUILD_FAILS
        if wrong or fails:
            pytest.fail(
                f"{builder.name}, {where}: {model} is {'there' if there else 'not there'}, said "
                f"{verdict.outcome} {verdict.reason}\n{case}\n--- it said\n{builder.said}"
            )


@pytest.mark.parametrize("kind", builders(), ids=lambda kind: kind.name)
def test_builds_with_commands_hold_what_was_said(kind: type[Builder], tmp_path: Path) -> None:
    seed = int(os.environ.get("COVERAGE_SEED", random.SystemRandom().randrange(1_000_000)))
    builder = kind(tmp_path)
    print(f"{builder.name} ({builder.profile.name}): seed {seed}")
    print(compare(builder, seed, CASES))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", builders(), ids=lambda kind: kind.name)
def test_many_builds_with_commands_hold_what_was_said(kind: type[Builder], tmp_path: Path) -> None:
    seed = int(os.environ.get("COVERAGE_SEED", random.SystemRandom().randrange(1_000_000)))
    builder = kind(tmp_path)
    print(f"{builder.name} ({builder.profile.name}): seed {seed}")
    print(compare(builder, seed, MANY_CASES))
