"""``serve.options``: what the recipe starts, against the image's own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.errors import LockError
from imagegate.launch.arguments import judge_environment, judge_section
from imagegate.serving.read import wants_source
from imagegate.serving.table import ServingOptions, decode_options
from imagegate.verdict import Severity

if TYPE_CHECKING:
    from imagegate.checks.image.evidence import Evidence
    from imagegate.recipe.serve import ServeSection
    from imagegate.serving.judge import Problem
    from imagegate.serving.table import Program
    from imagegate.verdict import CheckReport


def options_of(evidence: Evidence) -> ServingOptions:
    """Return the locked options: the layer's programs before the base's."""
    found: dict[str, Program] = {}
    for content in (evidence.lock.base_options, evidence.lock.options):
        if content:
            found |= {one.name: one for one in decode_options(content, "options.json").programs}
    return ServingOptions(programs=tuple(found.values()))


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings(CHECK.id)
    section = evidence.recipe.document.serve
    if section is None:
        return findings.report((), nothing_because="the recipe does not say what is started")
    _changed(evidence, findings)
    try:
        options = options_of(evidence)
    except LockError as error:
        findings.fail("not-read", section.program, error.message, hint=error.hint or "")
        return findings.report(())
    env = dict(evidence.recipe.document.profile.env)
    compared = [_judged(section, options, "", findings)]
    for problem in judge_environment(section, options, env):
        _tell(problem, "", findings)
    compared += [
        _judged(section.chosen(name), options, name, findings) for name in section.variants
    ]
    program = options.program(section.program)
    for note in program.notes if program is not None else ():
        findings.note("not-understood", section.program, f"of its source: {note}")
    for plugin in program.plugins if program is not None else ():
        findings.note("plugin", section.program, f"an installed plugin may add to this: {plugin}")
    return findings.report(compared)


def _judged(
    section: ServeSection, options: ServingOptions, variant: str, findings: Findings
) -> str:
    _, problems = judge_section(section, options)
    for problem in problems:
        _tell(problem, variant, findings)
    program = options.program(section.program)
    read = (
        f"{len(program.options)} options of {program.version}" if program is not None else "nothing"
    )
    where = f" in [serve.{variant}]" if variant else ""
    return f"{len(section.arguments)} words{where} against {read}"


def _tell(problem: Problem, variant: str, findings: Findings) -> None:
    add = findings.fail if problem.severity is Severity.FAIL else findings.note
    add(
        problem.what,
        f"{variant}: {problem.option}" if variant else problem.option or "arguments",
        problem.message,
        locked=f"needed={problem.needed}" if problem.needed else "",
        found=f"found={problem.found}" if problem.found else "",
        hint=problem.hint,
    )


def _changed(evidence: Evidence, findings: Findings) -> None:
    """Options that were read from other source than the image has say nothing about it."""
    for change in evidence.changes:
        if not wants_source(change.path) or change.path.endswith(("METADATA", "entry_points.txt")):
            continue
        if evidence.locked_owner(change.path):
            continue
        findings.fail(
            "source-changed",
            change.path,
            "the layer changes source that declares the serving options: they are other ones now",
            locked="the source that was read at lock",
            found="another file" if change.after is not None else "no file",
            place=evidence.place(change.path, change.layer),
            hint="bring the changed program as a wheel of the layer, and lock again",
        )


CHECK = Check(
    id="serve.options",
    question="does the image's own parser take what `[serve]` starts, in every variant",
    why="a wrong option shows after the image was pulled and the weights were found, or never",
    fix="write what the finding needs; the image's options are in options.json of the lock",
    judge=_judge,
    revision=1,
)
