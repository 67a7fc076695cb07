"""``python.requirements``: does every requirement that held in the base still hold."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from imagegate.catalog.requirements import (
    BrokenRequirement,
    broken_requirements,
    installed,
    marker_environment,
)
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import Evidence, command_of, command_words, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.facts import Distribution
    from imagegate.verdict import CheckReport

# an option of a launch command, the value that it has to have, and the distribution that is imported
_LAUNCH_NEEDS = (("--distributed-executor-backend", "ray", "ray"),)


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("python.requirements")
    overrides = evidence.recipe.document.layer.overrides
    environment = marker_environment(evidence.image.config.platform, evidence.recipe.python.version)
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
    compared += _judge_launch(before, now, evidence, findings)
    return findings.report(compared, nothing_because="" if now else "no distribution is installed")


def _judge_launch(
    before: Mapping[str, Distribution],
    now: Mapping[str, Distribution],
    evidence: Evidence,
    findings: Findings,
) -> Iterator[str]:
    """Look for what the launch command imports and no distribution requires."""
    words = list(_launch_words(evidence))
    for option, value, name in _LAUNCH_NEEDS:
        following = [after for word, after in pairwise(words) if word == option]
        asked = value in following or f"{option}={value}" in words
        if asked:
            yield f"launch: `{option} {value}` needs {name}, found={name in now}"
        if asked and name not in now:
            findings.fail(
                "launch-needs",
                name,
                f"the launch command says `{option} {value}`, and the image has no `{name}`",
                locked=before[name].version if name in before else name,
                found="nothing",
                hint=f"add `{name}` to requirements.in; bases stop to carry it",
            )


def _launch_words(evidence: Evidence) -> Iterator[str]:
    """Yield the words of the container's command and of the profile's settings."""
    settings = evidence.recipe.document.profile.settings.values()
    texts = [word for value in settings for word in (value if isinstance(value, list) else [value])]
    yield from command_words((*command_of(evidence.settings), *map(str, texts)))


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
    revision=1,
)
