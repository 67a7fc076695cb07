"""``launch.containers``: what runs on the nodes, against what was published."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.recipe.variables import SECRETS

if TYPE_CHECKING:
    from imagegate.checks.launch.evidence import LaunchEvidence
    from imagegate.launch.facts import ContainerFacts, NodeFacts
    from imagegate.verdict import CheckReport

_SERVERS = ("vllm", "sglang", "ray")


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    with_some = [node.name for node in evidence.nodes if evidence.own(node)]
    for node in evidence.nodes:
        own = evidence.own(node)
        for container in own:
            compared.append(f"{node.name}: {container.name} of {container.image}")
            _image(evidence, node, container, findings)
            _variables(evidence, node, container, findings)
            _mounts(evidence, node, container, findings)
            _limits(evidence, node, container, findings)
        if not own and (evidence.running or with_some):
            findings.fail("not-running", node.name, "the profile's container does not run here",
                          locked=evidence.section.container.name or evidence.digest,
                          found=", ".join(c.name for c in node.containers) or "no container",
                          hint=f"it runs on {', '.join(with_some)}" if with_some else "start it")  # fmt: skip
        _others(evidence, node, own, findings)
    _alike(evidence, findings)
    return findings.report(
        compared, nothing_because="" if compared else "nothing of this profile runs yet"
    )


def _image(
    evidence: LaunchEvidence, node: NodeFacts, container: ContainerFacts, findings: Findings
) -> None:
    if not evidence.is_image(container.image, container.image_name, node):
        findings.fail(
            "image",
            f"{node.name}: {container.name}",
            "another image runs under this profile's name",
            locked=evidence.digest or evidence.env.get("IMAGE_ID", ""),
            found=f"{container.image} ({container.image_name or 'no name'})",
            hint="end it and start the published image; a variable of another profile may be set",
        )


def _variables(
    evidence: LaunchEvidence, node: NodeFacts, container: ContainerFacts, findings: Findings
) -> None:
    for name in evidence.section.forward:
        wanted, found = evidence.env.get(name), container.environment.get(name)
        if found is None:
            findings.fail("variable-absent", f"{node.name}: {name}",
                          "a forwarded variable is not in the running container",
                          locked=f"{name}={wanted}", found="not set",
                          hint="start the container again with it; the head alone is not enough")  # fmt: skip
        elif wanted is not None and found not in (wanted, _hashed(wanted)):
            findings.fail("variable", f"{node.name}: {name}",
                          "the running container has another value than the profile",
                          locked=wanted, found=found,
                          hint="containers keep the values they were started with: start it again")  # fmt: skip
    for name in filter(None, evidence.env.get(SECRETS, "").split(",")):
        if not container.environment.get(name):
            findings.fail(
                "secret-absent",
                f"{node.name}: {name}",
                "the profile names a secret that the running container does not have",
                locked=f"{name} is set",
                found="not set",
                hint="hand it over when the container starts; its value is never published",
            )


def _hashed(value: str) -> str:
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()


def _mounts(
    evidence: LaunchEvidence, node: NodeFacts, container: ContainerFacts, findings: Findings
) -> None:
    """Compare the mounts of caches and weights; a repository's folder has to be there whole."""
    digest = evidence.digest.rpartition(":")[2]
    wanted = [
        (one.path.replace("{digest}", digest), one.target, "cache")
        for one in evidence.section.caches
    ]
    wanted += [(one.path, one.target or one.path, "weights") for one in evidence.section.weights]
    for source, target, what in wanted:
        held = [
            m for m in container.mounts
            if m.target and (target == m.target or target.startswith(m.target.rstrip("/") + "/"))
        ]  # fmt: skip
        if not held:
            findings.fail("not-mounted", f"{node.name}: {target}",
                          f"the {what} is not mounted in the running container",
                          locked=f"{source} at {target}", found="no mount",
                          hint="it may be older than the setting: start it again")  # fmt: skip
            continue
        inside = max(held, key=lambda m: len(m.target or ""))
        below = target[len((inside.target or "").rstrip("/")) :]
        if (inside.source or "").rstrip("/") + below != source.rstrip("/"):
            findings.fail("mounted-elsewhere", f"{node.name}: {target}",
                          f"another folder is mounted for the {what}",
                          locked=source, found=f"{inside.source}{below}",
                          hint="kernels of another image must not be used" if what == "cache" else "")  # fmt: skip
        if what == "cache" and not inside.writable:
            findings.fail("cache-read-only", f"{node.name}: {target}", "the cache cannot be written",
                          locked="a writable mount", found="read only")  # fmt: skip


def _limits(
    evidence: LaunchEvidence, node: NodeFacts, container: ContainerFacts, findings: Findings
) -> None:
    wanted = evidence.section.container
    where = f"{node.name}: {container.name}"
    for device in wanted.devices:
        there = container.privileged or any(
            one == device or one.startswith(device.rstrip("/") + "/") for one in container.devices
        )
        if not there:
            findings.fail("device", where, f"`{device}` is not inside: RDMA falls back to TCP silently",
                          locked=device, found=", ".join(container.devices) or "no devices")  # fmt: skip
    if wanted.memory_gib is not None:
        limit = (container.memory_limit or 0) / 2**30
        if not limit:
            findings.fail("no-limit", where, "the container may take all memory of the host",
                          locked=f"{wanted.memory_gib:g} GiB", found="no limit")  # fmt: skip
        elif abs(limit - wanted.memory_gib) > 0.01:
            findings.fail("limit", where, "the container's limit of memory is not the profile's",
                          locked=f"{wanted.memory_gib:g} GiB", found=f"{limit:.2f} GiB")  # fmt: skip
    if wanted.memlock:
        soft = [one.get("Soft") for one in container.memlock]
        if not container.privileged and not any(value == -1 for value in soft):
            findings.fail("memlock", where, "locked memory is limited; RDMA registration fails",
                          locked="-1 (unlimited)", found=str(soft[0]) if soft else "the default")  # fmt: skip


def _others(
    evidence: LaunchEvidence,
    node: NodeFacts,
    own: tuple[ContainerFacts, ...],
    findings: Findings,
) -> None:
    """Another server beside ours takes its memory, and often its port."""
    for container in node.containers:
        if container in own:
            continue
        words = " ".join((*container.command, container.image_name or ""))
        if container.gpus or any(server in words for server in _SERVERS):
            findings.fail("another-model", f"{node.name}: {container.name}",
                          "another container uses the GPU or serves a model",
                          locked=f"{evidence.profile} alone", found=f"{container.name} ({container.image_name})",
                          hint=f"end it: `imagegate launch down` of its profile on {node.name}")  # fmt: skip


def _alike(evidence: LaunchEvidence, findings: Findings) -> None:
    """Compare Ray's authentication between the running containers: a difference is a hang."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        values = {
            node.name: container.environment.get(name)
            for node in evidence.nodes
            for container in evidence.own(node)[:1]
        }
        if len(set(values.values())) > 1:
            shown = ", ".join(f"{node}={_short(value)}" for node, value in values.items())
            findings.fail("ray-auth", name,
                          "Ray's authentication differs between nodes: joining hangs without a word",
                          locked="alike on all nodes", found=shown,
                          hint="forward RAY_AUTH_MODE and the token alike, or disable both")  # fmt: skip


def _short(value: str | None) -> str:
    return "not set" if value is None else value[:23]


CHECK = Check(
    id="launch.containers",
    question="does what runs have the judged image, the profile's values, mounts, devices, limits",
    why="a container keeps what it was started with; what is in a file now says nothing about it",
    fix="end and start the containers with what `imagegate launch args` prints",
    judge=_judge,
    revision=1,
)
