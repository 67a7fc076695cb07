"""From the registry, through the gate, back to a registry; then what people have pulls and runs it."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

from imagegate.attestation.statement import PROVENANCE_TYPE
from imagegate.signing.keys import generate, write_pair
from tests.engines.machines import Site, find_tool
from tests.registry_source.peers import run

pytestmark = pytest.mark.engines


def promote(locked: Site, layout: Path, folder: Path, to: str) -> tuple[Site, str]:
    """Promote one of the builds; returns its workspace and the reference that is published."""
    site = locked.copy(folder)
    shutil.copytree(layout, site.layout)
    assert site.run("promote", "demo", "--to", to) == 0
    profile = (site.root / "profiles/demo.env").read_text().splitlines()
    image = next(line for line in profile if line.startswith("IMAGE="))
    return site, image.removeprefix("IMAGE=")


@pytest.mark.parametrize("build", ["compose", "buildkit", "classic", "podman"])
def test_every_peer_accepts_what_was_promoted_and_sees_the_promised_digest(
    build: str, locked: Site, builds: dict[str, Path], tmp_path: Path, plain: str
) -> None:
    _, image = promote(locked, builds[build], tmp_path / "site", f"{plain}/team/{build}:live")
    digest = image.partition("@")[2]

    seen = json.loads(
        run("skopeo", "inspect", "--tls-verify=false", f"docker://{plain}/team/{build}:live")
    )
    assert seen["Digest"] == digest
    crane = find_tool("crane", "usr/bin/crane")
    assert crane, "put Debian sid's crane below `.peers`"
    # every layer is fetched, hashed and compared with the config's diff ids
    run(crane, "validate", "--insecure", "--remote", image)
    run("docker", "pull", "--quiet", image)
    pulled = json.loads(run("docker", "image", "inspect", image))[0]
    assert image in pulled["RepoDigests"]
    said = run("docker", "run", "--rm", "--network", "none", image, "ray", "--version").decode()
    assert said.startswith("ray, version ")
    code = "import ray; print(ray.__version__)"
    run("docker", "run", "--rm", "--network", "none", image, "python3", "-c", code)


def test_podman_pulls_and_runs_it(
    locked: Site, builds: dict[str, Path], tmp_path: Path, plain: str
) -> None:
    _, image = promote(locked, builds["compose"], tmp_path / "site", f"{plain}/team/compose:live")

    run("podman", "pull", "--quiet", "--tls-verify=false", image)
    said = run("podman", "run", "--rm", "--network", "none", image, "ray", "--version").decode()

    assert said.startswith("ray, version ")


def test_within_the_registry_the_base_is_mounted_and_elsewhere_copied(
    locked: Site,
    builds: dict[str, Path],
    tmp_path: Path,
    plain: str,
    guarded: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    layout = builds["compose"]
    added = sum(path.stat().st_size for path in (layout / "blobs/sha256").iterdir())
    promote(locked, layout, tmp_path / "near", f"{plain}/team/mounted")
    sent = int(capsys.readouterr().out.partition("moved     ")[2].partition(" bytes sent")[0])
    assert sent < added + 10_000, "no byte of the base moved"

    # basic authentication, with the account that `docker login` has left
    _, image = promote(locked, layout, tmp_path / "far", f"{guarded}/team/copied")
    sent = int(capsys.readouterr().out.partition("moved     ")[2].partition(" bytes sent")[0])
    assert sent > added + 50_000_000, "the base had to be copied"
    run("docker", "pull", "--quiet", image)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_what_runs_says_of_itself_what_was_read_out_of_its_bytes(
    engine: str,
    locked: Site,
    builds: dict[str, Path],
    tmp_path: Path,
    plain: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site, image = promote(locked, builds["compose"], tmp_path / "site", f"{plain}/team/probed")
    capsys.readouterr()

    assert site.run("verify", "demo", "--image", image, "--probe", "--engine", engine) == 0

    assert "ok     probe.agrees" in capsys.readouterr().out


def test_a_start_up_hook_that_hides_a_distribution_is_seen_by_the_probe(
    locked: Site, builds: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert builds
    site = locked.copy(tmp_path / "site")
    hook = 'RUN mkdir -p /srv/hook/aiohttp-9.9.9.dist-info && printf "Metadata-Version: 2.1\\nName: aiohttp\\nVersion: 9.9.9\\n" > /srv/hook/aiohttp-9.9.9.dist-info/METADATA\nENV PYTHONPATH=/srv/hook\n'
    site.template('{% include "Dockerfile.j2" %}\n' + hook)
    site.run("build", "demo", "--engine", "docker", "--builder", "buildkit")
    capsys.readouterr()

    assert site.run("verify", "demo", "--probe") == 1

    said = capsys.readouterr().out
    assert "probe.agrees/metadata" in said
    assert "found=9.9.9" in said


def test_what_an_engine_built_is_signed_with_its_provenance(locked: Site, tmp_path: Path) -> None:
    site = locked.copy(tmp_path / "site")
    assert site.run("build", "demo", "--engine", "docker", "--builder", "buildkit") == 0
    key = tmp_path / "k.key"
    write_pair(generate("ed25519"), key, tmp_path / "k.pub")

    assert site.run("promote", "demo", "--sign", str(key)) == 0

    blobs = [path.read_bytes() for path in (site.layout / "blobs/sha256").iterdir()]
    envelopes = [json.loads(blob) for blob in blobs if blob.startswith(b'{"payload":')]
    statements = [json.loads(base64.b64decode(one["payload"])) for one in envelopes]
    (stated,) = (s["predicate"] for s in statements if s["predicateType"] == PROVENANCE_TYPE)
    assert stated["buildDefinition"]["buildType"].endswith("#build/engine/v1")
    assert stated["buildDefinition"]["externalParameters"]["engine"]["name"] == "docker"
    assert site.run("verify", "demo", "--attested", str(tmp_path / "k.pub")) == 0
