"""The JSON documents of an image are read as the runtimes read them, or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from imagegate.errors import ImageError
from imagegate.oci.documents import (
    ImageConfig,
    Index,
    Manifest,
    canonical_json,
    layer_compression,
    parse_document,
    parse_json,
)
from imagegate.oci.image import assemble, is_index, parse_manifest
from tests.images import ImageBuilder

IMAGE = ImageBuilder().layer({"f": b"x"}).build()
MANIFEST: dict[str, Any] = json.loads(IMAGE.manifest)
CONFIG: dict[str, Any] = json.loads(IMAGE.config)


def encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def refusal(document: object) -> str:
    with pytest.raises(ImageError) as caught:
        parse_manifest(encoded(document), "the manifest")
    return caught.value.message


# --- JSON


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{} {}",
        b"{",
        b'{"a": NaN}',  # RFC 8259: not permitted
        b'{"a": -Infinity}',
        b"\xef\xbb\xbf{}",
        b'{"a": "\xff"}',
        b'{"a": 1' + b"0" * 5000 + b"}",
        b'{"a":' * 100_000,
        b'{"a": 1, "a": 2}',
    ],
)
def test_what_two_readers_could_read_differently_is_refused(content: bytes) -> None:
    with pytest.raises(ImageError):
        parse_json(content, "the document")


@given(st.binary(max_size=200))
def test_random_bytes_are_a_document_or_an_error(content: bytes) -> None:
    for read in (parse_json, parse_manifest):
        with suppress(ImageError):
            read(content, "the document")
    with suppress(ImageError):
        is_index(content, None, "the document")


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths_of(document: object, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a document at which something else could stand."""
    found = [at] if at else []
    if isinstance(document, dict):
        for name, value in document.items():
            found += paths_of(value, (*at, name))
    elif isinstance(document, list):
        for position, value in enumerate(document):
            found += paths_of(value, (*at, position))
    return found


def with_changed(document: Any, at: tuple[str | int, ...], value: object) -> Any:
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return copy


@given(st.sampled_from(paths_of(MANIFEST)), JSON)
@settings(max_examples=150)
def test_a_manifest_with_any_value_anywhere_is_read_or_refused(
    at: tuple[str | int, ...], value: object
) -> None:
    changed = encoded(with_changed(MANIFEST, at, value))
    with suppress(ImageError):
        assemble(location="x", manifest_bytes=changed, config_bytes=IMAGE.config)
    with suppress(ImageError):
        is_index(changed, None, "x")


@given(st.sampled_from(paths_of(CONFIG)), JSON)
@settings(max_examples=150)
def test_a_config_with_any_value_anywhere_is_read_or_refused(
    at: tuple[str | int, ...], value: object
) -> None:
    changed = encoded(with_changed(CONFIG, at, value))
    with suppress(ImageError):
        assemble(location="x", manifest_bytes=IMAGE.manifest, config_bytes=changed)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_our_own_form_of_json_reads_back_and_is_stable(document: dict[str, object]) -> None:
    once = canonical_json(document)
    assert json.loads(once) == document
    assert canonical_json(json.loads(once)) == once


# --- names in another case: Go's encoding/json takes them for the known ones


@pytest.mark.parametrize("name", ["Layers", "LAYERS", "layer\u017f", "Config", "MediaType"])
def test_a_known_name_in_another_case_is_refused(name: str) -> None:
    assert "readers take it differently" in refusal({**MANIFEST, name: []})


def test_a_config_of_another_case_is_refused() -> None:
    changed = {**CONFIG, "Config": {"Env": ["LD_PRELOAD=/x.so"]}}
    with pytest.raises(ImageError, match="`Config` stands for `config`"):
        parse_document(ImageConfig, encoded(changed), "the config")


def test_names_that_nobody_knows_are_kept() -> None:
    # docker's classic builder writes these beside the known ones
    extra = {"container": "4a", "container_config": {"Hostname": "x"}, "docker_version": "20.10"}
    read = parse_document(ImageConfig, encoded({**CONFIG, **extra}), "the config")
    assert read.model_extra == extra


def test_a_pythonic_name_is_not_a_field() -> None:
    layer = {**MANIFEST["layers"][0]}
    layer["media_type"] = layer.pop("mediaType")
    assert "mediaType" in refusal({**MANIFEST, "layers": [layer]})


# --- manifests


@pytest.mark.parametrize(
    "document",
    [
        {"schemaVersion": 1, "name": "x", "fsLayers": []},
        {**MANIFEST, "schemaVersion": 1},
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v1+prettyjws",
        },
        {"mediaType": "application/vnd.docker.distribution.manifest.v1+json"},
    ],
)
def test_go_containerregistry_296_schema_1_is_refused_with_the_reason(document: object) -> None:
    """Also wave#10; converting it would change the digest (moby#46513)."""
    assert "schema version 1" in refusal(document)


def test_an_index_is_no_manifest() -> None:
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}
    assert "not an image manifest" in refusal({**index, "manifests": []})


@pytest.mark.parametrize("media_type", [5, [], {}, True])
def test_a_media_type_that_is_no_text_is_refused(media_type: object) -> None:
    assert "malformed" in refusal({**MANIFEST, "mediaType": media_type})


@pytest.mark.parametrize("size", [-1, "12", 1.5, True, None])
def test_a_size_that_is_no_count_is_refused(size: object) -> None:
    layer = {**MANIFEST["layers"][0], "size": size}
    assert "size" in refusal({**MANIFEST, "layers": [layer]})


def test_an_artifact_is_no_container_image() -> None:
    config = {**MANIFEST["config"], "mediaType": "application/vnd.buildkit.cacheconfig.v0"}
    with pytest.raises(ImageError, match="not a container image"):
        assemble(
            location="x",
            manifest_bytes=encoded({**MANIFEST, "config": config}),
            config_bytes=IMAGE.config,
        )


def test_a_layer_of_unknown_type_is_refused() -> None:
    layer = {**MANIFEST["layers"][0], "mediaType": "application/vnd.in-toto+json"}
    with pytest.raises(ImageError, match="not the media type of an image layer"):
        assemble(
            location="x",
            manifest_bytes=encoded({**MANIFEST, "layers": [layer]}),
            config_bytes=IMAGE.config,
        )


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/vnd.oci.image.layer.v1.tar", "plain"),
        ("application/vnd.oci.image.layer.v1.tar+gzip", "gzip"),
        ("application/vnd.oci.image.layer.v1.tar+zstd", "zstd"),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "gzip"),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", "gzip"),
        ("application/vnd.docker.image.rootfs.diff.tar.zstd", "zstd"),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "gzip"),
    ],
)
def test_every_layer_type_in_use_is_known(media_type: str, expected: str) -> None:
    assert layer_compression(media_type) == expected


# --- configs


def test_moby_27568_an_image_without_layers_is_valid() -> None:
    image = ImageBuilder().build()
    found = assemble(location="x", manifest_bytes=image.manifest, config_bytes=image.config)
    assert found.layers == ()


@pytest.mark.parametrize("rootfs", [{"type": "layers"}, {"type": "layers", "diff_ids": None}])
def test_moby_27568_docker_leaves_the_diff_ids_of_no_layers_out(rootfs: object) -> None:
    image = ImageBuilder().build()
    config = encoded({**json.loads(image.config), "rootfs": rootfs})
    assert parse_document(ImageConfig, config, "x").rootfs.diff_ids == ()


@pytest.mark.parametrize(
    "rootfs", [None, {}, [], {"type": "layers", "diff_ids": "x"}, {"type": "layers+base"}]
)
def test_moby_27568_a_broken_rootfs_is_not_an_empty_one(rootfs: object) -> None:
    with pytest.raises(ImageError, match="rootfs"):
        parse_document(ImageConfig, encoded({**CONFIG, "rootfs": rootfs}), "the config")


@pytest.mark.parametrize("layers", [None, {}, "x"])
def test_moby_27568_broken_layers_are_not_no_layers(layers: object) -> None:
    assert "layers" in refusal({**MANIFEST, "layers": layers})


def test_moby_27568_a_config_without_rootfs_is_malformed() -> None:
    config = {name: value for name, value in CONFIG.items() if name != "rootfs"}
    with pytest.raises(ImageError, match="malformed: `rootfs`"):
        parse_document(ImageConfig, encoded(config), "the config")


@pytest.mark.parametrize("count", [0, 2])
def test_a_config_with_another_number_of_layers_is_refused(count: int) -> None:
    rootfs = {"type": "layers", "diff_ids": [CONFIG["rootfs"]["diff_ids"][0]] * count}
    with pytest.raises(ImageError, match=f"manifest=1 layers config={count} diff ids"):
        assemble(
            location="x",
            manifest_bytes=IMAGE.manifest,
            config_bytes=encoded({**CONFIG, "rootfs": rootfs}),
        )


def test_every_layer_knows_its_step() -> None:
    image = ImageBuilder().layer({"a": b""}, "COPY a").layer({"b": b""}, "RUN b").build()
    config = json.loads(image.config)
    # config.md: steps with `empty_layer` have no layer
    config["history"].insert(1, {"created_by": "ENV x=y", "empty_layer": True})
    found = assemble(location="x", manifest_bytes=image.manifest, config_bytes=encoded(config))
    assert [layer.created_by for layer in found.layers] == ["COPY a", "RUN b"]
    config["history"].pop()
    found = assemble(location="x", manifest_bytes=image.manifest, config_bytes=encoded(config))
    assert [layer.created_by for layer in found.layers] == ["", ""]


def test_an_index_without_entries_is_valid() -> None:
    index = parse_document(Index, b'{"schemaVersion": 2, "manifests": []}', "x")
    assert index.manifests == ()
    assert parse_document(Manifest, IMAGE.manifest, "x").layers[0].size == len(IMAGE.layers[0])
