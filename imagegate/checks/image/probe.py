"""``probe.agrees``: does the image say of itself, when it runs, what was read out of its bytes.

Not one of the gate's checks: it needs an engine that runs the image's architecture.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from imagegate.catalog.freeze import freeze
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import Evidence, key_of
from imagegate.checks.image.native_choices import nccl_choice

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Observation
    from imagegate.verdict import CheckReport

_NCCL = ("nccl", "version string")


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("probe.agrees")
    observation = evidence.observation
    if observation is None:
        findings.fail("not-run", "probe", "the image was not run")
        return findings.report(())
    on_path = [pin for pin in evidence.facts.distributions if pin.site in observation.path]
    for pin in evidence.facts.distributions:
        if pin.site not in observation.path:
            findings.note(
                "not-on-path",
                key_of(pin),
                "a distribution lies where the probed Python does not look; it was not compared",
                locked=f"{pin.name}=={pin.version}",
                found="unknown",
                place=evidence.place(pin.path, 0),
            )
    if not on_path:
        findings.fail("nothing-compared", "path", "the probed Python looks into no site directory")
    evidence = replace(evidence, facts=replace(evidence.facts, distributions=tuple(on_path)))
    compared = [
        _judge_freeze(evidence, observation, findings),
        _judge_metadata(evidence, observation, findings),
        *_judge_nccl(evidence, observation, findings),
        _judge_loaded(evidence, observation, findings),
    ]
    return findings.report(line for line in compared if line)


def _judge_freeze(evidence: Evidence, observation: Observation, findings: Findings) -> str:
    """Compare ``pip freeze`` inside with what the bytes say it prints."""
    if observation.freeze is None:
        findings.note("no-pip", "pip freeze", "the image's Python has no pip that answers")
        return ""
    python = evidence.recipe.python.version
    facts = evidence.facts
    static = freeze(facts.distributions, python, (), facts.checkouts)
    expected, found = (
        {line for line in text.splitlines() if line and line[0] != "#"}
        for text in (static, observation.freeze)
    )
    for line in sorted(expected ^ found):
        findings.fail(
            "freeze",
            re.split(r"==| @ ", line)[0],
            "`pip freeze` inside and the image's bytes disagree",
            locked=line if line in expected else "nothing",
            found=line if line in found else "nothing",
            hint="something outside the site directories that were read is on Python's path",
        )
    return f"pip freeze: {len(found)} lines"


def _judge_metadata(evidence: Evidence, observation: Observation, findings: Findings) -> str:
    """Compare what ``importlib.metadata`` finds with the distributions that were read."""
    static: dict[str, set[str]] = {}
    for pin in evidence.facts.distributions:
        static.setdefault(key_of(pin), set()).add(pin.version)
    seen: dict[str, str] = {}
    for name, version in observation.distributions:
        seen.setdefault(canonicalize_name(name), version)  # the first on Python's path counts
    for name in sorted(static.keys() | seen.keys()):
        if name in seen and seen[name] in static.get(name, ()):
            continue
        findings.fail(
            "metadata",
            name,
            "`importlib.metadata` inside and the image's bytes disagree",
            locked=", ".join(sorted(static.get(name, ()))) or "nothing",
            found=seen.get(name, "nothing"),
        )
    return f"importlib.metadata: {len(seen)} distributions"


def _judge_nccl(evidence: Evidence, observation: Observation, findings: Findings) -> list[str]:
    """Compare ``ncclGetVersion`` of each copy with the version string in it."""
    compared = []
    asked = dict(observation.nccl)
    for reading in evidence.facts.native:
        if (reading.component, reading.source) != _NCCL:
            continue
        code = asked.get(reading.path)
        if code is None:
            findings.note(
                "nccl-unknown",
                reading.path,
                "the library could not be asked for its version",
                locked=reading.value,
                found="unknown",
            )
            continue
        compared.append(f"{reading.path}: ncclGetVersion {code}")
        numbers = reading.value.partition("+")[0]
        if not re.match(rf"{re.escape(_version(code))}(?![0-9])", numbers):
            findings.fail(
                "nccl",
                reading.path,
                "`ncclGetVersion` and the version string in the library disagree",
                locked=reading.value,
                found=_version(code),
            )
    return compared


def _judge_loaded(evidence: Evidence, observation: Observation, findings: Findings) -> str:
    """Compare which NCCL a running Python loads by name with what the bytes say it loads."""
    expected, found = nccl_choice(evidence), observation.loaded_nccl
    locked = f"/{expected.path} ({expected.because})" if expected.path else "nothing"
    if found is None or found.with_torch is False:
        if expected.path:
            findings.note(
                "nccl-loaded-unknown",
                expected.path,
                "torch does not start where the image was run"
                if found
                else "no NCCL is loaded by its name where the image was run",
                locked=locked,
                found="unknown",
            )
        return ""
    if found.path != expected.path:
        findings.fail(
            "nccl-loaded",
            found.path,
            "a running Python loads another NCCL than the image's bytes say",
            locked=locked,
            found=f"/{found.path} (ncclGetVersion {found.code})",
            hint="something loads it first or redirects it: a start-up hook, a preloaded library",
        )
    return f"NCCL by its name: /{found.path}, ncclGetVersion {found.code}"


def _version(code: int) -> str:
    """Read NCCL's version code (nccl.h): X*10000+Y*100+Z, up to 2.8 X*1000+Y*100+Z."""
    thousand = 10000 if code >= 10000 else 1000
    major, rest = divmod(code, thousand)
    minor, patch = divmod(rest, 100)
    return f"{major}.{minor}.{patch}"


PROBE = Check(
    id="probe.agrees",
    question="does the running image say of itself what was read out of its bytes",
    why="a start-up hook or a path that nobody read can make Python see another distribution",
    fix="find what changes Python's path inside: PYTHONPATH, .pth files, sitecustomize",
    judge=_judge,
    revision=1,
)
