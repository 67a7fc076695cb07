"""What is planted in an image stays in it: no secret and no command leaves by a report."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt

from imagegate.checks.image.evidence import Evidence
from imagegate.cli import run
from imagegate.errors import ImageError
from imagegate.foreign import Foreign, quiet, shown, shown_lines, visible
from imagegate.foreign.credentials import find_credentials, redact
from imagegate.report.formats import Format, render
from imagegate.report.html import render_html
from imagegate.report.told import ToldVerdict
from imagegate.verdict import Finding, ImageVerdict, Place, Severity
from tests.images import Link, write_layout
from tests.judging import SITE, Case, dist

# ten kinds; none is real, each has its issuer's form. What must not be seen, and how it stands.
RANDOM = "a8Kd03nfLs72hQmXo41PwZbVc95TrYuEiGjN"
SECRETS = {
    "GitHub": (f"ghp_{RANDOM}",) * 2,
    "Hugging Face": ("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",) * 2,
    "NVIDIA": ("nvapi-" + "a8Kd03nfLs72hQmX" * 4,) * 2,
    "AWS": ("AKIAQ3EGTUXMZ2WVLK5R",) * 2,
    "npm": (f"npm_{RANDOM}",) * 2,
    "private key": (
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz",
        """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz
-----END OPENSSH PRIVATE KEY-----
""",
    ),
    "address": ("hunter2hunter2", "https://me:hunter2hunter2@pypi.example/simple"),
    "bearer": ("q7.Zx1-Lm9_Tr4", "curl -H 'Authorization: Bearer q7.Zx1-Lm9_Tr4' http://x"),
    "password": ("correct-horse-battery", "POSTGRES_PASSWORD=correct-horse-battery"),
    "JSON web token": (
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r",
        "x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r y",
    ),
}


def planted(text: str) -> Case:
    """An image that has the text in every place that reaches a report."""
    one_line = text.replace("\n", " ")
    # of two slashes a path keeps one
    name = re.sub("/+", "/", one_line).strip("/ ")
    reason = json.dumps(f"because {one_line}")
    return Case(
        recipe=f"""
            [[waivers]]
            check = "config.moves/label"
            subject = {reason}
            about = "sha256:{"0" * 64}"
            reason = {reason}
            expires = 2026-12-31
            base = "BASE_DIGEST"
        """,
        base={f"{SITE}/a.pth": "a\n", f"opt/{name}": "in the base"},
        base_config={
            "Env": ["PATH=/usr/bin", f"GONE={text}"],
            "Labels": {"kept": "x", "gone": text},
        },
        added=[
            {
                "opt/app/settings.txt": text,
                f"opt/{name}": "changed",
                f"srv/{name}/x": "a name",
                f"usr/lib/{name}.so": Link(f"/{name}"),
                "root/.netrc": f"machine h login l password {text}\n",
                f"{SITE}/z.pth": f"import os; x = {text!r}\n",
                "etc/ld.so.conf.d/x.conf": f"/opt/{text}\n",
                **dist("plain", "1", direct_url=json.dumps({"url": text, "vcs_info": {}})),
            }
        ],
        config={
            "Env": ["PATH=/usr/bin", f"VALUE={text}", f"LD_PRELOAD={text}"],
            "Labels": {"kept": text, "added": text},
            "Entrypoint": ["sh", "-c", text],
            "Cmd": ["--api-key", text],
            "User": text,
            "WorkingDir": f"/{text}",
            "Healthcheck": {"Test": ["CMD", text]},
            "Unknown": {"a": text},
        },
        steps=[f"RUN {text}"],
    )


def written(verdict: ImageVerdict, evidence: Evidence) -> dict[str, str]:
    """The verdict in every format."""
    outputs = {
        f"{form.value}{' with details' if details else ''}": render(
            [verdict], form, version="1", details=details
        )
        for form in Format
        for details in (False, True)
    }
    return outputs | {"html": render_html([(verdict, evidence)], version="1")}


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_any_output(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, text = SECRETS[kind]
    case = planted(text)
    verdict, evidence = case.evidence(tmp_path)
    assert not verdict.passed
    outputs = written(verdict, evidence)

    base, image = case.images()
    layouts = [write_layout(tmp_path / name, one) for name, one in (("b", base), ("i", image))]
    for form in ("text", "json"):
        capsys.readouterr()
        run(["inspect", f"oci:{layouts[1]}", "--format", form])
        run(["diff", f"oci:{layouts[0]}", f"oci:{layouts[1]}", "--format", form, "--all"])
        told = capsys.readouterr()
        outputs[f"inspect and diff as {form}"] = told.out + told.err
    for name, output in outputs.items():
        assert len(output) > 500, name
        assert secret not in output, name
        assert secret not in output.replace("\\", ""), name
        assert json.dumps(secret)[1:-1] not in output, name


@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_by_standard_error(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    secret, text = SECRETS[kind]
    run(["verify", "--workspace", f"/nowhere/{text}"])
    run(["inspect", f"oci:/nowhere/{text}"])
    run(["profile", "show", text])
    told = capsys.readouterr()
    assert secret not in told.out + told.err


@pytest.mark.parametrize("kind", SECRETS)
def test_hiding_twice_changes_nothing_and_finds_nothing_more(kind: str) -> None:
    hidden = redact(SECRETS[kind][1])
    assert SECRETS[kind][0] not in hidden
    assert redact(hidden) == hidden
    assert find_credentials(hidden) == ()


@pytest.mark.parametrize(
    "text",
    [
        "--max-num-batched-tokens 8192 --tokenizer deepseek-ai/DeepSeek-R1",
        "RUN --mount=type=secret,id=HF_TOKEN,env=HF_TOKEN pip install x",
        "HF_TOKEN=$(cat /run/secrets/HF_TOKEN)",
        "eos_token=</s>",
        "a basic understanding of bearer tokens is required: the password is not",
        "https://user:$PASS@pypi.example/simple",
        "TOKENIZERS_PARALLELISM=false",
        "sha256:" + "0123456789abcdef" * 4,
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact(text) == text


# --- text that would act on its reader

COMMANDS = ("::stop-commands::x", "::error::x", "##[add-path]/evil", "::add-mask::x")
TEMPTING = {
    "line feed": "a\nPASSED    case: 0 failures\n::error::x",
    "carriage return": "a\r::set-output name=x::y",
    "next line": "a\x85PASSED",
    "line separator": "a\u2028PASSED\u2029FAILED",
    "escape": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "direction": "\u202egnp.exe\u202c \u2066x\u2069",
    "zero width": "to\u200bken\u200d\ufeff\u2060\u00ad",
    "unseen": "\u3164\u2800\u115f\ufe0f\u034f",
    "surrogate": "\udcff\ud800",
    "NUL": "a\0b",
    "workflow": "::stop-commands::x ##[error]y",
    "markdown": "**b** [l](http://evil.example) ![i](//evil.example/p) `c` <b>x</b> | y",
    "address": "http://evil.example www.evil.example mail@evil.example @somebody :tada: $x^2$ #1",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;\"'",
    "XML": "]]><failure/>&amp;<![CDATA[",
    "SARIF": "[click](https://evil.example) \\[x](y) {0}",
}
FIELDS = ("subject", "message", "locked", "found", "hint", "path", "step", "cause", "compared")


def said(text: str, field: str) -> ImageVerdict:
    """A verdict that has the text in one field of one finding."""
    plain = dict.fromkeys(FIELDS, "plain") | {field: text}
    finding = Finding(
        code="python.pins/moved",
        severity=Severity.FAIL,
        subject=plain["subject"],
        message=plain["message"],
        locked=plain["locked"],
        found=plain["found"],
        hint=plain["hint"],
        cause=plain["cause"],
        place=Place(path=plain["path"], layer=1, layer_digest="sha256:0", step=plain["step"]),
    )
    report = EMPTY.reports[0]
    reports = (replace(report, findings=(finding,), compared=(plain["compared"],)),)
    return replace(EMPTY, reports=reports)


@pytest.fixture(scope="module", autouse=True)
def _empty(tmp_path_factory: pytest.TempPathFactory) -> None:
    global EMPTY  # noqa: PLW0603 - judged once for all
    EMPTY = Case(added=[{"x": "y"}]).judge(tmp_path_factory.mktemp("empty"))


EMPTY: ImageVerdict


def unseen(text: str) -> list[str]:
    """Characters of an output that a person would not see."""
    return [c for c in text if c != "\n" and visible(c) != c]


class _Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(sorted(name for name, _ in attrs))))


def _markdown(text: str) -> dict[str, int]:
    """Count what a reader of GitHub Flavored Markdown makes: everything but text and `code`."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inner = [one for token in tokens for one in (token, *(token.children or ()))]
    kinds = (f"{t.type} {t.content if t.type.startswith('html') else ''}".strip() for t in inner)
    ours = ("text", "html_inline <code>", "html_inline </code>", "code_inline")
    return {kind: number for kind, number in Counter(kinds).items() if kind not in ours}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("kind", TEMPTING)
def test_planted_text_has_no_effect_in_any_format(kind: str, field: str) -> None:
    verdict, quiet_one = said(TEMPTING[kind], field), said("plain", field)
    for form in Format:
        for details in (False, True):
            output = render([verdict], form, version="1", details=details)
            same = render([quiet_one], form, version="1", details=details)
            assert unseen(output) == [], form
            _compare(form, output, same)


def _compare(form: Format, output: str, same: str) -> None:
    """Read both with the format's own parser: the structure is that of harmless text."""
    if form is Format.TEXT:
        assert len(output.splitlines()) == len(same.splitlines())
        assert not any(_obeyed(line) for line in output.split("\n"))
        words, wanted_words = (
            [line for line in text.split("\n") if line.startswith(("PASSED", "FAILED"))]
            for text in (output, same)
        )
        assert len(words) == len(wanted_words)
    elif form is Format.GITHUB:
        assert len(output.splitlines()) == len(same.splitlines())
        commands = [
            re.match(r"::(\w+) file=[^,]*,line=1,title=[^:]*::", x) for x in output.split("\n") if x
        ]
        assert all(one and one[1] in ("error", "notice") for one in commands)
        # what the runner shows: the data with its escapes undone, line by line
        data = output.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
        shown_to_people = [
            x for x in data.split("\n") if not x.startswith(("::error file=", "::notice file="))
        ]
        assert not any(_obeyed(line) for line in shown_to_people)
    elif form is Format.JSON:
        assert _shape(json.loads(output)) == _shape(json.loads(same))
    elif form is Format.SARIF:
        document = json.loads(output)
        assert _shape(document) == _shape(json.loads(same))
        for result in document["runs"][0]["results"]:
            # sarif-v2.1.0, 3.11.6: a link's text begins with a bracket that no backslash escapes
            assert not re.search(r"(?<!\\)(?:\\\\)*\[[^\]]*(?<!\\)\]\(", result["message"]["text"])
    elif form is Format.JUNIT:
        found, wanted = (
            [(e.tag, sorted(e.keys())) for e in ET.fromstring(t).iter()] for t in (output, same)
        )
        assert found == wanted
    elif form is Format.MARKDOWN:
        assert _markdown(output) == _markdown(same)
        for pattern in (r"https?://evil", r"www\.evil", r"@evil", r"@somebody", r":tada:", r"\$x"):
            assert not re.search(pattern, output), pattern


def _obeyed(line: str) -> bool:
    """Whether GitHub's runner takes a line for a command (actions/runner, ActionCommand.cs)."""
    return line.lstrip().startswith("::") or "##[" in line


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {name: _shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shape(one) for one in value]
    return type(value).__name__


@pytest.mark.parametrize("kind", TEMPTING)
def test_planted_text_is_text_on_the_page(kind: str, tmp_path: Path) -> None:
    pages = []
    for number, text in enumerate((TEMPTING[kind], "plain")):
        label = text.encode("utf-8", "replace").decode()
        case = Case(
            added=[{"x": "y"}],
            config={"Env": [f"A={label}"], "Labels": {"l": label}, "User": label},
            steps=[f"RUN {label}"],
        )
        verdict, evidence = case.evidence(tmp_path / str(number))
        page = render_html([(verdict, evidence)], version="1")
        assert unseen(page) == []
        tags = _Tags()
        tags.feed(page)
        pages.append(set(tags.found))
    assert pages[0] == pages[1]


@pytest.mark.parametrize("kind", TEMPTING)
def test_standard_error_and_lines_of_a_log_show_everything(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from imagegate.cli import cli

    def fail(*_args: object, **_more: object) -> None:
        raise ImageError(TEMPTING[kind], hint=TEMPTING[kind])

    monkeypatch.setattr(cli, "main", fail)
    assert run(["verify"]) == 3
    err = capsys.readouterr().err
    assert unseen(err) == []
    assert not any(_obeyed(line) for line in err.split("\n"))
    assert not any(line.startswith(("PASSED", "FAILED")) for line in err.split("\n"))
    one = shown(TEMPTING[kind])
    assert len(one.splitlines()) == 1
    assert not _obeyed(one)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_taken_its_meaning_wherever_it_stands(command: str) -> None:
    assert not _obeyed(quiet(f"  {command}"))
    assert not any(_obeyed(line) for line in shown_lines(f"x\n{command}\n\t{command}").split("\n"))


def test_foreign_text_cannot_be_printed_without_an_escaping() -> None:
    text = Foreign(f"a\x1b[31m {SECRETS['GitHub'][1]}")
    for print_it in (str, format, "{}".format, lambda one: f"{one}"):
        with pytest.raises(TypeError, match="escaping"):
            print_it(text)
    assert text.written(str.upper) == "A\\X1B[31M [REDACTED]"
    assert SECRETS["GitHub"][0] not in repr(text)


@pytest.mark.peers
def test_a_browser_runs_nothing_that_was_planted(tmp_path: Path) -> None:
    text = " ".join(TEMPTING[kind] for kind in ("HTML", "markdown", "address", "XML"))
    case = Case(
        added=[{"x": "y"}],
        config={"Env": [f"A={text}"], "Labels": {"l": text}},
        steps=[f"RUN {text}"],
    )
    verdict, evidence = case.evidence(tmp_path)
    page = tmp_path / "page.html"
    page.write_text(render_html([(verdict, evidence)], version="1"))
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{page}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    dom = _Tags()
    dom.feed(done.stdout)
    assert not any(tag in ("script", "img") for tag, _ in dom.found)
    assert not any(name.startswith("on") for _, names in dom.found for name in names)


@pytest.mark.parametrize("renderer", ["text", "markdown", "github", "junit", "sarif"])
def test_a_renderer_gets_foreign_text_and_never_a_finding(renderer: str) -> None:
    """Findings hold plain text; a renderer knows their views alone (``report/told.py``)."""
    source = resources.files("imagegate.report").joinpath(f"{renderer}.py").read_text()
    imported = {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "imagegate.verdict"
        for alias in node.names
    }
    assert imported <= {"Verdict", "Severity", "format_bytes"}


def test_every_text_of_a_view_is_foreign() -> None:
    verdict = ToldVerdict(said("plain", "subject"))
    (finding,) = verdict.findings
    texts = [verdict.subject, verdict.file, *(value for _, value in verdict.heading)]
    texts += [finding.subject, finding.message, finding.locked, finding.found, finding.hint]
    texts += [finding.place.path, finding.place.step, finding.place.layer_digest]
    texts += [finding.place.file]
    report = verdict.reports[0]
    texts += [*report.compared, report.summary, report.left_out, report.nothing_because]
    for text in texts:
        assert type(text) is Foreign
        with pytest.raises(TypeError, match="escaping"):
            f"{text}"
