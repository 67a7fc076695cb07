"""`docker save` archives of both stores give the same image as the layout they came from."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from imagegate.errors import BlobMissing, DigestMismatch, ImageError
from imagegate.oci.layer import LayerReading, read_layer
from imagegate.sources import open_image
from imagegate.sources.archive import Archive
from tests.images import (
    BuiltImage,
    HardLink,
    ImageBuilder,
    Layer,
    Link,
    digest,
    tar,
    write_classic_archive,
    write_layout,
    write_layout_archive,
)
from tests.rawtar import END, GNU, entry, header, pax

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.oci.image import ImageSource

IMAGE = (
    ImageBuilder()
    .layer({"etc/f": b"x" * 5000, "bin": Link("usr/bin")}, "COPY f")
    .layer({"etc/.wh.f": b"", "g": b"y"}, "RUN rm")
    .build()
)


def readings(source: ImageSource) -> list[LayerReading]:
    return [read_layer(source.open_layer(layer), layer.blob) for layer in source.image.layers]


def hexes(image: BuiltImage) -> list[str]:
    return [digest(layer).removeprefix("sha256:") for layer in image.tars]


def classic(path: Path, files: Layer, saved: Any) -> Path:
    """A classic archive with anything in it."""
    listed = list(files.items()) if isinstance(files, dict) else list(files)
    path.write_bytes(tar([*listed, ("manifest.json", json.dumps(saved))]))
    return path


# --- elastic-agent#12676: the forms that one image comes in


def forms(folder: Path) -> dict[str, Path]:
    plain = ImageBuilder(compression="plain", layers=list(IMAGE.tars), steps=["COPY f", "RUN rm"])
    zstd = ImageBuilder(compression="zstd", layers=list(IMAGE.tars), steps=["COPY f", "RUN rm"])
    inner = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [IMAGE.descriptor(platform={"os": "linux", "architecture": "arm64"})],
        }
    ).encode()
    outer = {
        "schemaVersion": 2,
        "manifests": [
            {
                "mediaType": "application/vnd.oci.image.index.v1+json",
                "digest": digest(inner),
                "size": len(inner),
                "annotations": {"io.containerd.image.name": "docker.io/library/x:latest"},
            }
        ],
    }
    layout = write_layout(folder / "layout", IMAGE)
    indexed = write_layout(folder / "nested", IMAGE, index=outer, extra={digest(inner): inner})
    return {
        "layout": layout,
        "layout, plain": write_layout(folder / "plain", plain.build()),
        "layout, zstd": write_layout(folder / "zstd", zstd.build()),
        "containerd store": write_layout_archive(folder / "containerd.tar", layout),
        "containerd store, nested index": write_layout_archive(folder / "nested.tar", indexed),
        "classic store": write_classic_archive(folder / "classic.tar", IMAGE),
    }


def test_elastic_agent_12676_every_form_gives_the_same_content(tmp_path: Path) -> None:
    found = {name: readings(open_image(str(path))) for name, path in forms(tmp_path).items()}
    expected = [(r.entries, r.diff_id) for r in found["layout"]]
    assert [len(entries) for entries, _ in expected] == [2, 2]
    for name, form in found.items():
        assert [(r.entries, r.diff_id) for r in form] == expected, name


def test_elastic_agent_12676_steps_are_known_in_every_form(tmp_path: Path) -> None:
    for name, path in forms(tmp_path).items():
        image = open_image(str(path)).image
        assert [layer.created_by for layer in image.layers] == ["COPY f", "RUN rm"], name


def test_moby_22011_what_has_no_manifest_has_no_digest(tmp_path: Path) -> None:
    """A classic archive is never compared with a registry's digest."""
    path = write_classic_archive(tmp_path / "a.tar", IMAGE)
    assert open_image(str(path)).image.digest is None
    with pytest.raises(ImageError, match="classic form"):
        open_image(f"docker-archive:{path}@{IMAGE.digest}")


def test_azul_6656_the_config_digest_names_no_image(tmp_path: Path) -> None:
    """kubernetes#33014, go-containerregistry#625: an id is what its digest leads to."""
    layout = write_layout(tmp_path / "l", IMAGE)
    with pytest.raises(ImageError, match="holds no image"):
        open_image(f"oci:{layout}@{digest(IMAGE.config)}")


def test_equal_layers_of_a_classic_archive_may_be_links(tmp_path: Path) -> None:
    # docker save writes a layer once and links the others to it
    layer = tar({"f": b"x"})
    image = ImageBuilder(compression="plain").layer(layer).layer(layer).build()
    config = digest(image.config).removeprefix("sha256:") + ".json"
    saved = [{"Config": config, "RepoTags": None, "Layers": ["a/layer.tar", "b/layer.tar"]}]
    for link in (Link("../a/layer.tar"), HardLink("a/layer.tar")):
        path = classic(
            tmp_path / "a.tar",
            {config: image.config, "a/layer.tar": layer, "b/layer.tar": link},
            saved,
        )
        assert [len(r.entries) for r in readings(open_image(str(path)))] == [1, 1]


def test_layers_of_an_archive_are_read_side_by_side(tmp_path: Path) -> None:
    """Each opening has a position of its own in the archive's file."""
    builder = ImageBuilder()
    for number in range(8):
        builder.layer({f"f{number}": bytes([number]) * 3_000_000})
    path = write_classic_archive(tmp_path / "a.tar", builder.build())
    source = open_image(str(path))
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(
                lambda layer: read_layer(source.open_layer(layer), layer.blob), source.image.layers
            )
        )
    assert [r.entries[0].path for r in found] == [f"f{number}" for number in range(8)]


# --- damage


def test_a_missing_layer_is_an_error(tmp_path: Path) -> None:
    config = digest(IMAGE.config).removeprefix("sha256:") + ".json"
    names = [f"{name}/layer.tar" for name in hexes(IMAGE)]
    saved = [{"Config": config, "RepoTags": ["x"], "Layers": names}]
    path = classic(tmp_path / "a.tar", {config: IMAGE.config, names[0]: IMAGE.tars[0]}, saved)
    source = open_image(str(path))
    assert [source.has_layer(layer) for layer in source.image.layers] == [True, False]
    with pytest.raises(BlobMissing, match=names[1]):
        source.open_layer(source.image.layers[1])


def test_a_layer_with_other_bytes_is_an_error(tmp_path: Path) -> None:
    config = digest(IMAGE.config).removeprefix("sha256:") + ".json"
    saved = [{"Config": config, "RepoTags": ["x"], "Layers": ["a.tar", "b.tar"]}]
    files: Layer = {config: IMAGE.config, "a.tar": IMAGE.tars[0], "b.tar": IMAGE.tars[0]}
    with pytest.raises(DigestMismatch, match="layer 2"):
        readings(open_image(str(classic(tmp_path / "a.tar", files, saved))))


def test_a_config_with_other_bytes_than_its_name_says_is_an_error(tmp_path: Path) -> None:
    saved = [{"Config": f"{'0' * 64}.json", "RepoTags": None, "Layers": ["a.tar", "b.tar"]}]
    files: Layer = {
        f"{'0' * 64}.json": IMAGE.config,
        "a.tar": IMAGE.tars[0],
        "b.tar": IMAGE.tars[1],
    }
    with pytest.raises(ImageError, match="other bytes than its name says"):
        open_image(str(classic(tmp_path / "a.tar", files, saved)))


@pytest.mark.parametrize("layers", [["a.tar"], ["a.tar", "b.tar", "b.tar"], []])
def test_another_number_of_layers_than_the_config_has_is_an_error(
    tmp_path: Path, layers: list[str]
) -> None:
    saved = [{"Config": "c.json", "RepoTags": None, "Layers": layers}]
    files: Layer = {"c.json": IMAGE.config, "a.tar": IMAGE.tars[0], "b.tar": IMAGE.tars[1]}
    with pytest.raises(ImageError, match="config=2 diff ids"):
        open_image(str(classic(tmp_path / "a.tar", files, saved)))


def test_an_archive_of_two_images_lists_them(tmp_path: Path) -> None:
    one = {"Config": "c.json", "RepoTags": ["one:1"], "Layers": []}
    two = {"Config": "c.json", "RepoTags": ["two:2"], "Layers": []}
    path = classic(tmp_path / "a.tar", {"c.json": IMAGE.config}, [one, two])
    with pytest.raises(ImageError, match="2 images: one:1, two:2"):
        open_image(str(path))


@pytest.mark.parametrize("saved", [{}, [], [{}], "x", [{"Config": 1, "Layers": []}], None])
def test_a_malformed_table_of_contents_is_an_error(tmp_path: Path, saved: object) -> None:
    with pytest.raises(ImageError):
        open_image(str(classic(tmp_path / "a.tar", {}, saved)))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("form", ["classic store", "containerd store"])
def test_a_cut_archive_is_an_error(tmp_path: Path, form: str, share: float) -> None:
    path = forms(tmp_path)[form]
    whole = path.read_bytes()
    # `tarfile` pads with zeros, of which 1024 are needed
    path.write_bytes(whole[: int(len(whole.rstrip(b"\0")) * share)])
    with pytest.raises(ImageError):
        readings(open_image(str(path)))


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 10_240, b"not a tar" * 200, gzip.compress(b"x", mtime=0)]
)
def test_what_is_no_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    with pytest.raises(ImageError):
        open_image(str(path))


def test_a_compressed_archive_gets_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(tar({"manifest.json": b"[]"})))
    with pytest.raises(ImageError) as caught:
        open_image(str(path))
    assert "unpack" in (caught.value.hint or "")


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "../../../../etc/passwd", "b"])
def test_a_link_never_leads_out_of_the_archive_nor_to_a_link(tmp_path: Path, target: str) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({"manifest.json": Link(target), "b": Link("manifest.json")}))
    with pytest.raises(ImageError, match="is a link to"):
        open_image(str(path))


# --- the files of an archive


def test_files_are_found_however_their_names_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(
        entry(b"./oci-layout", b"one")
        + pax((b"path", b"blobs/" + b"x" * 120)) + entry(b"y", b"two")
        + entry(b"L", b"l" * 150 + b"\0", flag=b"L", magic=GNU) + entry(b"z", b"three", magic=GNU)
        + header(b"folder/", flag=b"5")
        + END
    )  # fmt: skip
    archive = Archive(path)
    expected = {"oci-layout": b"one", "blobs/" + "x" * 120: b"two", "l" * 150: b"three"}
    for name, content in expected.items():
        stream = archive.open(name)
        assert stream is not None
        with stream:
            assert stream.read(1 << 20) == content
            assert stream.read(1) == b""
    assert not archive.exists("folder")
    assert archive.open("nothing") is None


SMALL = tar(
    {
        "c.json": IMAGE.config,
        "a.tar": IMAGE.tars[0],
        "b.tar": IMAGE.tars[1],
        "manifest.json": json.dumps([{"Config": "c.json", "Layers": ["a.tar", "b.tar"]}]),
    }
)


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_archive_with_changed_bytes_is_read_or_refused(
    tmp_path: Path, changes: list[tuple[int, int]]
) -> None:
    changed = bytearray(SMALL)
    for position, value in changes:
        changed[position] = value
    path = tmp_path / "a.tar"
    path.write_bytes(changed)
    with suppress(ImageError):
        found = readings(open_image(str(path)))
        assert [str(r.diff_id) for r in found] == [digest(layer) for layer in IMAGE.tars] or (
            IMAGE.config not in bytes(changed)
        )
