"""Sabotage through the engines: what a careless Dockerfile does to a base is caught."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import zipfile
from pathlib import Path

import pytest

from tests.engines.machines import ARCHIVE, KEPT, Site, make_package
from tests.registry_source.peers import run

pytestmark = pytest.mark.engines
# the packaged Dockerfile, with a step behind it
PACKAGED = '{% include "Dockerfile.j2" %}\n'


@pytest.fixture
def site(locked: Site, builds: dict[str, Path], tmp_path: Path) -> Site:
    assert builds  # their layers are what the engines have cached
    return locked.copy(tmp_path / "site")


def docker_build(site: Site, *arguments: str) -> int:
    return site.run("build", "demo", "--engine", "docker", "--builder", "buildkit", *arguments)


def certificates() -> str:
    """What this machine trusts: a build inside trusts the same only if it is shown."""
    chosen = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    assert chosen
    return chosen


def test_a_bare_pip_install_over_an_older_base_is_caught(site: Site) -> None:
    """facts on ray[default]: the newest ray wants a newer aiohttp than the base has."""
    site.template(
        "FROM {{ base }}\n"
        "RUN --mount=type=secret,id=ca PIP_CERT=/run/secrets/ca PIP_BREAK_SYSTEM_PACKAGES=1 "
        "pip install --no-cache-dir 'ray[default]'\n"
        'COPY ["recipes/", "/usr/share/demo/recipes/"]\n'
    )

    assert docker_build(site, "--network", "host", "--secret", f"ca={certificates()}") == 1

    assert site.finding("python.pins/", "aiohttp")


def test_an_upgrade_of_the_bases_packages_is_caught(site: Site) -> None:
    recipe = site.root / "images/demo"
    make_package(recipe / "archive", "1.1")
    (recipe / "Dockerfile.dockerignore").write_text("**\n!recipes/**\n!archive/**\n")
    site.template(
        PACKAGED + f"RUN --mount=type=bind,source=archive,target={ARCHIVE} "
        "apt-get update && apt-get upgrade --yes\n"
    )

    assert docker_build(site) == 1

    moved = site.finding("debian.pins/", "base-tool")
    assert (moved["locked"], moved["found"]) == ("1.0 all", "1.1 all")


def test_the_same_version_of_flashinfer_from_another_wheel_is_caught(site: Site) -> None:
    """The version says nothing; the bytes do."""
    recipe = site.root / "images/demo"
    (recipe / "other").mkdir()
    (wheel,) = KEPT.glob("wheels/flashinfer_python-0.6.18-*.whl")
    changed = "flashinfer/jit/core.py"
    repack(wheel, recipe / "other" / wheel.name, changed, b"\n# patched\n")
    (recipe / "Dockerfile.dockerignore").write_text("**\n!recipes/**\n!other/**\n")
    site.template(
        PACKAGED + "RUN --mount=type=bind,source=other,target=/mnt PIP_BREAK_SYSTEM_PACKAGES=1 "
        "pip install --no-index --find-links /mnt --no-deps --force-reinstall "
        "flashinfer-python==0.6.18\n"
    )

    assert docker_build(site) == 1

    assert site.finding("python.content/", changed)
    codes = {failure["code"] for failure in site.failures()}
    assert not any(code.startswith("python.pins/") for code in codes), "no pin shows it"


def repack(wheel: Path, to: Path, path: str, addition: bytes) -> None:
    """Write a wheel with one changed file and a RECORD that fits it (PEP 427)."""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(to, "w") as sink:
        names = source.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        changed = source.read(path) + addition
        hashed = base64.urlsafe_b64encode(hashlib.sha256(changed).digest()).rstrip(b"=").decode()
        for name in names:
            content = changed if name == path else source.read(name)
            if name == record:
                lines = [
                    f"{path},sha256={hashed},{len(changed)}"
                    if line.startswith(f"{path},")
                    else line
                    for line in content.decode().splitlines()
                ]
                content = "".join(f"{line}\n" for line in lines).encode()
            sink.writestr(name, content)


def test_a_squashed_image_is_caught(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """One layer with the same files carries none of the base's digests."""
    container = run("docker", "create", "localhost/imagegate/demo:build", "true").decode().strip()
    try:
        archive = run("docker", "export", container)
    finally:
        run("docker", "rm", container)
    name = "localhost/imagegate/demo:squashed"
    run("docker", "import", "-", name, stdin=archive)
    try:
        assert site.run("verify", "demo", "--image", f"docker-daemon:{name}") == 1
    finally:
        run("docker", "rmi", name)

    assert "base.digest/" in capsys.readouterr().out


def test_a_build_secret_that_a_step_keeps_is_refused(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("glpat-Zx81nothing-real\n")
    site.template(PACKAGED + "RUN --mount=type=secret,id=token cp /run/secrets/token /srv/kept\n")

    assert docker_build(site, "--secret", f"token={token}") == 1

    said = capsys.readouterr().err
    assert "the build secret `token` is in `srv/kept`" in said
    assert "glpat-Zx81nothing-real" not in said
    assert "docker still holds the image: `docker rmi localhost/imagegate/demo:build`" in said
    assert not site.layout.exists(), "nothing that holds a secret is left to be pushed"


def test_a_build_secret_that_is_only_used_passes(site: Site, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("glpat-Zx81nothing-real\n")
    step = "RUN --mount=type=secret,id=token test -s /run/secrets/token && touch /srv/used\n"
    site.template(PACKAGED + step)

    docker_build(site, "--secret", f"token={token}")

    assert site.layout.is_dir()


def test_the_classic_builder_says_that_it_knows_no_secrets(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("glpat-Zx81nothing-real\n")
    arguments = ("--engine", "docker", "--builder", "classic", "--secret", f"token={token}")

    assert site.run("build", "demo", *arguments) == 2

    assert "knows no build secrets" in capsys.readouterr().err


def test_a_tag_that_moved_in_a_real_registry_is_told(
    site: Site, plain: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.run("drift", "demo") == 0
    name = f"{plain}/team/base:stable"
    run("docker", "tag", "localhost/imagegate/demo:build", name)
    try:
        run("docker", "push", name)

        assert site.run("drift", "demo") == 1
    finally:
        back = site.base.partition("@")[2]
        run("docker", "tag", f"{plain}/team/base@{back}", name)
        run("docker", "push", name)

    assert "`stable` has moved: pinned=sha256:" in capsys.readouterr().out


def test_a_failing_step_shows_what_the_engine_said_and_leaves_no_layout(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.template(PACKAGED + "RUN echo what went wrong here && exit 3\n")

    assert docker_build(site) == 3

    said = capsys.readouterr().err
    assert "what went wrong here" in said
    assert "failed with exit code" in said
    assert not site.layout.exists()
