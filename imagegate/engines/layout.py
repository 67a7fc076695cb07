"""Writing an OCI layout whose manifest stands on a locked base."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from imagegate.errors import RecipeError
from imagegate.oci.digest import Digest
from imagegate.oci.documents import (
    BASE_DIGEST,
    BASE_NAME,
    OCI_CONFIG,
    OCI_INDEX,
    OCI_LAYOUT_OWNER,
    OCI_MANIFEST,
    REF_NAME,
    layer_compression,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from imagegate.lock import Lock
    from imagegate.oci.documents import Descriptor
    from imagegate.recipe import Recipe


def write_layout(
    folder: Path,
    recipe: Recipe,
    *,
    config: bytes,
    layers: Sequence[Mapping[str, Any]],
    annotations: Mapping[str, str],
) -> Digest:
    """Write config, manifest and index beside layer blobs that are there, or are the base's.

    Args:
        folder: the layout; ``blobs/sha256`` is there.
        recipe: gives platform and name.
        config: the config's bytes, kept as they are.
        layers: descriptors of all layers, from the bottom.
        annotations: of the manifest.

    Returns:
        Digest of the manifest.
    """
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {
            "mediaType": OCI_CONFIG,
            "digest": str(Digest.of(config)),
            "size": len(config),
        },
        "layers": list(layers),
    }
    if annotations:
        manifest["annotations"] = dict(annotations)
    content = compact(manifest)
    digest = _put(folder, content)
    _put(folder, config)
    descriptor = {
        "mediaType": OCI_MANIFEST,
        "digest": str(digest),
        "size": len(content),
        "platform": platform_document(recipe),
        "annotations": {REF_NAME: recipe.name},
    }
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [descriptor],
        "annotations": {OCI_LAYOUT_OWNER: recipe.name},
    }
    (folder / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')
    (folder / "index.json").write_bytes(compact(index))
    return digest


def base_descriptor(descriptor: Descriptor) -> dict[str, Any]:
    """Write a base layer's descriptor in OCI's words; the blob is the same."""
    entry = descriptor.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**entry, "mediaType": _oci_layer_type(descriptor.media_type)}


def base_annotations(recipe: Recipe, lock: Lock) -> dict[str, str]:
    """Say what the image stands on (image-spec, annotations.md): what the name refers to.

    Raises:
        RecipeError: lock and recipe disagree on whether there is a base.
    """
    if lock.manifest is None:
        return {}
    if recipe.base is None:
        raise RecipeError(f"the lock of `{recipe.name}` has a base, its recipe has none")
    return {BASE_NAME: recipe.base.name, BASE_DIGEST: str(lock.base.index or lock.base.digest)}


def platform_document(recipe: Recipe) -> dict[str, str]:
    """Write the recipe's platform as descriptors and configs have it."""
    platform = recipe.platform
    variant = {"variant": platform.variant} if platform.variant else {}
    return {"os": platform.os, "architecture": platform.architecture, **variant}


def compact(document: Mapping[str, Any]) -> bytes:
    """Write JSON in one fixed form."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _oci_layer_type(media_type: str) -> str:
    if media_type.startswith("application/vnd.oci."):
        return media_type
    suffix = {"plain": "", "gzip": "+gzip", "zstd": "+zstd"}[layer_compression(media_type)]
    family = "layer.nondistributable" if ".foreign." in media_type else "layer"
    return f"application/vnd.oci.image.{family}.v1.tar{suffix}"


def _put(folder: Path, content: bytes) -> Digest:
    digest = Digest.of(content)
    (folder / "blobs" / digest.algorithm / digest.encoded).write_bytes(content)
    return digest
