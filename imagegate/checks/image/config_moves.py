"""``config.moves``: is the container started as the base and the recipe say."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import (
    DEFAULT_PATH,
    Evidence,
    command_of,
    command_words,
    program_folders,
)
from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.rootfs import FileTree
    from imagegate.verdict import CheckReport

# variables that choose which libraries, modules, packages and kernels are used
WATCHED = (
    *("LD_*", "PYTHON*", "PIP_*", "UV_*", "NCCL_*", "FLASHINFER_*", "VLLM_*", "PATH"),
    # which compiler, toolkit and kernels, which network library
    *("CUDA_*", "TORCH*", "TRITON_*", "DG_*", "CC", "CXX", "CPATH", "LIBRARY_PATH"),
    *("NVSHMEM_*", "UCX_*", "NIXL_*", "FI_*"),
)
# of these, those that turn a check off that would have spoken
SILENCING = {
    "FLASHINFER_DISABLE_VERSION_CHECK": "FlashInfer's check of its own parts",
    "PIP_BREAK_SYSTEM_PACKAGES": "pip's refusal to touch the system's packages",
    "UV_BREAK_SYSTEM_PACKAGES": "uv's refusal to touch the system's packages",
    "PIP_NO_DEPS": "pip's resolving of dependencies",
    "PIP_IGNORE_INSTALLED": "pip's view of what is installed",
    "PIP_ROOT_USER_ACTION": "pip's warning about the system's packages",
    "PIP_TRUSTED_HOST": "pip's check of an index's certificate",
    "UV_INSECURE_HOST": "uv's check of an index's certificate",
    "UV_NO_VERIFY_HASHES": "uv's comparing of hashes",
    "NVIDIA_DISABLE_REQUIRE": "the container runtime's check of the driver",
    "PYTHONWARNINGS": "Python's warnings",
    "NCCL_IGNORE_DISABLED_P2P": "NCCL's check of peer access",
    "VLLM_SKIP_P2P_CHECK": "vLLM's check of peer access",
}
# files from which tools take the same settings as from watched variables
_SETTINGS_FILES = {
    re.compile(r"etc/nccl\.conf|(?:root|home/[^/]+)/\.nccl\.conf"): "NCCL",
    re.compile(r"(?:.*/)?etc/ucx/ucx\.conf|(?:root|home/[^/]+)/\.ucx\.conf"): "UCX",
    re.compile(r"etc/pip\.conf|(?:root|home/[^/]+)/(?:\.config/pip|\.pip)/pip\.conf"): "pip",
    re.compile(r"etc/uv/uv\.toml|(?:root|home/[^/]+)/\.config/uv/uv\.toml"): "uv",
}
_FIELDS = ("entrypoint", "cmd", "user", "working_dir")
# what every build writes about itself (image-spec, annotations.md)
_OF_THE_BUILD = "org.opencontainers.image."


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("config.moves")
    compared = _judge_environment(evidence, findings)
    compared += _judge_fields(evidence, findings)
    compared += _judge_program(evidence, findings)
    _judge_command_environment(evidence, findings)
    _judge_settings_files(evidence, findings)
    compared += _judge_labels(evidence, findings)
    compared += _judge_others(evidence, findings)
    return findings.report(compared)


def _judge_environment(evidence: Evidence, findings: Findings) -> list[str]:
    declared = evidence.recipe.document.config.env
    base = evidence.base_settings.environment
    expected = {**base, **declared}
    found = evidence.settings.environment
    for name in sorted(expected.keys() | found.keys()):
        wanted, value = expected.get(name), found.get(name)
        if wanted == value:
            if value is not None and name in declared and base.get(name) != value:
                _note_declared(name, base.get(name), value, findings)
            continue
        watched = _is_watched(name)
        silenced = SILENCING.get(name) if value else None
        if (name, wanted, value) == ("PATH", None, DEFAULT_PATH):
            watched = False
        if name in expected or watched or silenced:
            findings.fail(
                "env",
                name,
                _about(name, wanted, value, silenced),
                locked="nothing" if wanted is None else wanted,
                found="nothing" if value is None else value,
                hint="declare it under `[config.env]`, or keep the step from setting it",
            )
        else:
            findings.note("env-added", name, "a variable was added", locked="nothing", found=value)
    return [f"Env {name}: {value}" for name, value in sorted(expected.items())]


def _note_declared(name: str, before: str | None, value: str, findings: Findings) -> None:
    """Say it when the recipe itself sets a watched variable: declared is not harmless."""
    if _is_watched(name) or name in SILENCING:
        findings.note(
            "env-declared",
            name,
            "the recipe sets a variable that chooses what is loaded or checked",
            locked=before or "nothing",
            found=value,
        )


def _about(name: str, wanted: str | None, value: str | None, silenced: str | None) -> str:
    if silenced:
        return f"a variable was set that turns off {silenced}"
    if value is None:
        return "a variable of the base or recipe is gone"
    if wanted is None:
        return f"a variable was set that chooses what is loaded: `{name}`"
    return "a variable has another value than base and recipe say"


def _judge_fields(evidence: Evidence, findings: Findings) -> list[str]:
    compared: list[str] = []
    section = evidence.recipe.document.config
    for field in _FIELDS:
        declared, base = getattr(section, field), getattr(evidence.base_settings, field)
        wanted = _text(base if declared is None else declared)
        found = _text(getattr(evidence.settings, field))
        name = "".join(part.capitalize() for part in field.split("_"))
        compared.append(f"{name}: locked={wanted or 'nothing'} found={found or 'nothing'}")
        # a new entrypoint resets the command (config.md; Dockerfile reference, "ENTRYPOINT")
        reset = field == "cmd" and section.entrypoint is not None and declared is None and not found
        if wanted != found and not reset:
            findings.fail(
                field.replace("_", "-"),
                name,
                f"`{name}` is not what base and recipe say",
                locked=wanted or "nothing",
                found=found or "nothing",
                hint="declare it under `[config]`, or keep the build from setting it",
            )
    return compared


def _text(value: str | tuple[str, ...] | None) -> str:
    if isinstance(value, tuple):
        return str(list(value)) if value else ""
    # the root folder and user are what runtimes take where nothing is said
    return "" if value in (None, "/", "root", "0") else str(value)


def _judge_program(evidence: Evidence, findings: Findings) -> list[str]:
    """Look for the program that the container starts (config.md, "Entrypoint", "Cmd")."""
    argv, before = command_of(evidence.settings), command_of(evidence.base_settings)
    if not argv:
        return []
    found = _program(argv[0], evidence.tree, evidence.settings.environment)
    if not found:
        in_base = bool(before) and bool(
            _program(before[0], evidence.base_tree, evidence.base_settings.environment)
        )
        known = before[:1] == argv[:1] and not in_base
        add = findings.note if known else findings.fail
        add(
            "program-missing",
            argv[0],
            "the program that the container starts is not in the image"
            + ("; the base has it so" if known else ""),
            locked=f"`{argv[0]}` in one of {', '.join(program_folders(evidence.settings.environment))}",
            found="nothing",
            hint="install what brings it, or correct `[config] entrypoint` or `cmd`",
        )
    return [f"program {argv[0]}: found={f'/{found}' if found else 'nothing'}"]


def _judge_command_environment(evidence: Evidence, findings: Findings) -> None:
    """Look for watched variables that the command itself sets, past the config's Env."""
    before = set(command_words(command_of(evidence.base_settings)))
    for word in command_words(command_of(evidence.settings)):
        name, equals, value = word.partition("=")
        silenced = SILENCING.get(name) if value else None
        if not equals or word in before or not (silenced or _is_watched(name)):
            continue
        add = findings.fail if silenced else findings.note
        add(
            "env-in-command",
            name,
            "the command sets a variable that "
            + (f"turns off {silenced}" if silenced else "chooses what is loaded"),
            locked="nothing",
            found=value,
            hint="declare it under `[config.env]`, where it is compared",
        )


def _is_watched(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in WATCHED)


def _judge_settings_files(evidence: Evidence, findings: Findings) -> None:
    """Look for new files that say what a watched variable could say."""
    for change in evidence.changes:
        tool = next(
            (tool for form, tool in _SETTINGS_FILES.items() if form.fullmatch(change.path)), ""
        )
        if not tool or change.before is not None or change.after is None:
            continue
        add = findings.note if tool in ("pip", "uv") else findings.fail
        add(
            "settings-file",
            change.path,
            f"{tool} reads its settings from a new file, past the image's Env",
            locked="nothing",
            found=change.after.sha256 or change.after.target,
            place=evidence.place(change.path, change.layer),
            hint="set what is meant under `[config.env]`, where it is compared",
        )


def _program(name: str, tree: FileTree, environment: Mapping[str, str]) -> str:
    """Return the file behind a program's name, ``""`` where there is none."""
    candidates = [name] if "/" in name else [f"{e}/{name}" for e in program_folders(environment)]
    for path in candidates:
        resolved = tree.resolve(path)
        node = tree.get(resolved) if resolved else None
        if resolved is not None and node is not None and node.kind is Kind.FILE:
            return resolved
    return ""


def _judge_labels(evidence: Evidence, findings: Findings) -> list[str]:
    expected = {**(evidence.base_settings.labels or {}), **evidence.recipe.document.config.labels}
    found = evidence.settings.labels or {}
    for name in sorted(expected.keys() | found.keys()):
        wanted, value = expected.get(name), found.get(name)
        if wanted == value:
            continue
        harmless = wanted is None or name.startswith(_OF_THE_BUILD)
        add = findings.note if harmless else findings.fail
        add(
            "label",
            name,
            "a label was added" if wanted is None else "a label is not what base and recipe say",
            locked="nothing" if wanted is None else wanted,
            found="nothing" if value is None else value,
        )
    return [f"Label {name}: {value}" for name, value in sorted(expected.items())]


def _judge_others(evidence: Evidence, findings: Findings) -> list[str]:
    """Compare what the config says beyond the named fields: volumes, ports, health, signals."""
    before, now = (
        _others(evidence.base_settings.model_extra),
        _others(evidence.settings.model_extra),
    )
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            add = findings.fail if name in before else findings.note
            add(
                "setting",
                name,
                f"`{name}` is not the base's",
                locked=str(before.get(name, "nothing")),
                found=str(now.get(name, "nothing")),
            )
    return [f"{name}: {value}" for name, value in sorted(before.items())]


def _others(extra: Mapping[str, object] | None) -> dict[str, object]:
    return {name: value for name, value in (extra or {}).items() if value}


CHECK = Check(
    id="config.moves",
    question="are Env, Entrypoint, Cmd, User, WorkingDir and Labels those of base and recipe",
    why="one variable chooses another library, another kernel, or turns a check off",
    fix="declare under `[config]` what is meant, and keep the build from setting the rest",
    judge=_judge,
    revision=1,
)
