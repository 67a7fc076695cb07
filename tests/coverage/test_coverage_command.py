"""``imagegate coverage`` on whole projects, as a user calls it."""

from __future__ import annotations

import io
import json
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from imagegate.cli.coverage import command
from imagegate.errors import ImagegateError

COVERED = ("llama4", "qwen3")
MISSING = ("deepseek5", "gemma4", "glm53", "gptoss2", "kimi3", "mistral5", "nemotron4", "phi6")
EXPECT = "recipes/{model}=/usr/share/engine/recipes/{model}"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run(*arguments: str) -> Outcome:
    """Run the command as ``main`` does: errors become exit codes there."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = command.main(list(arguments), standalone_mode=False) or 0
        except ImagegateError as failed:
            code = failed.exit_code
            err.write(f"{failed.message}\n{failed.hint or ''}")
    return Outcome(code=int(code), out=out.getvalue(), err=err.getvalue())


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def the_project(
    root: Path, *, copied: tuple[str, ...], allowed: tuple[str, ...], end: str = "\n"
) -> None:
    """The case that this tool was made for: ten recipes, two of them shipped."""
    for model in (*COVERED, *MISSING):
        write(
            root,
            {
                f"recipes/{model}/template.jinja": f"template of {model}",
                f"recipes/{model}/config.json": f'{{"model": "{model}"}}',
            },
        )
    copies = "".join(f"COPY recipes/{model} /b/recipes/{model}{end}" for model in copied)
    allows = "".join(f"!recipes/{model}{end}" for model in allowed)
    write(
        root,
        {
            "src/app.py": "app",
            "packaging/debian/Dockerfile": (
                f"FROM scratch AS build{end}COPY src /b/src{end}{copies}{end}"
                f"FROM scratch{end}COPY --from=build /b/recipes /usr/share/engine/recipes{end}"
            ),
            "packaging/debian/Dockerfile.dockerignore": f"*{end}!src{end}{allows}",
        },
    )


def judge(root: Path, *more: str) -> Outcome:
    return run(
        "--dockerfile", str(root / "packaging/debian/Dockerfile"),
        "--context", str(root),
        "--recipes", "recipes/*",
        *more,
    )  # fmt: skip


def edits(outcome: Outcome) -> dict[str, list[str]]:
    """Return the proposed lines by file name, from the JSON report."""
    found: dict[str, list[str]] = {}
    for edit in json.loads(outcome.out)["dockerfiles"][0]["edits"]:
        found.setdefault(Path(edit["path"]).name, []).append(edit["text"])
    return found


COPY_LINES = [f"COPY recipes/{model} /b/recipes/{model}" for model in MISSING]
ALLOW_LINES = [f"!recipes/{model}" for model in MISSING]


@pytest.mark.parametrize(
    ("state", "copied", "allowed", "wanted"),
    [
        (
            "neither copied nor allowed",
            COVERED,
            COVERED,
            {"Dockerfile": COPY_LINES, "Dockerfile.dockerignore": ALLOW_LINES},
        ),
        (
            "copied but not allowed",
            (*COVERED, *MISSING),
            COVERED,
            {"Dockerfile.dockerignore": ALLOW_LINES},
        ),
        ("allowed but not copied", COVERED, (*COVERED, *MISSING), {"Dockerfile": COPY_LINES}),
    ],
)
def test_all_eight_missing_models_are_named_with_every_line_they_lack_and_repaired(
    tmp_path: Path,
    state: str,
    copied: tuple[str, ...],
    allowed: tuple[str, ...],
    wanted: dict[str, list[str]],
) -> None:
    the_project(tmp_path, copied=copied, allowed=allowed)

    told = judge(tmp_path)
    assert told.code == 1, state
    for model in MISSING:
        assert f"  {model} (config.json, template.jinja):" in told.out
    for line in (line for lines in wanted.values() for line in lines):
        assert line in told.out

    proposed = judge(tmp_path, "--format", "json", "--expect", EXPECT)
    assert edits(proposed) == wanted

    before = snapshot(tmp_path)
    fixed = judge(tmp_path, "--fix")
    assert (fixed.code, fixed.out.splitlines()[0][-len("20 of 20 assets covered") :]) == (
        0,
        "20 of 20 assets covered",
    )
    changed = {path for path, text in snapshot(tmp_path).items() if before[path] != text}
    assert changed == {f"packaging/debian/{name}" for name in wanted}
    assert judge(tmp_path).code == 0


def snapshot(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_the_state_with_both_is_covered_and_nothing_is_written(tmp_path: Path) -> None:
    everything = (*COVERED, *MISSING)
    the_project(tmp_path, copied=everything, allowed=everything)
    before = snapshot(tmp_path)
    fixed = judge(tmp_path, "--fix", "--expect", EXPECT)
    assert fixed.code == 0
    assert snapshot(tmp_path) == before


def test_what_is_only_proposed_is_not_written(tmp_path: Path) -> None:
    the_project(tmp_path, copied=COVERED, allowed=COVERED)
    before = snapshot(tmp_path)
    assert judge(tmp_path).code == 1
    assert snapshot(tmp_path) == before


def test_a_repair_keeps_windows_line_ends(tmp_path: Path) -> None:
    the_project(tmp_path, copied=COVERED, allowed=COVERED, end="\r\n")
    for name in ("Dockerfile", "Dockerfile.dockerignore"):
        place = tmp_path / "packaging/debian" / name
        place.write_bytes(place.read_bytes().replace(b"\r\r\n", b"\r\n"))
    assert judge(tmp_path, "--fix").code == 0
    for name in ("Dockerfile", "Dockerfile.dockerignore"):
        content = (tmp_path / "packaging/debian" / name).read_bytes()
        assert content.count(b"\n") == content.count(b"\r\n")


def test_the_classic_builder_does_not_read_the_dockerfiles_own_ignore_file(tmp_path: Path) -> None:
    the_project(tmp_path, copied=(*COVERED, *MISSING), allowed=COVERED)
    told = judge(tmp_path, "--builder", "buildkit", "--builder", "classic")
    assert told.code == 1
    assert "builders disagree:" in told.out
    assert "classic: covered" in told.out
    document = json.loads(
        judge(tmp_path, "--builder", "buildkit", "--builder", "classic", "--format", "json").out
    )
    assert len(document["dockerfiles"][0]["builders_disagree"]) == 20


def test_one_exception_and_one_copy_for_the_whole_folder_cover_all(tmp_path: Path) -> None:
    the_project(tmp_path, copied=(), allowed=())
    write(
        tmp_path,
        {
            "packaging/debian/Dockerfile": "FROM scratch\nCOPY recipes /usr/share/engine/recipes\n",
            "packaging/debian/Dockerfile.dockerignore": "*\n!recipes\n",
        },
    )
    for builder in ("buildkit", "buildkit-20.10", "classic", "classic-20.10", "buildah"):
        assert judge(tmp_path, "--builder", builder, "--expect", EXPECT).code == 0


def test_a_glob_that_flattens_all_models_into_one_file_is_refused(tmp_path: Path) -> None:
    the_project(tmp_path, copied=(), allowed=())
    write(
        tmp_path,
        {
            "packaging/debian/Dockerfile": "FROM scratch\nCOPY recipes/* /usr/share/engine/recipes/\n",
            "packaging/debian/Dockerfile.dockerignore": "",
        },
    )
    for expectation in ((), ("--expect", EXPECT)):
        told = judge(tmp_path, "--builder", "all", *expectation)
        assert told.code == 1
        assert "overwritten: `/usr/share/engine/recipes/config.json` holds `recipes/" in told.out


def test_several_dockerfiles_are_judged_in_one_run(tmp_path: Path) -> None:
    the_project(tmp_path, copied=(*COVERED, *MISSING), allowed=(*COVERED, *MISSING))
    write(tmp_path, {"other/Dockerfile": "FROM scratch\nCOPY src /s\n"})
    told = judge(tmp_path, "--dockerfile", str(tmp_path / "other/Dockerfile"))
    assert told.code == 1
    assert "20 of 20 assets covered" in told.out
    assert "0 of 20 assets covered" in told.out


def test_github_annotations_name_file_and_line(tmp_path: Path) -> None:
    the_project(tmp_path, copied=COVERED, allowed=COVERED)
    told = judge(tmp_path, "--format", "github")
    lines = told.out.splitlines()
    assert len(lines) == 16
    ignore = tmp_path / "packaging/debian/Dockerfile.dockerignore"
    assert all(line.startswith(f"::error file={ignore},line=1,title=") for line in lines)


def test_data_goes_to_stdout_and_hints_to_stderr(tmp_path: Path) -> None:
    the_project(tmp_path, copied=COVERED, allowed=COVERED)
    told = judge(tmp_path, "--format", "json")
    assert json.loads(told.out)["covered"] is False
    assert told.err == "hint: `--fix` writes the proposed lines\n"


# -- where the image is only known in part


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ("RUN make install", "covered"),
        ("RUN rm -rf /usr/share/engine/recipes/kimi3", "unknown"),
        ("RUN mkdir -p /var/lib/engine && chmod 755 /usr/share/engine", "covered"),
        ("COPY --from=ghcr.io/acme/assets /x /usr/share/engine/recipes/", "covered"),
        ("COPY --from=ghcr.io/acme/assets /x /opt/", "covered"),
        ("ADD https://example.org/x.bin /usr/share/engine/recipes/", "covered"),
        ('ENTRYPOINT ["/bin/engine"]', "covered"),
        ("ARG WHERE\nCOPY src $WHERE/", "covered"),
        ("ARG WHERE=/srv\nCOPY src $WHERE/", "covered"),
        ("COPY src $HOME/", "covered"),
    ],
)
def test_what_a_later_line_may_change_is_unknown_and_never_covered(
    tmp_path: Path, after: str, outcome: str
) -> None:
    write(
        tmp_path,
        {
            "recipes/kimi3/t.jinja": "t",
            "src/a": "a",
            "Dockerfile": f"FROM debian:13\nCOPY recipes /usr/share/engine/recipes/\n{after}\n",
        },
    )
    found = outcome_of(tmp_path, "--expect", EXPECT)
    assert found == outcome


def outcome_of(root: Path, *more: str) -> str:
    told = run(
        "--dockerfile", str(root / "Dockerfile"), "--context", str(root),
        "--recipes", "recipes/*", "--format", "json", *more,
    )  # fmt: skip
    assets = json.loads(told.out)["dockerfiles"][0]["builders"][0]["assets"]
    (found,) = {str(asset["outcome"]) for asset in assets}
    assert told.code == (0 if found == "covered" else 1)
    return found


def test_a_path_that_the_caller_vouches_for_gets_no_note_behind_a_script(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/kimi3/t.jinja": "t",
            "Dockerfile": "FROM scratch\nCOPY recipes /r\nRUN make install\n",
        },
    )
    for options, notes in (((), 1), (("--run-keeps", "/r"), 0)):
        told = run(
            "--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path),
            "--recipes", "recipes/*", "--format", "json", *options,
        )  # fmt: skip
        (asset,) = json.loads(told.out)["dockerfiles"][0]["builders"][0]["assets"]
        assert (asset["outcome"], len(asset["notes"])) == ("covered", notes)


def test_a_destination_without_slash_on_an_unknown_base_is_unknown(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            "Dockerfile": "FROM debian:13\nCOPY recipes/k/t /srv\n",
        },
    )
    assert outcome_of(tmp_path, "--expect", "recipes/{model}=/srv") == "unknown"


def test_a_mount_in_a_run_does_not_cover(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            "Dockerfile": (
                'FROM scratch\nRUN --mount=type=bind,source=recipes,target=/r ["true"]\n'
            ),
        },
    )
    assert outcome_of(tmp_path) == "no COPY reaches it"


# -- more ways to be wrong


def test_a_file_that_arrives_with_no_bytes_is_found_and_repaired(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            ".dockerignore": "*\n!recipes/k\n*\n",
            "Dockerfile": "FROM scratch\nCOPY recipes /recipes\n",
        },
    )
    assert outcome_of(tmp_path) == "kept but empty"
    assert outcome_of(tmp_path, "--builder", "classic") == "covered"
    assert outcome_of(tmp_path, "--fix") == "covered"


def test_a_link_inside_a_copied_folder_dangles_unless_its_target_comes_along(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"shared/base.jinja": "b", "Dockerfile": "FROM scratch\nCOPY recipes /r\n"})
    (tmp_path / "recipes/k").mkdir(parents=True)
    (tmp_path / "recipes/k/t.jinja").symlink_to("../../shared/base.jinja")
    assert outcome_of(tmp_path) == "a dangling link"
    write(tmp_path, {"Dockerfile": "FROM scratch\nCOPY recipes /r\nCOPY shared /shared\n"})
    assert outcome_of(tmp_path) == "covered"


@pytest.mark.parametrize(
    ("ignore", "proposed"),
    [("*\n!recipes/*/**\n", ["!recipes/k"]), ("**/*.json\n!recipes/\n", ["!recipes/k"])],
)
def test_exceptions_that_look_right_and_let_nothing_through(
    tmp_path: Path, ignore: str, proposed: list[str]
) -> None:
    write(
        tmp_path,
        {
            "recipes/k/c.json": "{}",
            ".dockerignore": ignore,
            "Dockerfile": "FROM scratch\nCOPY . /app\n",
        },
    )
    assert outcome_of(tmp_path) == "ignored"
    told = run(
        "--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path),
        "--recipes", "recipes/*", "--format", "json", "--fix",
    )  # fmt: skip
    assert told.code == 0
    written = (tmp_path / ".dockerignore").read_text()
    assert written.startswith(ignore)
    assert written.removeprefix(ignore).split()[0].startswith(proposed[0])


def test_an_instruction_right_behind_a_heredoc_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            "Dockerfile": "FROM scratch\nCOPY <<EOF /f\nCOPY x /y\nEOF\nCOPY recipes /recipes\n",
        },
    )
    assert outcome_of(tmp_path) == "covered"


def test_a_copy_line_inside_a_heredoc_does_not_count(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            "Dockerfile": "FROM scratch\nCOPY <<EOF /f\nCOPY recipes /recipes\nEOF\n",
        },
    )
    assert outcome_of(tmp_path) == "no COPY reaches it"


def test_two_sources_without_a_slash_leave_one_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "recipes/k/a": "a",
            "recipes/k/b": "b",
            "Dockerfile": "FROM scratch\nCOPY recipes/k/a recipes/k/b /opt\n",
        },
    )
    told = run(
        "--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path),
        "--recipes", "recipes/*", "--expect", "recipes/{model}=/opt", "--format", "json",
    )  # fmt: skip
    (verdicts,) = json.loads(told.out)["dockerfiles"][0]["builders"]
    assert [asset["outcome"] for asset in verdicts["assets"]] == ["overwritten", "at another path"]


# -- git


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", root, *arguments],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            ".gitignore": "*.bin\n*.pyc\n",
            ".dockerignore": "**/*.pyc\n",
            "Dockerfile": "FROM scratch\nCOPY recipes /recipes\n",
        },
    )
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "start")
    return tmp_path


def test_a_tracked_asset_is_covered(checkout: Path) -> None:
    assert outcome_of(checkout) == "covered"


@pytest.mark.parametrize("name", ["new.jinja", "weights.bin"])
def test_an_asset_that_git_does_not_have_is_here_and_not_in_ci(checkout: Path, name: str) -> None:
    write(checkout, {f"recipes/k2/{name}": "x"})
    told = run(
        "--dockerfile", str(checkout / "Dockerfile"), "--context", str(checkout),
        "--recipes", "recipes/*",
    )  # fmt: skip
    assert told.code == 1
    assert f"k2 ({name}):\n    not tracked by git" in told.out


def test_a_tracked_asset_that_is_gone_from_disk_is_not_in_the_context(checkout: Path) -> None:
    (checkout / "recipes/k/t").unlink()
    assert outcome_of(checkout) == "not in the context"


def test_what_git_and_the_ignore_file_both_leave_out_is_no_asset_and_is_said(
    checkout: Path,
) -> None:
    write(checkout, {"recipes/k/t.pyc": "x"})
    told = run(
        "--dockerfile", str(checkout / "Dockerfile"), "--context", str(checkout),
        "--recipes", "recipes/*",
    )  # fmt: skip
    assert told.code == 0
    assert "recipes/k/t.pyc" in told.err


def test_a_git_lfs_pointer_is_not_the_asset(checkout: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
    write(checkout, {"recipes/k/t": pointer})
    assert outcome_of(checkout) == "a Git LFS pointer"


# -- the context


def test_list_context_says_what_is_dropped_by_which_line(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a": "",
            "recipes/k/t": "",
            "recipes/m/t": "",
            ".dockerignore": "# what is not needed\nrecipes\n!recipes/k\n",
            "Dockerfile": "FROM scratch\n",
        },
    )
    told = run(
        "--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path), "--list-context"
    )
    assert told.code == 0
    ignore = tmp_path / ".dockerignore"
    assert told.out.splitlines() == [
        "sent\t.dockerignore",
        "sent\tDockerfile",
        "sent\ta",
        f"sent\trecipes/k/t\t{ignore}:3 `!recipes/k`",
        f"dropped\trecipes/m/\t{ignore}:2 `recipes`",
    ]


# -- broken input


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"Dockerfile": "FROM scratch\nCOPPY a /a\n"}, "Dockerfile:2: unknown instruction `COPPY`"),
        ({"Dockerfile": "FROM scratch\n\nCOPY <<EOF /a\nx\n"}, "Dockerfile:3: heredoc `EOF`"),
        ({"Dockerfile": "COPY a /a\n"}, "Dockerfile:1: `COPY` before the first FROM"),
        ({"Dockerfile": "# nothing\n"}, "Dockerfile:1: the file has no instructions"),
        ({"Dockerfile": "# escape=x\nFROM scratch\n"}, "Dockerfile:1: invalid escape token `x`"),
        (
            {"Dockerfile": "FROM scratch\nCOPY a /\n", ".dockerignore": "ok\n!\n"},
            ".dockerignore:2: `!` is not a valid pattern",
        ),
        (
            {"Dockerfile": "FROM scratch\nCOPY a /\n", ".dockerignore": "ok\n\n[a\n"},
            ".dockerignore:3: `[a` is not a valid pattern",
        ),
        (
            {"Dockerfile": "FROM scratch\nCOPY a /\n", ".dockerignore": "*\n!recipes\\kimi3\n"},
            ".dockerignore:2: `!recipes\\kimi3` is not a valid pattern",
        ),
        (
            {"Dockerfile": "FROM scratch\nCOPY a /\n", ".dockerignore": "x\n" + "y" * 65536},
            ".dockerignore:2: the line has 65536 bytes",
        ),
    ],
)
def test_broken_input_is_named_with_its_line(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    write(tmp_path, {"recipes/k/t": "t", "a": "a", **files})
    told = run(
        "--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path),
        "--recipes", "recipes/*",
    )  # fmt: skip
    assert told.code == 2
    assert told.err.startswith(f"{tmp_path}/{message}")
    assert not told.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--context", "no/such"), "no build context `no/such`"),
        (("--recipes", "recipies/*"), "no recipe matches `recipies/*`"),
        (("--recipes", "recipes/[k"), "`recipes/[k` is not a valid glob"),
        (("--dockerfile", "no/such"), "no Dockerfile `no/such`"),
        (("--target", "runtime"), "no stage `runtime`"),
        (("--builder", "kaniko"), "no builder `kaniko`"),
        (("--expect", "recipes"), "`--expect recipes` has no form"),
        (("--expect", "models/{model}=/m/{model}"), "no expectation for `recipes/k`"),
    ],
)
def test_an_input_that_cannot_be_used_is_exit_2(
    tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    write(tmp_path, {"recipes/k/t": "t", "Dockerfile": "FROM scratch\nCOPY recipes /r\n"})
    given = {
        "--dockerfile": str(tmp_path / "Dockerfile"),
        "--context": str(tmp_path),
        "--recipes": "recipes/*",
    } | dict([arguments])
    told = run(*(word for pair in given.items() for word in pair))
    assert told.code == 2
    assert message in told.err


def test_without_recipes_nothing_is_judged(tmp_path: Path) -> None:
    write(tmp_path, {"Dockerfile": "FROM scratch\n"})
    assert run("--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path)).code == 2


def test_an_ignore_file_that_is_a_folder_is_none_for_buildkit_only(tmp_path: Path) -> None:
    write(tmp_path, {"recipes/k/t": "t", "Dockerfile": "FROM scratch\nCOPY recipes /recipes\n"})
    (tmp_path / ".dockerignore").mkdir()
    assert outcome_of(tmp_path) == "covered"
    for builder in ("classic", "buildah"):
        told = run(
            "--dockerfile", str(tmp_path / "Dockerfile"), "--context", str(tmp_path),
            "--recipes", "recipes/*", "--builder", builder,
        )  # fmt: skip
        assert told.code == 2


def test_buildah_prefers_the_dockerignore_of_the_dockerfile_and_reads_containerignore(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        {
            "recipes/k/t": "t",
            "Dockerfile": "FROM scratch\nCOPY recipes /recipes\n",
            ".containerignore": "recipes/k\n",
            ".dockerignore": "",
        },
    )
    assert outcome_of(tmp_path) == "covered"
    assert outcome_of(tmp_path, "--builder", "buildah") == "ignored"
    write(tmp_path, {"Dockerfile.containerignore": "recipes/k\n", "Dockerfile.dockerignore": ""})
    assert outcome_of(tmp_path, "--builder", "buildah") == "covered"
