"""``config.moves``: is the container started as the base and the recipe say."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import (
    DEFAULT_PATH,
    Evidence,
    command_of,
    command_words,
)
from imagegate.foreign.credentials import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.oci.documents import ContainerConfig
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
# what builders write about their own work, and no runtime reads (moby, builder/dockerfile and
# daemon/create.go `merge`; buildah, `--identity-label`)
_BOOKKEEPING = frozenset({"Image", "Hostname", "Domainname", "ArgsEscaped"})
_BOOKKEEPING_LABELS = frozenset({"io.buildah.version"})
# the document around the settings: what the format defines and other checks judge, and what
# builders add (image-spec, config.md; Docker image spec v1.2; moby/buildkit, exporter)
_AROUND = frozenset({"architecture", "os", "variant", "rootfs", "history", "created", "author"})
_AROUND |= frozenset({"container", "container_config", "docker_version", "parent", "id", "config"})
_CACHE = "moby.buildkit."
# `base.annotations` judges this one
_OF_ANNOTATIONS = "Label org.opencontainers.image.base.digest"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HINT = "declare it under `[config]`, or keep the build from setting it"


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("config.moves")
    compared = _judge_environment(evidence, findings)
    compared += _judge_fields(evidence, findings)
    _judge_command_environment(evidence, findings)
    _judge_settings_files(evidence, findings)
    compared += _judge_labels(evidence, findings)
    compared += _judge_others(evidence, findings)
    compared += _judge_document(evidence, findings)
    _judge_base_digests(evidence, findings)
    return findings.report(compared)


def _judge_environment(evidence: Evidence, findings: Findings) -> list[str]:
    declared = evidence.recipe.env_over(evidence.lock.base.digest)
    base = evidence.base_settings.environment
    expected = {**base, **declared}
    found = evidence.settings.environment
    _judge_entries(evidence, findings)
    for name in sorted(expected.keys() | found.keys()):
        wanted, value = expected.get(name), found.get(name)
        if wanted == value:
            if value is not None and name in declared and base.get(name) != value:
                _note_declared(name, base.get(name), value, findings)
            continue
        if (name, wanted, value) == ("PATH", None, DEFAULT_PATH):
            findings.note(
                "default-path",
                name,
                "the builder wrote the `PATH` that runtimes take where none is set",
                locked="nothing",
                found=value,
            )
            continue
        findings.fail(
            "env",
            name,
            _about(name, wanted, value, SILENCING.get(name) if value else None),
            locked="nothing" if wanted is None else wanted,
            found="nothing" if value is None else value,
            facts={"value": evidence.seal(f"{wanted}={value}")},
            hint="declare it under `[config.env]`, or keep the step from setting it",
        )
    return [f"Env {name}: {value}" for name, value in sorted(expected.items())]


def _judge_entries(evidence: Evidence, findings: Findings) -> None:
    """Refuse a list of variables that two runtimes read differently.

    Of two entries with one name some take the first and some the last; an entry without ``=`` is
    a variable for some and none for others.
    """
    base = Counter(evidence.base_settings.env or ())
    entries = evidence.settings.env or ()
    names = Counter(entry.partition("=")[0] for entry in entries)
    for name, count in sorted(names.items()):
        own = [entry for entry in entries if entry.partition("=")[0] == name]
        if count > 1 and Counter(own) != Counter({e: base[e] for e in own if base[e]}):
            findings.fail(
                "env-twice",
                name,
                "a variable stands twice; runtimes differ in which one they take",
                locked="one entry",
                found=f"{count} entries",
                facts={"entries": evidence.seal("\0".join(own))},
                hint="set it once",
            )
        if not name or any("=" not in entry and not base[entry] for entry in own):
            findings.fail(
                "env-form",
                name or "an empty name",
                "an entry of `Env` is not `NAME=value`; runtimes differ in what they make of it",
                locked="NAME=value",
                found=own[0],
                facts={"entries": evidence.seal("\0".join(own))},
            )


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
    if wanted is None and _is_watched(name):
        return f"a variable was set that chooses what is loaded: `{name}`"
    if wanted is None:
        return "neither base nor recipe sets this variable"
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
        # an account that nobody declared is `users.declared`'s finding; to run as it is no second
        told = field == "user" and _is_undeclared_account(evidence, found)
        if wanted != found and not reset and not told:
            if field == "user" and section.user is None and _is_undeclared(found, evidence):
                compared.append(f"{name}: `{found}` is refused by `users.declared`")
                continue
            findings.fail(
                field.replace("_", "-"),
                name,
                f"`{name}` is not what base and recipe say",
                locked=wanted or "nothing",
                found=found or "nothing",
                facts={"value": evidence.seal(f"{wanted}={found}")},
                hint=_HINT,
            )
    return compared


def _is_undeclared(user: str, evidence: Evidence) -> bool:
    """Say whether a user is a new account that the recipe does not declare: one cause, told once."""
    name = user.partition(":")[0]
    return evidence.base_is_prefix and any(
        name in (account.name, account.uid) and not account.declared
        for account in evidence.explained.accounts.users
    )


def _is_undeclared_account(evidence: Evidence, user: str) -> bool:
    name = user.partition(":")[0]
    accounts = evidence.explained.accounts.users
    return any(one.name == name and not one.declared for one in accounts)


def _text(value: str | tuple[str, ...] | None) -> str:
    if isinstance(value, tuple):
        return str(list(value)) if value else ""
    # the root folder and user are what runtimes take where nothing is said
    return "" if value in (None, "/", "root", "0", "0:0", "root:root") else str(value)


def _judge_command_environment(evidence: Evidence, findings: Findings) -> None:
    """Look for watched variables that the command itself sets, past the config's Env."""
    before = set(command_words(map(redact, command_of(evidence.base_settings))))
    for word in command_words(map(redact, command_of(evidence.settings))):
        name, equals, value = word.partition("=")
        silenced = SILENCING.get(name) if value else None
        if not equals or word in before or not (silenced or _is_watched(name)):
            continue
        findings.weigh(
            "env-in-command",
            name,
            "the command sets a variable that "
            + (f"turns off {silenced}" if silenced else "chooses what is loaded"),
            because="" if silenced else "the recipe declares this command",
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


def _judge_labels(evidence: Evidence, findings: Findings) -> list[str]:
    declared = evidence.recipe.labels_over(evidence.lock.base.digest)
    expected = {**(evidence.base_settings.labels or {}), **declared}
    found = evidence.settings.labels or {}
    for name in sorted(expected.keys() | found.keys()):
        wanted, value = expected.get(name), found.get(name)
        if wanted == value:
            continue
        findings.weigh(
            "label",
            name,
            "neither base nor recipe sets this label"
            if wanted is None
            else "a label is not what base and recipe say",
            because="a builder writes it about itself" if name in _BOOKKEEPING_LABELS else "",
            locked="nothing" if wanted is None else wanted,
            found="nothing" if value is None else value,
            facts={"value": evidence.seal(f"{wanted}={value}")},
            hint="declare it under `[config.labels]`, or keep the build from setting it",
        )
    return [f"Label {name}: {value}" for name, value in sorted(expected.items())]


def _judge_others(evidence: Evidence, findings: Findings) -> list[str]:
    """Compare every other field: ports, volumes, health, shell, signals, ONBUILD, unknown ones."""
    recipe, section = evidence.recipe, evidence.recipe.document.config
    before, now = _others(evidence.base_settings), _others(evidence.settings)
    expected = dict(before)
    for name, added in (("ExposedPorts", recipe.ports), ("Volumes", section.volumes)):
        if added:
            own = expected.get(name)
            expected[name] = {**(own if isinstance(own, dict) else {}), **{k: {} for k in added}}
    if section.stop_signal is not None:
        expected["StopSignal"] = section.stop_signal
    for name in sorted(expected.keys() | now.keys()):
        wanted, value = expected.get(name), now.get(name)
        if wanted != value:
            findings.fail(
                "setting",
                name,
                f"`{name}` is not what base and recipe say",
                locked=_json(wanted),
                found=_json(value),
                facts={"value": evidence.seal(f"{_json(wanted)}={_json(value)}")},
                hint="keep the build from setting it"
                if name in ("Healthcheck", "Shell", "OnBuild")
                else _HINT,
            )
    return [f"{name}: {_json(value)}" for name, value in sorted(expected.items())]


def _others(settings: ContainerConfig) -> dict[str, object]:
    """Return the fields that are compared as they are, without those that say nothing."""
    extra: dict[str, object] = {**(settings.model_extra or {}), "OnBuild": settings.on_build}
    return {name: value for name, value in extra.items() if value and name not in _BOOKKEEPING}


def _json(value: object) -> str:
    return "nothing" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _judge_document(evidence: Evidence, findings: Findings) -> list[str]:
    """Compare the fields around the settings that no specification and no builder defines."""
    config = evidence.lock.config
    before = _fields(config.model_extra if config else None)
    now = _fields(evidence.image.config.model_extra)
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            findings.fail(
                "document",
                name,
                f"`{name}` of the image's config is not the base's",
                locked=_json(before.get(name)),
                found=_json(now.get(name)),
                facts={"value": evidence.seal(_json(now.get(name)))},
                hint="keep the build from writing it",
            )
    return [f"{name}: {_json(value)}" for name, value in sorted(before.items())]


def _fields(extra: Mapping[str, object] | None) -> dict[str, object]:
    return {
        name: value
        for name, value in (extra or {}).items()
        if value and name not in _AROUND and not name.startswith(_CACHE)
    }


def _judge_base_digests(evidence: Evidence, findings: Findings) -> None:
    """Look for labels and variables that name another base than the one the image stands on."""
    locked = evidence.lock.base
    right = {str(digest) for digest in (locked.digest, locked.index) if digest is not None}
    if not right:
        return
    inherited = {
        **{f"Env {name}": v for name, v in evidence.base_settings.environment.items()},
        **{f"Label {name}": v for name, v in (evidence.base_settings.labels or {}).items()},
    }
    profile = evidence.recipe.declared_over(locked.digest).env
    texts = {
        **{f"Env {name}": v for name, v in evidence.settings.environment.items()},
        **{f"Label {name}": v for name, v in (evidence.settings.labels or {}).items()},
        **{f"profile {name}": v for name, v in profile.items()},
    }
    repository = evidence.recipe.base.name if evidence.recipe.base is not None else ""
    for where, text in sorted(texts.items()):
        # what the base says of itself names what it stands on in turn
        if inherited.get(where) == text or where == _OF_ANNOTATIONS:
            continue
        about_base = "base" in where.lower() or (repository and repository in text)
        others = [found for found in _DIGEST.findall(text) if found not in right]
        if about_base and others:
            findings.fail(
                "base-digest",
                where,
                "it names another base than the one that the image stands on",
                locked=str(locked.digest),
                found=others[0],
                hint="write `{base}` in the recipe: it becomes the locked digest",
            )


CHECK = Check(
    id="config.moves",
    question="is every field of the image's configuration the base's or the recipe's",
    why="one variable chooses another library, another kernel, or turns a check off",
    fix="declare under `[config]` what is meant, and keep the build from setting the rest",
    judge=_judge,
    revision=2,
)
