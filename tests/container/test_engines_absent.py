"""An engine that is absent or wrong: what to install or start is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from imagegate.engines.container.detect import find_engine
from imagegate.errors import EngineError, UsageError
from tests.world import World


def write_program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("engine", "hint"), [("docker", "systemctl start docker"), ("podman", "install podman")]
)
def test_an_engine_that_is_not_installed(
    world: World,
    engine: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert world.run("build", "demo", "--engine", engine) == 3

    said = capsys.readouterr().err
    assert f"`{engine}` is not installed" in said
    assert hint in said


def test_a_daemon_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `docker version --format` does without a daemon: client on stdout, exit code 1."""
    write_program(
        tmp_path / "bin",
        "docker",
        'echo \'{"Client":{"Version":"28.2.2"},"Server":null}\'; echo "no daemon" >&2; exit 1',
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")

    with pytest.raises(EngineError) as caught:
        find_engine("docker")

    assert "no daemon" in caught.value.message
    assert "systemctl start docker" in (caught.value.hint or "")


def test_a_daemon_that_is_named_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What docker 20.10 and 28.2 answer then: exit code 1 and a line on stderr."""
    said = "Cannot connect to the Docker daemon at tcp://127.0.0.1:1. Is the docker daemon running?"
    write_program(tmp_path / "bin", "docker", f'echo "{said}" >&2; exit 1')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")

    with pytest.raises(EngineError) as caught:
        find_engine("docker")

    assert said in caught.value.message
    assert "correct `DOCKER_HOST` (`tcp://127.0.0.1:1`)" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("remote", "hint"),
    [("unix:///nonexistent", "CONTAINER_HOST` (`unix:///nonexistent`)"), (None, "`podman info`")],
)
def test_a_podman_that_fails_is_not_to_be_installed(
    remote: str | None, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "bin", "podman", "echo 'Error: no such socket' >&2; exit 125")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    if remote is not None:
        monkeypatch.setenv("CONTAINER_HOST", remote)

    with pytest.raises(EngineError, match="exit code 125: Error: no such socket") as caught:
        find_engine("podman")

    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("client", "has_buildx", "builder"),
    [
        ("20.10.24", False, "buildkit"),
        ("28.2.2", False, "classic"),
        ("28.2.2", True, "buildx"),
        ("20.10.24", True, "buildx"),
    ],
)
def test_the_best_builder_that_is_there_is_taken(
    client: str,
    has_buildx: bool,
    builder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Docker 23 took the client's own BuildKit out (its release notes)."""
    answer = f'{{"Client":{{"Version":"{client}"}},"Server":{{"Os":"linux","Arch":"amd64"}}}}'
    write_program(
        tmp_path / "bin",
        "docker",
        f"[ \"$1\" = buildx ] && exit {0 if has_buildx else 1}; echo '{answer}'",
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")

    found = find_engine("docker")

    assert found.builder == builder
    assert bool(found.shortcomings) == (builder == "classic")


def test_buildkit_that_only_the_missing_plugin_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = '{"Client":{"Version":"28.2.2"},"Server":{"Os":"linux","Arch":"amd64"}}'
    script = f"[ \"$1\" = buildx ] && exit 1; echo '{answer}'"
    write_program(tmp_path / "bin", "docker", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")

    with pytest.raises(EngineError, match="through buildx only"):
        find_engine("docker", "buildkit")
    with pytest.raises(EngineError, match="no buildx"):
        find_engine("docker", "buildx")


def test_podman_has_no_choice_of_builders() -> None:
    with pytest.raises(UsageError):
        find_engine("podman", "classic")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--builder", "classic"),
        ("--network", "host"),
        ("--engine", "docker", "--secret", "token"),
        ("--engine", "docker", "--secret", "token=/does/not/exist"),
        ("--engine", "docker", "--full", "oci:base"),
    ],
)
def test_options_that_do_not_fit_are_usage_errors(world: World, arguments: tuple[str, ...]) -> None:
    assert world.run("build", "demo", *arguments) == 2


def test_a_probe_needs_the_images_architecture(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = '{"Client":{"Version":"28.2.2"},"Server":{"Os":"linux","Arch":"amd64"}}'
    script = f"[ \"$1\" = buildx ] && exit 1; echo '{answer}'"
    write_program(tmp_path / "bin", "docker", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")

    assert world.run("verify", "demo", "--probe") == 3

    assert "image=linux/arm64 docker=linux/amd64" in capsys.readouterr().err
