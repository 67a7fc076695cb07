"""``launch.weights``: are the checkpoints complete, and the same on every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence

if TYPE_CHECKING:
    from imagegate.launch.facts import FaultFacts, NodeFacts, WeightFacts
    from imagegate.verdict import CheckReport

_TEXTS = {
    "absent": "the folder is not there",
    "missing": "a shard that the index names is not there",
    "incomplete": "a download was not finished",
    "cut": "the file is shorter than its header says",
    "surplus": "the file is longer than its header says",
    "lfs-pointer": "this is a Git LFS pointer, not the weights",
    "empty": "the file is empty",
    "zeros": "the file is all zeros",
    "bad-header": "the safetensors header is not sound",
    "bad-index": "the index cannot be read",
    "dead-link": "the link leads nowhere",
    "no-weights": "there are no safetensors",
    "no-index": "several shards and no index that says which are needed",
    "tensor-elsewhere": "tensors are not in the shard that the index names",
    "not-in-index": "the index does not name this shard",
    "sparse": "the file has its size and hardly any data: it was preallocated",
    "no-config": "`config.json` is not there",
    "bad-config": "`config.json` cannot be read",
    "no-processor": "a multimodal model needs its processor's configuration",
    "no-tokenizer": "the tokenizer's files are not there",
    "no-snapshot": "the revision that `refs/main` names is not there",
    "content": "the content is not what its name says (SHA-256)",
}
_NOTES = frozenset({"not-in-index"})


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared: list[str] = []
    for entry in evidence.section.weights:
        held: dict[str, WeightFacts] = {}
        for node in evidence.nodes:
            found = next((w for w in node.weights if w.path == entry.path), None)
            if found is None:
                findings.fail(UNSEEN, node.name, "the checkpoint was not looked at",
                              locked=entry.path, found="no facts of it",
                              hint=f"`imagegate node facts --weights {entry.path}`")  # fmt: skip
                continue
            held[node.name] = found
            for fault in found.faults:
                _fault(node, found, fault, findings)
            read = "" if found.content_read else "; content not read"
            compared.append(
                f"{node.name}: {entry.path}: {found.bytes} B, {found.tensors} tensors{read}"
            )
        _equal(entry.path, held, findings)
        for one in list(held.values())[:1]:
            _model(evidence, one, findings)
    _by_name(evidence, findings)
    return findings.report(
        compared,
        nothing_because="" if compared else "the profile declares no weights ([[serve.weights]])",
    )


def _fault(node: NodeFacts, weights: WeightFacts, fault: FaultFacts, findings: Findings) -> None:
    more = f" ({fault.count} of them)" if fault.count and fault.count > 1 else ""
    findings.weigh(
        fault.what,
        f"{node.name}: {fault.file or weights.path}",
        _TEXTS.get(fault.what, fault.what) + more,
        because="loaders pass it over" if fault.what in _NOTES else "",
        locked="" if fault.needed is None else f"needed={fault.needed}",
        found=fault.what if fault.found is None else f"found={fault.found}",
        hint=f"fetch it again on {node.name}" if fault.what not in _NOTES else "",
    )


def _equal(path: str, held: dict[str, WeightFacts], findings: Findings) -> None:
    digests = {name: one.digest for name, one in held.items() if not one.faults}
    if len(set(digests.values())) < 2:
        return
    names = list(digests)
    first, other = held[names[0]], next(held[n] for n in names if digests[n] != digests[names[0]])
    ours = {f.name: f for f in first.files}
    theirs = {f.name: f for f in other.files}
    differ = sorted(
        name for name in ours.keys() | theirs.keys()
        if (a := ours.get(name)) is None or (b := theirs.get(name)) is None
        or (a.size, a.header, a.sha256 if a.header is None else None)
        != (b.size, b.header, b.sha256 if b.header is None else None)
    )  # fmt: skip
    findings.fail("differ", path, f"the nodes have different checkpoints: {', '.join(differ[:5])}",
                  locked=f"{names[0]}: {digests[names[0]]}",
                  found=", ".join(f"{n}: {d}" for n, d in digests.items() if d != digests[names[0]]),
                  hint="equal names of a revision are not equal content: copy one node's folder")  # fmt: skip


def _model(evidence: LaunchEvidence, weights: WeightFacts, findings: Findings) -> None:
    """Compare architecture and quantisation with what the image's program registers."""
    program, model = evidence.program, weights.model
    if program is None or model is None:
        return
    known = program.lists.get("architectures")
    for name in model.architectures if known is not None else ():
        if known is None or name in known:
            continue
        if name in program.removed:
            findings.fail("architecture-removed", f"{weights.path}: {name}",
                          f"support ended: {program.removed[name]} had it last",
                          locked="an architecture of the image's registry", found=name)  # fmt: skip
        else:
            more = "; `auto_map` brings its own code" if model.auto_map else ""
            findings.note("architecture", f"{weights.path}: {name}",
                          f"the image's registry has no such architecture{more}: a plugin or the "
                          "Transformers fallback has to bring it",
                          locked=f"one of {len(known)} architectures", found=name)  # fmt: skip
    methods = program.lists.get("quantization methods")
    if methods is not None and model.quantization and model.quantization not in methods:
        findings.fail("quantization", f"{weights.path}: {model.quantization}",
                      "the image knows no such quantisation",
                      locked=f"one of {', '.join(methods)}", found=model.quantization)  # fmt: skip


def _by_name(evidence: LaunchEvidence, findings: Findings) -> None:
    """A repository's name is resolved on each node by itself; processors open paths."""
    model = evidence.section.model
    if model.startswith("/"):
        targets = [one.target or one.path for one in evidence.section.weights]
        if targets and not any(
            model == t or model.startswith(t.rstrip("/") + "/") for t in targets
        ):
            findings.fail("model-not-in-weights", model,
                          "the model that is started is in no folder of [[serve.weights]]",
                          locked=", ".join(targets), found=model)  # fmt: skip
        return
    folder = next(
        (one.target or one.path for one in evidence.section.weights if one.role == "model"), ""
    )
    findings.fail("repository-name", model,
                  "a repository's name is given instead of a folder: each node resolves it by "
                  "itself, and processors that open files by path do not find them",
                  locked="a folder inside the container", found=model,
                  hint=f"give {folder}" if folder else "declare the folder in [[serve.weights]]")  # fmt: skip


CHECK = Check(
    id="launch.weights",
    question="is every checkpoint whole on every node, and the same on all of them",
    why="a missing shard or a cut file shows minutes into the start, on one node alone",
    fix="complete the checkpoint, or copy it from the node that has it whole",
    judge=_judge,
    revision=1,
)
