"""The registry source and sink against Debian's docker-registry and the tools that people use."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import DigestMismatch, FetchError
from imagegate.oci.layer import read_layer
from imagegate.sources import open_image
from imagegate.sources.registry import DockerCredentials, fallback_tag
from tests.images import BuiltImage, ImageBuilder
from tests.registry_source.certificates import make_certificate
from tests.registry_source.peers import (
    PASSWORD,
    USER,
    CuttingWire,
    docker_registry,
    free_port,
    run,
    small_disk,
)
from tests.registry_source.support import ManualClock, client, digest, noise, sink, source
from tests.registry_source.test_pushing import push_all
from tests.registry_source.test_referrers import BUNDLE, EMPTY, referrer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from imagegate.sources.registry import RegistryClient

pytestmark = pytest.mark.engines
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("plain")) as name:
        yield name


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("guarded"), basic_auth=True) as name:
        yield name


@pytest.fixture(scope="module")
def large() -> BuiltImage:
    builder = ImageBuilder(architecture="amd64", config={"Cmd": ["/none"]})
    return builder.layer({"base": noise(3_000_000)}).layer({"added": b"a"}).build()


def push(through: RegistryClient, image: BuiltImage, repository: str, *mount_from: str) -> None:
    to = sink(through, repository, chunk=1_000_000)
    for blob in (image.config, *image.layers):
        to.push_blob(
            digest=digest(blob),
            size=len(blob),
            open_stream=lambda blob=blob: io.BytesIO(blob),  # type: ignore[misc]
            mount_from=mount_from,
        )
    to.put_manifest(image.manifest, OCI_MANIFEST)
    to.tag("v1", image.manifest, OCI_MANIFEST)


def test_what_was_pushed_in_chunks_is_the_same_image_to_all_tools(
    plain: str, large: BuiltImage
) -> None:
    push(client(plain), large, "team/app")
    found = open_image(f"docker://{plain}/team/app:v1")
    assert found.image.manifest_bytes == large.manifest
    for layer in found.image.layers:
        read_layer(found.open_layer(layer), layer.blob)
    name = f"{plain}/team/app"
    seen = json.loads(run("skopeo", "inspect", "--tls-verify=false", f"docker://{name}:v1"))
    assert seen["Digest"] == large.digest
    run("podman", "pull", "--quiet", "--tls-verify=false", f"{name}@{large.digest}")
    run("podman", "rmi", f"{name}@{large.digest}")
    run("docker", "pull", "--quiet", f"{name}@{large.digest}")
    run("docker", "rmi", f"{name}@{large.digest}")


def test_a_push_to_another_repository_of_the_same_registry_moves_no_layer_byte(
    plain: str, large: BuiltImage
) -> None:
    push(client(plain), large, "mount/from")
    through = client(plain)
    push(through, large, "mount/to", "mount/from")
    # the manifest goes twice: by digest and under its tag
    assert through.traffic.sent == 2 * len(large.manifest)


def test_pushing_again_moves_no_layer_byte(plain: str, large: BuiltImage) -> None:
    push(client(plain), large, "again/app")
    through = client(plain)
    push(through, large, "again/app")
    assert through.traffic.sent == 2 * len(large.manifest)


def test_an_upload_that_is_cut_twice_is_finished(
    plain: str, large: BuiltImage, clock: ManualClock
) -> None:
    # docker-registry 2.8.2 cancels an upload whose last chunk broke: it begins again
    wire = CuttingWire(plain, up=[1_200_000, 500_000], down=[])
    with wire.running() as name:
        push(client(name, clock), large, "cut/up")
        assert wire.cuts == 2
    found = source(client(plain), f"{plain}/cut/up@{large.digest}")
    for layer in found.image.layers:
        read_layer(found.open_layer(layer), layer.blob)


def test_a_download_that_is_cut_twice_goes_on_where_it_broke(
    plain: str, large: BuiltImage, clock: ManualClock
) -> None:
    push(client(plain), large, "cut/down")
    wire = CuttingWire(plain, up=[], down=[1_000_000, 1_000_000])
    with wire.running() as name:
        through = client(name, clock)
        found = source(through, f"{name}/cut/down@{large.digest}")
        layer = found.image.layers[0]
        read_layer(found.open_layer(layer), layer.blob)
        assert wire.cuts == 2
        assert through.traffic.received < len(large.layers[0]) + 300_000


def test_referrers_are_found_without_the_api(plain: str, large: BuiltImage) -> None:
    # docker-registry 2.8.2 answers 404 to the referrers API
    through = client(plain)
    push(through, large, "team/referred")
    to = sink(through, "team/referred")
    to.push_blob(digest=digest(EMPTY), size=2, open_stream=lambda: io.BytesIO(EMPTY))
    pushed = [to.push_referrer(referrer(large, number), OCI_MANIFEST) for number in range(2)]
    subject = digest(large.manifest)
    assert list(to.referrers(subject, BUNDLE)) == pushed
    tag = f"docker://{plain}/team/referred:{fallback_tag(subject)}"
    index = json.loads(run("skopeo", "inspect", "--raw", "--tls-verify=false", tag))
    assert [entry["digest"] for entry in index["manifests"]] == [str(one.digest) for one in pushed]


def test_bytes_that_do_not_fit_their_digest_are_refused(plain: str) -> None:
    with pytest.raises(DigestMismatch):
        sink(client(plain), "team/wrong").push_blob(
            digest=digest(b"right"), size=5, open_stream=lambda: io.BytesIO(b"wrong")
        )


def test_without_an_account_it_is_said_at_once_what_to_do(guarded: str, clock: ManualClock) -> None:
    with pytest.raises(FetchError, match="asks for credentials") as caught:
        source(client(guarded, clock), f"{guarded}/team/app:v1")
    assert clock.slept == []
    assert caught.value.hint == f"run `docker login {guarded}`"


@pytest.mark.parametrize("tool", ["docker", "podman", "skopeo"])
def test_the_login_of_each_tool_is_honoured(
    guarded: str, large: BuiltImage, tmp_path: Path, tool: str
) -> None:
    login = ("login", "--username", USER, "--password-stdin")
    if tool == "docker":
        run("docker", "--config", str(tmp_path), *login, guarded, stdin=PASSWORD.encode())
        environment = {"DOCKER_CONFIG": str(tmp_path)}
    else:
        file = str(tmp_path / "auth.json")
        options = ("--authfile", file, "--tls-verify=false")
        run(tool, *login, *options, guarded, stdin=PASSWORD.encode())
        environment = {"REGISTRY_AUTH_FILE": file}
    credentials = DockerCredentials(environment, None)
    push(client(guarded, credentials=credentials), large, f"team/{tool}")
    found = source(
        client(guarded, credentials=credentials), f"{guarded}/team/{tool}@{large.digest}"
    )
    assert found.image.manifest_bytes == large.manifest


def test_a_wrong_password_is_refused_and_not_shown(guarded: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"auths": {guarded: {"username": USER, "password": "wr0ng"}}})
    )
    credentials = DockerCredentials({"DOCKER_CONFIG": str(tmp_path)}, None)
    with pytest.raises(FetchError, match="refuses the stored credentials") as caught:
        source(client(guarded, credentials=credentials), f"{guarded}/team/app:v1")
    assert "wr0ng" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("listens", "named"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), ("::1", "[::1]")]
)
@pytest.mark.parametrize("secure", [True, False], ids=["https", "http"])
def test_a_registry_is_spoken_to_under_each_name_of_loopback(
    listens: str, named: str, secure: bool, large: BuiltImage, tmp_path: Path
) -> None:
    """With TLS the authority comes from the environment; without, loopback alone may be plain."""
    tls = make_certificate(tmp_path) if secure else None
    environment = {"SSL_CERT_FILE": str(tls[0])} if tls else {}
    with docker_registry(tmp_path, host=listens, tls=tls) as address:
        name = f"{named}:{address.rpartition(':')[2]}"
        push(client(name, environment=environment), large, "team/app")
        reference = f"{name}/team/app:v1@{large.digest}"
        found = source(client(name, environment=environment), reference)
        for layer in found.image.layers:
            read_layer(found.open_layer(layer), layer.blob)
    assert found.image.manifest_bytes == large.manifest


def pushed(name: str, image: BuiltImage, clock: ManualClock) -> str:
    """Push as a promotion does: blobs, manifest, read back, tag; returns the digest."""
    to = sink(client(name, clock), "team/app", chunk=1_000_000)
    return str(push_all(to, image, tag="live").digest)


def test_a_registry_without_space_gets_no_tag_and_a_second_run_finishes(
    large: BuiltImage, tmp_path: Path, clock: ManualClock
) -> None:
    with (
        small_disk(tmp_path / "disk", "2m") as disk,
        docker_registry(disk) as name,
    ):
        # docker-registry 2.8.2 keeps the reason to its log
        with pytest.raises(FetchError, match=r"answers 500 to P.*\(5 attempts\)") as caught:
            pushed(name, large, clock)
        assert caught.value.exit_code == 3
        assert "its log says why" in str(caught.value.hint)
        assert client(name).find_manifest("team/app", "live") is None

        run("mount", "-o", "remount,size=32m", str(disk))
        assert pushed(name, large, clock) == large.digest
        found = source(client(name), f"{name}/team/app:live")
    assert found.image.manifest_bytes == large.manifest


def test_a_registry_that_is_read_only_says_so_and_a_second_run_finishes(
    large: BuiltImage, tmp_path: Path, clock: ManualClock
) -> None:
    with (
        docker_registry(tmp_path, read_only=True) as name,
        pytest.raises(FetchError, match="answers 405") as caught,
    ):
        pushed(name, large, clock)
    assert "read-only" in str(caught.value.hint)

    with docker_registry(tmp_path) as name:
        assert client(name).find_manifest("team/app", "live") is None
        assert pushed(name, large, clock) == large.digest


def test_a_registry_that_comes_up_late_is_waited_for(large: BuiltImage, tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(FetchError, match="connection refused"):
        source(client(f"127.0.0.1:{port}"), f"127.0.0.1:{port}/team/app:v1")
    with docker_registry(tmp_path) as name:
        push(client(name), large, "team/app")
        assert (tmp_path / "blobs").is_dir()


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "file").write_text("content\n")
    (folder / "Dockerfile").write_text(
        'FROM scratch\nCOPY file /first\nCOPY file /second\nENV A=b\nCMD ["/none"]\n'
    )
    return folder


@pytest.mark.parametrize("tool", ["docker", "podman", "podman-docker-format"])
def test_an_engines_own_image_is_the_same_in_its_store_and_in_a_registry(
    plain: str, context: Path, tool: str
) -> None:
    engine = "docker" if tool == "docker" else "podman"
    name = f"{plain}/engines/{tool}:v1"
    form = ("--format", "docker") if tool == "podman-docker-format" else ()
    run(engine, "build", *form, "--tag", name, str(context))
    insecure = () if engine == "docker" else ("--tls-verify=false",)
    try:
        run(engine, "push", *insecure, name)
        transport = "docker-daemon" if engine == "docker" else "podman"
        local = open_image(f"{transport}:{name}")
        remote = open_image(f"docker://{name}")
        assert local.image.config_bytes == remote.image.config_bytes
        assert local.image.digest is None, "a store that keeps no manifest gives no digest"
        paths = []
        for found in (local, remote):
            readings = [read_layer(found.open_layer(one), one.blob) for one in found.image.layers]
            paths.append([[entry.path for entry in one.entries] for one in readings])
        assert paths[0] == paths[1] == [["first"], ["second"]]
    finally:
        run(engine, "rmi", name)


def test_an_imported_file_system_is_read_from_the_daemon(tmp_path: Path) -> None:
    tar = ImageBuilder().layer({"etc/motd": b"hello"}).build().tars[0]
    (tmp_path / "root.tar").write_bytes(tar)
    name = "imagegate-test-import:v1"
    run("docker", "import", str(tmp_path / "root.tar"), name)
    try:
        found = open_image(f"docker-daemon:{name}")
        (layer,) = found.image.layers
        entries = read_layer(found.open_layer(layer), layer.blob).entries
        assert [entry.path for entry in entries] == ["etc/motd"]
    finally:
        run("docker", "rmi", name)
