"""Which part of a context a builder sends, and which line of the ignore file decided.

The lines of an ignore file are not simply combined by "last match wins": builders walk the tree,
inherit results from directories, skip lines that cannot change the state, and do not enter
directories in which they believe nothing can be kept. Each `Algorithm` is that walk of one code
base. A rule that does not compile fails the build only when a walk tries it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imagegate.coverage.sending.client import Algorithm, Client
from imagegate.coverage.sending.ignorefile import (
    IgnoreFile,
    broken_line,
    compile_rules,
)
from imagegate.coverage.sending.index import RuleIndex
from imagegate.coverage.sending.patterns import BrokenRuleError
from imagegate.coverage.tree import Kind, Node, directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from imagegate.coverage.sending.patterns import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens to one path, and why.

    Attributes:
        kept: the path is sent.
        emptied: it is sent with 0 bytes.
        rule: the rule that decided; ``None`` when no rule matches.
        at: the path at which it decided, the path itself or a directory above it.
        pruned: the directory that is not entered at all, whatever later lines say, or ``""``.
    """

    kept: bool
    emptied: bool = False
    rule: Rule | None = None
    at: str = ""
    pruned: str = ""


class WalkState:
    """What a walk hands from a directory to its entries.

    Attributes:
        path: the directory.
        inherited: rules that hold below it because they matched it or a directory above.
        above: rules that match it or a directory above, tried or not (`Client.opener_checks`).
        candidates: rules that can match an entry.
    """

    __slots__ = ("above", "candidates", "inherited", "path")

    def __init__(
        self,
        path: str,
        inherited: frozenset[int],
        above: frozenset[int],
        candidates: RuleIndex,
    ) -> None:
        self.path = path
        self.inherited = inherited
        self.above = above
        self.candidates = candidates


class ContextFilter:
    """The rules of one ignore file, applied as one builder's walk applies them.

    Raises:
        CoverageError: a line is refused when the list is made.
    """

    def __init__(self, ignore: IgnoreFile, client: Client) -> None:
        self.ignore = ignore
        self.client = client
        self.rules = compile_rules(ignore, client.grammar)
        self._exceptions = [rule for rule in self.rules if rule.exception]
        self._exception_texts = sorted(map(self._exception_text, self._exceptions))
        self._only_prefixes = client.algorithm is not Algorithm.FSUTIL or not any(
            _has_meta(_without_trailing_glob(rule.text)) for rule in self._exceptions
        )

    def send(self, root: Node) -> Node:
        """Return the part of the context tree `root` that is sent.

        Files and links of the result are the nodes of `root`.

        Raises:
            CoverageError: a line that the walk tries does not compile.
        """
        if not self.rules:
            return root
        try:
            sent = self._directory(root, self._start())
        except BrokenRuleError as refused:
            raise self._broken(refused) from refused
        return sent

    def decide(self, path: str, root: Node) -> Decision:
        """Tell what happens to the existing `path` of the context `root`, and why.

        Raises:
            CoverageError: a line that the walk tries does not compile.
        """
        if not self.rules:
            return Decision(kept=True)
        try:
            return self._decide(path, root)
        except BrokenRuleError as refused:
            raise self._broken(refused) from refused

    def matches(self, path: str) -> bool:
        """Tell whether `path` alone is excluded, as buildah judges a source of COPY.

        Raises:
            CoverageError: a line does not compile.
        """
        try:
            return self._last_match(path)[0]
        except BrokenRuleError as refused:
            raise self._broken(refused) from refused

    def state_in(self, path: str) -> WalkState:
        """Return the state of a walk that stands in the directory `path`.

        Raises:
            CoverageError: a line does not compile.
        """
        state = self._start()
        parts = path.split("/") if path else []
        for depth in range(1, len(parts) + 1):
            _, below = self.step("/".join(parts[:depth]), state)
            state = below()
        return state

    def step(self, path: str, state: WalkState) -> tuple[bool, Callable[[], WalkState]]:
        """Judge an entry of the directory of `state`.

        Returns:
            Whether it is excluded, and how to come to the state below it.

        Raises:
            CoverageError: a line does not compile.
        """
        try:
            excluded, matched, _ = self._judge(path, state)
        except BrokenRuleError as refused:
            raise self._broken(refused) from refused
        return excluded, lambda: self._below(state, path, matched)

    def may_hold_exceptions(self, path: str) -> bool:
        """Tell whether a walk enters the excluded directory `path`."""
        return not self._pruned(path)

    def decisions(self, root: Node) -> Iterator[tuple[str, Node, Decision]]:
        """Yield every file of the context `root`, and every directory that is not entered.

        Raises:
            CoverageError: a line that the walk tries does not compile.
        """
        try:
            yield from self._decisions(root, self._start(), Decision(kept=True))
        except BrokenRuleError as refused:
            raise self._broken(refused) from refused

    def _decisions(
        self, node: Node, state: WalkState, above: Decision
    ) -> Iterator[tuple[str, Node, Decision]]:
        for name in sorted(node.children):
            child = node.children[name]
            path = f"{state.path}/{name}" if state.path else name
            decided, matched = self._entry(path, child, state, above)
            if child.kind is Kind.DIRECTORY and not decided.pruned:
                yield from self._decisions(child, self._below(state, path, matched), decided)
            else:
                yield path, child, decided

    def _decide(self, path: str, root: Node) -> Decision:
        state = self._start()
        parts = path.split("/")
        here = root
        decided = Decision(kept=True)
        for depth in range(1, len(parts) + 1):
            current = "/".join(parts[:depth])
            here = here.children[parts[depth - 1]]
            decided, matched = self._entry(current, here, state, decided)
            if decided.pruned:
                return decided if depth < len(parts) else replace(decided, pruned="")
            if depth < len(parts):
                state = self._below(state, current, matched)
        return decided

    def _entry(
        self, path: str, node: Node, state: WalkState, above: Decision
    ) -> tuple[Decision, frozenset[int]]:
        """Decide on one entry of the directory of `state`, on which `above` was decided."""
        excluded, matched, rule = self._judge(path, state)
        at = path if rule is None or rule.matches(path) else above.at
        if not excluded and node.kind is Kind.FILE and self._empties(path, state):
            emptier = self._last_match_or_parent(path, state)[1]
            return Decision(kept=True, emptied=True, rule=emptier, at=path), matched
        pruned = excluded and node.kind is Kind.DIRECTORY and self._pruned(path)
        return Decision(kept=not excluded, rule=rule, at=at, pruned=path if pruned else ""), matched

    def _broken(self, refused: BrokenRuleError) -> Exception:
        return broken_line(self.ignore, refused.line, refused)

    def _start(self) -> WalkState:
        return WalkState("", _NOTHING, _NOTHING, RuleIndex.of(self.rules, self.client.grammar))

    def _below(self, state: WalkState, path: str, matched: frozenset[int]) -> WalkState:
        above = state.above
        if self.client.opener_checks:
            above = above.union(
                number
                for number in state.candidates.possible(path, _NOTHING)
                if self.rules[number].broken is None and self.rules[number].matches(path)
            )
        return WalkState(path, matched, above, state.candidates.below(path))

    def _directory(self, node: Node, state: WalkState) -> Node:
        """Return the sent part of a directory whose own fate is decided already."""
        sent = directory()
        prefix = f"{state.path}/" if state.path else ""
        for name, child in node.children.items():
            path = prefix + name
            excluded, matched, _ = self._judge(path, state)
            if child.kind is Kind.DIRECTORY:
                entered = self._enter(child, path, state, excluded=excluded, matched=matched)
                if entered is not None:
                    sent.children[name] = entered
            elif not excluded:
                sent.children[name] = self._file(child, path, state)
        return sent

    def _enter(
        self, node: Node, path: str, state: WalkState, *, excluded: bool, matched: frozenset[int]
    ) -> Node | None:
        if excluded and self._pruned(path):
            return None
        sent = self._directory(node, self._below(state, path, matched))
        # FSUTIL and tar make an excluded directory only where something below it is kept; the
        # old fsutil sends every directory that it enters
        if excluded and not sent.children and self.client.algorithm is not Algorithm.FSUTIL_20:
            return None
        return sent

    def _file(self, node: Node, path: str, state: WalkState) -> Node:
        if node.kind is Kind.FILE and self._empties(path, state):
            return Node(kind=Kind.FILE, size=0, emptied=True)
        return node

    def _empties(self, path: str, state: WalkState) -> bool:
        """The file opener judges the full path on its own (fsutil ``filterFS.Open``)."""
        return self.client.opener_checks and self._last_match_or_parent(path, state)[0]

    def _judge(self, path: str, state: WalkState) -> tuple[bool, frozenset[int], Rule | None]:
        """Return whether `path` is excluded, the rules that hold below it, and who decided."""
        match self.client.algorithm:
            case Algorithm.FSUTIL | Algorithm.TAR:
                return self._parent_results(path, state)
            case Algorithm.COPIER:
                test = self._matches
            case _:
                test = self._matches_or_one_parent
        return self._every_rule(path, state, test)

    def _every_rule(
        self, path: str, state: WalkState, test: Callable[[Rule, str], bool]
    ) -> tuple[bool, frozenset[int], Rule | None]:
        """The older matchers: every rule on the path itself, the last match wins.

        What is inherited here only says which rules to try again: one that matched a directory
        may match below it, though its own depth is reached.
        """
        excluded, decider = False, None
        matched: list[int] = []
        for number in state.candidates.possible(path, state.inherited):
            rule = self.rules[number]
            if test(rule, path):
                matched.append(number)
                if excluded == rule.exception:
                    decider = rule
                excluded = not rule.exception
        return excluded, frozenset(matched) if matched else _NOTHING, decider

    @staticmethod
    def _matches(rule: Rule, path: str) -> bool:
        return rule.matches(path)

    @staticmethod
    def _matches_or_one_parent(rule: Rule, path: str) -> bool:
        """``Matches`` of Docker 20.10: looks at one parent only, as deep as the pattern."""
        if rule.matches(path):
            return True
        parents = path.split("/")[:-1]
        return rule.depth <= len(parents) and rule.matches("/".join(parents[: rule.depth]))

    def _parent_results(
        self, path: str, state: WalkState
    ) -> tuple[bool, frozenset[int], Rule | None]:
        """``MatchesUsingParentResults``: a rule that matched a directory holds below it.

        A rule is tried only if it could change the state, so one that was skipped at a directory
        is not remembered as matching it.
        """
        excluded, decider = False, None
        matched: list[int] = []
        for number in state.candidates.possible(path, state.inherited):
            rule = self.rules[number]
            if number not in state.inherited and (
                rule.exception != excluded or not rule.matches(path)
            ):
                continue
            matched.append(number)
            if excluded == rule.exception:
                decider = rule
            excluded = not rule.exception
        if not matched:
            return False, _NOTHING, None
        holding = frozenset(matched)
        return excluded, state.inherited if holding == state.inherited else holding, decider

    def _last_match(self, path: str) -> tuple[bool, Rule | None]:
        """containers/storage ``Matches``: every rule on the full path, the last match wins."""
        excluded, decider = False, None
        for rule in self.rules:
            if rule.matches(path):
                excluded, decider = not rule.exception, rule
        return excluded, decider

    def _last_match_or_parent(self, path: str, state: WalkState) -> tuple[bool, Rule | None]:
        """``MatchesOrParentMatches``: a rule matches a path or any directory above it."""
        excluded, decider = False, None
        for number in state.candidates.possible(path, state.above):
            rule = self.rules[number]
            if rule.exception == excluded and (number in state.above or rule.matches(path)):
                excluded, decider = not rule.exception, rule
        return excluded, decider

    def _pruned(self, path: str) -> bool:
        """Tell whether the excluded directory `path` is not entered."""
        if not self._exceptions:
            return True
        if not self._only_prefixes:
            return False
        prefix = self._prefix(path)
        at = bisect_left(self._exception_texts, prefix)
        return not (
            at < len(self._exception_texts) and self._exception_texts[at].startswith(prefix)
        )

    def _exception_text(self, rule: Rule) -> str:
        if self.client.algorithm is Algorithm.FSUTIL:
            return _without_trailing_glob(rule.text) + "/"
        if self.client.algorithm is Algorithm.COPIER:
            return rule.text.strip("/") + "/"
        return rule.text + "/"

    def _prefix(self, path: str) -> str:
        # buildah compares without a closing slash, so `!ab` also opens the directory `a`
        return path if self.client.algorithm is Algorithm.COPIER else path + "/"


_NOTHING: frozenset[int] = frozenset()


def _without_trailing_glob(text: str) -> str:
    return text.removesuffix("/**").removesuffix("/*")


def _has_meta(text: str) -> bool:
    return any(character in text for character in "*[]?^\\")
