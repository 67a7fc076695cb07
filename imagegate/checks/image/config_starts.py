"""``config.starts``: can the program that the container starts be started."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.catalog.programs import (
    Script,
    Started,
    doubled,
    parse_script,
    programs_of,
)
from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import DEFAULT_PATH, Evidence, command_of
from imagegate.foreign.credentials import redact
from imagegate.oci.tar import Kind
from imagegate.rootfs import ancestors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from imagegate.oci.documents import ContainerConfig
    from imagegate.rootfs import FileTree, Node
    from imagegate.verdict import CheckReport

_READ, _EXECUTE = 4, 1
_MAGIC = b"\x7fELF"
_HINTS = {
    "missing": "install what brings it, or correct `[config] entrypoint` or `cmd`",
    "not-executable": "set its mode before it is copied (`chmod 755`), or with `COPY --chmod=755`",
    "not-reachable": "give the user the right to enter the folder, or start as another user",
    "carriage-return": "write the file with LF line ends",
    "interpreter": "correct the script's first line, or install the interpreter",
    "architecture": "bring the program for the image's platform",
    "format": "begin the script with `#!/bin/sh`, or start it with its interpreter",
    "doubled": "say the program in `[config] entrypoint` or in `cmd`, not in both",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Why a program cannot be started.

    Attributes:
        code: the second half of the finding's code.
        subject: the program, as the command names it.
        message: what is wrong.
        wanted: what should be there.
        found: what is there.
        path: the file it is about, ``""`` for none.
    """

    code: str
    subject: str
    message: str
    wanted: str
    found: str
    path: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same problem in the base."""
        return self.code, self.subject, self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class _User:
    """Who the container runs as; a number is ``None`` where only a name is known."""

    uid: int | None
    gid: int | None

    def may(self, node: Node, right: int) -> bool:
        """Say whether a file's mode gives a right (path_resolution(7), POSIX 4.7)."""
        if self.uid == 0:
            return right == _READ or node.kind is Kind.DIRECTORY or bool(node.mode & 0o111)
        if self.uid == node.uid:
            return bool(node.mode >> 6 & right)
        # the groups of a user are not all known: what its group may, it may
        bits = node.mode | node.mode >> 3
        if self.uid is None and node.uid != 0:
            bits |= node.mode >> 6
        if self.gid is not None and self.gid == node.gid:
            bits = node.mode >> 3
        return bool(bits & right)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """What starting a program depends on, in the image or in its base."""

    tree: FileTree
    settings: ContainerConfig
    user: _User
    machine: str
    machines: Mapping[str, str]
    heads: Mapping[str, bytes]

    def find(self, started: Started) -> str | None:
        """Return the path behind a program's name, links followed; ``None`` where nothing is."""
        folder = posixpath.join(self.settings.working_dir or "/", started.folder)
        if "/" in started.program or started.is_script:
            return self._file(posixpath.join(folder, started.program))
        path = started.path or self.settings.environment.get("PATH") or DEFAULT_PATH
        found = (
            self._file(posixpath.join(folder, entry or ".", started.program))
            for entry in path.split(":")
        )
        # execvp(3) goes on behind a file that may not be executed
        every = [one for one in found if one is not None]
        able = [one for one in every if self._may_execute(one)]
        return next(iter(able or every), None)

    def _file(self, path: str) -> str | None:
        resolved = self.tree.resolve(path)
        node = self.tree.get(resolved) if resolved else None
        return resolved if node is not None and node.kind is Kind.FILE else None

    def _may_execute(self, path: str) -> bool:
        node = self.tree.get(path)
        return node is not None and self.user.may(node, _EXECUTE)

    def problems(self, started: Started, depth: int = 0) -> Iterator[_Problem]:
        """Say what keeps a program from starting."""
        name = started.program
        path = self.find(started)
        if path is None:
            yield self._missing(started)
            return
        node = self.tree.get(path)
        assert node is not None
        closed = next((f for f in self._folders(path) if not self.user.may(f, _EXECUTE)), None)
        if closed is not None:
            yield _Problem(
                code="not-reachable",
                subject=name,
                message=f"the container's user may not enter `/{closed.path}`, where the program is",
                wanted="the right to enter",
                found=f"mode {closed.mode:04o}, owner {closed.uid}:{closed.gid}",
                path=closed.path,
            )
        right, word = (_READ, "read") if started.is_script else (_EXECUTE, "execute")
        if not self.user.may(node, right):
            yield _Problem(
                code="not-executable",
                subject=name,
                message=f"the container's user may not {word} the program that the container starts",
                wanted=f"the right to {word}",
                found=f"mode {node.mode:04o}, owner {node.uid}:{node.gid}",
                path=path,
            )
        if not started.is_script:
            yield from self._content(started, path, depth)

    def _missing(self, started: Started) -> _Problem:
        where = started.path or self.settings.environment.get("PATH") or DEFAULT_PATH
        is_path = "/" in started.program or started.is_script
        return _Problem(
            code="missing",
            subject=started.program,
            message="the program that the container starts is not in the image",
            wanted=f"`{started.program}`" + ("" if is_path else f" in one of {where}"),
            found="nothing",
        )

    def _folders(self, path: str) -> Iterator[Node]:
        for folder in ancestors(path):
            node = self.tree.get(folder)
            if node is not None and node.kind is Kind.DIRECTORY:
                yield node

    def _content(self, started: Started, path: str, depth: int) -> Iterator[_Problem]:
        machine = self.machines.get(path)
        if machine is not None and machine != self.machine:
            yield _Problem(
                code="architecture",
                subject=started.program,
                message="the program that the container starts is for another machine",
                wanted=self.machine,
                found=machine,
                path=path,
            )
        head = self.heads.get(path)
        if head is None or head == _MAGIC:
            return
        script = parse_script(head)
        if script is None or not script.interpreter:
            yield _Problem(
                code="format",
                subject=started.program,
                message="the program that the container starts is neither ELF nor a script with `#!`",
                wanted="`#!` and an interpreter, or ELF",
                found=repr(head[:4])[1:] if head else "an empty file",
                path=path,
            )
            return
        yield from self._interpreter(started, script, path, depth)

    def _interpreter(
        self, started: Started, script: Script, path: str, depth: int
    ) -> Iterator[_Problem]:
        if script.carriage_return:
            yield _Problem(
                code="carriage-return",
                subject=started.program,
                message="the first line of the script that the container starts ends in CR LF: "
                "the kernel looks for an interpreter whose name ends in CR",
                wanted="LF",
                found="CR LF",
                path=path,
            )
            return
        words = (script.interpreter, script.argument) if script.argument else (script.interpreter,)
        if depth > 4:  # fs/exec.c, exec_binprm: at most five
            return
        for inner in programs_of(words):
            for problem in self.problems(inner, depth + 1):
                yield _Problem(
                    code="interpreter",
                    subject=started.program,
                    message=f"the interpreter of the script that the container starts cannot run: "
                    f"{problem.message}",
                    wanted=problem.wanted,
                    found=problem.found,
                    path=path,
                )


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("config.starts")
    argv = command_of(evidence.settings)
    if not argv:
        return findings.report([], nothing_because="the image starts no program by itself")
    now = _machine(evidence)
    before = {problem.key for problem in _problems(_base_machine(evidence))}
    reported: set[tuple[str, str, str]] = set()
    for problem in _problems(now):
        if problem.key in reported:
            continue
        reported.add(problem.key)
        node = evidence.tree.get(problem.path) if problem.path else None
        findings.compare(
            problem.code,
            problem.subject,
            problem.message,
            known=problem.key in before and (node is None or node.layer == 0),
            locked=problem.wanted,
            found=problem.found,
            place=evidence.place(problem.path, node.layer if node else 0),
            hint=_HINTS[problem.code],
            facts={"command": evidence.seal("\0".join(argv))},
        )
    return findings.report(
        [
            f"program {one.program}: {_said(now.find(one))}"
            for one in programs_of(_words(now.settings))
        ]
    )


def _said(path: str | None) -> str:
    return f"found=/{path}" if path is not None else "found=nothing"


def _words(settings: ContainerConfig) -> tuple[str, ...]:
    """Return the command without credentials: a part of one is recognised by nobody."""
    return tuple(map(redact, command_of(settings)))


def _problems(machine: _Machine) -> Iterator[_Problem]:
    settings = machine.settings
    twice = doubled(settings.entrypoint or (), settings.cmd or ())
    if twice:
        yield _Problem(
            code="doubled",
            subject=twice,
            message="entrypoint and command both say the program, so that it is started with "
            "itself as an argument",
            wanted="said once",
            found=" ".join(command_of(settings)),
        )
    for started in programs_of(_words(settings)):
        yield from machine.problems(started)


def _machine(evidence: Evidence) -> _Machine:
    tree = evidence.tree
    heads: dict[str, bytes] = {}
    for change in evidence.changes:
        if change.after is not None and change.after.kind is Kind.FILE:
            head = evidence.collector.extract("first line", change.after)
            if head is not None:
                heads[change.path] = head
    return _Machine(
        tree=tree,
        settings=evidence.settings,
        user=_user(evidence, evidence.settings.user or ""),
        machine=evidence.machine,
        machines={file.path: file.machine for file in evidence.facts.elf},
        heads=heads,
    )


def _base_machine(evidence: Evidence) -> _Machine:
    return _Machine(
        tree=evidence.base_tree,
        settings=evidence.base_settings,
        user=_user(evidence, evidence.base_settings.user or ""),
        machine=evidence.machine,
        machines={file.path: file.machine for file in evidence.lock.base.facts.elf},
        heads={},
    )


def _user(evidence: Evidence, text: str) -> _User:
    """Read the config's user (config.md, "User"); a declared one has the numbers of the recipe."""
    name, _, group = text.partition(":")
    if name in ("", "0", "root"):
        return _User(uid=0, gid=0)
    declared = {user.name: user for user in evidence.recipe.document.config.users}
    uid = int(name) if name.isdigit() else declared[name].uid if name in declared else None
    gid = declared[name].gid if name in declared and not group else None
    return _User(uid=uid, gid=int(group) if group.isdigit() else gid)


CHECK = Check(
    id="config.starts",
    question="can the program that the container starts be started",
    why="an image whose program is not there, or may not run, fails on the node and not before",
    fix="bring the program with its interpreter, executable for the container's user",
    judge=_judge,
    revision=1,
)
