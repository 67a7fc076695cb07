"""Random builds with RUN lines that really run: busybox is the base's shell and its tools.

Package managers and downloads are stubs; scripts of the context move, copy and remove what they
like. Each asset has a place where it is expected; what a real build holds there is compared with
what was said before.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

MODELS = ("a", "b", "c")
TOOLS = [
    "sh",
    "cp",
    "mv",
    "rm",
    "mkdir",
    "ln",
    "touch",
    "cat",
    "echo",
    "find",
    "sed",
    "tar",
    "chmod",
    "ls",
    "true",
    "false",
    "test",
    "xargs",
    "tr",
    "env",
    "rmdir",
    "gzip",
    "install",
    "dirname",
    "basename",
    "head",
    "grep",
    "sort",
    "tee",
    "truncate",
    "sleep",
    "id",
    "wc",
    "printf",
]
STUBS = ("apt-get", "pip", "curl", "useradd", "git", "npm", "ldconfig", "uv")
FOLDERS = ("/opt/recipes", "/tmp/recipes", "/src/recipes", "/out", "/opt", "/srv/r")
ROOT = "/opt/recipes"


@dataclass
class RunCase:
    """A context and a Dockerfile.

    Attributes:
        files: text by path.
        dockerfile: its text.
    """

    files: dict[str, str] = field(default_factory=dict)
    dockerfile: str = ""

    def write(self, folder: Path, busybox: Path) -> None:
        """Write the context with a base in `bb`."""
        for path, text in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
            (folder / path).chmod(0o755)
        (folder / "bb/bin").mkdir(parents=True)
        (folder / "bb/tmp").mkdir()
        shutil.copy(busybox, folder / "bb/bin/busybox")
        (folder / "bb/bin/busybox").chmod(0o755)
        for tool in TOOLS:
            (folder / "bb/bin" / tool).symlink_to("busybox")
        for stub in STUBS:
            (folder / "bb/bin" / stub).write_text("#!/bin/sh\nexit 0\n")
            (folder / "bb/bin" / stub).chmod(0o755)
        (folder / "Dockerfile").write_text(self.dockerfile)

    def __str__(self) -> str:
        scripts = "".join(
            f"--- {path}\n{text}\n" for path, text in self.files.items() if path.endswith(".sh")
        )
        return f"{scripts}--- Dockerfile\n{self.dockerfile}"


def a_run_case(rng: random.Random) -> RunCase:
    """Draw a case."""
    case = RunCase()
    for model in MODELS:
        case.files[f"recipes/{model}/t.jinja"] = f"template of {model}\n"
    case.files["recipes/README.md"] = "about\n"
    case.files["src/main.c"] = "int x;\n"
    for name in ("one", "two"):
        lines = [_shell(rng) for _ in range(rng.randint(1, 3))]
        case.files[f"scripts/{name}.sh"] = "\n".join(["#!/bin/sh", *lines, "true"]) + "\n"
    stages = rng.choice([1, 1, 2, 2, 3])
    text: list[str] = []
    for number in range(stages):
        text += _stage(rng, number)
    case.dockerfile = "\n".join(text) + "\n"
    return case


def _stage(rng: random.Random, number: int) -> list[str]:
    lines = [f"FROM scratch AS s{number}", "COPY bb/ /"]
    if rng.random() < 0.4:
        lines.append(f"ENV D={rng.choice(FOLDERS)}")
    if rng.random() < 0.5:
        lines.append(f"WORKDIR {rng.choice(['/opt', '/src', '/tmp', '/w'])}")
    for _ in range(rng.randint(2, 5)):
        draw = rng.random()
        if draw < 0.35:
            lines.append(_copy(rng))
        elif draw < 0.5 and number:
            source = rng.choice([*FOLDERS, "/src", "/opt/recipes/a", "/tmp/recipes/*"])
            before = rng.randrange(number)
            lines.append(f"COPY --from=s{before} {source} {rng.choice(FOLDERS)}{_slash(rng)}")
        else:
            lines += _run(rng)
    return lines


def _slash(rng: random.Random) -> str:
    return rng.choice(["", "/"])


def _copy(rng: random.Random) -> str:
    model = rng.choice(MODELS)
    return rng.choice(
        [
            f"COPY recipes {rng.choice(FOLDERS)}",
            f"COPY recipes {ROOT}",
            f"COPY recipes/ {ROOT}/",
            f"COPY recipes/{model} {rng.choice(FOLDERS)}/{model}",
            f"COPY recipes/{model} {ROOT}/{model}/",
            f"COPY recipes/{model}/t.jinja {ROOT}/{model}/t.jinja",
            f"COPY recipes/{model}/t.jinja {ROOT}/{model}",
            "COPY . /src",
            "COPY . .",
            "COPY scripts /scripts",
            "COPY src /src",
            "COPY recipes/*/t.jinja /out/",
        ]
    )


def _run(rng: random.Random) -> list[str]:
    draw = rng.random()
    commands = [_shell(rng) for _ in range(rng.choice([1, 1, 2, 3]))]
    if draw < 0.12:
        return [
            "RUN "
            + rng.choice(["/scripts/one.sh", "sh /scripts/two.sh", "/src/scripts/one.sh"])
            + " || true"
        ]
    if draw < 0.2:
        name = rng.choice(["one", "two"])
        return [f"RUN --mount=type=bind,source=scripts,target=/m sh /m/{name}.sh"]
    if draw < 0.28:
        inner = rng.choice(["cp -r /m", "cp -r /m/.", "ls /m ; cp -r /m/a"])
        return [f"RUN --mount=type=bind,source=recipes,target=/m {inner} {rng.choice(FOLDERS)}"]
    if draw < 0.36:
        return ["RUN <<EOF", *commands, "true", "EOF"]
    if draw < 0.5:
        return ["RUN " + " \\\n  ; ".join([*commands, "true"])]
    if draw < 0.6:
        return ["RUN set -x; " + " && ".join(commands) + " || true"]
    return ["RUN " + "; ".join([*commands, "true"])]


def _place(rng: random.Random) -> str:
    folder = rng.choice([*FOLDERS, "$D", "${D:-/opt/recipes}", "recipes", "/opt/recipes"])
    return folder + rng.choice(["", "", "/", f"/{rng.choice(MODELS)}", "/*"])


# what most commands of real Dockerfiles are
COMMON = (
    "apt-get update && apt-get install -y x && rm -rf /var/lib/apt/lists/*",
    "pip install --no-cache-dir ray",
    "uv pip install --system -r /src/requirements.txt",
    "curl -fsSL https://example.org/x -o /tmp/x",
    "useradd -m app",
    "npm ci",
    "ldconfig",
    "chmod -R a+rX /opt",
    "mkdir -p /var/cache/x",
    "git clone https://example.org/y.git /tmp/y",
    "ls -la /opt",
)


def _shell(rng: random.Random) -> str:
    model = rng.choice(MODELS)
    if rng.random() < 0.4:
        return rng.choice(COMMON)
    return rng.choice(
        [
            "apt-get update && apt-get install -y x && rm -rf /var/lib/apt/lists/*",
            "pip install --no-cache-dir ray",
            "curl -fsSL https://example.org/x -o /tmp/x",
            "useradd -m app",
            "ldconfig",
            "echo hi > /etc-motd",
            f"mkdir -p {_place(rng).replace('*', 'z')}",
            f"mv {_place(rng)} {rng.choice(FOLDERS)}",
            f"mv /tmp/recipes {ROOT}",
            f"cp -r {_place(rng)} {rng.choice(FOLDERS)}",
            f"cp -r /src/recipes {rng.choice(['/opt', '/opt/', ROOT])}",
            f"cp -a /tmp/recipes/. {ROOT}",
            f"rm -rf {_place(rng)}",
            f"rm -rf /tmp/* {rng.choice(['/srv', '/var'])}",
            f"ln -s {rng.choice(FOLDERS)} {rng.choice(FOLDERS)}",
            f"ln -sfn /tmp/recipes {ROOT}",
            f"for m in a b; do mkdir -p {ROOT}/$m; cp /tmp/recipes/$m/t.jinja {ROOT}/$m/; done",
            f"find {rng.choice(['/opt', '/', '/tmp'])} -name '{rng.choice(['*.md', '*.jinja'])}' -delete",
            f"find {ROOT} -type f | xargs chmod 644",
            "find /tmp/recipes -type f | xargs rm -f",
            f"sed -i s/of/OF/ {ROOT}/{model}/t.jinja",
            f"echo x >> {ROOT}/{model}/t.jinja",
            f"touch {ROOT}/{model}/t.jinja",
            f"cd /opt && rm -rf recipes/{model}",
            f"cd {rng.choice(FOLDERS)}; mv {model} /srv/",
            "(cd /tmp; tar c recipes) | tar x -C /opt",
            f"X=$(echo /opt); rm -rf $X/recipes/{model}",
            "sh -c 'cp -r /tmp/recipes /opt'",
            f"test -d {ROOT} || mkdir -p {ROOT}",
            f"if [ -d /tmp/recipes ]; then mv /tmp/recipes {ROOT}; fi",
            "chmod -R a+rX /opt",
            "ls -la / /opt",
        ]
    )
