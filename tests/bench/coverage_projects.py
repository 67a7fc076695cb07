"""COPY coverage on real projects, against builds with every RUN taken out; prints one table.

Usage: ``python -m tests.bench.coverage_projects FOLDER`` where each folder in FOLDER is a checkout.
Docker with BuildKit has to be there. Nothing of a project is kept.

For every Dockerfile the context is copied with each file's own path as its content, bases are
replaced by ``scratch``, RUN lines are dropped, and the image is exported: what it holds says which
files of the context end where. The same Dockerfile, as it is, is judged by imagegate with every
file of the context as an asset. Then `imagegate coverage --discover` writes a coverage.toml into a
copy of the checkout, and `imagegate coverage` is run on it. *Decided* are files of the image that are not ``unknown``; *wrong*
is a file said to be missing that is in the image, or covered that is not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from imagegate.coverage.outcome import Outcome
from imagegate.coverage.reading.dockerfile import Instruction, parse_dockerfile
from imagegate.errors import ImagegateError
from imagegate.usecases.coverage import check_coverage
from imagegate.usecases.covering.discover import _below, _context, _files, _is_dockerfile, _sources
from imagegate.usecases.covering.wanted import Wanted

# the client of Docker 20.10, which needs no plugin for BuildKit, where there is one
_DOCKER = os.environ.get("DOCKER", "/usr/bin/docker")
# an outcome that says nothing of where the asset is
_SILENT = {Outcome.UNKNOWN, Outcome.UNTRACKED, Outcome.LFS_POINTER}


_LEFT_OUT = {"RUN", "HEALTHCHECK", "CMD", "ENTRYPOINT", "SHELL", "USER", "ONBUILD"}


@dataclass
class Row:
    """One project."""

    name: str
    dockerfiles: int = 0
    built: int = 0
    ended: int = 0
    decided: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    natural: str = ""


def marked(context: Path, goal: Path) -> None:
    """Copy a context; every file holds its own path."""
    for folder, names, files in os.walk(context):
        here = Path(folder)
        names[:] = [name for name in names if name != ".git"]
        inner = here.relative_to(context)
        (goal / inner).mkdir(parents=True, exist_ok=True)
        for name in [*files, *names]:
            source, place = here / name, goal / inner / name
            if source.is_symlink():
                place.symlink_to(source.readlink())
            elif source.is_file():
                keep = name in {".dockerignore", ".containerignore"}
                place.write_bytes(source.read_bytes() if keep else str(inner / name).encode())


def without_runs(content: bytes, dropped: set[int]) -> str:
    """Return the Dockerfile with scratch bases and no RUN; lines in `dropped` are gone, too."""
    parsed = parse_dockerfile(content, "Dockerfile")
    lines = content.decode().splitlines()
    stages: set[str] = set()
    defaults: dict[str, str] = {}
    out: list[str] = []
    for number, instruction in enumerate(parsed.instructions):
        written = lines[instruction.line - 1 : instruction.end]
        name = instruction.name
        if name == "ARG" and not stages:
            pairs = (word.partition("=") for word in instruction.words)
            defaults |= {key: value.strip("\"'") for key, _, value in pairs}
        if name == "FROM":
            out.append(_from(instruction, stages, defaults))
            stages |= {word.lower() for word in instruction.words[2:3]} | {str(len(stages))}
        elif name in _LEFT_OUT or number in dropped or _foreign(instruction, stages):
            continue
        elif name in {"COPY", "ADD"}:
            text = "\n".join(written)
            out.append(re.sub(r"--(?:chown|chmod|link|checksum)(?:=\S+)?\s+", "", text))
        else:
            out.append("\n".join(written))
    return "\n".join(out) + "\n"


def _from(instruction: Instruction, stages: set[str], defaults: dict[str, str]) -> str:
    words = list(instruction.words)
    words[0] = re.sub(r"\$\{?(\w+)\}?", lambda name: defaults.get(name[1], ""), words[0])
    if words[0].lower() not in stages:
        words[0] = "scratch"
    return f"FROM {' '.join(words)}"


def _foreign(instruction: Instruction, stages: set[str]) -> bool:
    if instruction.name not in {"COPY", "ADD"}:
        return False
    source = next((f[7:] for f in instruction.flags if f.startswith("--from=")), None)
    if source is not None:
        return source.lower() not in stages
    return any("://" in word or word.startswith("git@") for word in instruction.words[:-1])


def built(place: Path, context: Path) -> dict[str, list[str]] | None:
    """Return where each file of the context ends in the image without RUN."""
    content = place.read_bytes()
    dropped: set[int] = set()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        marked(context, work / "context")
        own = place.with_name(place.name + ".dockerignore")
        if own.is_file():
            shutil.copy(own, work / "Dockerfile.dockerignore")
        while True:
            (work / "Dockerfile").write_text(without_runs(content, dropped))
            shutil.rmtree(work / "out", ignore_errors=True)
            done = subprocess.run(
                [_DOCKER, "build", "-q", "-f", work / "Dockerfile", "-o", work / "out", work / "context"],
                env={**os.environ, "DOCKER_BUILDKIT": "1"}, capture_output=True, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return _ended(work / "out", context)
            more = _failing(content, dropped, done.stderr.decode())
            if not more:
                print(
                    f"  cannot build {place}: {done.stderr.decode().strip()[-300:]}",
                    file=sys.stderr,
                )
                return None
            dropped |= more


def _failing(content: bytes, dropped: set[int], said: str) -> set[int]:
    """Return the COPY that failed, mostly for want of what a RUN would have made."""
    step = re.search(r"^ > \[.*?\] ((?:COPY|ADD) .*):$", said, re.MULTILINE)
    if step is None:
        return set()
    for number, instruction in enumerate(parse_dockerfile(content, "Dockerfile").instructions):
        if number not in dropped and instruction.name in {"COPY", "ADD"}:
            words = " ".join(instruction.words).replace('"', "")
            if words and step[1].replace('"', "").endswith(words):
                return {number}
    return set()


def _ended(out: Path, context: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for folder, _, files in os.walk(out):
        for name in files:
            place = Path(folder) / name
            if place.is_symlink() or not place.is_file():
                continue
            text = place.read_bytes()[:4096].decode("utf-8", "replace")
            if text and (context / text).is_file():
                found.setdefault(text, []).append("/" + str(place.relative_to(out)))
    return found


def measure(project: Path) -> Row:
    """Judge every Dockerfile of one project."""
    row = Row(project.name, natural=natural(project))
    files = sorted(_files(project))
    for path in (path for path in files if _is_dockerfile(path)):
        place = project / path
        try:
            dockerfile = parse_dockerfile(place.read_bytes(), path)
        except ImagegateError:
            continue
        row.dockerfiles += 1
        context = project / _context(project, path, list(_sources(dockerfile)))
        truth = built(place, context)
        if truth is None:
            continue
        row.built += 1
        start = time.perf_counter()
        (answer,) = check_coverage(
            [Wanted(dockerfile=place, context=context, assets=(".",))], propose_edits=False
        )
        row.seconds += time.perf_counter() - start
        known = set(_below(files, os.path.relpath(context, project)))
        if answer.report is None:
            row.ended += len(truth.keys() & known)
            row.reasons[str(answer.error)[:100]] += len(truth.keys() & known)
            continue
        for verdict in answer.report.judgements[0].verdicts:
            asset = verdict.asset.path
            if asset in truth:
                row.ended += 1
                row.decided += verdict.outcome not in _SILENT
                if verdict.outcome in _SILENT:
                    row.reasons[f"{path}: {verdict.reason}"[:110]] += 1
                elif not verdict.covered and not verdict.found:
                    row.wrong.append(f"{path}: {asset}: {verdict.outcome.value}: {verdict.reason}")
            elif verdict.outcome is Outcome.COVERED and _plain(context / asset):
                row.wrong.append(f"{path}: {asset}: covered, and not in the image")
    return row


def natural(project: Path) -> str:
    """Return what the first run says: assets that are decided of those that are asked for."""
    imagegate = [sys.executable, "-m", "imagegate", "coverage"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "project"
        shutil.copytree(project.resolve(), copy, symlinks=True)
        (copy / "coverage.toml").unlink(missing_ok=True)
        start = time.perf_counter()
        subprocess.run(
            [*imagegate, "--discover"], cwd=copy, env=environment, check=False, capture_output=True
        )
        done = subprocess.run(
            [*imagegate, "--format", "json"],
            cwd=copy,
            env=environment,
            check=False,
            capture_output=True,
        )
        seconds = time.perf_counter() - start
        if not done.stdout:
            return f"exit {done.returncode}: nothing to ask for"
    outcomes = [
        asset["outcome"]
        for build in json.loads(done.stdout)["dockerfiles"]
        for builder in build["builders"]
        for asset in builder["assets"]
    ]
    decided = sum(outcome != "unknown" for outcome in outcomes)
    return f"{decided} of {len(outcomes)}, exit {done.returncode}, {seconds:.1f} s"


def _plain(place: Path) -> bool:
    return place.is_file() and not place.is_symlink()


def main() -> None:
    """Measure and print."""
    rows = [measure(folder) for folder in sorted(Path(sys.argv[1]).iterdir()) if folder.is_dir()]
    print("| project | Dockerfiles | built | assets | decided | wrong | seconds | discovered |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for row in rows:
        share = f"{row.decided} ({100 * row.decided / row.ended:.1f} %)" if row.ended else "-"
        print(
            f"| {row.name} | {row.dockerfiles} | {row.built} | {row.ended} | {share} "
            f"| {len(row.wrong)} | {row.seconds:.2f} | {row.natural} |"
        )
    for row in rows:
        for reason, count in row.reasons.most_common(8):
            print(f"  {row.name}: not decided {count}: {reason}", file=sys.stderr)
        for wrong in row.wrong[:8]:
            print(f"  {row.name}: WRONG {wrong}", file=sys.stderr)


if __name__ == "__main__":
    main()
