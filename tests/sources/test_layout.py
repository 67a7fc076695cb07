"""OCI layouts: which image is chosen, and that every document is what its descriptor says."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.errors import BlobMissing, DigestMismatch, ImageError, UsageError
from imagegate.oci.digest import Digest
from imagegate.oci.layer import read_layer
from imagegate.oci.platform import Platform
from imagegate.sources import Connection, open_image
from tests.images import BuiltImage, ImageBuilder, digest, write_layout

if TYPE_CHECKING:
    from pathlib import Path

INDEX = "application/vnd.oci.image.index.v1+json"
ARM = Platform.parse("linux/arm64")


def built(
    text: bytes = b"x", architecture: str = "arm64", variant: str | None = None
) -> BuiltImage:
    builder = ImageBuilder(architecture=architecture, variant=variant)
    return builder.layer({"etc/f": text}, "COPY f").build()


def index_of(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)}


def nested(index: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """An index as a blob, with the descriptor that names it."""
    content = json.dumps(index).encode()
    return {"mediaType": INDEX, "digest": digest(content), "size": len(content)}, content


def on(architecture: str, **more: str) -> dict[str, Any]:
    return {"platform": {"os": "linux", "architecture": architecture, **more}}


# --- choosing


def test_a_single_image_is_chosen_whatever_its_platform(tmp_path: Path) -> None:
    image = built(architecture="riscv64")
    source = open_image(f"oci:{write_layout(tmp_path / 'l', image)}", Connection(platform=ARM))
    assert str(source.image.digest) == image.digest
    assert source.image.index_digest is None


def test_apptainer_2905_an_index_in_an_index_is_descended_into(tmp_path: Path) -> None:
    image = built()
    inner, inner_bytes = nested(index_of(image.descriptor(**on("arm64"))))
    outer, outer_bytes = nested(index_of(inner))
    layout = write_layout(
        tmp_path / "l",
        image,
        index=index_of(outer),
        extra={inner["digest"]: inner_bytes, outer["digest"]: outer_bytes},
    )
    assert str(open_image(f"oci:{layout}").image.digest) == image.digest


def test_apptainer_2905_the_depth_is_bounded(tmp_path: Path) -> None:
    image = built()
    extra = {}
    index = index_of(image.descriptor())
    for _ in range(6):
        entry, content = nested(index)
        extra[entry["digest"]] = content
        index = index_of(entry)
    layout = write_layout(tmp_path / "l", image, index=index, extra=extra)
    with pytest.raises(ImageError, match="nested deeper than"):
        open_image(f"oci:{layout}")


def test_an_index_that_stands_a_thousand_times_is_read_once(tmp_path: Path) -> None:
    """Four levels of a thousand entries each would be a million million manifests."""
    image = built()
    extra = {}
    index = index_of(*[image.descriptor()] * 1000)
    for _ in range(3):
        entry, content = nested(index)
        extra[entry["digest"]] = content
        index = index_of(*[entry] * 1000)
    layout = write_layout(tmp_path / "l", image, index=index, extra=extra)
    assert str(open_image(f"oci:{layout}").image.digest) == image.digest


def statement() -> BuiltImage:
    """BuildKit's form: an image config without meaning, layers that are in-toto statements."""
    layer = {"mediaType": "application/vnd.in-toto+json", "digest": "sha256:" + "0" * 64, "size": 2}
    return built(b"no image").with_manifest(layers=[layer])


OLD_ATTESTATION = {
    "platform": {"os": "unknown", "architecture": "unknown"},
    "annotations": {"vnd.docker.reference.type": "attestation-manifest"},
}
NEW_ATTESTATION = {
    "artifactType": "application/vnd.docker.attestation.manifest.v1+json",
    "platform": {"os": "unknown", "architecture": "unknown"},
}


@pytest.mark.parametrize(
    "form",
    [
        OLD_ATTESTATION,
        NEW_ATTESTATION,
        {"annotations": OLD_ATTESTATION["annotations"]},
        {"platform": OLD_ATTESTATION["platform"]},
        {"artifactType": NEW_ATTESTATION["artifactType"]},
    ],
)
@pytest.mark.parametrize(
    "number", ["stargate/data-api#2554", "zakura-core/zakura#554", "containerd/nerdctl#4328"]
)
def test_nerdctl_4328_an_attestation_is_never_taken_for_the_image(
    tmp_path: Path, form: dict[str, Any], number: str
) -> None:
    del number  # one rule, three reports
    image, attestation = built(), statement()
    index = index_of(attestation.descriptor(**form), image.descriptor(**on("arm64")))
    layout = write_layout(tmp_path / "l", image, attestation, index=index)
    assert str(open_image(f"oci:{layout}").image.digest) == image.digest
    with pytest.raises(ImageError, match="holds no image"):
        open_image(f"oci:{layout}@{attestation.digest}")


@pytest.mark.parametrize(
    "form",
    [
        {"annotations": OLD_ATTESTATION["annotations"]},
        {**on("arm64"), "annotations": OLD_ATTESTATION["annotations"]},
        {"artifactType": NEW_ATTESTATION["artifactType"]},
        {**on("arm64"), "artifactType": NEW_ATTESTATION["artifactType"]},
    ],
)
def test_what_only_calls_itself_an_attestation_is_an_image_to_a_runtime(
    tmp_path: Path, form: dict[str, Any]
) -> None:
    # containerd chooses by platform, or by the config's where an entry has none
    image, other = built(), built(b"evil")
    index = index_of(other.descriptor(**form), image.descriptor(**on("arm64")))
    layout = write_layout(tmp_path / "l", image, other, index=index)
    with pytest.raises(ImageError, match="holds several images"):
        open_image(f"oci:{layout}", Connection(platform=ARM))


def test_an_entry_without_platform_may_be_the_one_that_a_runtime_takes(tmp_path: Path) -> None:
    image, other = built(), built(b"evil")
    index = index_of(other.descriptor(), image.descriptor(**on("arm64")))
    layout = write_layout(tmp_path / "l", image, other, index=index)
    with pytest.raises(ImageError, match="holds several images"):
        open_image(f"oci:{layout}", Connection(platform=ARM))


def test_nerdctl_4328_nothing_but_an_attestation_is_no_image(tmp_path: Path) -> None:
    attestation = built()
    index = index_of(attestation.descriptor(**OLD_ATTESTATION))
    layout = write_layout(tmp_path / "l", attestation, index=index)
    with pytest.raises(ImageError, match="holds no image"):
        open_image(f"oci:{layout}")


def test_an_image_may_say_that_its_artifact_type_is_its_configs(tmp_path: Path) -> None:
    # descriptor.md, `artifactType`: the value of the config's media type
    image = built()
    entry = image.descriptor(artifactType="application/vnd.oci.image.config.v1+json")
    layout = write_layout(tmp_path / "l", image, index=index_of(entry))
    assert str(open_image(f"oci:{layout}").image.digest) == image.digest


def test_entries_of_unknown_media_types_are_ignored(tmp_path: Path) -> None:
    # image-index.md: implementations MUST ignore unknown media types
    image = built()
    other = {**built(b"other").descriptor(), "mediaType": "application/vnd.example+json"}
    layout = write_layout(tmp_path / "l", image, index=index_of(other, image.descriptor()))
    assert str(open_image(f"oci:{layout}").image.digest) == image.digest


@pytest.mark.parametrize(
    "number", ["containers/image#898", "argocd-image-updater#711", "oras-project/oras-go#993"]
)
@pytest.mark.parametrize("asked", ["linux/arm64", "linux/arm64/v8"])
@pytest.mark.parametrize("variant", [{}, {"variant": "v8"}, {"variant": "8"}])
def test_image_898_arm64_v8_is_arm64(
    tmp_path: Path, variant: dict[str, str], asked: str, number: str
) -> None:
    """Whether the index names the variant, the config does, both or neither."""
    del number  # one rule, three reports
    arm, amd = built(), built(b"amd", "amd64")
    index = index_of(amd.descriptor(**on("amd64")), arm.descriptor(**on("arm64", **variant)))
    layout = write_layout(tmp_path / "l", arm, amd, index=index)
    source = open_image(f"oci:{layout}", Connection(platform=Platform.parse(asked)))
    assert str(source.image.digest) == arm.digest
    assert source.image.config.platform == ARM


def test_without_a_platform_several_images_are_listed(tmp_path: Path) -> None:
    arm, amd = built(), built(b"amd", "amd64")
    index = index_of(amd.descriptor(**on("amd64")), arm.descriptor(**on("arm64")))
    layout = write_layout(tmp_path / "l", arm, amd, index=index)
    with pytest.raises(ImageError) as caught:
        open_image(f"oci:{layout}")
    assert arm.digest in caught.value.message
    assert "linux/amd64" in caught.value.message
    with pytest.raises(ImageError, match="several images"):
        open_image(f"oci:{layout}", Connection(platform=Platform.parse("linux/riscv64")))


def test_one_image_under_two_tags_is_one_image(tmp_path: Path) -> None:
    image = built()
    tags = (
        image.descriptor(annotations={"org.opencontainers.image.ref.name": tag})
        for tag in ("a", "b")
    )
    layout = write_layout(tmp_path / "l", image, index=index_of(*tags))
    assert str(open_image(f"oci:{layout}").image.digest) == image.digest


@pytest.mark.parametrize("pin", ["manifest", "index"])
def test_tagfish_14_it_is_known_which_kind_of_digest_was_pinned(tmp_path: Path, pin: str) -> None:
    arm, amd, other = built(), built(b"amd", "amd64"), built(b"other")
    inner, content = nested(
        index_of(amd.descriptor(**on("amd64")), arm.descriptor(**on("arm64", variant="v8")))
    )
    layout = write_layout(
        tmp_path / "l",
        arm,
        amd,
        other,
        index=index_of(other.descriptor(**on("arm64")), inner),
        extra={inner["digest"]: content},
    )
    pinned = arm.digest if pin == "manifest" else inner["digest"]
    source = open_image(f"oci:{layout}@{pinned}", Connection(platform=ARM))
    assert str(source.image.digest) == arm.digest
    expected = Digest.parse(inner["digest"]) if pin == "index" else None
    assert source.image.index_digest == expected


def test_a_pin_inside_an_index_that_also_stands_elsewhere_is_found(tmp_path: Path) -> None:
    image = built()
    inner, inner_bytes = nested(index_of(image.descriptor()))
    pinned, pinned_bytes = nested(index_of(inner))
    layout = write_layout(
        tmp_path / "l",
        image,
        index=index_of(inner, pinned),
        extra={inner["digest"]: inner_bytes, pinned["digest"]: pinned_bytes},
    )
    source = open_image(f"oci:{layout}@{pinned['digest']}")
    assert str(source.image.index_digest) == pinned["digest"]


def test_a_digest_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "l", built())
    with pytest.raises(ImageError, match="holds no image sha256:0000"):
        open_image(f"oci:{layout}@sha256:{'0' * 64}")


@pytest.mark.parametrize(
    "number", ["go-containerregistry#296", "go-containerregistry#377", "wave#10"]
)
def test_wave_10_a_schema_1_entry_is_refused_with_the_reason(tmp_path: Path, number: str) -> None:
    del number  # one rule, three reports
    content = json.dumps({"schemaVersion": 1, "name": "x", "fsLayers": []}).encode()
    entry: dict[str, Any] = {
        "mediaType": "application/vnd.docker.distribution.manifest.v1+prettyjws",
        "digest": digest(content),
        "size": len(content),
    }
    layout = write_layout(tmp_path / "l", index=index_of(entry), extra={entry["digest"]: content})
    with pytest.raises(ImageError, match="schema version 1"):
        open_image(f"oci:{layout}")


# --- what is missing, cut or lies


def blob(layout: Path, name: str) -> Path:
    return layout / "blobs" / "sha256" / name.removeprefix("sha256:")


@pytest.mark.parametrize("which", ["manifest", "config"])
def test_a_missing_document_is_named(tmp_path: Path, which: str) -> None:
    image = built()
    name = image.digest if which == "manifest" else digest(image.config)
    layout = write_layout(tmp_path / "l", image, without=(name,))
    with pytest.raises(BlobMissing, match=name):
        open_image(f"oci:{layout}")


@pytest.mark.parametrize("which", ["manifest", "config"])
@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b" ", lambda c: c.swapcase()])
def test_a_document_with_other_bytes_is_an_error(tmp_path: Path, which: str, change: Any) -> None:
    image = built()
    layout = write_layout(tmp_path / "l", image)
    path = blob(layout, image.digest if which == "manifest" else digest(image.config))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DigestMismatch, match="expected="):
        open_image(f"oci:{layout}")


def test_a_document_that_claims_gigabytes_is_not_read(tmp_path: Path) -> None:
    image = built()
    index = index_of(image.descriptor(size=1 << 40))
    layout = write_layout(tmp_path / "l", image, index=index)
    with pytest.raises(ImageError, match="claims 1099511627776 bytes"):
        open_image(f"oci:{layout}")


def test_a_missing_layer_is_an_error_when_it_is_read_and_known_before(tmp_path: Path) -> None:
    image = built()
    layout = write_layout(tmp_path / "l", image, without=(digest(image.layers[0]),))
    source = open_image(f"oci:{layout}")
    (layer,) = source.image.layers
    assert not source.has_layer(layer)
    with pytest.raises(BlobMissing, match="layer 1"):
        source.open_layer(layer)


@pytest.mark.parametrize(
    "number",
    ["go-containerregistry#1305", "goharbor/harbor#9370", "containerd/containerd#7676"],
)
def test_harbor_9370_a_foreign_layer_that_is_absent_is_never_an_empty_one(
    tmp_path: Path, number: str
) -> None:
    del number  # one rule, three reports
    image = built()
    foreign = {
        **json.loads(image.manifest)["layers"][0],
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "urls": ["https://example.com/layer.tar.gz"],
    }
    image = image.with_manifest(layers=[foreign])
    layout = write_layout(tmp_path / "l", image, without=(foreign["digest"],))
    source = open_image(f"oci:{layout}")
    with pytest.raises(BlobMissing):
        source.open_layer(source.image.layers[0])


def test_moby_48241_a_layer_named_by_sha512_is_read_and_verified(tmp_path: Path) -> None:
    image = built()
    name = "sha512:" + hashlib.sha512(image.layers[0]).hexdigest()
    layer = {**json.loads(image.manifest)["layers"][0], "digest": name}
    image = image.with_manifest(layers=[layer])
    layout = write_layout(tmp_path / "l", image)
    folder = layout / "blobs" / "sha512"
    folder.mkdir()
    (folder / name.removeprefix("sha512:")).write_bytes(image.layers[0])
    source = open_image(f"oci:{layout}")
    (found,) = source.image.layers
    assert [e.path for e in read_layer(source.open_layer(found), found.blob).entries] == ["etc/f"]
    (folder / name.removeprefix("sha512:")).write_bytes(image.layers[0][:-1] + b"x")
    with pytest.raises(ImageError):
        read_layer(source.open_layer(found), found.blob)


def test_moby_48241_an_unknown_algorithm_is_a_clear_error(tmp_path: Path) -> None:
    image = built()
    layer = {**json.loads(image.manifest)["layers"][0], "digest": "blake3:" + "0" * 64}
    layout = write_layout(tmp_path / "l", image.with_manifest(layers=[layer]))
    with pytest.raises(ImageError, match="algorithm `blake3`"):
        open_image(f"oci:{layout}")


# --- no layout


@pytest.mark.parametrize("missing", ["oci-layout", "index.json"])
def test_a_folder_that_is_no_layout_says_what_it_lacks(tmp_path: Path, missing: str) -> None:
    layout = write_layout(tmp_path / "l", built())
    (layout / missing).unlink()
    with pytest.raises(ImageError, match=missing):
        open_image(f"oci:{layout}")


@pytest.mark.parametrize(
    "text", ["{}", '{"imageLayoutVersion": "2.0.0"}', "[]", '{"imageLayoutVersion": 1.0}']
)
def test_a_layout_of_another_version_is_refused(tmp_path: Path, text: str) -> None:
    layout = write_layout(tmp_path / "l", built())
    (layout / "oci-layout").write_text(text)
    with pytest.raises(ImageError):
        open_image(f"oci:{layout}")


def test_a_folder_may_have_an_at_sign_in_its_name(tmp_path: Path) -> None:
    image = built()
    layout = write_layout(tmp_path / "me@example", image)
    for location in (f"oci:{layout}", str(layout), f"oci:{layout}@{image.digest}"):
        assert str(open_image(location).image.digest) == image.digest


@pytest.mark.parametrize("location", ["oci:/nowhere", "/nowhere", "oci:/nowhere@sha256:abc", ""])
def test_a_location_that_is_not_there_is_the_callers_mistake(location: str) -> None:
    with pytest.raises(UsageError):
        open_image(location)
