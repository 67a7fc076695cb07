"""What the text of a RUN says about files: words, variables, programs."""

from __future__ import annotations

import pytest

from imagegate.coverage.shell.acts import HOLE, Deed
from imagegate.coverage.shell.runs import acts_of_run


def acts(text: str, **environment: str) -> list[tuple[str, tuple[str, ...], str]]:
    return [
        (act.deed.name, act.paths, act.target) for act in acts_of_run(text, (), environment, "/w")
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("rm -rf /a /b/*", [("REMOVE", ("/a", "/b/*"), "")]),
        ("cd /srv && mv a b", [("MOVE", ("/srv/a",), "/srv/b")]),
        ("(cd /x; rm y); rm z", [("REMOVE", ("/x/y",), ""), ("REMOVE", ("/w/z",), "")]),
        ("echo hi >> /etc/motd 2>&1", [("WRITE", ("/etc/motd",), "")]),
        ("ls 2>/dev/null >/dev/null", []),
        ("cp -t/usr/share/r /a", [("COPY", ("/a",), "/usr/share/r")]),
        ("rm -- -x /a", [("REMOVE", ("/w/-x", "/a"), "")]),
        ("X=1 Y=2 rm /a", [("REMOVE", ("/a",), "")]),
        ("D=/opt/a; rm -r ${D}/b '$D'", [("REMOVE", ("/opt/a/b", "/w/$D"), "")]),
        ("rm '/a/*'", [("REMOVE", ("/a/\\*",), "")]),
        ("rm $HOME/x", [("REMOVE", ("/root/x",), "")]),
        ("rm ${X:-/d}/y", [("REMOVE", ("/d/y",), "")]),
        ("rm $X/y", [("REMOVE", (f"{HOLE}/y",), "")]),
        ("true `rm /x` $(rm /y)", [("REMOVE", ("/x",), ""), ("REMOVE", ("/y",), "")]),
        ("sh -c 'cd /a && rm b'", [("REMOVE", ("/a/b",), "")]),
        ("sh <<EOF\nrm /a\nEOF", [("REMOVE", ("/a",), "")]),
        ("timeout 5 nice -n 3 env -u A B=c rm /a", [("REMOVE", ("/a",), "")]),
        ("install -d /a/b", [("MAKE", ("/a/b",), "")]),
        ("wget -q -O /a https://x/y", [("WRITE", ("/a",), "")]),
        ("wget https://x/y.tgz?a=b", [("WRITE", ("/w/y.tgz",), "")]),
        ("tar xzf a.tgz -C /o", [("FILL", ("/w/a.tgz",), "/o")]),
        ("ln -sfn /a /b", [("LINK", ("/a",), "/b")]),
        ("pip install -e .[x]", [("PACKAGE", ("/w",), "")]),
        ("python -m pip install -r r.txt x==1", []),
        ("python setup.py install", [("PACKAGE", ("/w",), "")]),
        ("go build -o /x ./...", [("BUILD", (), "")]),
        ("if a; then D=/x; else D=/y; fi; rm $D", [
            ("OPAQUE", (), ""), ("REMOVE", ("/y", "/x", HOLE), ""),
        ]),
        ("cd /a || cd /b; rm x", [("REMOVE", (f"{HOLE}/x",), "")]),
        ("some-tool /opt/x --out=/opt/y", [("OPAQUE", ("/opt/x", "/opt/y"), "")]),
    ],
)  # fmt: skip
def test_a_command_does_what_its_words_say(
    text: str, found: list[tuple[str, tuple[str, ...], str]]
) -> None:
    assert acts(text, HOME="/root") == found


def test_what_the_grammar_cannot_read_is_opaque() -> None:
    assert ("OPAQUE", (), "") in acts("if then fi ((")


def test_nesting_has_a_limit_and_the_rest_is_opaque() -> None:
    deeds = {act.deed for act in acts_of_run("(" * 5000 + "rm /x" + ")" * 5000, (), {}, "/w")}
    assert Deed.OPAQUE in deeds


def test_words_that_double_come_to_an_end() -> None:
    lines = ["A0=xxxxxxxxxx"] + [f"A{n + 1}=$A{n}$A{n}" for n in range(40)]
    assert acts("\n".join([*lines, "rm $A40"])) == [("REMOVE", (HOLE,), "")]
