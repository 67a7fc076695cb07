"""The parser, words and scopes: what BuildKit's own parser makes of tricky files."""

from __future__ import annotations

import io

import pytest

from imagegate.coverage.building.build import Base, Build, FilteredContext
from imagegate.coverage.building.evaluate import evaluate
from imagegate.coverage.building.profiles import BUILDKIT, find_profile
from imagegate.coverage.reading.dockerfile import parse_dockerfile
from imagegate.coverage.reading.operations import BaseConfig
from imagegate.coverage.reading.words import Dialect, WordError, expand
from imagegate.coverage.tree import Context, build_tree, directory, file, walk
from imagegate.errors import CoverageError


def parsed(text: str) -> list[tuple[str, tuple[str, ...], int]]:
    return [
        (instruction.name, instruction.words, instruction.line)
        for instruction in parse_dockerfile(text.encode(), "D").instructions
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a\nCOPY x \\\n\n  # c\n y /o/\n", ("COPY", ("x", "y", "/o/"), 2)),
        ("FROM a\r\nCOPY x \\\r\n y /o/\r\n", ("COPY", ("x", "y", "/o/"), 2)),
        ("# escape=`\nFROM a\nCOPY x `\n y /o/\n", ("COPY", ("x", "y", "/o/"), 3)),
        ("# c\n# escape=`\nFROM a\nCOPY x `\n", ("COPY", ("x", "`"), 4)),
        ("#  Syntax = x \n# ESCAPE = `\nFROM a\nCOPY x `\n y\n", ("COPY", ("x", "y"), 4)),
        ("FROM a\n\tcopy\tx\t/o\n", ("COPY", ("x", "/o"), 2)),
        ('FROM a\nCOPY ["a b", "/o/"]\n', ("COPY", ("a b", "/o/"), 2)),
        ('FROM a\nCOPY ["a",\\\n "/o/"]\n', ("COPY", ("a", "/o/"), 2)),
        ("FROM a\nCOPY ['a','/o']\n", ("COPY", ("['a','/o']",), 2)),
        ("FROM a\nCOPY [ab].txt /o\n", ("COPY", ("[ab].txt", "/o"), 2)),
        ("FROM a\nCOPY mid\\\ndle /o\n", ("COPY", ("middle", "/o"), 2)),
        ("FROM a\nCOPY x /o \\\\\nCOPY y /p\n", ("COPY", ("y", "/p"), 3)),
        ("FROM a\nCOPY x /o \\", ("COPY", ("x", "/o"), 2)),
        ("FROM a\nCOPY x /o # note\n", ("COPY", ("x", "/o", "#", "note"), 2)),
        ("FROM a\nRUN echo 1 <<< 2\nCOPY x /o\n", ("COPY", ("x", "/o"), 3)),
        ("FROM a\nRUN cat <<A <<B\nCOPY no /no\nA\nB\nCOPY x /o\n", ("COPY", ("x", "/o"), 6)),
        ("FROM a\nRUN <<-'EOF'\n\tCOPY no /no\n\tEOF\nCOPY x /o\n", ("COPY", ("x", "/o"), 5)),
        ("\ufeffFROM a\nCOPY x /o\n", ("COPY", ("x", "/o"), 2)),
    ],
)
def test_the_last_instruction_is_read_as_buildkit_reads_it(
    text: str, expected: tuple[str, tuple[str, ...], int]
) -> None:
    assert parsed(text)[-1] == expected


def test_flags_lose_their_quotes_and_end_at_the_first_word() -> None:
    text = b"FROM a\nCOPY --from=b --exclude='a b' x --chown=1 /o\n"
    instruction = parse_dockerfile(text, "D").instructions[1]
    assert instruction.flags == ("--from=b", "--exclude=a b")
    assert instruction.words == ("x", "--chown=1", "/o")


def test_onbuild_holds_an_instruction_with_its_flags() -> None:
    instruction = parse_dockerfile(b"FROM a\nONBUILD COPY --from=x a /b\n", "D").instructions[1]
    assert instruction.trigger is not None
    assert instruction.trigger.flags == ("--from=x",)
    assert instruction.trigger.words == ("a", "/b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM a\nNOPE\n", "D:2: unknown instruction `NOPE`"),
        ("# escape=`\n# escape=`\nFROM a\n", "D:2: only one `escape`"),
        ("FROM a\nRUN <<EOF\nx\n", "D:2: heredoc `EOF` is not closed"),
        ("FROM a\nCOPY " + "x" * 65536 + " /o\n", "D:2: the line has 65544 bytes"),
        ("", "D:1: the file has no instructions"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(CoverageError) as failed:
        parse_dockerfile(text.encode(), "D")
    assert failed.value.message.startswith(message)


VALUES = {"X": "kimi3.jinja", "E": "", "P": "a/b/c"}


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("$X", "kimi3.jinja"),
        ("${X}", "kimi3.jinja"),
        ("$NO/x", "/x"),
        ("${NO:-d}${E:-e}${E-f}", "de"),
        ("${X:+y}${E:+n}${E+y}", "yy"),
        ("${X%.jinja}-${X#kimi}-${X/kimi/glm}", "kimi3-3.jinja-glm3.jinja"),
        ("${P#*/}-${P##*/}-${P%/*}-${P%%/*}", "b/c-c-a/b-a"),
        ("${P//\\//_}", "a_b_c"),
        ("'$X'\"$X\"\\$X", "$Xkimi3.jinja$X"),
        ("a\\ b", "a b"),
        ("${NO:-${X}}", "kimi3.jinja"),
        ("$", "$"),
    ],
)
def test_words_expand_as_in_buildkit(word: str, text: str) -> None:
    assert expand(word, VALUES).text == text


@pytest.mark.parametrize(
    ("word", "dialect"),
    [
        ("${X", Dialect.MODERN),
        ("${}", Dialect.MODERN),
        ("${X!y}", Dialect.MODERN),
        ("'x", Dialect.MODERN),
        ('"x', Dialect.MODERN),
        ("${NO:?}", Dialect.MODERN),
        ("${X-d}", Dialect.OLD),
        ("${X#k}", Dialect.OLD),
        ("${X-d}", Dialect.BUILDAH),
        ("${X#k}", Dialect.BUILDAH_OLD),
    ],
)
def test_words_that_a_builder_refuses(word: str, dialect: Dialect) -> None:
    with pytest.raises(WordError):
        expand(word, VALUES, dialect=dialect)


def image(text: str, builder: str = "buildkit", bases: dict[str, Base] | None = None) -> set[str]:
    context = Context(
        root=build_tree({"f": file(), "d/g": file()}), open=lambda _path: io.BytesIO()
    )
    done = evaluate(
        Build(
            dockerfile=parse_dockerfile(text.encode(), "D"),
            builder=find_profile(builder),
            main=FilteredContext(context=context),
            bases=bases or {},
        )
    )
    assert not done.failures, done.failures
    assert not any(node.doubt for _, node in walk(done.image))
    return {path for path, node in walk(done.image) if not node.children}


@pytest.mark.parametrize(
    ("builder", "found"), [("buildkit", "arg"), ("classic", "env"), ("buildah", "env")]
)
def test_an_arg_behind_an_env_of_its_name_wins_in_buildkit_only(builder: str, found: str) -> None:
    assert image("FROM scratch\nENV D=/env\nARG D=/arg\nCOPY f $D/\n", builder) == {f"{found}/f"}


def test_what_onbuild_may_not_hold_is_named_with_its_line() -> None:
    with pytest.raises(CoverageError, match=r"^D:2: `ONBUILD` is not allowed"):
        image("FROM scratch\nONBUILD ONBUILD COPY a b\n")


def test_onbuild_of_a_stage_runs_in_docker_and_not_in_buildah() -> None:
    text = "FROM scratch AS a\nONBUILD COPY f /o/\nFROM a\nCOPY d /d\n"
    assert image(text) == {"d/g", "o/f"}
    assert image(text, "classic") == {"d/g", "o/f"}
    assert image(text, "buildah") == {"d/g"}


@pytest.mark.parametrize("flag", ["--exclude=x", "--parents", "--link"])
@pytest.mark.parametrize("builder", ["classic-20.10", "buildkit-20.10", "buildah-1.28"])
def test_a_flag_that_a_builder_does_not_know_fails_its_build(flag: str, builder: str) -> None:
    with pytest.raises(AssertionError, match="does not know"):
        image(f"FROM scratch\nCOPY {flag} f /o/\n", builder)


@pytest.mark.parametrize("flag", ["--exclude=g", "--link"])
def test_the_classic_builder_of_docker_28_takes_flags_and_does_nothing_with_them(flag: str) -> None:
    assert image(f"FROM scratch\nCOPY {flag} d /o/\n", "classic") == {"o/g"}


@pytest.mark.parametrize(("builder", "lenient"), [("buildkit", False), ("buildah", True)])
def test_text_behind_a_json_array_is_dropped_by_older_parsers(
    builder: str, *, lenient: bool
) -> None:
    text = 'FROM scratch\nCOPY ["f", "/o/"] x\n'
    if lenient:
        assert image(text, builder) == {"o/f"}
        return
    with pytest.raises(AssertionError, match="valid pattern"):
        image(text, builder)


@pytest.mark.parametrize(
    ("syntax", "missing"),
    [
        (None, set()),
        ("docker/dockerfile:1", set()),
        ("docker/dockerfile:1.19", {"parents"}),
        ("docker/dockerfile:1.7-labs", set()),
        ("docker/dockerfile:1.7", {"parents", "exclude"}),
        ("docker.io/docker/dockerfile:1.3.1", {"parents", "exclude", "link"}),
        ("docker/dockerfile:1.1", {"parents", "exclude", "link", "chmod"}),
        ("example.org/own/frontend:2", set()),
    ],
)
def test_the_syntax_line_decides_which_flags_exist(syntax: str | None, missing: set[str]) -> None:
    known = BUILDKIT.reading(syntax).frontend.flags
    assert {"parents", "exclude", "link", "chmod"} - known == missing


@pytest.mark.parametrize("path", [{}, {"srv": directory()}])
def test_a_known_base_says_whether_a_destination_is_a_folder(path: dict[str, object]) -> None:
    root = build_tree({"etc/os-release": file()})
    if path:
        root.children["srv"] = directory()
    base = Base(root=root, config=BaseConfig(env={}, workdir="/"))
    found = image("FROM base\nCOPY f /srv\n", bases={"base": base})
    assert found == {"etc/os-release", "srv/f" if path else "srv"}
