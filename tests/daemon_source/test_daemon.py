from __future__ import annotations

import gc
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import pytest

from imagegate.errors import DigestMismatch, EngineError, ImageError
from imagegate.oci.layer import read_layer
from imagegate.oci.platform import Platform
from imagegate.sources import Connection, open_image
from tests.daemon_source.daemon import Daemon
from tests.images import (
    BuiltImage,
    ImageBuilder,
    digest,
    write_classic_archive,
    write_layout,
    write_layout_archive,
)

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.image import ImageSource

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
NAME = "team/app:v1"


@pytest.fixture
def image() -> BuiltImage:
    return ImageBuilder().layer({"base": b"b" * 3000}).layer({"added": b"a"}).build()


def classic(folder: Path, image: BuiltImage) -> bytes:
    return write_classic_archive(folder / "classic.tar", image).read_bytes()


def layout(folder: Path, image: BuiltImage, index: dict[str, object] | None = None) -> bytes:
    extra = {}
    if index is not None:
        nested = json.dumps(index).encode()
        extra[digest(nested)] = nested
        entry = {"mediaType": OCI_INDEX, "digest": digest(nested), "size": len(nested)}
        index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
    written = write_layout(folder / "layout", image, index=index, extra=extra)
    return write_layout_archive(folder / "layout.tar", written).read_bytes()


def opened(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, platform: Platform | None = None
) -> ImageSource:
    with daemon.running():
        monkeypatch.setenv("DOCKER_HOST", daemon.host)
        return open_image(f"docker-daemon:{NAME}", Connection(platform=platform))


def paths(source: ImageSource) -> list[list[str]]:
    return [
        [entry.path for entry in read_layer(source.open_layer(layer), layer.blob).entries]
        for layer in source.image.layers
    ]


def test_the_classic_stores_id_is_the_configs_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    # moby, image/spec/v1.2: the image id is the digest of the configuration
    daemon = Daemon(NAME, digest(image.config), classic(tmp_path, image))
    source = opened(daemon, monkeypatch)
    assert source.image.config_bytes == image.config
    assert source.image.digest is None, "a classic archive has no manifest"
    assert paths(source) == [["base"], ["added"]]


def test_the_containerd_stores_id_is_the_manifests_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    # DataBiosphere/azul#6656
    source = opened(Daemon(NAME, image.digest, layout(tmp_path, image)), monkeypatch)
    assert source.image.manifest_bytes == image.manifest
    assert paths(source) == [["base"], ["added"]]


def test_the_containerd_stores_id_may_be_an_indexs_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    absent = {
        "mediaType": image.media_type,
        "digest": f"sha256:{'1' * 64}",
        "size": 5,
        "platform": {"os": "linux", "architecture": "amd64"},
    }
    ours = image.descriptor(platform={"os": "linux", "architecture": "arm64"})
    index: dict[str, object] = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [absent, ours],
    }
    identity = digest(json.dumps(index).encode())
    daemon = Daemon(NAME, identity, layout(tmp_path, image, index))
    source = opened(daemon, monkeypatch, Platform.parse("linux/arm64"))
    assert str(source.image.digest) == image.digest
    assert str(source.image.index_digest) == identity
    assert paths(source) == [["base"], ["added"]]


def test_the_classic_store_may_save_a_layout_and_still_name_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    # docker since 25.0 writes an OCI layout from the classic store as well
    source = opened(Daemon(NAME, digest(image.config), layout(tmp_path, image)), monkeypatch)
    assert source.image.config_bytes == image.config
    assert paths(source) == [["base"], ["added"]]


@pytest.mark.parametrize("form", [classic, layout])
def test_another_image_than_was_named_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage, form: object
) -> None:
    assert callable(form)
    daemon = Daemon(NAME, f"sha256:{'1' * 64}", form(tmp_path, image))
    with pytest.raises(
        DigestMismatch, match="saved another image than it named: named=sha256:1111"
    ):
        opened(daemon, monkeypatch)


def test_an_image_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    daemon = Daemon("other:v1", digest(image.config), classic(tmp_path, image))
    with pytest.raises(ImageError, match=f"the docker daemon holds no image `{NAME}`"):
        opened(daemon, monkeypatch)


def test_a_daemon_that_fails_while_saving_is_reported_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    daemon = Daemon(NAME, digest(image.config), classic(tmp_path, image), failure="disk broke")
    with pytest.raises(
        EngineError, match="did not save the docker image `team/app:v1`: disk broke"
    ):
        opened(daemon, monkeypatch)


def test_a_stream_that_ends_early_is_an_error_and_not_a_smaller_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    daemon = Daemon(NAME, digest(image.config), classic(tmp_path, image), cut=5000)
    with pytest.raises(EngineError, match="did not save"):
        opened(daemon, monkeypatch)


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"])
def test_without_a_daemon_it_is_said_what_to_install_or_start(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with warnings.catch_warnings():
        # the SDK leaves the socket open that could not be connected
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(EngineError, match="the docker daemon cannot be reached") as caught:
            open_image(f"docker-daemon:{NAME}")
        hint, code = caught.value.hint, caught.value.exit_code
        del caught
        gc.collect()
    assert f"correct `DOCKER_HOST` (`{host}`)" in str(hint)
    assert code == 3


_AS_NOBODY = """
import os, sys
from imagegate.cli import run
command = ["inspect", "docker-daemon:anything"]
# whoever has no rights may not be able to read the modules: everything is imported before
there, os.environ["DOCKER_HOST"] = os.environ["DOCKER_HOST"], "unix:///nonexistent"
run(command)
os.environ["DOCKER_HOST"] = there
if os.geteuid() == 0:
    os.setuid(65534)
sys.exit(run(command))
"""


def test_a_socket_that_this_user_may_not_open_is_told_as_that(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(tmp_path / "docker.sock"))
        (tmp_path / "docker.sock").chmod(0)
        environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/docker.sock"}

        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY],
            env={**environment, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 3, done.stderr
    assert "this user may not speak to the docker daemon" in done.stderr
    assert "add the user to the group `docker`" in done.stderr


def test_the_daemon_of_dockers_current_context_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    daemon = Daemon(NAME, digest(image.config), classic(tmp_path, image))
    with daemon.running():
        # docker/cli, cli/context/store: a context is kept under the sha256 of its name
        meta = tmp_path / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest() / "meta.json"
        meta.parent.mkdir(parents=True)
        endpoint = {"Host": daemon.host, "SkipTLSVerify": False}
        meta.write_text(
            json.dumps({"Name": "mine", "Metadata": {}, "Endpoints": {"docker": endpoint}})
        )
        (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        source = open_image(f"docker-daemon:{NAME}")
    assert source.image.config_bytes == image.config


def podman(folder: Path, script: str) -> None:
    program = folder / "podman"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_without_podman_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="`podman` is not installed") as caught:
        open_image(f"podman:{NAME}")
    assert "install podman" in str(caught.value.hint)


def test_podmans_own_words_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    podman(tmp_path, "echo 'Error: store is locked' >&2; exit 125")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(
        EngineError, match="`podman image exists` failed with exit code 125: Error: store"
    ):
        open_image(f"podman:{NAME}")


def test_podman_saying_no_is_not_a_failure_of_podman(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman(tmp_path, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ImageError, match=f"podman holds no image `{NAME}`"):
        open_image(f"podman:{NAME}")


def test_podmans_archive_is_compared_with_the_id_that_it_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: BuiltImage
) -> None:
    write_classic_archive(tmp_path / "saved.tar", image)
    podman(
        tmp_path,
        f'case "$1 $2" in "image inspect") echo {"1" * 64};; "save --format") cp {tmp_path}/saved.tar "$5";; esac',
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(DigestMismatch, match="named=sha256:1111"):
        open_image(f"podman:{NAME}")
