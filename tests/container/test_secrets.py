"""Build secrets: what is searched for, and that it is found wherever it lies."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, strategies as st

from imagegate.engines.container.readback import read_back
from imagegate.engines.container.secrets import Search, Secret
from imagegate.errors import RefusedError, UsageError
from imagegate.oci.image import Image, Layer, assemble
from imagegate.workspace import Workspace
from tests.images import BuiltImage, ImageBuilder, Layer as Files, Link
from tests.world import World

TOKEN = "glpat-Zx81nothing-real"


def secret(folder: Path, content: str) -> Secret:
    path = folder / "secret"
    path.write_text(content)
    return Secret.read("token", path)


def found(one: Secret, content: bytes) -> bool:
    search = Search([one])
    search.write(content)
    return bool(search.found)


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("hunter2\n", b"PASSWORD=hunter2"),
        (f"{TOKEN}\n", f"url = https://{TOKEN}@host/".encode()),
        ("machine host\nlogin ann\npassword short1\n", b"x short1 y"),
        ("[global]\nindex-url = https://ann:pw-77@host/simple\n", b"ENV PW=pw-77"),
        (f'{{"auths": {{"host": {{"auth": "{TOKEN}"}}}}}}', TOKEN.encode()),
    ],
)
def test_a_part_that_is_kept_is_found(content: str, kept: bytes, tmp_path: Path) -> None:
    assert found(secret(tmp_path, content), kept)


@pytest.mark.parametrize(
    ("content", "harmless"),
    [
        ("machine host\nlogin ann\npassword short1\n", b"the password of the machine, login"),
        ("[global]\nindex-url = https://ann:pw-77@host/simple\n", b"[global]\nindex-url = "),
    ],
)
def test_words_that_everybody_writes_are_no_leak(
    content: str, harmless: bytes, tmp_path: Path
) -> None:
    assert not found(secret(tmp_path, content), harmless)


def test_a_bundle_of_certificates_is_searched_as_a_whole(tmp_path: Path) -> None:
    """Each certificate is public: certifi's wheel brings most of any bundle."""
    one = "-----BEGIN CERTIFICATE-----\nMIIB1nothing\n-----END CERTIFICATE-----\n"
    bundle = secret(tmp_path, one + one.replace("1", "2"))

    assert not found(bundle, one.encode())
    assert found(bundle, b"before\n" + (one + one.replace("1", "2")).encode() + b"after")


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_secret_is_a_usage_error(content: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds nothing"):
        secret(tmp_path, content)


@given(
    before=st.binary(max_size=40),
    after=st.binary(max_size=40),
    cuts=st.lists(st.integers(1, 9), max_size=30),
)
def test_it_is_found_wherever_the_stream_is_cut(
    before: bytes, after: bytes, cuts: list[int]
) -> None:
    one = Secret(name="token", path=Path("unused"), needles=(TOKEN.encode(),))
    rest = before + TOKEN.encode() + after
    search = Search([one])
    for size in cuts:
        search.write(rest[:size])
        rest = rest[size:]
    search.write(rest)
    assert search.found == {"token"}


class Memory:
    """An image as an engine saves it."""

    def __init__(self, built: BuiltImage) -> None:
        self._built = built
        self._image = assemble(
            location="the engine", manifest_bytes=built.manifest, config_bytes=built.config
        )

    @property
    def image(self) -> Image:
        return self._image

    def open_layer(self, layer: Layer) -> BinaryIO:
        return io.BytesIO(self._built.layers[layer.number - 1])

    def has_layer(self, _layer: Layer) -> bool:
        return True


def extended(layer: Files, **settings: object) -> Memory:
    from tests.world import base_layers

    builder = ImageBuilder()
    for files, step in base_layers():
        builder.layer(files, step)
    builder.config = {"Env": ["PATH=/usr/bin"], **settings}
    return Memory(builder.layer(layer, "RUN step").build())


def read(world: World, image: Memory, folder: Path, one: Secret) -> int:
    workspace = Workspace(world.root)
    written = read_back(
        image,
        workspace.recipe("demo"),
        workspace.lock("demo"),
        folder / "layout",
        secrets=[one],
        threads=1,
        advance=lambda _count: None,
    )
    return written.base_layers


@pytest.mark.parametrize(
    "layer",
    [
        {"etc/kept": f"token={TOKEN}\n"},
        {f"etc/{TOKEN}": "in a name"},
        {"etc/kept": Link(f"/{TOKEN}")},
        {"etc/kept": b"\0" * 3_000_000 + TOKEN.encode()},
    ],
    ids=["content", "name", "link target", "far inside"],
)
def test_a_layer_that_keeps_it_is_refused(world: World, layer: Files, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="the build secret `token` is in `etc/"):
        read(world, extended(layer), tmp_path, secret(tmp_path, TOKEN))


def test_a_config_that_keeps_it_is_refused(world: World, tmp_path: Path) -> None:
    image = extended({"srv/x": "x"}, Labels={"kept": f'"{TOKEN}"'})

    with pytest.raises(RefusedError, match="in the image's config"):
        read(world, image, tmp_path, secret(tmp_path, TOKEN))


def test_an_honest_image_stands_on_the_locked_layers(world: World, tmp_path: Path) -> None:
    image = extended({"srv/x": "x"})

    assert read(world, image, tmp_path, secret(tmp_path, TOKEN)) == 2

    blobs = {path.name for path in (tmp_path / "layout/blobs/sha256").iterdir()}
    base = {name.removeprefix("sha256:") for name in world.base.blobs}
    assert not blobs & base, "the base's layers are named, not copied"
    assert len(blobs) == 3  # layer, config, manifest
