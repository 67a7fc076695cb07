"""``copy.context`` and ``copy.coverage``: where would the recipe's Dockerfile put each asset.

Both are judged from the text of Dockerfile and ignore file, without building. What the text cannot
say (a command may have changed the path) is settled by the image's bytes, where there is an image,
and by nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Findings
from imagegate.coverage.outcome import Outcome
from imagegate.verdict import Place

if TYPE_CHECKING:
    from collections.abc import Collection

    from imagegate.coverage.copying import Copying
    from imagegate.coverage.outcome import AssetVerdict
    from imagegate.coverage.verdict import Judgement
    from imagegate.verdict import CheckReport

_CODES = {
    Outcome.NOT_IN_CONTEXT: "absent",
    Outcome.UNTRACKED: "untracked",
    Outcome.LFS_POINTER: "lfs-pointer",
    Outcome.IGNORED: "ignored",
    Outcome.EMPTY: "empty",
    Outcome.NOT_COPIED: "not-copied",
    Outcome.OTHER_STAGE: "other-stage",
    Outcome.ELSEWHERE: "elsewhere",
    Outcome.OVERWRITTEN: "overwritten",
    Outcome.DANGLING: "dangling",
    Outcome.BUILD_FAILS: "build-fails",
    Outcome.UNKNOWN: "unknown",
}


def judge_context(copying: Copying) -> CheckReport:
    """Judge whether the builder is sent each asset, with its content."""
    findings = Findings("copy.context")
    judgement = copying.judgement
    if judgement is None:
        return findings.report((), nothing_because=copying.nothing_because)
    # most images are judged without the engine of COPY coverage, which takes a while to load
    from imagegate.coverage.render import explain
    from imagegate.coverage.tree import lookup

    compared = [_builder(copying, judgement)]
    for verdict in judgement.verdicts:
        path = verdict.asset.path
        compared.append(f"{path}: {_sent(judgement, path)}")
        if verdict.outcome is Outcome.LFS_POINTER:
            _fail_context(findings, copying, verdict, "lfs-pointer", explain(verdict))
            continue
        if lookup(judgement.build.main.context.root, path) is None:
            _fail_context(findings, copying, verdict, "absent", "the context has no such file")
            continue
        decided = judgement.evaluation.filter.decide(path, judgement.build.main.context.root)
        if not decided.kept:
            _fail_context(findings, copying, verdict, "ignored", _sent(judgement, path))
        elif decided.emptied:
            _fail_context(findings, copying, verdict, "empty", _sent(judgement, path))
    return findings.report(compared)


def _builder(copying: Copying, judgement: Judgement) -> str:
    builder = judgement.build.builder.title
    return f"`{copying.dockerfile}` with {builder} ({copying.why}); lines are those of the rendered file"


def _sent(judgement: Judgement, path: str) -> str:
    """Say whether a path is sent, and which line decided."""
    decided = judgement.evaluation.filter.decide(path, judgement.build.main.context.root)
    word = "sent" if decided.kept else "dropped"
    if decided.emptied:
        word = "sent with 0 bytes"
    if decided.rule is None:
        return word
    ignore = judgement.build.main.ignore
    text = f"{word} by {ignore.path}:{decided.rule.line} `{ignore.written(decided.rule.line)}`"
    if decided.pruned:
        text += f", the builder does not enter `{decided.pruned}`"
    return text


def _fail_context(
    findings: Findings, copying: Copying, verdict: AssetVerdict, what: str, message: str
) -> None:
    findings.fail(
        what,
        verdict.asset.path,
        f"the builder does not get the asset of `{verdict.asset.model}`: {message}",
        locked="the asset's own content",
        found=what,
        hint=_hint(copying, verdict),
    )


def judge_coverage(copying: Copying, present: Collection[str]) -> CheckReport:
    """Judge whether each asset ends at its path with its own content.

    Args:
        copying: what the text of the build comes to.
        present: sources of the assets that the image's bytes show at their path; these settle
            what the text leaves open. Empty where there is no image.
    """
    findings = Findings("copy.coverage")
    judgement = copying.judgement
    if judgement is None:
        return findings.report((), nothing_because=copying.nothing_because)
    from imagegate.coverage.render import explain

    compared = [_builder(copying, judgement)]
    for verdict in judgement.verdicts:
        asset = verdict.asset
        compared.append(f"{asset.path} to `{asset.expected}`: {explain(verdict)}")
        if verdict.covered:
            continue
        settled = verdict.outcome is Outcome.UNKNOWN and asset.path in present
        say = findings.note if settled else findings.fail
        message = f"`{copying.dockerfile}` does not prove the asset of `{asset.model}`"
        if verdict.outcome is not Outcome.UNKNOWN:
            message = f"`{copying.dockerfile}` does not bring the asset of `{asset.model}`"
        message += f": {explain(verdict)}"
        if settled:
            message += "; the image's bytes show it at its path"
        say(
            _CODES[verdict.outcome],
            asset.path,
            message,
            locked=asset.expected or "",
            found=", ".join(verdict.found) or verdict.outcome.value,
            place=Place(path=(asset.expected or "").lstrip("/")),
            hint=_hint(copying, verdict),
        )
    return findings.report(compared)


def _hint(copying: Copying, verdict: AssetVerdict) -> str:
    proposed = [
        f"`{edit.text}` to `{edit.path}`"
        for edit in copying.edits
        if edit.model == verdict.asset.model
    ]
    if proposed:
        return f"add {' and '.join(dict.fromkeys(proposed))}"
    if verdict.outcome is Outcome.UNKNOWN:
        return "copy the model's folder behind the command that may change it"
    return f"let a COPY of `{copying.dockerfile}` bring the model's folder to its target"
