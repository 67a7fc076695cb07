"""A first ``coverage.toml`` from what a repository holds.

Dockerfiles are found by their names. A context is the folder in which the most sources of the COPY
lines exist. What the COPY lines bring into the image is asked for, and so are model assets of which
a part arrives: the rest is what is forgotten.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.asking.document import FILE, parse_coverage_toml
from imagegate.coverage.golang.paths import has_wildcards, inside
from imagegate.coverage.outcome import Outcome
from imagegate.coverage.reading.dockerfile import Dockerfile, Instruction, parse_dockerfile
from imagegate.coverage.tree import Kind, Node
from imagegate.errors import CoverageError, ImagegateError, UsageError
from imagegate.usecases.covering.contexts import read_bytes, read_context
from imagegate.usecases.covering.entries import find_file
from imagegate.usecases.covering.git import git_state
from imagegate.usecases.covering.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from imagegate.coverage.outcome import AssetVerdict


_NAMES = re.compile(r"(?:.*[._-])?(?:dockerfile|containerfile)(?:[._-].*)?", re.IGNORECASE)
_NOT_NAMES = re.compile(
    r".*\.(?:dockerignore|containerignore|j2|jinja2?|tmpl|tpl|template|in|md|rst|txt|py|sh|ya?ml|json"
    r"|toml|go|js|ts|patch|diff|orig|bak)",
    re.IGNORECASE,
)
# folders of other people's files, where git does not say so
_NOT_ENTERED = {".git", "node_modules", ".venv", "venv", "__pycache__", "vendor", ".tox"}
# folders whose files a program reads when it runs
_MODEL_FOLDERS = {
    "recipes", "models", "model_configs", "templates", "chat_templates", "prompts", "configs",
    "tool_parsers", "reasoning_parsers",
}  # fmt: skip
# folders that nothing is served from
_NOT_SERVED = {"test", "tests", "testing", "docs", "doc", "ci"}
# lines of an ignore file that name nothing in particular
_EVERYTHING = {"*", "**", "**/*", "."}
_TEMPLATES = (".jinja", ".jinja2", ".j2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What was written.

    Attributes:
        place: the file.
        summary: what is in it, a clause.
    """

    place: Path
    summary: str


@dataclass(slots=True, kw_only=True)
class _Entry:
    """What one Dockerfile comes to.

    Attributes:
        path: the Dockerfile, relative to the root.
        context: the build context, relative to the root.
        assets: patterns that are asked for.
        exclude: what the ignore file keeps out on purpose.
        left: patterns that are not, with the reason.
    """

    path: str
    context: str = "."
    builder: str = "buildkit"
    assets: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    left: list[str] = field(default_factory=list)


def discover(root: Path) -> Discovered:
    """Write ``coverage.toml`` into `root`.

    Raises:
        UsageError: there is one already, or there is no Dockerfile.
        ImagegateError: it cannot be written.
    """
    existing = find_file(root)
    if existing is not None and existing.parent == root:
        raise UsageError(
            f"`{existing.name}` says already what to judge; nothing is replaced",
            hint="remove it first, or change it by hand",
        )
    files = sorted(_files(root))
    found = [path for path in files if _is_dockerfile(path)]
    entries: list[_Entry] = []
    skipped: list[str] = []
    for path in found:
        try:
            entries.append(_entry(root, path, files))
        except ImagegateError as error:
            skipped.append(f"{path}: {error.message.splitlines()[0]}")
    if not entries:
        more = f" ({'; '.join(skipped)})" if skipped else ""
        raise UsageError(
            f"`{root}` holds no Dockerfile that can be read{more}",
            hint="Dockerfiles are called Dockerfile, Dockerfile.x, x.Dockerfile or Containerfile",
        )
    asked = [entry for entry in entries if entry.assets]
    if not asked:
        raise UsageError(
            f"of {len(entries)} Dockerfiles in `{root}` none brings anything of its context into an "
            "image for sure, so there is nothing to ask for",
            hint="say with `--recipes` what has to be there, or write coverage.toml by hand",
        )
    text = _written(entries, skipped, files)
    parse_coverage_toml(text, FILE)
    place = root / FILE
    try:
        with place.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except OSError as error:
        raise ImagegateError(f"`{place}` cannot be written: {error.strerror}") from error
    return Discovered(
        place=place,
        summary=f"{len(asked)} of {len(found)} Dockerfiles with assets to judge",
    )


# -- what there is


def _files(root: Path) -> Iterable[str]:
    state = git_state(root, ("",))
    if state is not None and not state.refused:
        return state.tracked | state.untracked
    return _walk(read_context(root).root, "")


def _walk(node: Node, prefix: str) -> Iterator[str]:
    for name, child in node.children.items():
        if child.kind is Kind.DIRECTORY:
            if name not in _NOT_ENTERED:
                yield from _walk(child, f"{prefix}{name}/")
        else:
            yield prefix + name


def _is_dockerfile(path: str) -> bool:
    name = posixpath.basename(path)
    return bool(_NAMES.fullmatch(name)) and not _NOT_NAMES.fullmatch(name)


# -- one Dockerfile


def _entry(root: Path, path: str, files: list[str]) -> _Entry:
    """Find context and assets of one Dockerfile.

    Raises:
        CoverageError: it cannot be read as a Dockerfile.
    """
    place = root / path
    dockerfile = parse_dockerfile(read_bytes(place, f"no Dockerfile `{path}`"), path)
    if not any(instruction.name == "FROM" for instruction in dockerfile.instructions):
        raise CoverageError("has no FROM line")
    sources = list(dict.fromkeys(_sources(dockerfile)))
    context = _context(root, path, sources)
    name = posixpath.basename(path).lower()
    entry = _Entry(
        path=path,
        context=context,
        builder="buildah" if "containerfile" in name else "buildkit",
    )
    patterns = list(dict.fromkeys(_patterns(sources, _below(files, context))))
    _choose(root, entry, patterns)
    return entry


def _below(files: list[str], context: str) -> list[str]:
    if context == ".":
        return files
    return [path[len(context) + 1 :] for path in files if path.startswith(f"{context}/")]


def _sources(dockerfile: Dockerfile) -> Iterator[str]:
    """Yield what COPY and ADD take from the main context, as written."""
    for instruction in dockerfile.instructions:
        copies = instruction.trigger or instruction
        if copies.name not in {"COPY", "ADD"} or _from_elsewhere(copies):
            continue
        for word in copies.words[:-1]:
            if inside(word).partition("/")[0] == ".git":
                continue
            if "$" not in word and "://" not in word and not word.startswith(("<<", "git@")):
                yield word


def _from_elsewhere(instruction: Instruction) -> bool:
    return any(flag.startswith("--from=") for flag in instruction.flags)


def _context(root: Path, path: str, sources: list[str]) -> str:
    """Return the folder above the Dockerfile in which the most sources exist."""
    folder = posixpath.dirname(path)
    candidates = ["."]
    parts = folder.split("/") if folder else []
    candidates += ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    counted = {
        candidate: sum(_exists(root / candidate, source) for source in sources)
        for candidate in candidates
    }
    best = max(counted.values())
    good = [candidate for candidate in candidates if counted[candidate] == best]
    specific = any(inside(source) not in ("", "*") for source in sources)
    # where everything is copied the Dockerfile's own folder is as likely as any; a folder of
    # Dockerfiles alone is not what anybody sends
    if not specific and folder and len(good) > 1:
        return good[-1] if _holds_more(root / folder) else good[0]
    return good[0] if best == counted["."] else good[-1]


def _exists(folder: Path, source: str) -> bool:
    fixed = inside(source)
    if has_wildcards(fixed):
        try:
            return any(folder.glob(fixed))
        except (ValueError, NotImplementedError):
            return False
    return (folder / fixed).exists()


def _holds_more(folder: Path) -> bool:
    return any(
        child.is_dir() or not _is_dockerfile(child.name)
        for child in folder.iterdir()
        if not child.name.startswith(".") and child.suffix not in {".md", ".dockerignore"}
    )


# -- assets


def _patterns(sources: list[str], files: list[str]) -> Iterator[str]:
    """Yield patterns of what a Dockerfile brings, and of what may have been forgotten."""
    written = [inside(source) for source in sources]
    grouped = _siblings(written, files)
    whole = "" in written or "*" in written
    for source in written:
        parent = posixpath.dirname(source)
        if source in ("", "*"):
            continue
        if parent in grouped and posixpath.dirname(source) == parent:
            yield f"{parent}/*"
        elif not has_wildcards(source) or not source.endswith("/*"):
            yield _pattern(source)
        else:
            yield f"{parent}/**" if parent else "*"
    covered = tuple(f"{source}/" for source in written if source)
    for pattern in _model_assets(files):
        if whole or pattern.startswith(covered):
            yield pattern
    if whole and not any(True for _ in _model_assets(files)):
        yield from sorted({_pattern(path.partition("/")[0]) for path in files if _worth(path)})


def _pattern(path: str) -> str:
    """Return a pattern that names `path`; what stands for itself in braces is taken as it is."""
    return re.sub(r"([{}])", r"\\\1", path)


def _worth(path: str) -> bool:
    return not path.startswith(".") and not _is_dockerfile(path)


def _siblings(sources: list[str], files: list[str]) -> set[str]:
    """Return folders of which several, alike, are copied one by one: the rest may be forgotten."""
    counted = Counter(posixpath.dirname(source) for source in sources if "/" in source)
    grouped: set[str] = set()
    for parent, count in counted.items():
        names = [path[len(parent) + 1 :] for path in files if path.startswith(f"{parent}/")]
        folders = {name.partition("/")[0] for name in names if "/" in name}
        copied = {posixpath.basename(source) for source in sources} & folders
        inner = Counter(
            posixpath.basename(name) for name in names if name.partition("/")[0] in folders
        )
        if count > 1 and len(copied) > 1 and any(number > 1 for number in inner.values()):
            grouped.add(parent)
    return grouped


def _model_assets(files: list[str]) -> Iterator[str]:
    """Yield patterns of files that a model needs when it is served."""
    found: set[str] = set()
    for path in files:
        parts = path.split("/")
        if any(part.startswith(".") or part in _NOT_SERVED for part in parts):
            continue
        for depth, name in enumerate(parts[:-1]):
            if name in _MODEL_FOLDERS:
                deep = len(parts) > depth + 2
                found.add("/".join(parts[: depth + 1]) + ("/**" if deep else "/*"))
                break
        else:
            if path.endswith(_TEMPLATES) and len(parts) > 1:
                ending = posixpath.splitext(path)[1]
                found.add(f"{posixpath.dirname(path)}/*{ending}")
    for pattern in sorted(found):
        # everything below a folder is more than its files
        if not (pattern.endswith("/*") and f"{pattern}*" in found):
            yield _escaped(pattern)


def _escaped(pattern: str) -> str:
    return re.sub(r"([{}\[?])", r"\\\1", pattern)


def _choose(root: Path, entry: _Entry, patterns: list[str]) -> None:
    """Keep the patterns of which something arrives in the image, and say why the others do not."""
    from imagegate.usecases.coverage import check_coverage

    kept: list[str] = []
    excluded: list[str] = []
    for pattern in patterns:
        wanted = Wanted(
            dockerfile=root / entry.path,
            context=root / entry.context,
            assets=(pattern,),
            builders=(entry.builder,),
        )
        (answer,) = check_coverage([wanted], propose_edits=False)
        if answer.report is None:
            assert answer.error is not None
            entry.left.append(f"{pattern}: {answer.error.message.partition(' in `')[0]}")
            continue
        verdicts = answer.report.judgements[0].verdicts
        if any(_arrives(verdict) for verdict in verdicts):
            kept.append(pattern)
            if not pattern.endswith("/*"):
                excluded += _kept_out(verdicts)
        else:
            first = verdicts[0]
            entry.left.append(f"{pattern}: {first.outcome.value}: {first.reason}")
    entry.assets = tuple(pattern for pattern in kept if not _within(pattern, kept))
    entry.exclude = tuple(dict.fromkeys(excluded))


def _arrives(verdict: AssetVerdict) -> bool:
    return verdict.covered or (bool(verdict.found) and verdict.outcome is not Outcome.UNKNOWN)


def _within(pattern: str, patterns: list[str]) -> bool:
    """Tell whether another pattern names a whole folder that this one lies in."""
    wholes = (other.removesuffix("/**") for other in patterns if other != pattern)
    return any(pattern.startswith(f"{whole}/") for whole in wholes if not whole.endswith("/*"))


def _kept_out(verdicts: Sequence[AssetVerdict]) -> list[str]:
    """Return patterns of what a line of the ignore file names, as far as it names anything."""
    dropped = {
        verdict.asset.path
        for verdict in verdicts
        if verdict.outcome is Outcome.IGNORED
        and verdict.place is not None
        # model assets are not left out on purpose
        and not _MODEL_FOLDERS & set(verdict.asset.path.split("/"))
        and verdict.place.text.strip().strip("/") not in _EVERYTHING
    }
    rest = {verdict.asset.path for verdict in verdicts} - dropped
    held = {above for path in rest for above in _above(path)}
    # the highest folder of which nothing is left
    return sorted(
        {
            _escaped(next((above for above in _above(path) if above not in held), path))
            for path in dropped
        }
    )


def _above(path: str) -> Iterator[str]:
    """Yield the folders above `path`, the highest first."""
    for end, character in enumerate(path):
        if character == "/":
            yield path[:end]


# -- what is written


def _written(entries: list[_Entry], skipped: list[str], files: list[str]) -> str:
    lines = [
        "# What `imagegate coverage` judges; `imagegate coverage --help` explains every key.",
        "# This is a first guess: read it, take out what is not meant, add where things belong, e.g.",
        '#   expect = { "recipes/{model}" = "/opt/recipes/{model}" }',
        "schema = 1",
    ]
    groups: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], list[_Entry]] = {}
    for entry in entries:
        if entry.assets:
            key = entry.context, entry.builder, entry.assets, entry.exclude
            groups.setdefault(key, []).append(entry)
    for (context, builder, assets, exclude), members in groups.items():
        names = [_pattern(member.path) for member in members]
        lines += ["", "[[build]]", f"dockerfile = {_value(names)}"]
        if context != ".":
            lines.append(f"context = {_value([context])}")
        if builder != "buildkit":
            lines.append(f"builders = {_value([builder])}")
        lines.append(f"assets = {_list(assets)}")
        if exclude:
            lines.append("# the ignore file names these")
            lines.append(f"exclude = {_list(exclude)}")
        left = dict.fromkeys(reason for member in members for reason in member.left)
        lines += [f"# not asked for: {_comment(reason)}" for reason in left]
    for entry in entries:
        if not entry.assets:
            why = f" ({'; '.join(entry.left)})" if entry.left else ""
            lines += [
                "",
                f"# {_comment(entry.path)}: brings nothing of its context into the image{_comment(why)}",
            ]
    lines += [f"# {_comment(reason)}" for reason in skipped]
    lines += _described(files)
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "?", text)


def _value(values: list[str]) -> str:
    return _string(values[0]) if len(values) == 1 else _list(values)


def _list(values: Iterable[str]) -> str:
    listed = [_string(value) for value in values]
    line = f"[{', '.join(listed)}]"
    if len(line) <= 80:
        return line
    return "[\n" + "".join(f"    {value},\n" for value in listed) + "]"


def _string(value: str) -> str:
    # JSON's escapes are TOML's
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _described(files: list[str]) -> list[str]:
    """Return comments on bake and compose files, which know targets and arguments better."""
    lines: list[str] = []
    for path in files:
        name = posixpath.basename(path)
        if re.fullmatch(r"docker-bake(\..+)?\.(hcl|json)", name):
            lines += ["", "# [[bake]]", f"# file = {_string(path)}", '# assets = ["…"]']
        elif re.fullmatch(r"(docker-)?compose(\..+)?\.ya?ml", name):
            lines += ["", "# [[compose]]", f"# file = {_string(path)}", '# assets = ["…"]']
    if lines:
        lines.insert(0, "\n# These describe builds with their targets and arguments:")
    return lines
