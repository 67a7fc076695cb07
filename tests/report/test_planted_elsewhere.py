"""What is planted leaves by no other output either: statements, lists, coverage, launches."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from imagegate.cli import run
from imagegate.errors import ImagegateError
from imagegate.foreign import visible
from imagegate.report.formats import Format, render
from imagegate.report.lockdiff import Difference
from imagegate.report.locking import LockReport, render_locking
from imagegate.report.overview import (
    Overview,
    Row,
    State,
    render_json as overview_json,
    render_page,
    render_text as overview_text,
)
from imagegate.report.several import Unjudged
from imagegate.usecases.attest import Judgement, statements_of
from imagegate.usecases.ports import Silent
from imagegate.workspace import Workspace
from tests.launch.hosts import container, running
from tests.launch.workspaces import fact_file, published as launched
from tests.report.test_planted import SECRETS, TEMPTING, _compare, _obeyed, planted, unseen

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 12, 1, tzinfo=UTC)
FORMATS = ("text", "json", "markdown", "sarif", "junit", "github", "html")


def leaks(secret: str, output: str) -> bool:
    return any(secret in one for one in (output, output.replace("\\", ""), visible(output)))


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_is_stated_or_signed(kind: str, tmp_path: Path) -> None:
    secret, text = SECRETS[kind]
    judgement = Judgement.now(*planted(text).evidence(tmp_path), AT)
    statements = statements_of(Workspace(tmp_path), judgement, reporter=Silent())
    assert len(statements) == 4
    for one in statements:
        assert not leaks(secret, one.payload.decode()), one.predicate_type


def unjudged(text: str) -> dict[str, str]:
    """Every form of what could not be judged, alone and beside another."""
    one = Unjudged(subject="demo", message=text, hint=text, exit_code=3, file="images/demo")
    other = replace(one, subject="other", message="plain", hint="")
    return {
        f"{form.value}, {len(several)}": render(several, form, version="1", details=True)
        for form in Format
        for several in ([one], [one, other])
    }


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_what_could_not_be_judged(kind: str) -> None:
    secret, text = SECRETS[kind]
    for name, output in unjudged(text).items():
        assert not leaks(secret, output), name


@pytest.mark.parametrize("kind", TEMPTING)
def test_planted_text_has_no_effect_in_what_could_not_be_judged(kind: str) -> None:
    plain = unjudged("plain")
    for name, output in unjudged(TEMPTING[kind]).items():
        assert unseen(output) == [], name
        form = Format(name.partition(",")[0])
        if form is Format.MARKDOWN:
            assert "<script" not in output
            assert "http://evil" not in output
        else:
            _compare(form, output, plain[name])


def lists(text: str) -> dict[str, str]:
    """Everything that lists what is not a finding."""
    row = Row(name="demo", state=State.BROKEN, problem=text, drift=text, platform=text, pins={})
    overview = Overview(at=AT, rows=(row,))
    change = Difference(group="config", subject=text, old=text, new=text)
    report = LockReport(
        name="demo", result="failed", problem=text, hint=text, pinned=text, differences=(change,)
    )
    outputs = {f"lock as {form}": render_locking([report], form) for form in ("text", "json")}
    return outputs | {
        "lock as markdown": render_locking([report], "markdown"),
        "overview": overview_text(overview),
        "overview with details": overview_text(overview, details=True),
        "overview as json": overview_json(overview),
        "overview as page": render_page(overview, version="1"),
    }


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_a_list(kind: str) -> None:
    secret, text = SECRETS[kind]
    for name, output in lists(text).items():
        assert not leaks(secret, output), name


@pytest.mark.parametrize("kind", TEMPTING)
def test_planted_text_has_no_effect_in_a_list(kind: str) -> None:
    plain = lists("plain")
    for name, output in lists(TEMPTING[kind]).items():
        assert unseen(output) == [], name
        if "json" in name:
            assert json.loads(output).keys() == json.loads(plain[name]).keys()
        elif "page" in name:
            assert "<script" not in output
            assert "<img" not in output
        elif "markdown" not in name:
            assert not any(_obeyed(line) for line in output.split("\n")), name


def dockerfile(folder: Path, text: str) -> None:
    """A build whose text, paths and failures have it."""
    (folder / "recipes" / "glm").mkdir(parents=True)
    (folder / "recipes" / "glm" / "serve.yaml").write_text("a: 1\n")
    one_line = text.replace("\n", " ").replace("\0", "").encode("utf-8", "replace").decode()
    (folder / "Dockerfile").write_text(
        f"FROM scratch\nLABEL x={json.dumps(one_line)}\nCOPY {json.dumps([one_line, '/x'])}\n"
        f"RUN echo {one_line}\nCOPY recipes/glm /opt/glm\n",
        encoding="utf-8",
    )
    (folder / ".dockerignore").write_text(f"recipes\n{one_line}\n", encoding="utf-8")


def covered(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    outputs = {}
    for form in FORMATS:
        capsys.readouterr()
        asked = ["coverage", "--dockerfile", str(folder / "Dockerfile"), "--context", str(folder)]
        run([*asked, "--recipes", "recipes/*", "--builder", "all", "--format", form])
        told = capsys.readouterr()
        # one of them is no pattern of an ignore file, which is said and nothing else
        assert told.out or "is not a valid pattern" in told.err or "not a valid pattern" in told.err
        outputs[form], outputs[f"{form}, standard error"] = told.out, told.err
    return outputs


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_coverage(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, text = SECRETS[kind]
    dockerfile(tmp_path, text)
    for name, output in covered(tmp_path, capsys).items():
        assert not leaks(secret, output), name


@pytest.mark.parametrize("kind", TEMPTING)
def test_planted_text_has_no_effect_in_coverage(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dockerfile(tmp_path, TEMPTING[kind])
    outputs = covered(tmp_path, capsys)
    for name, output in outputs.items():
        assert unseen(output) == [], name
    for name in ("text", "text, standard error"):
        assert not any(_obeyed(line) for line in outputs[name].split("\n")), name
    if not outputs["text"]:
        return
    for form in ("json", "sarif"):
        json.loads(outputs[form])
    ET.fromstring(outputs["junit"])
    assert "<script" not in outputs["html"]


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_a_launch_check(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, text = SECRETS[kind]
    launched(tmp_path)
    held = container(
        name=text, command=["--api-key", text], environment={"VALUE": text, "LD_PRELOAD": text}
    )
    facts = fact_file(tmp_path, "pulsar", 1.0, engines=running(held))
    for form in ("text", "json", "markdown", "sarif", "junit", "github"):
        capsys.readouterr()
        asked = ["launch", "check", "glm", "--workspace", str(tmp_path), "--facts", str(facts)]
        run([*asked, "--running", "--format", form])
        told = capsys.readouterr()
        assert told.out, told.err
        assert not leaks(secret, told.out + told.err), form


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_an_unexpected_error(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from imagegate.cli import cli

    secret, text = SECRETS[kind]
    for error in (RuntimeError(text), OSError(5, text, text), ImagegateError(text, hint=text)):

        def fail(*_args: object, _error: Exception = error, **_more: object) -> None:
            raise _error

        monkeypatch.setattr(cli, "main", fail)
        assert run(["verify"]) == 3
        assert not leaks(secret, capsys.readouterr().err)


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--format", "@"),
        ("verify", "@"),
        ("verify", "--max-age", "@"),
        ("verify", "--attested", "@"),
        ("@",),
        ("explain", "@"),
        ("lock", "demo", "--base", "@"),
        ("mv", "demo", "@"),
        ("diff", "@", "@"),
        ("coverage", "--recipes", "@", "--builder", "@"),
    ],
)
def test_no_secret_leaves_by_a_word_that_is_refused(
    kind: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    secret, text = SECRETS[kind]
    assert run([text if word == "@" else word for word in words]) != 0
    told = capsys.readouterr()
    assert not leaks(secret, told.out + told.err)
