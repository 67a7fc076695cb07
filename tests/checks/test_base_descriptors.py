"""A base layer's descriptor is compared whole (OCI image-spec, descriptor.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.sources import open_image
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from tests.images import write_layout
from tests.judging import COMPOSED, TODAY, Case, failed, noted

if TYPE_CHECKING:
    from pathlib import Path

    from imagegate.verdict import ImageVerdict


def with_descriptor(folder: Path, **changes: Any) -> ImageVerdict:
    """Judge an image whose manifest says something else of the base's one layer."""
    case = Case()
    base, image = case.images()
    layers = json.loads(image.manifest)["layers"]
    layers[0].update(changes)
    state = case.state(base)
    lock = case.lock(folder / "base", base, state)
    write_layout(folder / "image", image.with_manifest(layers=layers))
    source = open_image(f"oci:{folder / 'image'}")
    return judge(state, lock, source, Silent(), copying=COMPOSED, today=TODAY)[0]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"size": 7}, "descriptor-size"),
        ({"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd"}, "descriptor-compression"),
        ({"urls": ["https://evil.example/layer"]}, "descriptor-urls"),
        (
            {"annotations": {"containerd.io/snapshot/stargz/toc.digest": "sha256:" + "0" * 64}},
            "descriptor-annotation",
        ),
        (
            {"annotations": {"io.github.containers.zstd-chunked.manifest-checksum": "sha256:0"}},
            "descriptor-annotation",
        ),
    ],
)
def test_what_leads_a_runtime_elsewhere_fails(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    assert f"base.digest/{code}" in failed(with_descriptor(tmp_path, **changes))


@pytest.mark.parametrize(
    "changes",
    [{}, {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip"}],
)
def test_the_same_layer_in_docker_words_passes(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert not {code for code in failed(with_descriptor(tmp_path, **changes)) if "base." in code}


def test_another_annotation_is_said(tmp_path: Path) -> None:
    verdict = with_descriptor(tmp_path, annotations={"org.example.note": "x"})
    assert "base.digest/descriptor-annotation" in noted(verdict)
