"""Real builders make what is predicted: random ignore lists, trees and COPY lines, FROM scratch.

The seed of each run is printed; ``COVERAGE_SEED`` repeats one. Needs a docker daemon and buildah,
no registry. ``COVERAGE_DOCKER`` names another docker client, ``COVERAGE_BUILDX`` a buildx program
(also looked for in ``.peers`` and on the path), ``COVERAGE_BUILDAH`` another buildah.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagegate.coverage.building.build import Build, FilteredContext
from imagegate.coverage.building.builder import Builder as Known
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.building.profiles import (
    BUILDAH,
    BUILDAH_128,
    BUILDKIT,
    BUILDKIT_20,
    CLASSIC,
    CLASSIC_20,
)
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.tree import Kind, Node, walk
from imagegate.errors import CoverageError
from imagegate.usecases.coverage import check_coverage
from imagegate.usecases.covering.contexts import read_context
from imagegate.usecases.covering.reading import ignore_for
from imagegate.usecases.covering.wanted import Wanted
from tests.coverage.drawing import Case, a_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

# `--from` named neither stage nor context: the builder asked a registry, of which there is none
OUTSIDE_IMAGE = re.compile(r"no such host|registry-1\.docker\.io")

Tree = dict[str, str]


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
    """A real builder; what it stores between builds lies in `storage`; `said` is its last words."""

    name: str
    profile: Known

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self.said = ""

    def build(self, context: Path) -> Tree | None:
        """Build; ``None`` when the builder gives up."""
        raise NotImplementedError

    @staticmethod
    def _options(context: Path) -> list[str]:
        options: list[str] = json.loads(context.with_name("options.json").read_text())
        return options

    def _run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            command, capture_output=True, check=False, env={**os.environ, **environment}
        )
        self.said = done.stderr.decode("utf-8", "replace")[-1000:]
        return done


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
        flags=BUILDKIT.frontend.flags - {"parents"},
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
        return self.build_file(context, context / "Dockerfile", self._options(context))

    def build_file(
        self, context: Path, dockerfile: Path, options: Sequence[str] = ()
    ) -> Tree | None:
        """Build `dockerfile` over `context`; nothing comes from an earlier build's cache."""
        out = context.with_name("out")
        shutil.rmtree(out, ignore_errors=True)
        done = self._run(
            *self.command(),
            *options,
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
            DOCKER, "build", "--quiet", "--no-cache", *self._options(context), str(context),
            DOCKER_BUILDKIT="0",
        )  # fmt: skip
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
            "--output", f"type=local,dest={out}", *self._options(context), str(context),
        )  # fmt: skip
        if done.returncode:
            return None
        return read_tree(out)


def builders() -> list[type[Builder]]:
    return [DockerBuildKit, DockerClassic, Buildah, *([Buildx] if BUILDX else [])]


# -- comparing


def predict(case: Case, context: Path, profile: Known) -> Tree | str | None:
    """Return the predicted tree, ``None`` for a failing build, or why it is not known."""
    try:
        done = evaluate(
            Build(
                dockerfile=parse_dockerfile((context / "Dockerfile").read_bytes(), "Dockerfile"),
                dockerfile_path="Dockerfile",
                builder=profile,
                main=FilteredContext(
                    context=read_context(context),
                    ignore=ignore_for(context, context / "Dockerfile", profile),
                ),
                build_args=case.build_args,
                target=case.target or None,
            )
        )
    except CoverageError:
        return None
    if done.failures:
        return None
    unknown = next((node.doubt.text for _, node in walk(done.image) if node.doubt), None)
    unknown = unknown or next((hold.text for hold in done.clouds[done.target].holds), None)
    return unknown or {path: shown(node, case) for path, node in walk(done.image)}


def shown(node: Node, case: Case) -> str:
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
    content = case.archives[origin.path][origin.member] if origin.member else None
    if content is None:
        written = {**{path: text.encode() for path, text in case.ignores.items()}, **case.files}
        content = (written | {"Dockerfile": case.dockerfile.encode()})[origin.path]
    return "file " + content.decode("utf-8", "replace")


def compare(builder: Builder, seed: int, numbers: Iterable[int]) -> str:
    """Build random cases and compare; the answer says what was seen.

    A failing build says little, so most that are foreseen to fail are drawn again.
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
                predicted = predict(case, context, builder.profile)
                if predicted is not None or rng.random() < 0.12:
                    break
            if isinstance(predicted, str):
                unknown += 1
                continue
            try:
                real = builder.build(context)
            except BuilderFaultError:
                faults += 1
                continue
            if real is None and predicted is not None and OUTSIDE_IMAGE.search(builder.said):
                faults += 1
                continue
            failed += real is None
            built += real is not None
            assert real == predicted, (
                f"{builder.name} ({builder.profile.name}), seed {seed}, case {number}:\n{case}\n"
                f"{difference(real, predicted)}\n--- it said\n{builder.said}"
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

    build = Wanted(dockerfile=dockerfile, context=project, assets=("recipes/*",))
    (answer,) = check_coverage([build], fix=True)
    assert answer.exit_code == 0

    after = builder.build_file(project, dockerfile)
    assert after is not None
    for path, model in wanted.items():
        assert after[path] == f"file template of {model}"
