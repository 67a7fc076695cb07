"""What the base's libraries load for what they need, who brings a second NCCL, and plugins.

A part of ``native.pins``: :mod:`imagegate.checks.image.native_loaded` follows torch and vLLM, here every
other file of the base is followed, so that a library put into an earlier folder is seen.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING

from imagegate.oci.tar import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.catalog.loader import Loaded, Loader
    from imagegate.checks.check import Findings
    from imagegate.checks.image.evidence import Evidence
    from imagegate.checks.image.native_loaded import Choice
    from imagegate.facts import Facts
    from imagegate.rootfs import FileTree

# the driver's library: the host's has to be loaded, which the container runtime mounts
_DRIVER = "libcuda.so.1"
_NCCL = "libnccl.so.2"
_LOADER_ENVIRONMENT = ("LD_LIBRARY_PATH", "LD_PRELOAD")
# variable, and the name that NCCL tries where the value is no file (NCCL, "Environment variables")
_PLUGINS = {
    "NCCL_NET_PLUGIN": "libnccl-net-{}.so",
    "NCCL_TUNER_PLUGIN": "libnccl-tuner-{}.so",
    "NCCL_PROFILER_PLUGIN": "libnccl-profiler-{}.so",
}
_INTERFACE = "nccl net interface"


def judge_needs(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Compare what each untouched library of the base loads with what it loaded in the base."""
    names = _sonames_to_follow(evidence)
    if names is not None and not names:
        yield "what the base's libraries need: no layer adds, hides or reorders any of it"
        return
    moved: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    followed = 0
    for file in evidence.lock.base.facts.elf:
        node = evidence.tree.get(file.path)
        if file.machine != evidence.machine or node is None or node.layer:
            continue
        for soname in file.needed:
            if names is not None and soname not in names:
                continue
            followed += 1
            before = evidence.base_loader.find(soname, file)
            now = evidence.loader.find(soname, file)
            if not _same_bytes(before, now, evidence):
                moved[soname, before.path, now.path].append(file.path)
    for (soname, before_path, now_path), files in sorted(moved.items()):
        _report(soname, before_path, now_path, files, evidence, findings)
    yield f"what the base's libraries need: {followed} loads followed, {len(moved)} moved"


def _sonames_to_follow(evidence: Evidence) -> set[str] | None:
    """Name what may be loaded from elsewhere now; ``None`` where everything may."""
    before, now = evidence.base_settings.environment, evidence.settings.environment
    base = evidence.lock.base.facts
    if base.loader != evidence.facts.loader or any(
        before.get(name) != now.get(name) for name in _LOADER_ENVIRONMENT
    ):
        return None
    needed = {soname for file in base.elf for soname in file.needed}
    touched = {posixpath.basename(change.path) for change in evidence.changes}
    # a link that leads to a folder, or led to one, moves whatever lies behind it
    for change in evidence.changes:
        if change.before is not None and (change.before.target or change.after is None):
            return None
        if change.after is not None and change.after.target:
            behind = evidence.tree.get(evidence.tree.resolve(change.path) or "")
            if behind is not None and behind.kind is Kind.DIRECTORY:
                return None
    return needed & touched


def _same_bytes(before: Loaded, now: Loaded, evidence: Evidence) -> bool:
    if before.path == now.path:
        # the same path with other bytes is `python.content`'s and `files.moves`' to say
        return True
    old = evidence.base_tree.get(before.path) if before.path else None
    new = evidence.tree.get(now.path) if now.path else None
    return old is not None and new is not None and old.sha256 == new.sha256


def _report(
    soname: str, before: str, now: str, files: list[str], evidence: Evidence, findings: Findings
) -> None:
    node = evidence.tree.get(now) if now else None
    # what nothing provided before was the host's to bring; the driver is judged on its own
    add = findings.fail if before else findings.note
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    add(
        "needs-another",
        soname,
        f"`/{files[0]}`{more} of the base load{'' if more else 's'} another `{soname}` than before",
        locked=f"/{before}" if before else "nothing",
        found=f"/{now}" if now else "nothing",
        place=evidence.place(now or before, node.layer if node else 0),
        hint="a folder that is searched earlier has a library of that name",
    )


# --- the driver


def judge_driver(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Say it when the image brings a driver library that is found before the host's.

    The container runtime mounts the host's into a default folder and runs ``ldconfig``, so that
    the loader's configuration counts here whether or not the image has a cache.
    """
    before, now = (
        evidence.base_loader.configured_copy(_DRIVER),
        evidence.loader.configured_copy(_DRIVER),
    )
    if not now.path:
        yield f"driver: no configured folder of the image has `{_DRIVER}`; the host's is loaded"
        return
    yield f"driver: `/{now.path}` is found before the host's: {now.because}"
    node = evidence.tree.get(now.path)
    known = before == now and (node is None or not node.layer)
    add = findings.note if known else findings.fail
    add(
        "driver-in-image",
        _DRIVER,
        "the image's own driver library is loaded instead of the host's; on a newer host that is "
        "CUDA's error 803" + ("; the base has it so" if known else ""),
        locked=f"/{before.path}" if before.path else "nothing",
        found=f"/{now.path} ({now.because})",
        place=evidence.place(now.path, node.layer if node else 0),
        hint="keep CUDA's `compat` and `stubs` folders out of ld.so.conf.d and LD_LIBRARY_PATH",
    )


# --- a second copy in one process


def judge_others(
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
            "first serves both" + ("; the base has it so" if old else ""),
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


# --- plugins


def judge_plugins(
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
                hint="correct the path, or leave the variable to whoever mounts the plugin",
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
    choice = now.get(("torch", _NCCL)) or now.get(("vLLM", _NCCL))
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
