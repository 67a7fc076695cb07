"""``native.loads``: does torch, vLLM and everything beside them load the same copies as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.native_choices import NCCL, both, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.catalog.loader import Loader
    from imagegate.checks.image.evidence import Evidence
    from imagegate.checks.image.native_choices import Choice
    from imagegate.facts import Facts
    from imagegate.rootfs import FileTree
    from imagegate.verdict import CheckReport


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.loads")
    before, now = both(evidence)
    compared = [
        *_judge_choices(before, now, evidence, findings),
        *_judge_two_in_one(before, now, findings),
        *_judge_others(before, now, evidence, findings),
    ]
    return findings.report(
        compared, nothing_because="" if compared else "neither torch nor vLLM is in the image"
    )


def _judge_choices(
    before: Mapping[tuple[str, str], Choice],
    now: Mapping[tuple[str, str], Choice],
    evidence: Evidence,
    findings: Findings,
) -> Iterator[str]:
    """Compare which copies are loaded with the base's; yields a line for each."""
    for key, choice in sorted(now.items()):
        yield choice.text
        old = before.get(key)
        if old is not None and (old.path, old.sha256) != (choice.path, choice.sha256):
            findings.fail(
                "loads-another",
                choice.soname,
                f"{choice.who} loads another copy of `{choice.soname}` than in the base",
                locked=f"/{old.path} ({old.because})" if old.path else "nothing",
                found=f"/{choice.path} ({choice.because})" if choice.path else "nothing",
                place=evidence.place(choice.path, layer_of(evidence, choice.path)),
            )


def _judge_two_in_one(
    before: Mapping[tuple[str, str], Choice],
    now: Mapping[tuple[str, str], Choice],
    findings: Findings,
) -> Iterator[str]:
    """Say it when one process would hold two different NCCL."""
    pairs = [(state.get(("torch", NCCL)), state.get(("vLLM", NCCL))) for state in (before, now)]
    differ = [bool(t and v and t.path and v.path and t.sha256 != v.sha256) for t, v in pairs]
    if differ[1]:
        torch, vllm = pairs[1]
        assert torch is not None
        assert vllm is not None
        add = findings.note if differ[0] else findings.fail
        add(
            "two-in-one-process",
            NCCL,
            "torch and vLLM load different builds of NCCL into one process",
            locked=f"/{torch.path}",
            found=f"/{vllm.path}",
        )
        yield f"`{NCCL}`: two builds in one process"


def _judge_others(
    before: Mapping[tuple[str, str], Choice],
    now: Mapping[tuple[str, str], Choice],
    evidence: Evidence,
    findings: Findings,
) -> Iterator[str]:
    """Say it when something else than torch loads another copy of a library that torch loads."""
    known = set(_others(before, evidence.lock.base.facts, evidence.base_loader, evidence.base_tree))
    for soname, requester, path in sorted(
        _others(now, evidence.facts, evidence.loader, evidence.tree)
    ):
        node = evidence.tree.get(requester)
        old = (soname, requester, path) in known and (node is None or not node.layer)
        add = findings.note if old else findings.fail
        yield f"`/{requester}` loads `/{path}` for `{soname}`"
        add(
            "two-in-one-process",
            soname,
            f"`/{requester}` loads another copy of `{soname}` than torch does; whichever is loaded "
            "first serves both" + ("; also true of the base" if old else ""),
            locked=f"/{now['torch', soname].path}",
            found=f"/{path}",
            place=evidence.place(requester, node.layer if node else 0),
        )


def _others(
    choices: Mapping[tuple[str, str], Choice], facts: Facts, loader: Loader, tree: FileTree
) -> Iterator[tuple[str, str, str]]:
    of_torch = {
        soname: choice
        for (who, soname), choice in choices.items()
        if who == "torch" and choice.path
    }
    for file in facts.elf:
        for soname in file.needed:
            choice = of_torch.get(soname)
            if choice is None:
                continue
            path = loader.find(soname, file).path
            node = tree.get(path) if path else None
            if node is not None and node.sha256 != choice.sha256:
                yield soname, file.path, path


CHECK = Check(
    id="native.loads",
    question="does everything load the copies of GPU libraries that it loaded",
    why="two copies of one library in a process, or another one than before, fail or hang at run time",
    fix="find the step in the message; libraries come with the base, not with the layer",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
