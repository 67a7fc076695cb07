"""Instructions -> stages of operations with every word expanded.

ARG and ENV scopes differ between builders (`Frontend`): in BuildKit both live in one environment
and the later line wins, in the classic builder and in buildah ENV always beats ARG. Nothing is
copied here; what an operation does to a tree is `imagegate.coverage.building.evaluate`'s matter.
"""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.coverage.golang.paths import clean, join
from imagegate.coverage.reading.copy_form import copy_problem, flags_of
from imagegate.coverage.reading.dockerfile import parse_heredoc
from imagegate.coverage.reading.forms import blank_name_problem, form_problem, line_problem
from imagegate.coverage.reading.operations import (
    REMOTE,
    SCRATCH,
    BaseConfig,
    Copy,
    Failure,
    Operation,
    Run,
    Stage,
    Workdir,
)
from imagegate.coverage.reading.platforms import NAMES
from imagegate.coverage.reading.words import Dialect, WordError, expand
from imagegate.errors import CoverageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from imagegate.coverage.reading.dockerfile import Dockerfile, Instruction
    from imagegate.coverage.reading.frontend import Frontend

_SHELLS = frozenset({"sh", "ash", "bash", "dash"})
_USED = re.compile(r"\$\{?([A-Za-z_]\w*)")
BASE_WORKDIR = "/(the base's working directory)"
"""Stands for the working directory of a base that is not known, where no WORKDIR names one."""


@dataclass(slots=True, kw_only=True)
class _Scope:
    """Variables at one line of a stage."""

    env: dict[str, str]
    args: dict[str, str]
    uncertain: set[str]
    open_: bool
    workdir: str
    foreign_shell: bool = False

    def copy(self) -> _Scope:
        return _Scope(
            env=dict(self.env),
            args=dict(self.args),
            uncertain=set(self.uncertain),
            open_=self.open_,
            workdir=self.workdir,
            foreign_shell=self.foreign_shell,
        )


class StageReader:
    """Reads a Dockerfile as one builder does.

    Args:
        dockerfile: the parsed file.
        frontend: what it may say to the builder.
        build_args: values of ``--build-arg``.
        bases: what is known of base images, by the name in FROM.
        args_complete: an ARG without a value has none in the real build either.
        platforms: values of ``TARGETARCH`` and its like, as far as they are known.
    """

    def __init__(
        self,
        dockerfile: Dockerfile,
        frontend: Frontend,
        build_args: Mapping[str, str],
        bases: Mapping[str, BaseConfig],
        *,
        args_complete: bool = True,
        platforms: Mapping[str, str] | None = None,
    ) -> None:
        self._platforms = platforms if platforms and frontend.platform_args else {}
        self._args_complete = args_complete
        self._file = dockerfile
        self._frontend = frontend
        self._build_args = build_args
        self._bases = bases
        self._meta: dict[str, str] = {}
        self._global: Mapping[str, str] = ChainMap(self._meta, dict(self._platforms))
        self._scopes: list[_Scope] = []
        self.stages: list[Stage] = []
        self._names: dict[str, int] = {}
        # what fails the build in whatever stage it stands
        self.failures: list[Failure] = []

    def read(self) -> list[Stage]:
        """Return the stages.

        Raises:
            CoverageError: the Dockerfile is broken for every builder.
        """
        self._check_forms()
        for instruction in self._file.instructions:
            if instruction.name == "FROM":
                self._from(instruction)
            elif not self.stages:
                self._before_from(instruction)
            else:
                self._apply(instruction, self.stages[-1], self._scopes[-1])
        if not self.stages:
            raise self._error(self._file.instructions[-1].line, "no FROM instruction")
        return self.stages

    def _check_forms(self) -> None:
        """Refuse what the builder refuses before it builds anything."""
        early = line_problem
        if self._frontend.forms_first:
            early = _moby_problem
        for instruction in self._file.instructions:
            problem = early(instruction)
            if problem:
                raise self._error(instruction.line, problem)

    def _error(self, line: int, message: str) -> CoverageError:
        return CoverageError(f"{self._file.path}:{line}: {message}")

    @property
    def _dialect(self) -> Dialect:
        return self._frontend.dialect

    def _expand(self, word: str, values: Mapping[str, str]) -> tuple[str, set[str]]:
        escape = "\\" if self._frontend.fixed_escape else self._file.escape
        done = expand(word, values, dialect=self._dialect, escape=escape)
        return done.text, done.unset

    def _before_from(self, instruction: Instruction) -> None:
        if instruction.name != "ARG":
            raise self._error(
                instruction.line, f"`{instruction.name}` before the first FROM; only ARG may be"
            )
        for word in instruction.words:
            name, equals, value = word.partition("=")
            if name in self._build_args:
                self._meta[name] = self._build_args[name]
            elif equals:
                self._meta[name] = self._expand_or_raise(value, self._global, instruction.line)

    def _expand_or_raise(self, word: str, values: Mapping[str, str], line: int) -> str:
        try:
            return self._expand(word, values)[0]
        except WordError as refused:
            raise self._error(line, f"`{word}`: {refused}") from refused

    def _from(self, instruction: Instruction) -> None:
        words = instruction.words
        if len(words) not in {1, 3} or (len(words) == 3 and words[1].lower() != "as"):
            raise self._error(instruction.line, "FROM takes `image` or `image AS name`")
        try:
            image, unset = self._expand(words[0], self._global)
        except WordError as refused:
            raise self._error(instruction.line, f"`{words[0]}`: {refused}") from refused
        doubt = None
        if unset & NAMES or not image:
            doubt = f"the base `{words[0]}` depends on {', '.join(sorted(unset)) or 'nothing'}"
        stage = Stage(
            index=len(self.stages),
            name=words[2] if len(words) == 3 else "",
            base=image,
            parent=self._stage_called(image),
            line=instruction.line,
            doubt=doubt,
        )
        self._start(stage)
        if self._frontend.empty_platform_fails:
            self._check_platform(instruction, stage)

    def _check_platform(self, instruction: Instruction, stage: Stage) -> None:
        """The classic builder knows no platform but the one that is written or given."""
        for flag in instruction.flags:
            if flag.startswith("--platform=") and not self._expand(flag[11:], self._global)[0]:
                message = f"`{flag}`: no platform comes of it"
                stage.operations.append(Failure(line=stage.line, message=message))

    def _stage_called(self, name: str) -> int | None:
        if name == "scratch" and self._frontend.scratch_is_no_stage:
            return None
        return self._names.get(name.lower() if self._frontend.from_folds_case else name)

    def _start(self, stage: Stage) -> None:
        if self._frontend.stage_names_unique and stage.name and stage.name.lower() in self._names:
            stage.operations.append(
                Failure(line=stage.line, message=f"duplicate name `{stage.name}` of a stage")
            )
        self.stages.append(stage)
        if stage.name:
            folds = self._frontend.stage_names_fold_case
            self._names[stage.name.lower() if folds else stage.name] = stage.index
        if stage.parent is None:
            self._scopes.append(self._base_scope(stage))
            return
        scope = self._scopes[stage.parent].copy()
        if not self._frontend.args_inherited:
            scope.args.clear()
        self._scopes.append(scope)
        if self._frontend.runs_onbuild:
            for trigger in self.stages[stage.parent].triggers:
                self._apply(replace(trigger, line=stage.line), stage, scope)

    def _base_scope(self, stage: Stage) -> _Scope:
        known = SCRATCH if stage.base == "scratch" else self._bases.get(stage.base, BaseConfig())
        return _Scope(
            env=dict(known.env or {}),
            args={},
            uncertain=set(),
            open_=known.env is None,
            workdir=known.workdir or BASE_WORKDIR,
        )

    def _values(self, scope: _Scope) -> Mapping[str, str]:
        if self._frontend.arg_beats_env:
            return scope.env
        return ChainMap(scope.env, scope.args)

    def _apply(self, instruction: Instruction, stage: Stage, scope: _Scope) -> None:
        try:
            self._dispatch(instruction, stage, scope)
        except WordError as refused:
            stage.operations.append(Failure(line=instruction.line, message=str(refused)))

    def _dispatch(self, instruction: Instruction, stage: Stage, scope: _Scope) -> None:
        problem = form_problem(instruction)
        if problem:
            raise WordError(problem)
        match instruction.name:
            case "ARG":
                self._arg(instruction, scope)
            case "ENV":
                self._env(instruction, scope)
            case "WORKDIR":
                self._workdir(instruction, stage, scope)
            case "COPY" | "ADD":
                stage.operations.append(self._copy(instruction, scope))
            case "RUN":
                stage.operations.append(self._run(instruction, scope))
            case "SHELL":
                named = instruction.words[0].rpartition("/")[2] if instruction.words else ""
                scope.foreign_shell = named not in _SHELLS
            case "ONBUILD":
                assert instruction.trigger is not None
                stage.triggers.append(instruction.trigger)

    def _arg(self, instruction: Instruction, scope: _Scope) -> None:
        for word in instruction.words:
            name, equals, default = word.partition("=")
            scope.uncertain.discard(name)
            value: str | None = None
            if name in self._build_args:
                value = self._build_args[name]
            elif equals:
                value, unset = self._expand(default, self._values(scope))
                self._mark(scope, name, unset)
            else:
                value = self._meta.get(name, self._platforms.get(name))
            if value is None:
                # only the platform or a --build-arg of the real build gives it a value
                if name in NAMES or not self._args_complete:
                    scope.uncertain.add(name)
                if self._frontend.bare_arg_unsets:
                    scope.args.pop(name, None)  # declared again without a value, it has none
                continue
            if self._frontend.arg_beats_env:
                scope.env[name] = value
            else:
                scope.args[name] = value

    def _env(self, instruction: Instruction, scope: _Scope) -> None:
        values = self._values(scope)
        pairs = _pairs(instruction)
        if pairs is None:
            raise WordError("ENV takes `name=value …` or `name value`")
        # every value is what it was before this line
        expanded = [(name, *self._expand(written, values)) for name, written in pairs]
        for name, value, unset in expanded:
            scope.uncertain.discard(name)
            self._mark(scope, name, unset)
            scope.env[name] = value

    def _mark(self, scope: _Scope, name: str, unset: set[str]) -> None:
        if self._uncertain(scope, unset):
            scope.uncertain.add(name)

    @staticmethod
    def _uncertain(scope: _Scope, used: set[str]) -> set[str]:
        return used if scope.open_ else used & scope.uncertain

    def _workdir(self, instruction: Instruction, stage: Stage, scope: _Scope) -> None:
        if not instruction.words:
            raise WordError("WORKDIR takes one path")
        written, doubt = self._word(instruction.words[0], scope)
        if not written and not doubt and self._frontend.empty_workdir_fails:
            raise WordError("WORKDIR: cannot normalize nothing")
        if doubt:
            scope.workdir = f"/({doubt.replace('/', ' ')})"
        elif written.startswith("/"):
            scope.workdir = clean(written)
        else:
            scope.workdir = clean("/" + join(scope.workdir, written))
        stage.operations.append(Workdir(line=instruction.line, path=scope.workdir))

    def _word(self, word: str, scope: _Scope) -> tuple[str, str | None]:
        """Expand a word; the second value says why the result is not certain."""
        values = self._values(scope)
        text, unset = self._expand(word, values)
        used = set(unset)
        used |= {name for name in _USED.findall(word) if name in scope.uncertain and name in values}
        doubtful = self._uncertain(scope, used) | (used & scope.uncertain)
        if not doubtful:
            return text, None
        return text, f"`{word}` depends on {', '.join(f'${name}' for name in sorted(doubtful))}"

    def _run(self, instruction: Instruction, scope: _Scope) -> Operation:
        mounts = tuple(
            flag.partition("=")[2] for flag in instruction.flags if flag.startswith("--mount=")
        )
        if instruction.heredocs and not self._frontend.heredocs:
            return Failure(line=instruction.line, message="this builder does not know heredocs")
        if mounts and not self._frontend.mounts:
            return Failure(line=instruction.line, message="this builder does not know `--mount`")
        text = _script(instruction)
        used = {"HOME", *_USED.findall(text)}
        values = self._values(scope)
        return Run(
            line=instruction.line,
            text=text,
            environment={
                name: values[name]
                for name in sorted(used)
                if name in values and name not in scope.uncertain
            },
            words=instruction.words if instruction.json else (),
            mounts=mounts,
            workdir=scope.workdir,
            foreign_shell=(scope.foreign_shell and not instruction.json)
            or _other_interpreter(instruction),
        )

    def _copy(self, instruction: Instruction, scope: _Scope) -> Operation:
        if self._frontend.lenient_json and instruction.json_prefix is not None:
            instruction = replace(instruction, words=instruction.json_prefix, json=True)
        problem = copy_problem(instruction, self._frontend)
        if problem:
            failure = Failure(line=instruction.line, message=problem)
            if self._frontend.flags_first:
                self.failures.append(failure)
            return failure
        flags = self._effective_flags(instruction)
        doubts: list[str] = []
        sources: list[str] = []
        *written, target = instruction.words
        for word in written:
            if self._frontend.heredocs and parse_heredoc(word) is not None:
                continue
            text, doubt = self._word(word, scope)
            sources.append(text)
            doubts += [doubt] if doubt else []
        if "checksum" in flags and not all(source.startswith(REMOTE) for source in sources):
            message = "`--checksum` is not supported for local sources"
            return Failure(line=instruction.line, message=message)
        destination, doubt = self._word(target, scope)
        doubts += [doubt] if doubt else []
        return Copy(
            line=instruction.line,
            add=instruction.name == "ADD",
            sources=tuple(sources),
            documents=tuple(self._documents(instruction, scope)),
            destination=destination,
            workdir=scope.workdir,
            from_=flags.get("from", [""])[0],
            link=flags.get("link", ["false"])[0] == "true",
            parents=flags.get("parents", ["false"])[0] == "true",
            excludes=tuple(flags.get("exclude", ())),
            unpack=flags["unpack"][0] == "true" if "unpack" in flags else None,
            owner=self._word(flags.get("chown", [""])[0], scope)[0],
            doubt="; ".join(doubts) or None,
            anchor=_anchor(target),
        )

    def _effective_flags(self, instruction: Instruction) -> dict[str, list[str]]:
        """Return the values of the flags that do something."""
        without = self._frontend.without_effect
        return {key: values for key, values in flags_of(instruction).items() if key not in without}

    def _documents(self, instruction: Instruction, scope: _Scope) -> list[tuple[str, str]]:
        documents: list[tuple[str, str]] = []
        for document in instruction.heredocs:
            content = document.content
            if document.expands:
                values = self._values(scope)
                content = expand(
                    content,
                    values,
                    dialect=Dialect.MODERN,
                    quotes=False,
                    keep_escapes=self._frontend.keeps_escapes,
                ).text
            documents.append((document.name, content))
        return documents


def _script(instruction: Instruction) -> str:
    """Return what the shell of a RUN gets: a heredoc alone is a script of its own."""
    if not instruction.heredocs:
        return instruction.rest
    if len(instruction.heredocs) == 1 and instruction.rest.startswith("<<"):
        _, _, behind = instruction.rest.partition(" ")
        if not behind.strip():
            return instruction.heredocs[0].content
    documents = "".join(f"{one.content}{one.name}\n" for one in instruction.heredocs)
    return f"{instruction.rest}\n{documents}"


def _other_interpreter(instruction: Instruction) -> bool:
    """Say whether a heredoc that is a script of its own begins with ``#!`` of something else."""
    if not instruction.heredocs or not instruction.rest.startswith("<<"):
        return False
    first, _, _ = instruction.heredocs[0].content.partition("\n")
    if not first.startswith("#!"):
        return False
    return not any(word.rpartition("/")[2] in _SHELLS for word in first[2:].split())


def _anchor(written: str) -> str:
    """Return the folder of a destination that stands before its first variable."""
    before = written.partition("$")[0]
    return before.rpartition("/")[0] if before.startswith("/") else ""


def _moby_problem(instruction: Instruction) -> str:
    return form_problem(instruction) or blank_name_problem(instruction)


def _pairs(instruction: Instruction) -> list[tuple[str, str]] | None:
    words = instruction.words
    if not words:
        return None
    if "=" not in words[0]:
        parts = instruction.rest.split(None, 1)
        return [(parts[0], parts[1])] if len(parts) == 2 else None
    if not all("=" in word for word in words):
        return None
    return [(word.partition("=")[0], word.partition("=")[2]) for word in words]
