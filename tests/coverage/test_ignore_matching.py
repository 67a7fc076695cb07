"""Patterns, the reader and the walk: upstream's own vectors, and laws that any list obeys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from imagegate.coverage.building.builder import Builder
from imagegate.coverage.building.profiles import PROFILES, find_profile
from imagegate.coverage.golang.paths import BadPatternError, clean, match
from imagegate.coverage.golang.regexp import compile_go
from imagegate.coverage.sending.client import Grammar, Reader
from imagegate.coverage.sending.ignorefile import (
    IgnoreFile,
    compile_rules,
    read_ignore_file,
)
from imagegate.coverage.sending.index import RuleIndex
from imagegate.coverage.sending.patterns import BrokenRuleError, compile_rule
from imagegate.coverage.sending.walk import ContextFilter
from imagegate.coverage.tree import Kind, build_tree, file, lookup, walk
from imagegate.errors import CoverageError

# moby/patternmatcher patternmatcher_test.go, with a parent or the path itself matching
MATCH = [
    ("**", ["file", "dir/file"]),
    ("**/", ["file", "dir/file"]),
    ("**/**", ["dir/file"]),
    ("dir/**", ["dir/file", "dir/dir2/file"]),
    ("**/dir", ["dir", "dir/file"]),
    ("**/dir2/*", ["dir/dir2/file"]),
    ("**/dir2/**", ["dir/dir2/dir3/file"]),
    ("**file", ["file", "dir/file", "dir/dir/file"]),
    ("**/file", ["dir/file"]),
    ("**/file*", ["dir/dir/file.txt"]),
    ("**/file*txt", ["dir/dir/file.txt"]),
    ("**/file*.txt", ["dir/dir/file.txt"]),
    ("**/file*.txt*", ["dir/dir/file.txt"]),
    ("**/**/*.txt", ["dir/dir/file.txt", "file.txt"]),
    ("**/*.txt", ["file.txt"]),
    ("a**/*.txt", ["a/file.txt", "a/dir/file.txt", "a/dir/dir/file.txt"]),
    ("a/*.txt", ["a/file.txt"]),
    ("a/*.txt**", ["a/file.txt"]),
    ("a[b-d]e", ["ace"]),
    ("a[^b-d]e", ["aze"]),
    (".*", [".foo"]),
    ("abc.def", ["abc.def"]),
    ("abc?def", ["abcZdef"]),
    ("a\\\\", ["a\\"]),
    ("**/foo/bar", ["foo/bar", "dir/foo/bar", "dir/dir2/foo/bar"]),
    ("abc/**", ["abc/def", "abc/def/ghi"]),
    ("**/.foo", [".foo"]),
    ("a(b)c/def", ["a(b)c/def"]),
    ("a.|)$(}+{bc", ["a.|)$(}+{bc"]),
    (
        "dist/*.whl",
        ["dist/proxy.py-2.4.0rc3.dev36+g08acad9-py3-none-any.whl"],
    ),
]
NO_MATCH = [
    ("**/**/*.txt2", "dir/dir/file.txt"),
    ("a/*.txt", "a/dir/file.txt"),
    ("a[b-d]e", "ae"),
    ("a[b-d]e", "aae"),
    (".*", "foo"),
    ("abc.def", "abcdef"),
    ("abc.def", "abcZdef"),
    ("abc?def", "abcdef"),
    ("abc/**", "abc"),
    ("**/.foo", "bar.foo"),
    ("a(b)c/def", "a(b)c/xyz"),
]


def excluded(ignore: str, path: str, builder: str = "buildkit") -> bool:
    profile = find_profile(builder)
    rules = ContextFilter(
        read_ignore_file(ignore.encode(), "i", profile.client.reader), profile.client
    )
    return lookup(rules.send(build_tree({path: file(), "Dockerfile": file()})), path) is None


@pytest.mark.parametrize(
    ("pattern", "path"), [(pattern, path) for pattern, paths in MATCH for path in paths]
)
def test_upstream_patterns_match(pattern: str, path: str) -> None:
    assert excluded(pattern, path)


@pytest.mark.parametrize(("pattern", "path"), NO_MATCH)
def test_upstream_patterns_do_not_match(pattern: str, path: str) -> None:
    assert not excluded(pattern, path)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        (b"/test2", ["test2"]),
        (b"! /inverted/abs/path", ["!inverted/abs/path"]),
        (b"!", ["!"]),
        (b"! ", ["!"]),
        (b"\xef\xbb\xbftest1\n/test2\n\n# c\n  test3  \r\n#x", ["test1", "test2", "test3"]),
        (b"\xc2\xa0nbsp\xc2\xa0", ["nbsp"]),
        (b"foo # note", ["foo # note"]),
        (b" # x", ["# x"]),
        (b"/../foo\n../foo\n//foo\nfoo/", ["foo", "../foo", "foo", "foo"]),
    ],
)
def test_the_reader_of_moby(text: bytes, patterns: list[str]) -> None:
    lines = read_ignore_file(text, "i", Reader.MOBY).lines
    assert [line.pattern for line in lines] == patterns


@pytest.mark.parametrize(
    ("text", "patterns"),
    [(b"! foo\n/../foo/\n#c\n\n x ", ["! foo", "../foo", " x "]), (b"a\r\n", ["a\r"])],
)
def test_the_reader_of_buildah(text: bytes, patterns: list[str]) -> None:
    lines = read_ignore_file(text, "i", Reader.IMAGEBUILDER).lines
    assert [line.pattern for line in lines] == patterns


def test_a_line_is_too_long_from_64_kib_on() -> None:
    assert read_ignore_file(b"x" * 65535, "i", Reader.MOBY).lines
    with pytest.raises(CoverageError, match="i:2: the line has 65536 bytes"):
        read_ignore_file(b"a\n" + b"x" * 65536, "i", Reader.MOBY)
    assert read_ignore_file(b"x" * 65536, "i", Reader.IMAGEBUILDER).lines


@pytest.mark.parametrize(
    ("builder", "files"),
    [
        ("buildkit", ("sub/D.dockerignore", ".dockerignore")),
        ("classic", (".dockerignore",)),
        (
            "buildah",
            (
                "sub/D.dockerignore",
                "sub/D.containerignore",
                ".containerignore",
                ".dockerignore",
            ),
        ),
    ],
)
def test_which_ignore_file_is_read(builder: str, files: tuple[str, ...]) -> None:
    assert find_profile(builder).client.ignore_files("sub/D") == files
    assert find_profile("buildkit").client.ignore_files("") == (".dockerignore",)


# Go 1.22 path/filepath match_test.go
GO_MATCH = [
    ("abc", "abc", True),
    ("*", "abc", True),
    ("*c", "abc", True),
    ("a*", "a", True),
    ("a*", "ab/c", False),
    ("a*/b", "abc/b", True),
    ("a*/b", "a/c/b", False),
    ("a*b*c*d*e*/f", "axbxcxdxexxx/f", True),
    ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", False),
    ("a*b?c*x", "abxbbxdbxebxczzx", True),
    ("a*b?c*x", "abxbbxdbxebxczzy", False),
    ("ab[c]", "abc", True),
    ("ab[b-d]", "abc", True),
    ("ab[e-g]", "abc", False),
    ("ab[^c]", "abc", False),
    ("ab[^e-g]", "abc", True),
    ("a\\*b", "a*b", True),
    ("a\\*b", "ab", False),
    ("a?b", "a☺b", True),
    ("a[^a]b", "a☺b", True),
    ("a???b", "a☺b", False),
    ("a?b", "a/b", False),
    ("a*b", "a/b", False),
    ("[\\]a]", "]", True),
    ("[\\-]", "-", True),
    ("[x\\-]", "z", False),
    ("[\\-x]", "x", True),
    ("*x", "xxx", True),
]


@pytest.mark.parametrize(("pattern", "name", "expected"), GO_MATCH)
def test_match_is_that_of_go(pattern: str, name: str, *, expected: bool) -> None:
    assert match(pattern, name) is expected


@pytest.mark.parametrize(
    "pattern",
    ["[]a]", "[-]", "[x-]", "[-x]", "[", "[^", "[^bc", "a[", "\\", "[a-b-c]", "[\\", "a*[", "*["],
)
def test_patterns_that_go_refuses(pattern: str) -> None:
    with pytest.raises(BadPatternError):
        match(pattern, "a")


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("^v\\d$", "v1", True),
        ("^a{2}[^/]*$", "aa", True),
        ("^a{2}[^/]*$", "a2", False),
        ("^a{,2}$", "a{,2}", True),
        ("^a|b[^/]*$", "azz", True),
        ("^[[:alpha:]]$", "x", True),
        ("^[[:^alpha:]]$", "x", False),
        ("^\\pL$", "é", True),
        ("^\\P{Lu}$", "A", False),
        ("^\\Qa.b\\E$", "a.b", True),
        ("^foo\\bar$", "foobar", False),
        ("^\\x41\\x{42}\\103$", "ABC", True),
        ("^[^a]$", "\n", True),
        ("^.$", "\n", False),
        ("^a$", "a\n", False),
        ("^(?i)ab(?-i)C$", "aBC", True),
        ("^(?i)ab(?-i)C$", "aBc", False),
        ("^(?P<x>a)(?:b)$", "ab", True),
        ("^\\w\\W\\s\\S$", "a-\tb", True),
        ("^\\w$", "é", False),
    ],
)
def test_regular_expressions_are_those_of_go(expression: str, text: str, *, expected: bool) -> None:
    assert compile_go(expression).matches(text) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "\\o", "\\1", "\\c", "\\8", "a**", "a+*", "*", "(", ")", "(*)", "[z-a]", "[a-\\d]", "[",
        "[[:nope:]]", "\\", "a{1001}", "a{2,1}", "\\pq", "\\p{Nope}", "(?z)", "\\x{110000}", "\\C",
    ],
)  # fmt: skip
def test_regular_expressions_that_go_refuses(expression: str) -> None:
    with pytest.raises(BadPatternError):
        compile_go(expression)


def test_a_rule_that_does_not_compile_is_refused_only_when_it_is_tried() -> None:
    rule = compile_rule("[a-\\d]", 3, Grammar.MOBY)
    assert rule is not None
    with pytest.raises(BrokenRuleError) as refused:
        rule.matches("x")
    assert refused.value.line == 3
    # the exception is never tried, as nothing is excluded
    assert not excluded("!f\\oo\n", "x")
    with pytest.raises(CoverageError, match="i:1: "):
        excluded("f\\oo\n", "x")


# -- laws

names = st.sampled_from(["a", "ab", "b", "recipes", "k", "t.j", ".env", "a+b"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
pieces = st.sampled_from(["a", "a*", "*", "**", "?b", "recipes", "k", "*.j", "**b", "[ak]", "a|b"])
patterns = st.tuples(
    st.sampled_from(["", "!", "/", "!/"]), st.lists(pieces, min_size=1, max_size=3)
).map(lambda made: made[0] + "/".join(made[1]))
lists = st.lists(patterns, max_size=6).map("\n".join)


def trees(entries: list[str]) -> dict[str, None]:
    """Drop paths that would need another one to be a directory and a file."""
    kept: dict[str, None] = {}
    for path in sorted(set(entries)):
        above = path.split("/")
        if not any("/".join(above[:depth]) in kept for depth in range(1, len(above))):
            kept[path] = None
    return kept


@settings(max_examples=300)
@given(lists, st.lists(paths, min_size=1, max_size=12), st.sampled_from(sorted(PROFILES)))
def test_what_is_sent_is_what_is_decided_path_by_path(
    text: str, entries: list[str], builder: str
) -> None:
    profile = find_profile(builder)
    rules = ContextFilter(
        read_ignore_file(text.encode(), "i", profile.client.reader), profile.client
    )
    root = build_tree({path: file() for path in trees(entries)})
    sent = rules.send(root)
    for path, node in walk(root):
        if node.kind is Kind.FILE:
            found = lookup(sent, path)
            decision = rules.decide(path, root)
            assert decision.kept is (found is not None)
            assert decision.emptied is (found is not None and found.emptied)
            if not decision.kept:
                assert decision.rule is not None
                assert not decision.rule.exception


@settings(max_examples=300)
@given(lists, paths, st.sampled_from(list(Grammar)))
def test_the_index_leaves_out_no_rule_that_matches(text: str, path: str, grammar: Grammar) -> None:
    ignore = read_ignore_file(text.encode(), "i", Reader.MOBY)
    rules = compile_rules(ignore, grammar)
    index = RuleIndex.of(rules, grammar)
    parts = path.split("/")
    inherited: frozenset[int] = frozenset()
    for depth in range(1, len(parts) + 1):
        here = "/".join(parts[:depth])
        possible = set(index.possible(here, inherited))
        matching = {number for number, rule in enumerate(rules) if rule.matches(here)}
        assert matching <= possible
        inherited = frozenset(matching | inherited)
        index = index.below(here)


@given(lists, st.lists(paths, min_size=1, max_size=12))
def test_without_exceptions_all_builders_with_moby_patterns_agree(
    text: str, entries: list[str]
) -> None:
    plain = text.replace("!", "")
    root = build_tree({path: file() for path in trees(entries)})
    sent = []
    for builder in ("buildkit", "classic"):
        profile = find_profile(builder)
        rules = ContextFilter(
            read_ignore_file(plain.encode(), "i", profile.client.reader), profile.client
        )
        sent.append([path for path, _ in walk(rules.send(root))])
    assert sent[0] == sent[1]


@given(paths)
def test_an_empty_list_sends_everything(path: str) -> None:
    for profile in PROFILES.values():
        assert (
            ContextFilter(IgnoreFile(path="i"), profile.client)
            .decide(path, build_tree({path: file()}))
            .kept
        )


@given(st.text(alphabet="/.ab", max_size=12))
def test_clean_is_idempotent_and_has_no_double_slash(path: str) -> None:
    assert clean(clean(path)) == clean(path)
    assert "//" not in clean(path)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    "lines",
    ["*\n!a/b", "a/*\n!a/b/c.json", "**/*.json\n!a/", "a\n!a/b/c.json\na", "*\n!**/x", "[^a]*"],
)
def test_a_listing_says_of_each_path_what_a_look_at_it_alone_says(
    profile: Builder, lines: str
) -> None:
    root = build_tree({path: file() for path in ("a/b/c.json", "a/b/x", "a/d", "x", "e/f.json")})
    rules = ContextFilter(
        read_ignore_file(lines.encode(), "i", profile.client.reader), profile.client
    )
    listed = list(rules.decisions(root))
    assert listed
    for path, node, decision in listed:
        alone = rules.decide(path, root)
        assert (decision.kept, decision.emptied, decision.rule, decision.at) == (
            alone.kept,
            alone.emptied,
            alone.rule,
            alone.at,
        ), path
        assert node.kind is Kind.FILE or decision.pruned == path
