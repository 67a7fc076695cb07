"""Shell text -> simple commands in order, read with tree-sitter's grammar of bash.

Control structures are flattened: a command in a branch or a loop may run, so what it may do is
listed. What the grammar cannot read is told as such.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from imagegate.coverage.shell.acts import HOLE
from imagegate.coverage.shell.values import MOST, Scope, braces, literal, plain, product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tree_sitter import Node, Parser

_DEEPEST = 100
_ROUNDS = 32
"""A loop over so many known values is gone through value by value."""
_MOST_COMMANDS = 5_000
_GROUPS = frozenset(
    [
        "program",
        "do_group",
        "compound_statement",
        "negated_command",
        "ERROR",
        "variable_assignments",
    ]
)
_BRANCHES = frozenset(
    ["if_statement", "elif_clause", "else_clause", "while_statement", "case_statement", "case_item"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A simple command.

    Attributes:
        text: as it is written.
        words: what each of its words may stand for, its name first.
        writes: what its output is redirected to.
        input: the heredoc that it reads, or ``None``.
        fed_by: the command whose output it reads, or ``None``.
        scope: variables and working directory where it stands.
        unreadable: the grammar could not read it.
    """

    text: str
    words: tuple[tuple[str, ...], ...] = ()
    writes: tuple[tuple[str, ...], ...] = ()
    input: str | None = None
    fed_by: Command | None = None
    scope: Scope = field(repr=False)
    unreadable: bool = False


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def commands(text: str, scope: Scope) -> Iterator[Command]:
    """Yield the commands of `text` in the order in which they stand; `scope` follows them."""
    content = text.encode("utf-8", "replace")
    tree = _parser().parse(content)
    reader = _Reader(content)
    if tree.root_node.has_error:
        yield Command(text=text, scope=scope.inner(), unreadable=True)
    for number, command in enumerate(reader.node(tree.root_node, scope, 0)):
        if number == _MOST_COMMANDS:
            yield Command(text=text, scope=scope.inner(), unreadable=True)
            return
        yield command


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._documents: list[str] = []

    def _text(self, node: Node) -> str:
        return self._content[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def node(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        """Yield the commands below `node`."""
        if depth > _DEEPEST:
            yield Command(text=self._text(node), scope=scope.inner(), unreadable=True)
            return
        kinds: dict[str, Callable[[Node, Scope, int], Iterator[Command]]] = {
            "command": self._command,
            "declaration_command": self._declaration,
            "variable_assignment": self._assignment,
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "subshell": self._subshell,
            "for_statement": self._loop,
            "function_definition": self._function,
        }
        known = kinds.get(node.type)
        if known is not None:
            yield from known(node, scope, depth + 1)
        elif node.type in _BRANCHES:
            yield from self._branch(node, scope, depth + 1)
        elif node.type == "list":
            yield from self._list(node, scope, depth + 1)
        elif node.type in _GROUPS:
            for child in node.named_children:
                yield from self.node(child, scope, depth + 1)
        else:
            yield from self._inside(node, scope, depth + 1)

    def _inside(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        """Yield the commands of substitutions somewhere in `node`."""
        if node.type in {"command_substitution", "process_substitution"}:
            inner = scope.inner()
            for child in node.named_children:
                yield from self.node(child, inner, depth + 1)
            return
        if depth > _DEEPEST:
            yield Command(text=self._text(node), scope=scope.inner(), unreadable=True)
            return
        for child in node.named_children:
            yield from self._inside(child, scope, depth + 1)

    def _branch(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        """What may run or not: variables may have their values from before too."""
        with scope.may_be_skipped():
            for child in node.named_children:
                yield from self.node(child, scope, depth)

    def _list(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        skipped = any(child.type == "||" for child in node.children)
        for number, child in enumerate(node.named_children):
            if number and skipped:
                with scope.may_be_skipped():
                    yield from self.node(child, scope, depth)
            else:
                yield from self.node(child, scope, depth)

    def _subshell(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        inner = scope.inner()
        for child in node.named_children:
            yield from self.node(child, inner, depth)

    def _function(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        name = node.child_by_field_name("name")
        if name is not None:
            scope.functions.add(self._text(name))
        body = node.child_by_field_name("body")
        if body is not None:
            yield from self.node(body, scope.inner(), depth)

    def _loop(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        variable = node.child_by_field_name("variable")
        values: list[str] = []
        for value in node.children_by_field_name("value"):
            yield from self._inside(value, scope, depth)
            values += self._word(value, scope)
        known = tuple(dict.fromkeys(values)) if 0 < len(values) <= MOST else (HOLE,)
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return
        name = self._text(variable)
        rounds = [(value,) for value in known] if len(known) <= _ROUNDS else [known]
        for choice in rounds:
            scope.values[name] = choice
            yield from self._branch(body, scope, depth)
        scope.values[name] = known

    def _declaration(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        for child in node.named_children:
            yield from self.node(child, scope, depth)

    def _assignment(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        yield from self._inside(node, scope, depth)
        self._assign(node, scope)

    def _assign(self, node: Node, scope: Scope) -> None:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None:
            return
        # `x += y` and arrays are not followed
        simple = (
            name.type == "variable_name"
            and b"+=" not in self._content[name.end_byte : name.end_byte + 2]
        )
        known = ("",) if value is None else self._word(value, scope)
        scope.values[self._text(name)] = known if simple else (HOLE,)

    def _pipeline(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        before: Command | None = None
        for child in node.named_children:
            last: Command | None = None
            for command in self.node(child, scope.inner(), depth):
                joined = command if before is None else _fed(command, before)
                last = joined
                yield joined
            before = last

    def _redirected(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        body = node.child_by_field_name("body")
        document: str | None = None
        writes: list[tuple[str, ...]] = []
        more: list[Node] = []
        for redirect in node.children_by_field_name("redirect"):
            yield from self._inside(redirect, scope, depth)
            writes += self._writes(redirect, scope)
            if redirect.type == "heredoc_redirect":
                document = self._document(redirect)
                more += [
                    child
                    for child in redirect.named_children
                    if child.type in {"command", "pipeline", "list", "redirected_statement"}
                ]
        found = list(self.node(body, scope, depth)) if body is not None else []
        if not found:
            yield Command(
                text=self._text(node), writes=tuple(writes), scope=scope.inner(), input=document
            )
        for number, command in enumerate(found):
            last = number == len(found) - 1
            yield _redirect(command, tuple(writes) if last else (), document)
        for child in more:
            for command in self.node(child, scope, depth):
                yield _redirect(command, (), document) if found == [] else _fed(command, found[-1])

    def _writes(self, redirect: Node, scope: Scope) -> Iterator[tuple[str, ...]]:
        if redirect.type == "heredoc_redirect":
            for inner in redirect.children_by_field_name("redirect"):
                yield from self._writes(inner, scope)
            return
        if redirect.type != "file_redirect":
            return
        operator = next((child.type for child in redirect.children if not child.is_named), "")
        if operator in {">", ">>", ">|", "&>", "&>>", "<>"}:
            for place in redirect.children_by_field_name("destination"):
                yield self._word(place, scope)

    def _document(self, redirect: Node) -> str:
        body = next((child for child in redirect.children if child.type == "heredoc_body"), None)
        return self._text(body) if body is not None else ""

    def _command(self, node: Node, scope: Scope, depth: int) -> Iterator[Command]:
        yield from self._inside(node, scope, depth)
        words: list[tuple[str, ...]] = []
        writes: list[tuple[str, ...]] = []
        own = scope
        for child in node.named_children:
            if child.type == "variable_assignment":
                if own is scope:
                    own = scope.inner()
                self._assign(child, own)
            elif child.type in {"file_redirect", "heredoc_redirect"}:
                writes += self._writes(child, scope)
            elif child.type == "herestring_redirect":
                continue
            elif child.type == "command_name":
                words.append(
                    self._word(child.named_children[0], scope)
                    if child.named_children
                    else (literal(self._text(child)),)
                )
            else:
                words.append(self._word(child, scope))
        yield Command(
            text=self._text(node), words=tuple(words), writes=tuple(writes), scope=own.inner()
        )
        _follow(words, scope)

    # -- words

    def _word(self, node: Node, scope: Scope) -> tuple[str, ...]:
        match node.type:
            case "word" | "number" | "extglob_pattern" | "regex" | "test_operator":
                return self._bare(self._text(node), scope)
            case "raw_string":
                return (literal(self._text(node)[1:-1]),)
            case "ansi_c_string":
                return (literal(self._text(node)[2:-1]),)
            case "string" | "translated_string":
                return self._string(node, scope)
            case "concatenation":
                return self._concatenation(node, scope)
            case "simple_expansion":
                return scope.get(self._text(node)[1:])
            case "expansion":
                return self._expansion(node, scope)
            case "command_substitution":
                told = self._text(node).strip("$()` \t\n")
                return (scope.folder,) if told == "pwd" else (HOLE,)
            case "brace_expression":
                return (HOLE,)
        return (HOLE,)

    @staticmethod
    def _bare(text: str, scope: Scope) -> tuple[str, ...]:
        text = text.replace("\\\n", "")
        if text.startswith("~"):
            rest = text[1:]
            if not rest or rest.startswith("/"):
                return tuple(home + rest for home in scope.homes())

        return braces(text)

    def _string(self, node: Node, scope: Scope) -> tuple[str, ...]:
        found: tuple[str, ...] = ("",)
        position = node.start_byte + 1
        for child in node.named_children:
            # blanks between expansions are no nodes of their own
            found = product(found, (self._quoted(position, child.start_byte),))
            position = child.end_byte
            if child.type == "string_content":
                found = product(found, (self._quoted(child.start_byte, child.end_byte),))
            else:
                found = product(found, self._word(child, scope))
        return product(found, (self._quoted(position, node.end_byte - 1),))

    def _quoted(self, start: int, end: int) -> str:
        text = self._content[start:end].decode("utf-8", "replace")
        for escaped in ('\\"', "\\$", "\\`", "\\\\"):
            text = text.replace(escaped, escaped[1])
        return literal(text.replace("\\\n", ""))

    def _concatenation(self, node: Node, scope: Scope) -> tuple[str, ...]:
        found: tuple[str, ...] = ("",)
        for number, child in enumerate(node.children):
            text = self._text(child)
            piece = (
                self._bare(text, scope if number == 0 else Scope())
                if not child.is_named or child.type == "word"
                else self._word(child, scope)
            )
            if number and child.type == "word" and text.startswith("~"):
                piece = (text,)
            found = product(found, piece)
        if any("{" in text for text in found):
            found = tuple(dict.fromkeys(one for text in found for one in braces(text)))
        return found[:MOST] if found else (HOLE,)

    def _expansion(self, node: Node, scope: Scope) -> tuple[str, ...]:
        """``${name}`` and its forms with a default; others are not known."""
        name = next((child for child in node.named_children if child.type == "variable_name"), None)
        if name is None:
            return (HOLE,)
        known = scope.values.get(self._text(name))
        operator = next(
            (child.type for child in node.children if child.type in {":-", "-", ":=", "="}), None
        )
        if len(node.children) == 3:  # `${`, name, `}`
            return scope.get(self._text(name))
        if operator is None:
            return (HOLE,)
        defaults = [child for child in node.named_children if child is not name][1:]
        if known not in {None, (HOLE,), ("",)}:
            return known or (HOLE,)
        rest = [child for child in node.named_children if child.start_byte > name.end_byte]
        found: tuple[str, ...] = ("",)
        for child in rest or defaults:
            found = product(found, self._word(child, scope))
        return found


def _fed(command: Command, before: Command) -> Command:
    return command if command.fed_by is not None else replace(command, fed_by=before)


def _redirect(
    command: Command, writes: tuple[tuple[str, ...], ...], document: str | None
) -> Command:
    return replace(
        command,
        writes=(*command.writes, *writes),
        input=command.input if document is None else document,
    )


def _follow(words: list[tuple[str, ...]], scope: Scope) -> None:
    """Follow ``cd`` and its like."""
    name = words[0][0] if words and len(words[0]) == 1 else ""
    if name not in {"cd", "pushd", "popd", "unset", "read"}:
        return
    if name in {"unset", "read"}:
        for word in words[1:]:
            for text in word:
                scope.values[plain(text)] = (HOLE,)
        return
    operands = [word for word in words[1:] if not word[0].startswith("-")]
    if name == "popd" or len(operands) > 1 or any(word == ("-",) for word in words[1:]):
        scope.folder = HOLE
    elif not operands:
        homes = scope.homes()
        scope.folder = homes[0] if len(homes) == 1 else HOLE
    elif len(operands[0]) == 1:
        scope.folder = scope.absolute(operands[0][0])
    else:
        scope.folder = HOLE
