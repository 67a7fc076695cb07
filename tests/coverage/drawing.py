"""Random build contexts: trees, ignore files and Dockerfiles that start ``FROM scratch``.

Everything that the semantics cover is drawn: names with blanks and wildcards, archives, links that
dangle, variables in every form, stages that start from and copy from each other, flags where the
builder has them. A case is small, so that a difference is quickly understood.
"""

from __future__ import annotations

import io
import json
import random
import re
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imagegate.coverage.building.buildah import Buildah

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from imagegate.coverage.building.builder import Builder


@dataclass
class Case:
    """A context and how the builder is called.

    Attributes:
        files: contents by path.
        links: targets by path.
        folders: empty directories.
        ignores: ignore files by path.
        archives: members of each archive by its path in `files`.
        build_args: values of ``--build-arg``.
        target: of ``--target``, empty for none.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    ignores: dict[str, str] = field(default_factory=dict)
    archives: dict[str, dict[str, bytes]] = field(default_factory=dict)
    build_args: dict[str, str] = field(default_factory=dict)
    target: str = ""
    dockerfile: str = ""

    def write(self, folder: Path) -> None:
        """Write the context, and beside it how the builder is called."""
        for path in self.folders:
            (folder / path).mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        for path, target in self.links.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(target)
        for path, text in self.ignores.items():
            (folder / path).write_bytes(text.encode())
        (folder / "Dockerfile").write_bytes(self.dockerfile.encode())
        options = [f"--build-arg={name}={value}" for name, value in self.build_args.items()]
        options += [f"--target={self.target}"] if self.target else []
        folder.with_name("options.json").write_text(json.dumps(options))

    def __str__(self) -> str:
        ignores = "".join(f"--- {path}\n{text!r}\n" for path, text in self.ignores.items())
        return (
            f"files={sorted(self.files)} links={self.links} folders={sorted(self.folders)}\n"
            f"args={self.build_args} target={self.target!r} archives={self.archives}\n"
            f"{ignores}--- Dockerfile\n{self.dockerfile}"
        )


FOLDERS = ["recipes", "recipes/k", "recipes/m", "recipes/k/sub", "src", "a", "ab", "a/b", "a/b/c"]
NAMES = ["t.jinja", "c.json", "README.md", ".env", "x", "foo", "a", "b", "k", "f+g.txt"]
ODD_FOLDERS = ["my model", "[x]", "a.b", "..d", "é", "recipes/k 2", "recipes/[m]", "{a,b}"]
ODD_NAMES = [
    "a b",
    "[x]",
    "x.",
    "..y",
    "é",
    "#h",
    "!e",
    "a*b",
    "q?",
    "$v",
    "-d",
    "it's",
    "a|b",
    "^f",
]


def a_case(rng: random.Random, profile: Builder) -> Case:
    """Draw a case that `profile` may or may not be able to build."""
    case = Case()
    odd = rng.random() < 0.3
    pool = [*FOLDERS, *ODD_FOLDERS] if odd else FOLDERS
    names = [*NAMES, *ODD_NAMES] if odd else NAMES
    folders = rng.sample(pool, rng.randint(2, 6))
    for _ in range(rng.randint(3, 12)):
        folder = rng.choice(["", *folders])
        path = f"{folder}/{rng.choice(names)}" if folder else rng.choice(names)
        if not _collides(case, path):
            case.files[path] = f"content of {path}".encode()
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        folder = rng.choice(["", *folders])
        path = f"{folder}/l{rng.randint(1, 2)}" if folder else f"l{rng.randint(1, 2)}"
        target = rng.choice(
            [*case.files, *folders, "nowhere", "../src", "../a", "/recipes", ".", "..", "l1", "/"]
        )
        if not _collides(case, path):
            case.links[path] = target
    for path in rng.sample(folders, rng.choice([0, 0, 1])):
        if not _collides(case, path):
            case.folders.add(path)
    if rng.random() < 0.25:
        _draw_archive(rng, case, folders)
    _draw_ignore_files(rng, case, profile)
    case.dockerfile = _Drawer(rng, case, profile).dockerfile()
    return case


def _collides(case: Case, path: str) -> bool:
    known = {*case.files, *case.links}
    parts = path.split("/")
    above = {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    below = any(other.startswith(path + "/") for other in (*known, *case.folders))
    return bool(known & above) or below or path in case.folders


def _draw_archive(rng: random.Random, case: Case, folders: Sequence[str]) -> None:
    """An archive under any name, or a name without an archive: the content decides."""
    folder = rng.choice(["", *folders])
    name = rng.choice(["p.tar", "p.tar.gz", "p.tgz", "p.txt", "x"])
    path = f"{folder}/{name}" if folder else name
    if _collides(case, path):
        return
    if rng.random() < 0.15:
        case.files[path] = b"no archive at all"
        return
    members = {
        rng.choice(["m", "d/m", "d/n", "./e/m", "recipes/k/t.jinja", "x"]): b""
        for _ in range(rng.randint(1, 3))
    }
    members = {
        member: f"content of {member} in {path}".encode()
        for member in members
        # a member below another one's name would be another matter
        if not any(other != member and other.startswith(member + "/") for other in members)
    }
    packed = io.BytesIO()
    mode = rng.choice(["w:", "w:gz", "w:bz2", "w:xz"])
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for member, content in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    case.files[path] = packed.getvalue()
    case.archives[path] = {member.removeprefix("./"): text for member, text in members.items()}


def _draw_ignore_files(rng: random.Random, case: Case, profile: Builder) -> None:
    if rng.random() < 0.8:
        case.ignores[".dockerignore"] = an_ignore_file(rng, case)
    if rng.random() < 0.12:
        case.ignores["Dockerfile.dockerignore"] = rng.choice(
            ["", "# nothing\n", an_ignore_file(rng, case), an_ignore_file(rng, case)]
        )
    if rng.random() < (0.12 if isinstance(profile, Buildah) else 0.03):
        name = rng.choice([".containerignore", "Dockerfile.containerignore"])
        case.ignores[name] = an_ignore_file(rng, case)


def an_ignore_file(rng: random.Random, case: Case) -> str:
    """Draw the text of an ignore file that has to do with the case's paths."""
    lines = []
    for _ in range(rng.randint(1, 5)):
        pattern = a_pattern(rng, case)
        if rng.random() < 0.4:
            pattern = rng.choice(["!", "!", "!", "!", "! "]) + pattern
        lines.append(pattern)
    if rng.random() < 0.3:
        lines.insert(0, rng.choice(["*", "**", "recipes", "**/*.json", "recipes/*", "*/*"]))
    if rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines)), rng.choice(["# note", "", " # x", "\t", "./", "/"]))
    if rng.random() < 0.05:
        lines.append(rng.choice(["Dockerfile", ".dockerignore", "**/Dockerfile", "!Dockerfile"]))
    if rng.random() < 0.01:
        lines.append(rng.choice(["!", "[", "a\\", "! ", "[z-a]", "..", "!!foo", "\\!e"]))
    text = rng.choice(["\n", "\n", "\n", "\r\n"]).join(lines) + rng.choice(["", "\n"])
    return ("\ufeff" if rng.random() < 0.03 else "") + text


def a_pattern(rng: random.Random, case: Case) -> str:
    """Draw a pattern near a path of the case."""
    path = rng.choice([*case.files, *case.links, *FOLDERS])
    parts = path.split("/")
    parts = parts[: rng.randint(1, len(parts))]
    for number, part in enumerate(parts):
        parts[number] = _near(rng, part)
    pattern = "/".join(parts)
    draw = rng.random()
    if draw < 0.1:
        pattern = rng.choice(["/", "./", "**/", "//"]) + pattern
    elif draw < 0.2:
        pattern += rng.choice(["/", "/*", "/**", "/.", "//"])
    elif draw < 0.23:
        pattern = rng.choice(
            [" " + pattern, pattern + " ", "x/../" + pattern, "\\" + pattern, "/../" + pattern]
        )
    return pattern


def _near(rng: random.Random, part: str) -> str:
    """Change one component of a path into a pattern that may still match it."""
    draw = rng.random()
    if draw < 0.15:
        return "*"
    if draw < 0.22:
        return "**"
    if draw < 0.30:
        return rng.choice(["*" + part[1:], part[:-1] + "*", part[:1] + "?" * 2])
    if draw < 0.33:
        return rng.choice([f"[{part[0]}z]" + part[1:], "[^z]" + part[1:], f"[a-z]{part[1:]}"])
    if draw < 0.36:
        return rng.choice(["**" + part[1:], part[:1] + "**", "*.*", "{a,b}", "a|b*", part + "**"])
    if draw < 0.37:
        return rng.choice(["[!z]" + part[1:], "a+b*", "[*]x", "^" + part, part + "$", "(a)*"])
    if draw < 0.40 and re.search(r"[*?\[]", part):
        return re.sub(r"([*?\[])", r"\\\1", part)
    return part


DESTINATIONS = ["/o/", "/o", "/o/", "/w", ".", "./", "rel", "rel/", "/o/recipes", "/o/k/", "/"]
ODD_DESTINATIONS = [
    "/o/.",
    "/o//x",
    "/o/../p/",
    "..",
    "../q",
    "./x/..",
    "/o/./k",
    "rel/.",
    "/w/../o",
]
# what makes no difference to files; VOLUME as the last line makes an empty folder in buildah 1.28
NOISE = ["# a comment", "", "LABEL a=b", "EXPOSE 80", 'CMD ["x"]', "USER 1000"]


class _Drawer:
    """Draws the Dockerfile of one case."""

    def __init__(self, rng: random.Random, case: Case, profile: Builder) -> None:
        self._rng = rng
        self._case = case
        self._profile = profile
        self._names: list[str] = []
        self._variables: list[str] = []

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def dockerfile(self) -> str:
        rng = self._rng
        lines: list[str] = []
        if self._chance(0.08):
            lines.append(rng.choice(["ARG D=/meta", "ARG B=scratch"]))
        stages = rng.choice([1, 1, 1, 2, 2, 3])
        for number in range(stages):
            lines += self._stage(number, lines)
        if stages > 1 and self._chance(0.1):
            self._case.target = rng.choice([*filter(None, self._names), "0", "nowhere"])
        if self._chance(0.1):
            self._case.build_args[rng.choice("DQ")] = rng.choice(["/built", "v/", ""])
        text = "\n".join(lines) + rng.choice(["\n", "\n", ""])
        return text.replace("\n", "\r\n") if self._chance(0.03) else text

    def _stage(self, number: int, before: list[str]) -> list[str]:
        rng = self._rng
        base = "scratch"
        if number and self._chance(0.3):
            base = rng.choice([name for name in self._names if name] or ["scratch"])
        if "ARG B=scratch" in before and self._chance(0.5):
            base = "$B"
        name = ["one", "Two", "three"][number] if self._chance(0.9) else ""
        lines = [f"FROM {base}" + (f" AS {name}" if name else "")]
        if self._chance(0.8):
            lines.append(f"WORKDIR {rng.choice(['/w', '/w', '/w/', 'w', '/w//v', '/w/../w2'])}")
        if self._chance(0.25):
            lines += self._assignments()
        for _ in range(rng.randint(1, 3)):
            if number and self._chance(0.6):
                lines.append(self._copy_from())
            else:
                lines.append(self._copy())
            if self._chance(0.08):
                folder = rng.choice(["sub", "/o", "/o/k", "..", "$Q", "/new/", "recipes"])
                lines.append(f"WORKDIR {folder}")
            if self._chance(0.08):
                lines.append(rng.choice(NOISE))
        if self._chance(0.04):
            lines.append("ONBUILD " + self._copy())
        self._names.append(name)
        return lines

    def _assignments(self) -> list[str]:
        rng = self._rng
        drawn = rng.sample(
            [
                "ARG D=/d",
                "ARG D",
                "ENV E=${D}/e X=$D",
                "ENV E /e",
                'ENV X="/x y" Q=q',
                "ENV D=/env",
                "ARG D=/again",
                "ARG Q=${D:-q}",
                "ENV Q='$D'",
            ],
            rng.randint(1, 3),
        )
        self._variables = ["D", "E", "X", "Q"]
        return drawn

    def _word(self) -> str:
        """A destination with a variable in one of the forms."""
        rng = self._rng
        forms = [
            "$X/v/",
            "${E}/",
            "${U:-/u}/",
            "${D:+/p}/q",
            "$X",
            "/o/${Q}/",
            "/o/\\$X",
            "'/o/$X'",
        ]
        forms += ['"/o/$Q/"', "/o$Q/", "${D:-$E}/", "${U:-${Q:-/n}}/", "${Q:?no}/"]
        frontend = self._profile.frontend
        if frontend.plain_defaults or self._chance(0.1):
            forms += ["${U-/u}/", "${D+/p}/q", "${Q?no}/"]
        if frontend.modern_words or self._chance(0.1):
            forms += ["${E#/}/", "${E%e}/", "${E##*/}/", "${E%%/*}/z", "${E/e/f}/", "${E//e/}/z"]
        return rng.choice(forms)

    def _copy(self) -> str:
        rng = self._rng
        add = self._chance(0.35 if self._case.archives else 0.08)
        words = [
            rng.choice(["ADD", "add"]) if add else rng.choice(["COPY", "COPY", "COPY", "copy"])
        ]
        words += self._flags(add=add)
        known = self._profile.frontend
        if known.heredocs and self._chance(0.06):
            return self._heredoc(words[0])
        sources = [self._source(add=add) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        return self._form(words, sources, self._destination())

    def _copy_from(self) -> str:
        rng = self._rng
        names = [name for name in self._names if name]
        name = rng.choice([*names, *names, "0", "1", "ONE", "two"]) if names else "0"
        places = [
            "/w",
            "/w/",
            "/o",
            "/o/recipes",
            "/",
            "/w/*",
            "/o/k",
            "o",
            "/w/l1",
            "/o/l*",
            "/o/.",
        ]
        words = ["COPY", f"--from={name}", *self._flags(add=False)]
        return self._form(words, [rng.choice(places)], self._destination())

    def _flags(self, *, add: bool) -> list[str]:
        rng = self._rng
        known = self._profile.frontend.flags
        words: list[str] = []
        if "exclude" in known and not add and self._chance(0.15):
            words += [
                f"--exclude={pattern}"
                for _ in range(rng.randint(1, 2))
                if not re.search(r"[\s'\"]", pattern := a_pattern(rng, self._case))
            ]
        elif "link" in known and self._chance(0.1):
            words.append("--link")
        if "parents" in known and not add and self._chance(0.1):
            words.append("--parents")
        if self._chance(0.04):
            words.append("--chown=1:1")
        if "chmod" in known and self._chance(0.03):
            words.append("--chmod=644")
        return words

    def _form(self, words: list[str], sources: list[str], destination: str) -> str:
        """The shell form, broken over lines at times, or the JSON form."""
        arguments = [*sources, destination]
        plain = not any(re.search(r"[\s'\"$\\]|^\[", word) for word in arguments[:-1])
        if self._chance(0.12) or not (plain or self._chance(0.05)):
            listed = json.dumps(arguments, ensure_ascii=False)
            return " ".join([*words, listed])
        glue = " \\\n  # note\n  " if self._chance(0.04) else " "
        return " ".join(words) + " " + glue.join(arguments)

    def _heredoc(self, instruction: str) -> str:
        rng = self._rng
        mark = rng.choice(["EOF", "'EOF'", "-EOF"])
        lines = [f"{instruction} <<{mark} {self._destination()}", "COPY no /no", "\t$Q \\$D", "EOF"]
        return "\n".join(lines)

    def _source(self, *, add: bool) -> str:
        rng = self._rng
        draw = rng.random()
        if add and self._case.archives and draw < 0.6:
            path = rng.choice([*self._case.archives])
            return rng.choice([path, path, path.rpartition("/")[0] or "*.t*"])
        if draw < 0.15:
            return rng.choice([".", "./", "/", "./."])
        path = rng.choice([*self._case.files, *self._case.links, *FOLDERS, "recipes", "recipes/k"])
        if draw < 0.5:
            path = path.rpartition("/")[0] or path
        parts = path.split("/")
        if draw > 0.75:
            number = rng.randrange(len(parts))
            part = parts[number]
            parts[number] = rng.choice(
                ["*", part[:1] + "*", "*" + part[1:], f"[{part[0]}]" + part[1:], "**"]
            )
        path = "/".join(parts)
        if self._variables and self._chance(0.1):
            return rng.choice(["recipes$U", "${Q}/x", "./${U}recipes/k", "$Q"])
        if self._chance(0.1):
            path = rng.choice(["/", "./", "a/../", "//", "/../", "x/./"]) + path
        if self._chance(0.1):
            path += rng.choice(["/", "/", "/.", "/./", "/..", "//"])
        return path

    def _destination(self) -> str:
        if self._variables and self._chance(0.3):
            return self._word()
        if self._chance(0.12):
            return self._rng.choice(ODD_DESTINATIONS)
        return self._rng.choice([*DESTINATIONS, "/o/x"])
