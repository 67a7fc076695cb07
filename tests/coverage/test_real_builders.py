"""Real builders make what is predicted: random ignore lists, trees and COPY lines, FROM scratch.

The seed of each run is printed; ``COVERAGE_SEED`` repeats one. Needs a docker daemon and buildah,
no registry. ``COVERAGE_DOCKER`` names another docker client, ``COVERAGE_BUILDX`` a buildx program
(also looked for in ``.peers`` and on the path), ``COVERAGE_BUILDAH`` another buildah.
"""

from __future__ import annotations

import io
import itertools
import os
import random
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagegate.coverage.dockerfile import parse_dockerfile
from imagegate.coverage.evaluate import Build, FilteredContext, evaluate
from imagegate.coverage.ignorefile import NO_IGNORE_FILE, read_ignore_file
from imagegate.coverage.profiles import (
    BUILDAH,
    BUILDAH_128,
    BUILDKIT,
    BUILDKIT_20,
    CLASSIC,
    CLASSIC_20,
    Profile,
)
from imagegate.coverage.tree import Kind, Node, walk
from imagegate.errors import CoverageError
from imagegate.usecases.coverage import Request, check_coverage, read_context

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.engines

DOCKER = os.environ.get("COVERAGE_DOCKER", "/usr/bin/docker")
BUILDAH_PROGRAM = os.environ.get("COVERAGE_BUILDAH", "buildah")
PEER = Path(__file__).parents[2] / ".peers/usr/libexec/docker/cli-plugins/docker-buildx"
BUILDX = (
    os.environ.get("COVERAGE_BUILDX")
    or shutil.which("docker-buildx")
    or (str(PEER) if PEER.exists() else None)
)
CASES = 100
MANY_CASES = 2000
UNKNOWN_SHARE = 0.02
# what a container engine puts into a container's root on its own
ENGINE_PATHS = frozenset({"dev", "etc", "proc", "sys", ".dockerenv"})

Tree = dict[str, str]


@dataclass
class Case:
    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    ignore: str | None = None
    dockerfile: str = ""

    def write(self, folder: Path) -> None:
        for path in self.folders:
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for path, target in self.links.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(target)
        if self.ignore is not None:
            (folder / ".dockerignore").write_text(self.ignore)
        (folder / "Dockerfile").write_text(self.dockerfile)

    def __str__(self) -> str:
        return (
            f"files={sorted(self.files)} links={self.links} folders={sorted(self.folders)}\n"
            f"--- .dockerignore\n{self.ignore}\n--- Dockerfile\n{self.dockerfile}"
        )


# -- the generator

FOLDERS = ["recipes", "recipes/k", "recipes/m", "recipes/k/sub", "src", "a", "ab", "a/b", "a/b/c"]
NAMES = ["t.jinja", "c.json", "README.md", ".env", "x", "foo", "a", "b", "k", "f+g.txt"]


def a_case(rng: random.Random, profile: Profile) -> Case:
    case = Case()
    folders = rng.sample(FOLDERS, rng.randint(2, 6))
    for _ in range(rng.randint(3, 12)):
        folder = rng.choice(["", *folders])
        path = f"{folder}/{rng.choice(NAMES)}" if folder else rng.choice(NAMES)
        if not _collides(case, path):
            case.files[path] = f"content of {path}".encode()
    for _ in range(rng.choice([0, 0, 1, 2])):
        folder = rng.choice(["", *folders])
        path = f"{folder}/l{rng.randint(1, 2)}" if folder else f"l{rng.randint(1, 2)}"
        target = rng.choice([*case.files, *folders, "nowhere", "../src", "../a", "/recipes"])
        if not _collides(case, path):
            case.links[path] = target
    for path in rng.sample(folders, rng.choice([0, 0, 1])):
        if not _collides(case, path):
            case.folders.add(path)
    if rng.random() < 0.85:
        case.ignore = an_ignore_file(rng, case)
    case.dockerfile = a_dockerfile(rng, case, profile)
    return case


def _collides(case: Case, path: str) -> bool:
    known = {*case.files, *case.links}
    parts = path.split("/")
    above = {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    below = any(other.startswith(path + "/") for other in (*known, *case.folders))
    return bool(known & above) or below or path in case.folders


def an_ignore_file(rng: random.Random, case: Case) -> str:
    lines = []
    for _ in range(rng.randint(1, 5)):
        pattern = a_pattern(rng, case)
        if rng.random() < 0.4:
            pattern = "!" + pattern
        lines.append(pattern)
    if rng.random() < 0.3:
        lines.insert(0, rng.choice(["*", "**", "recipes", "**/*.json", "recipes/*", "*/*"]))
    if rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines)), rng.choice(["# note", "", " # x", "\t", "./", "/"]))
    return rng.choice(["\n", "\n", "\n", "\r\n"]).join(lines) + rng.choice(["", "\n"])


def a_pattern(rng: random.Random, case: Case) -> str:
    path = rng.choice([*case.files, *case.links, *FOLDERS])
    parts = path.split("/")
    parts = parts[: rng.randint(1, len(parts))]
    for number, part in enumerate(parts):
        draw = rng.random()
        if draw < 0.15:
            parts[number] = "*"
        elif draw < 0.22:
            parts[number] = "**"
        elif draw < 0.30:
            parts[number] = rng.choice(["*" + part[1:], part[:-1] + "*", part[:1] + "?" * 2])
        elif draw < 0.33:
            parts[number] = rng.choice([f"[{part[0]}z]" + part[1:], "[^z]" + part[1:]])
        elif draw < 0.36:
            parts[number] = rng.choice(["**" + part[1:], part[:1] + "**", "*.*", "{a,b}", "a|b*"])
    pattern = "/".join(parts)
    draw = rng.random()
    if draw < 0.1:
        pattern = rng.choice(["/", "./", "**/"]) + pattern
    elif draw < 0.2:
        pattern += rng.choice(["/", "/*", "/**"])
    elif draw < 0.22:
        pattern = rng.choice([" " + pattern, pattern + " ", "x/../" + pattern, "\\" + pattern])
    return pattern


def a_dockerfile(rng: random.Random, case: Case, profile: Profile) -> str:
    lines = ["FROM scratch AS one", "WORKDIR /w"]
    if rng.random() < 0.2:
        lines += ["ARG D=/d", "ENV E=${D}/e X=$D"]
    for _ in range(rng.randint(1, 3)):
        lines.append(a_copy(rng, case, profile, variables=len(lines) > 2))
    if rng.random() < 0.35:
        start = rng.choice(["scratch", "scratch", "one"])
        lines += [f"FROM {start} AS two", "WORKDIR /w2"]
        for _ in range(rng.randint(1, 2)):
            source = rng.choice(["/w", "/w/", "/o", "/o/recipes", "/", "/w/*", "/o/k"])
            name = rng.choice(["one", "one", "0"])
            lines.append(f"COPY --from={name} {source} {a_destination(rng)}")
        if rng.random() < 0.5:
            lines.append(a_copy(rng, case, profile, variables=False))
    return "\n".join(lines) + "\n"


def a_copy(rng: random.Random, case: Case, profile: Profile, *, variables: bool) -> str:
    words = ["ADD" if rng.random() < 0.1 else "COPY"]
    known = profile.frontend.flags
    if "exclude" in known and words == ["COPY"] and rng.random() < 0.15:
        words += [f"--exclude={a_pattern(rng, case).strip()}" for _ in range(rng.randint(1, 2))]
    elif "link" in known and rng.random() < 0.1:
        words.append("--link")
    if "parents" in known and words[0] == "COPY" and rng.random() < 0.1:
        words.append("--parents")
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        words.append(a_source(rng, case))
    words.append(a_destination(rng))
    if variables and rng.random() < 0.3:
        words[-1] = rng.choice(["$X/v/", "${E}/", "${U:-/u}/", "${D:+/p}/q", "$X"])
    return " ".join(words)


def a_source(rng: random.Random, case: Case) -> str:
    draw = rng.random()
    if draw < 0.15:
        return rng.choice([".", "./", "/"])
    path = rng.choice([*case.files, *case.links, *FOLDERS, "recipes", "recipes/k"])
    if draw < 0.5:
        path = path.rpartition("/")[0] or path
    parts = path.split("/")
    if draw > 0.75:
        number = rng.randrange(len(parts))
        part = parts[number]
        parts[number] = rng.choice(["*", part[:1] + "*", "*" + part[1:], f"[{part[0]}]" + part[1:]])
    path = "/".join(parts)
    if rng.random() < 0.1:
        path = rng.choice(["/", "./", "a/../"]) + path
    return path + ("/" if rng.random() < 0.1 else "")


def a_destination(rng: random.Random) -> str:
    return rng.choice(
        ["/o/", "/o", "/o/", "/w", ".", "./", "rel", "rel/", "/o/recipes", "/o/k/", "/", "/o/x"]
    )


# -- running builders


def read_tree(root: Path) -> Tree:
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            place = Path(folder) / name
            path = place.relative_to(root).as_posix()
            if place.is_symlink():
                found[path] = f"-> {place.readlink()}"
            elif place.is_dir():
                found[path] = "directory"
            else:
                found[path] = "file " + place.read_bytes().decode("utf-8", "replace")
    return found


def read_tar(content: bytes) -> Tree:
    found: Tree = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            path = member.name.removeprefix("./").rstrip("/")
            if not path or path.partition("/")[0] in ENGINE_PATHS:
                continue
            if member.isdir():
                found[path] = "directory"
            elif member.issym():
                found[path] = f"-> {member.linkname}"
            else:
                taken = archive.extractfile(member)
                assert taken is not None
                found[path] = "file " + taken.read().decode("utf-8", "replace")
    return found


class BuilderFaultError(Exception):
    """The builder failed for a reason of its own; the message is its."""


class Builder:
    """A real builder; what it stores between builds lies in `storage`."""

    name: str
    profile: Profile

    def __init__(self, storage: Path) -> None:
        self._storage = storage

    def build(self, context: Path) -> Tree | None:
        """Build; ``None`` when the builder gives up."""
        raise NotImplementedError

    def _run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command, capture_output=True, check=False, env={**os.environ, **environment}
        )


def daemon_version() -> str:
    asked = subprocess.run(
        [DOCKER, "version", "--format", "{{.Server.Version}}"], capture_output=True, check=True
    )
    return asked.stdout.decode().strip()


# Docker's own frontend up to 28 has no `--parents`, and its graph drivers cannot merge layers
DOCKER_28 = replace(
    BUILDKIT,
    frontend=replace(
        BUILDKIT.frontend,
        flags=BUILDKIT.frontend.flags - {"parents", "unpack"},
        merges_links=False,
    ),
)


class DockerBuildKit(Builder):
    name = "buildkit"

    def __init__(self, storage: Path) -> None:
        super().__init__(storage)
        self.profile = BUILDKIT_20 if daemon_version().startswith("20.") else DOCKER_28

    def command(self) -> list[str]:
        return [DOCKER, "build"]

    def build(self, context: Path) -> Tree | None:
        return self.build_file(context, context / "Dockerfile")

    def build_file(self, context: Path, dockerfile: Path) -> Tree | None:
        """Build `dockerfile` over `context`; nothing comes from an earlier build's cache."""
        out = context.with_name("out")
        shutil.rmtree(out, ignore_errors=True)
        done = self._run(
            *self.command(),
            "--file",
            str(dockerfile),
            "--no-cache",
            "--output",
            str(out),
            str(context),
            DOCKER_BUILDKIT="1",
        )
        if done.returncode:
            assert not re.search(rb"Cannot connect|no space left", done.stderr), done.stderr
            return None
        return read_tree(out)


class Buildx(DockerBuildKit):
    """A current client, which filters the context, on the daemon's BuildKit, which copies."""

    name = "buildx"

    def __init__(self, storage: Path) -> None:
        super().__init__(storage)
        self.profile = replace(
            BUILDKIT, name=f"buildx on {daemon_version()}", frontend=self.profile.frontend
        )

    def command(self) -> list[str]:
        assert BUILDX is not None
        return [BUILDX, "build"]


class DockerClassic(Builder):
    name = "classic"

    def __init__(self, storage: Path) -> None:
        super().__init__(storage)
        self.profile = CLASSIC_20 if daemon_version().startswith("20.") else CLASSIC

    def build(self, context: Path) -> Tree | None:
        done = self._run(
            DOCKER, "build", "--quiet", "--no-cache", str(context), DOCKER_BUILDKIT="0"
        )
        if done.returncode:
            assert b"Cannot connect" not in done.stderr, done.stderr
            # two layers in a row that change nothing confuse its layer store (moby/moby#38866)
            if b"layer does not exist" in done.stderr + done.stdout:
                raise BuilderFaultError(done.stderr.decode())
            return None
        image = done.stdout.decode().strip().splitlines()[-1]
        made = self._run(DOCKER, "create", image, "none")
        container = made.stdout.decode().strip()
        assert made.returncode == 0, made.stderr
        try:
            return read_tar(self._run(DOCKER, "export", container).stdout)
        finally:
            self._run(DOCKER, "rm", container)
            self._run(DOCKER, "rmi", image)


class Buildah(Builder):
    name = "buildah"

    def __init__(self, storage: Path) -> None:
        super().__init__(storage)
        asked = subprocess.run([BUILDAH_PROGRAM, "--version"], capture_output=True, check=True)
        minor = int(asked.stdout.decode().split()[2].split(".")[1])
        self.profile = BUILDAH_128 if minor < 35 else BUILDAH

    def build(self, context: Path) -> Tree | None:
        out = context.with_name("out")
        shutil.rmtree(out, ignore_errors=True)
        done = self._run(
            BUILDAH_PROGRAM, "--root", f"{self._storage}/root",
            "--runroot", f"{self._storage}/run", "--storage-driver", "vfs",
            "build", "--isolation", "chroot", "--layers=false",
            "--output", f"type=local,dest={out}", str(context),
        )  # fmt: skip
        if done.returncode:
            return None
        return read_tree(out)


def builders() -> list[type[Builder]]:
    return [DockerBuildKit, DockerClassic, Buildah, *([Buildx] if BUILDX else [])]


# -- comparing


def predict(context: Path, profile: Profile) -> Tree | str | None:
    """Return the predicted tree, ``None`` for a failing build, or why it is not known."""
    ignore = NO_IGNORE_FILE
    place = context / ".dockerignore"
    try:
        if place.exists():
            ignore = read_ignore_file(place.read_bytes(), ".dockerignore", profile.reader)
        done = evaluate(
            Build(
                dockerfile=parse_dockerfile((context / "Dockerfile").read_bytes(), "Dockerfile"),
                dockerfile_path="Dockerfile",
                profile=profile,
                main=FilteredContext(context=read_context(context), ignore=ignore),
            )
        )
    except CoverageError:
        return None
    if done.failures:
        return None
    unknown = done.image.doubt or next(
        (node.doubt for _, node in walk(done.image) if node.doubt), None
    )
    return unknown or {path: shown(node, context) for path, node in walk(done.image)}


def shown(node: Node, context: Path) -> str:
    if node.kind is Kind.DIRECTORY:
        return "directory"
    if node.kind is Kind.LINK:
        return f"-> {node.target}"
    origin = node.origin
    assert origin is not None
    if origin.inline is not None:
        return "file " + origin.inline
    if origin.emptied:
        return "file "
    return "file " + (context / origin.path).read_bytes().decode("utf-8", "replace")


def compare(builder: Builder, seed: int, numbers: Iterable[int]) -> str:
    """Build random cases and compare; the answer says what was seen.

    A failing build says little, so three of four that are foreseen to fail are drawn again.
    """
    built = failed = unknown = faults = cases = 0
    for number in numbers:
        cases += 1
        rng = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory(prefix="coverage-") as scratch:
            for attempt in itertools.count():
                case = a_case(rng, builder.profile)
                context = Path(scratch) / f"case{attempt}" / "context"
                context.mkdir(parents=True)
                case.write(context)
                predicted = predict(context, builder.profile)
                if predicted is not None or rng.random() < 0.25:
                    break
            if isinstance(predicted, str):
                unknown += 1
                continue
            try:
                real = builder.build(context)
            except BuilderFaultError:
                faults += 1
                continue
            failed += real is None
            built += real is not None
            assert real == predicted, (
                f"{builder.name} ({builder.profile.name}), seed {seed}, case {number}:\n{case}\n"
                f"{difference(real, predicted)}"
            )
    assert unknown + faults <= max(1, UNKNOWN_SHARE * cases)
    return (
        f"{built} images equal, {failed} failures foreseen, "
        f"{unknown} unknown, {faults} faults of the builder"
    )


def difference(real: Tree | None, predicted: Tree | None) -> str:
    if real is None or predicted is None:
        return f"real={real}\npredicted={predicted}"
    paths = sorted(real.keys() | predicted.keys())
    return "\n".join(
        f"{path}: real={real.get(path)} predicted={predicted.get(path)}"
        for path in paths
        if real.get(path) != predicted.get(path)
    )


@pytest.mark.parametrize("kind", builders(), ids=lambda kind: kind.name)
def test_a_hundred_random_builds_come_out_as_predicted(kind: type[Builder], tmp_path: Path) -> None:
    seed = int(os.environ.get("COVERAGE_SEED", random.SystemRandom().randrange(1_000_000)))
    builder = kind(tmp_path)
    print(f"{builder.name} ({builder.profile.name}): seed {seed}")
    print(compare(builder, seed, range(CASES)))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", builders(), ids=lambda kind: kind.name)
def test_two_thousand_random_builds_come_out_as_predicted(
    kind: type[Builder], tmp_path: Path
) -> None:
    seed = int(os.environ.get("COVERAGE_SEED", random.SystemRandom().randrange(1_000_000)))
    builder = kind(tmp_path)
    print(f"{builder.name} ({builder.profile.name}): seed {seed}")
    print(compare(builder, seed, range(MANY_CASES)))


@pytest.mark.parametrize("kind", [DockerBuildKit, *([Buildx] if BUILDX else [])])
def test_after_the_repair_a_real_build_holds_all_ten_models(
    kind: type[DockerBuildKit], tmp_path: Path
) -> None:
    models = [f"model{number}" for number in range(10)]
    project = tmp_path / "project"
    for model in models:
        (project / "recipes" / model).mkdir(parents=True)
        (project / "recipes" / model / "template.jinja").write_text(f"template of {model}")
    debian = project / "packaging/debian"
    debian.mkdir(parents=True)
    dockerfile = debian / "Dockerfile"
    dockerfile.write_text(
        "FROM scratch AS build\n"
        "COPY recipes/model0 /b/recipes/model0\nCOPY recipes/model1 /b/recipes/model1\n"
        "FROM scratch\nCOPY --from=build /b/recipes /usr/share/engine/recipes\n"
    )
    (debian / "Dockerfile.dockerignore").write_text("*\n!recipes/model0\n!recipes/model1\n")
    builder = kind(tmp_path)
    wanted = {f"usr/share/engine/recipes/{model}/template.jinja": model for model in models}

    before = builder.build_file(project, dockerfile)
    assert before is not None
    assert len(before.keys() & wanted.keys()) == 2

    request = Request(dockerfiles=(dockerfile,), context=project, recipes=("recipes/*",))
    (report,) = check_coverage(request, fix=True)
    assert report.covered

    after = builder.build_file(project, dockerfile)
    assert after is not None
    for path, model in wanted.items():
        assert after[path] == f"file template of {model}"
