"""``native.nccl``: are NCCL's plugins there, and do they speak its interface."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE
from imagegate.checks.image.native_choices import NCCL, both

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.checks.image.evidence import Evidence
    from imagegate.checks.image.native_choices import Choice
    from imagegate.verdict import CheckReport

# variable, and the name that NCCL tries where the value is not a file (NCCL, "Environment variables")
_PLUGINS = {
    "NCCL_NET_PLUGIN": "libnccl-net-{}.so",
    "NCCL_TUNER_PLUGIN": "libnccl-tuner-{}.so",
    "NCCL_PROFILER_PLUGIN": "libnccl-profiler-{}.so",
}
_INTERFACE = "nccl net interface"


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.nccl")
    _, now = both(evidence)
    compared = list(_judge_plugins(now, evidence, findings))
    return findings.report(
        compared, nothing_because="" if compared else "the image names no plugin and brings none"
    )


def _judge_plugins(
    now: Mapping[tuple[str, str], Choice], evidence: Evidence, findings: Findings
) -> Iterator[str]:
    """Judge NCCL's plugins: is the named one there, and do plugin and NCCL speak one interface."""
    before_settings, settings = evidence.base_settings.environment, evidence.settings.environment
    for variable, form in _PLUGINS.items():
        value = settings.get(variable, "")
        if not value or value == "none":
            continue
        loaded = _plugin(value, form, evidence)
        yield f"{variable}: {value} is {f'`/{loaded}`' if loaded else 'not in the image'}"
        if not loaded:
            known = before_settings.get(variable) == value
            add = findings.note if known else findings.fail
            add(
                "plugin-missing",
                variable,
                "it names a plugin that is not in the image; NCCL goes on without, and slower",
                locked=before_settings.get(variable, "nothing"),
                found=value,
                hint="correct the path, or leave the variable to the launch that mounts the plugin",
            )
    yield from _judge_interface(now, evidence, findings)


def _plugin(value: str, form: str, evidence: Evidence) -> str:
    """Find a plugin as NCCL does: the value as a file, then as a part of the name."""
    for name in (value, form.format(value)):
        path = evidence.tree.resolve(name) if "/" in name else evidence.loader.find(name, None).path
        if path:
            return path
    return ""


def _judge_interface(
    now: Mapping[tuple[str, str], Choice], evidence: Evidence, findings: Findings
) -> Iterator[str]:
    setting = evidence.settings.environment.get("NCCL_NET_PLUGIN", "")
    choice = now.get(("torch", NCCL)) or now.get(("vLLM", NCCL))
    plugin = (
        _plugin(setting, _PLUGINS["NCCL_NET_PLUGIN"], evidence)
        if setting
        else evidence.loader.find("libnccl-net.so", None).path
    )
    nccl = choice.path if choice is not None else ""
    if setting == "none" or not plugin or not nccl:
        return
    spoken = {r.path: r.value for r in evidence.facts.native if r.component == _INTERFACE}
    left, right = spoken.get(nccl), spoken.get(plugin)
    yield f"NCCL's network plugin `/{plugin}`: interfaces {right or 'unknown'}, NCCL's {left or 'unknown'}"
    if left is None or right is None or set(left.split()) & set(right.split()):
        return
    base = {r.path: r.value for r in evidence.lock.base.facts.native if r.component == _INTERFACE}
    known = base.get(nccl) == left and base.get(plugin) == right
    node = evidence.tree.get(plugin)
    add = findings.note if known else findings.fail
    add(
        "plugin-interface",
        posixpath.basename(plugin),
        "NCCL and its network plugin share no interface; NCCL goes on over sockets",
        locked=f"ncclNetPlugin_v{left.replace(' ', ', v')}",
        found=f"ncclNetPlugin_v{right.replace(' ', ', v')}",
        place=evidence.place(plugin, node.layer if node else 0),
        hint="take the plugin that was built for this NCCL",
    )


CHECK = Check(
    id="native.nccl",
    question="are the plugins that NCCL is told to load there, and do they speak its interface",
    why="NCCL goes on without a plugin that it cannot use, over sockets and slower",
    fix="correct the path, or take the plugin that was built for this NCCL",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
