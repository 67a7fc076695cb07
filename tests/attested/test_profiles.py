"""``profile show`` and ``profile check``; and every launcher reads one profile alike."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from imagegate.cli import run
from imagegate.errors import ProfileError
from imagegate.profile import encode_env

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workspaces import Built

# what a value may be, and what tempts each reader: make's `$`, `#` and `\`, compose's `$` and
# quotes, systemd's `%`, quotes and backslashes, sh's everything
TEMPTING = (
    "registry.example:5000/team/served@sha256:" + "0" * 64,
    "--port=6379,--num-gpus=1",
    "100%",
    "%n%%",
    "a=b=c",
    "2.30.7+cuda13.3",
    "^1.2,=3",
    "",
    "-",
    "/a//b/../c",
    "true",
    "0755",
    "1e3",
)


@pytest.fixture
def root(built: Built, tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    shutil.copytree(built.root, folder)
    assert run(["promote", "served", "-w", str(folder)]) == 0
    return folder


def test_show_writes_what_launchers_read(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["profile", "show", "served", "-w", str(root)]) == 0
    assert capsys.readouterr().out == (root / "profiles/served.env").read_text()
    assert run(["profile", "show", "served", "--json", "-w", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)["env"]["IMAGEGATE_PROFILE"] == "served"


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_missing_or_unknown_name_is_a_loud_error_and_there_is_no_default(
    root: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", command, "-w", str(root)]) == 2
    assert run(["profile", command, "severd", "-w", str(root)]) == 3
    captured = capsys.readouterr()
    assert "there is no profile `severd`" in captured.err
    assert "IMAGE=" not in captured.out


def test_the_shell_completes_published_names(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import BashComplete

    from imagegate.cli import cli

    monkeypatch.chdir(root)
    complete = BashComplete(cli, {}, "imagegate", "_IMAGEGATE_COMPLETE")
    found = complete.get_completions(["profile", "show"], "se")
    assert [item.value for item in found] == ["served"]
    assert complete.get_completions(["profile", "show"], "x") == []


def test_check_holds_after_a_promotion(root: Path) -> None:
    assert run(["profile", "check", "served", "-w", str(root)]) == 0


def test_check_sees_an_edited_profile(root: Path) -> None:
    env = root / "profiles/served.env"
    env.write_text(env.read_text().replace("MAX_JOBS=16", "MAX_JOBS=17"))
    assert run(["profile", "check", "served", "-w", str(root)]) == 3


def test_check_sees_an_edited_or_missing_verdict(root: Path) -> None:
    (verdict,) = (root / "profiles/verdicts").iterdir()
    verdict.write_bytes(verdict.read_bytes().replace(b'"hint": ""', b'"hint": "x"') + b"\n")
    assert run(["profile", "check", "served", "-w", str(root)]) == 1
    verdict.unlink()
    assert run(["profile", "check", "served", "-w", str(root)]) == 3


def test_a_lock_that_is_newer_than_the_promotion_is_a_note(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "images/served/recipes/glm53/serve.yaml").write_text("tensor-parallel-size: 4\n")
    assert run(["lock", "served", "--base", f"oci:{root / 'base'}", "-w", str(root)]) == 0
    assert run(["profile", "check", "served", "-w", str(root)]) == 0
    assert "note   lock of the workspace" in capsys.readouterr().out


def _edit(root: Path, variable: str, value: str | None) -> None:
    """Change a line in the ``.env`` and in the history alike, as a forger would."""
    history = root / "profiles/served.json"
    document = json.loads(history.read_text())
    env = document["states"][0]["env"]
    env.pop(variable, None)
    if value is not None:
        env[variable] = value
    history.write_text(json.dumps(document))
    (root / "profiles/served.env").write_bytes(encode_env(env))


@pytest.mark.parametrize(
    "variable",
    [
        *("IMAGE", "IMAGE_ID", "IMAGE_DIGEST", "IMAGE_PLATFORM", "BASE_DIGEST", "LOCK_DIGEST"),
        *("VERDICT", "IMAGEGATE_PROFILE", "NCCL_VERSION", "TORCH_VERSION"),
    ],
)
@pytest.mark.parametrize("value", ["registry.example/evil@sha256:" + "0" * 64, None])
def test_each_measured_line_is_derived_again(
    root: Path, variable: str, value: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row 1: a profile that was edited in both places names another image, and was called ok."""
    _edit(root, variable, value)
    capsys.readouterr()
    assert run(["profile", "check", "served", "-w", str(root)]) == 1
    what = "verdict file" if variable == "VERDICT" else variable
    assert f"FAIL   {what}: " in capsys.readouterr().out


def test_the_right_digest_in_another_repository_is_not_the_image(root: Path) -> None:
    env = dict(
        line.split("=", 1) for line in (root / "profiles/served.env").read_text().splitlines()
    )
    _edit(root, "IMAGE", f"registry.example/evil@{env['IMAGE_DIGEST']}")
    assert run(["profile", "check", "served", "-w", str(root)]) == 1


@pytest.mark.parametrize("variable", ["VLLM_VERSION", "LD_PRELOAD", "PATH", "IMAGEGATE_X"])
def test_a_line_that_nobody_measured_is_refused(root: Path, variable: str) -> None:
    _edit(root, variable, "x")
    assert run(["profile", "check", "served", "-w", str(root)]) == 1


def test_check_takes_all_and_tells_each(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("served.env", "served.json"):
        shutil.copy(root / "profiles" / path, root / "profiles" / path.replace("served", "other"))
    capsys.readouterr()
    assert run(["profile", "check", "--all", "-w", str(root)]) == 1
    out = capsys.readouterr().out
    assert "other\nok " in out
    assert "FAIL   IMAGEGATE_PROFILE: other" in out
    assert run(["profile", "check", "-w", str(root)]) == 2


def test_the_folder_of_profiles_is_enough(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node"
    shutil.copytree(root / "profiles", node / "profiles")
    assert run(["profile", "check", "served", "-w", str(node)]) == 0
    (node / "profiles/below").mkdir()
    monkeypatch.chdir(node / "profiles/below")
    assert run(["profile", "check", "--all"]) == 0
    assert run(["profile", "show", "served"]) == 0


def test_profiles_name_each_others_variables_so_that_none_stays_in_a_shell(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = json.loads((root / "profiles/served.json").read_text())
    history["profile"] = "other"
    env = history["states"][0]["env"] | {"IMAGEGATE_PROFILE": "other", "ONLY_OTHERS": "1"}
    history["states"][0]["env"] = env
    (root / "profiles/other.json").write_text(json.dumps(history))
    (root / "profiles/other.env").write_bytes(encode_env(env))
    capsys.readouterr()
    assert run(["profile", "check", "served", "-w", str(root)]) == 0
    assert "not named: ONLY_OTHERS" in capsys.readouterr().out

    assert run(["promote", "served", "-w", str(root)]) == 0
    assert "ONLY_OTHERS=\n" in (root / "profiles/served.env").read_text()
    capsys.readouterr()
    assert run(["profile", "check", "served", "-w", str(root)]) == 0
    assert "ONLY_OTHERS" not in capsys.readouterr().out
    script = f". {root}/profiles/other.env; . {root}/profiles/served.env; echo [$ONLY_OTHERS]"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_rollback_is_as_sound_as_what_it_returns_to(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = (root / "profiles/served.env").read_text()
    (root / "images/served/recipes/glm53/serve.yaml").write_text("tensor-parallel-size: 4\n")
    for command in (
        ["lock", "served", "--base", f"oci:{root / 'base'}"],
        ["build", "served"],
        ["promote", "served"],
    ):
        assert run([*command, "-w", str(root)]) == 0
    assert (root / "profiles/served.env").read_text() != first
    assert run(["promote", "served", "--rollback", "-w", str(root)]) == 0
    assert (root / "profiles/served.env").read_text() == first
    capsys.readouterr()
    assert run(["profile", "check", "served", "-w", str(root)]) == 0
    assert capsys.readouterr().out.count("note   ") == 1


def test_a_retired_profile_is_gone_and_says_since_when(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", "retire", "served", "--why", "no longer served", "-w", str(root)]) == 0
    assert not (root / "profiles/served.env").exists()
    assert run(["profile", "check", "served", "-w", str(root)]) == 3
    assert "no longer served" in capsys.readouterr().err
    assert run(["profile", "retire", "served", "-w", str(root)]) == 3
    # publishing again keeps what was published before
    assert run(["promote", "served", "-w", str(root)]) == 0
    capsys.readouterr()
    assert run(["profile", "show", "served", "--history", "-w", str(root)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


# --- the node


def _podman(folder: Path, document: dict[str, object] | None) -> None:
    """A podman that answers as podman-image-exists(1) and podman-image-inspect(1) say."""
    program = folder / "podman"
    answer = shlex.quote(json.dumps([document]))
    exists = "exit 1" if document is None else "exit 0"
    program.write_text(
        f'#!/bin/sh\ncase "$2" in exists) {exists};; inspect) printf %s {answer};; esac\n'
    )
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"Digest": "sha256:" + "1" * 64, "RepoDigests": []}, 1),
        ({"Architecture": "amd64"}, 1),
        (None, 1),
    ],
    ids=["this image", "another digest", "another platform", "no image"],
)
def test_a_node_is_right_only_with_the_profiles_digest_and_platform(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object] | None,
    code: int,
) -> None:
    values = dict(
        line.split("=", 1) for line in (root / "profiles/served.env").read_text().splitlines()
    )
    document: dict[str, object] = {
        "Id": "2" * 64,
        "Digest": values["IMAGE_DIGEST"],
        "RepoDigests": [values["IMAGE"]],
        "Os": "linux",
        "Architecture": "arm64",
    }
    programs = tmp_path / "bin"
    programs.mkdir()
    _podman(programs, None if changes is None else {**document, **changes})
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    arguments = ["profile", "check", "served", "--node", "--engine", "podman", "-w", str(root)]
    assert run(arguments) == code


def test_an_engine_that_does_not_answer_is_no_passed_check(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    assert run(["profile", "check", "served", "--node", "-w", str(root)]) == 3


# --- launchers, for real


def _by_make(path: Path, names: list[str]) -> dict[str, str]:
    lines = "".join(f"\t@printf '%s\\n' '{name}=$({name})'\n" for name in names)
    makefile = path.with_suffix(".mk")
    makefile.write_text(f"include {path.name}\nall:\n{lines}")
    return _run(["make", "-s", "-f", makefile.name], path)


def _by_sh(path: Path, names: list[str]) -> dict[str, str]:
    shown = "; ".join(f'printf "%s\\n" "{name}=${name}"' for name in names)
    return _run(["sh", "-euc", f". ./{path.name}; {shown}"], path)


def _run(command: list[str], path: Path) -> dict[str, str]:
    done = subprocess.run(
        command,
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": "/home/nobody"},
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def _by_systemd_rules(text: str) -> dict[str, str]:
    """systemd.exec(5), ``EnvironmentFile=``: what is left of its rules without quotes.

    Lines that start with ``;`` or ``#`` are comments, a backslash joins or escapes, quotes
    group, blanks around the value are dropped; ``%`` and ``$`` stand for themselves.
    """
    values = {}
    for line in text.splitlines():
        assert line[:1] not in ("#", ";")
        name, equals, value = line.partition("=")
        assert equals
        assert not re.search(r"[\\'\"]", value)
        values[name] = value.strip()
    return values


def _by_compose_rules(text: str) -> dict[str, str]:
    """docker compose, ``env_file`` (docs.docker.com, "Env file syntax"), unquoted values.

    A `` #`` starts a comment, ``$`` interpolates, quotes and backslashes have a meaning at the
    start, and blanks around are dropped.
    """
    values = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        assert not re.search(r"[$'\"\\\s]|\s#", value)
        values[name] = value.strip()
    return values


def _all_alike(folder: Path, values: dict[str, str]) -> None:
    path = folder / "p.env"
    path.write_bytes(encode_env(values))
    text = path.read_text()
    for read in (_by_systemd_rules(text), _by_compose_rules(text)):
        assert read == values
    for reader in (_by_make, _by_sh):
        assert reader(path, list(values)) == {**values}


def test_make_sh_compose_and_systemd_read_tempting_values_alike(tmp_path: Path) -> None:
    _all_alike(tmp_path, {f"V{number}": value for number, value in enumerate(TEMPTING)})


@pytest.mark.parametrize(
    "value",
    [
        "~/models",
        "a:~/b",
        "$HOME",
        "a b",
        "#x",
        "'x'",
        '"x"',
        "a\\b",
        "`x`",
        "x\ny",
        "x;y",
        "é",
        "\t",
    ],
)
def test_what_one_of_them_reads_otherwise_is_refused(value: str) -> None:
    # `~`: POSIX sh, 2.6.1, expands it in an assignment at the start and after a colon
    with pytest.raises(ProfileError, match="not read alike"):
        encode_env({"V": value})


def test_they_read_the_published_profile_alike(root: Path) -> None:
    text = (root / "profiles/served.env").read_text()
    values = dict(line.split("=", 1) for line in text.splitlines())
    path = root / "profiles/served.env"
    assert _by_make(path, list(values)) == _by_sh(path, list(values)) == values


@settings(max_examples=15, deadline=None)
@given(
    values=st.lists(
        st.from_regex(r"\A[A-Za-z0-9_@%+=:,./^-]*\Z", fullmatch=True), min_size=20, max_size=60
    )
)
def test_they_read_every_value_alike_that_a_profile_can_hold(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    named = {f"V{number}": value for number, value in enumerate(values)}
    _all_alike(tmp_path_factory.mktemp("launchers"), named)


@pytest.mark.peers
def test_docker_compose_reads_the_published_profile_alike(root: Path, tmp_path: Path) -> None:
    path = root / "profiles/served.env"
    values = {f"V{number}": value for number, value in enumerate(TEMPTING)}
    tempting = tmp_path / "tempting.env"
    tempting.write_bytes(encode_env(values))
    compose = {
        "services": {"served": {"image": "x", "env_file": [str(path), str(tempting)]}},
    }
    file = tmp_path / "compose.yaml"
    file.write_text(json.dumps(compose))
    program = shutil.which("docker-compose")
    assert program, "`docker-compose` is needed for this test"
    command = [program, "-f", str(file), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    published = dict(line.split("=", 1) for line in path.read_text().splitlines())
    environment = json.loads(done.stdout)["services"]["served"]["environment"]
    assert environment == {**published, **values}


# of Debian's package systemd; it has the parser of EnvironmentFile= in it (src/basic/env-file.c)
_SYSTEMD = "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator"


@pytest.mark.peers
def test_systemds_own_parser_reads_the_published_profile_alike(root: Path, tmp_path: Path) -> None:
    """environment.d(5) files go through the parser of units' EnvironmentFile, with two differences.

    A variable without a value is left out there, and ``$`` is expanded, which no profile holds.
    """
    values = {f"V{number}": value for number, value in enumerate(TEMPTING) if value}
    folder = tmp_path / "environment.d"
    folder.mkdir()
    (folder / "1-tempting.conf").write_bytes(encode_env(values))
    shutil.copy(root / "profiles/served.env", folder / "2-served.conf")
    published = (root / "profiles/served.env").read_text()
    values |= dict(line.split("=", 1) for line in published.splitlines())
    done = subprocess.run(
        [_SYSTEMD],
        env={"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    read = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert {name: read.get(name) for name in values} == values
