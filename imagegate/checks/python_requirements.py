"""``python.requirements``: does every requirement that held in the base still hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.catalog.requirements import (
    BrokenRequirement,
    broken_requirements,
    installed,
    marker_environment,
)
from imagegate.checks.evidence import Check, Evidence, Findings, key_of

if TYPE_CHECKING:
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.requirements")
    overrides = evidence.recipe.document.layer.overrides
    environment = marker_environment(
        evidence.image.config.platform, evidence.recipe.document.python.version
    )
    before = installed(evidence.lock.base.facts.distributions, evidence.base_sites)
    now = installed(evidence.facts.distributions, evidence.sites)
    known = set(broken_requirements(before, environment))
    broken = broken_requirements(now, environment, evidence.requested, overrides)
    for one in broken:
        if one not in known:
            _report(one, evidence, findings)
    compared = [
        f"{label}: {len(pin.requires)} requirements"
        for label, pin in sorted((f"{name}=={pin.version}", pin) for name, pin in now.items())
    ]
    compared += [
        f"known from the base: {one.distribution} requires `{one.requirement}`, "
        f"found={one.found or 'nothing'}"
        for one in broken
        if one in known
    ]
    return findings.report(compared, nothing_because="" if now else "no distribution is installed")


def _report(one: BrokenRequirement, evidence: Evidence, findings: Findings) -> None:
    required = [pin for pin in evidence.facts.distributions if key_of(pin) == one.name]
    path = required[0].path if required else ""
    layer = max((c.layer for c in evidence.changes if c.path.startswith(f"{path}/")), default=0)
    findings.fail(
        "broken",
        one.distribution,
        f"`{one.distribution}` requires `{one.requirement}`, and {one.because}",
        locked=one.requirement,
        found=f"{one.name}=={one.found}" if one.found else "nothing",
        place=evidence.place(path, layer if path else 0),
        hint="resolve both together; `[layer] overrides` declares a requirement that is overruled",
    )


CHECK = Check(
    id="python.requirements",
    question="does every requirement that held in the base still hold, with the extras asked for",
    why="a distribution that was installed past its dependents fails at import or behaves otherwise",
    fix="resolve the layer against the base as fixed; `imagegate lock` does",
    judge=_judge,
)
