"""The JSON documents of an image, checked where they enter (OCI image-spec v1.1, Docker schema 2).

The models keep what they do not know: a manifest is handed on as the bytes that were read, these
models only answer questions about it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)

from imagegate.errors import ImageError
from imagegate.oci.digest import Digest
from imagegate.oci.platform import Platform
from imagegate.oci.strictjson import JSON_LIMIT, read_object

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
INDEX_TYPES = frozenset({OCI_INDEX, DOCKER_INDEX})
MANIFEST_TYPES = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
CONFIG_TYPES = frozenset({OCI_CONFIG, DOCKER_CONFIG})
DOCUMENT_LIMIT = JSON_LIMIT
# verdicts and locks of large bases
OWN_LIMIT = 256 << 20

BASE_NAME = "org.opencontainers.image.base.name"
BASE_DIGEST = "org.opencontainers.image.base.digest"
# in the index of a layout: the recipe for which imagegate wrote it, and may replace it
OCI_LAYOUT_OWNER = "dev.imagegate.recipe"
REF_NAME = "org.opencontainers.image.ref.name"

# what stands beside an image in a layout that cosign wrote (cosign, pkg/oci/layout)
_COSIGN_PARTS = frozenset({"dev.cosignproject.cosign/sigs", "dev.cosignproject.cosign/atts"})

Algorithm = Literal["plain", "gzip", "zstd"]


def layer_compression(media_type: str) -> Algorithm:
    """Say how a layer of this media type is compressed.

    Raises:
        ImageError: the media type is not a layer's.
    """
    compression = _LAYER_TYPES.get(media_type)
    if compression is None:
        raise ImageError(f"`{media_type}` is not the media type of an image layer")
    return compression


def is_layer(media_type: str) -> bool:
    """Say whether a media type is that of an image's layer."""
    return media_type in _LAYER_TYPES


def _layer_types() -> dict[str, Algorithm]:
    types: dict[str, Algorithm] = {
        "application/vnd.docker.image.rootfs.diff.tar": "plain",
        "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd": "zstd",
        "application/vnd.docker.image.rootfs.diff.tar+zstd": "zstd",
        "application/vnd.docker.image.rootfs.foreign.diff.tar": "plain",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip": "gzip",
    }
    for family in ("layer", "layer.nondistributable"):
        types[f"application/vnd.oci.image.{family}.v1.tar"] = "plain"
        types[f"application/vnd.oci.image.{family}.v1.tar+gzip"] = "gzip"
        types[f"application/vnd.oci.image.{family}.v1.tar+zstd"] = "zstd"
    return types


_LAYER_TYPES = _layer_types()


def _as_digest(value: object) -> object:
    if isinstance(value, str):
        try:
            return Digest.parse(value)
        except ImageError as error:
            raise ValueError(error.message) from error
    return value


def _none_is_empty(value: object) -> object:
    return () if value is None else value


DigestField = Annotated[
    Digest,
    BeforeValidator(_as_digest),
    PlainSerializer(str, return_type=str),
]


Count = Annotated[int, Field(ge=0, strict=True)]


class _Document(BaseModel):
    """A document that keeps what it does not know.

    Attributes:
        also: names that the specification gives and no field here has.
        never: names that make another document of it.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    also: ClassVar[frozenset[str]] = frozenset()
    never: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _exact_names(cls, value: object) -> object:
        """Refuse a known name in another case: Go's JSON reader, and so a runtime, takes it."""
        if isinstance(value, dict):
            known = _names(cls)
            for name in value:
                exact = known.get(name.casefold(), name) if isinstance(name, str) else name
                if exact != name:
                    raise ValueError(f"`{name}` stands for `{exact}`; readers take it differently")
                if name in cls.never:
                    # CVE-2021-41190: one reader takes it for a manifest, one for an index
                    raise ValueError(
                        f"`{name}` makes it {_KINDS[name]} too; readers take it differently"
                    )
        return value


_KINDS = {
    "manifests": "an index",
    "layers": "an image manifest",
    "config": "an image manifest",
    "fsLayers": "a manifest of schema version 1",
}


@cache
def _names(model: type[_Document]) -> dict[str, str]:
    fields = model.model_fields.items()
    names = [field.alias or name for name, field in fields]
    return {name.casefold(): name for name in (*names, *model.also, *model.never)}


class PlatformModel(_Document):
    """The ``platform`` of a descriptor in an index."""

    also = frozenset({"os.version", "os.features", "features"})

    os: str
    architecture: str
    variant: str | None = None

    @property
    def normal(self) -> Platform:
        """The platform in normal form."""
        return Platform.of(self.os, self.architecture, self.variant)


class Descriptor(_Document):
    """Where a blob is and what it must be (descriptor.md)."""

    also = frozenset({"data"})

    media_type: str = Field(alias="mediaType")
    digest: DigestField
    size: Count
    urls: tuple[str, ...] | None = None
    annotations: dict[str, str] | None = None
    platform: PlatformModel | None = None
    artifact_type: str | None = Field(default=None, alias="artifactType")

    @property
    def is_attestation(self) -> bool:
        """Whether this entry of an index is an attestation, a signature or another artifact.

        BuildKit's attestation manifests, OCI 1.1 artifacts, and cosign's parts of a layout. An
        image's entry may say as its artifact type what its config is (descriptor.md).
        """
        annotations = self.annotations or {}
        if annotations.get("vnd.docker.reference.type") == "attestation-manifest":
            return True
        if annotations.get("kind") in _COSIGN_PARTS:
            return True
        if self.artifact_type and self.artifact_type not in CONFIG_TYPES:
            return True
        return (
            self.platform is not None
            and self.platform.os == self.platform.architecture == "unknown"
        )


class Index(_Document):
    """An image index or Docker manifest list (image-index.md)."""

    also = frozenset({"artifactType", "subject"})
    never = frozenset({"layers", "config", "fsLayers"})

    schema_version: Literal[2] = Field(alias="schemaVersion")
    media_type: str | None = Field(default=None, alias="mediaType")
    manifests: tuple[Descriptor, ...]
    annotations: dict[str, str] | None = None


class Manifest(_Document):
    """An image manifest (manifest.md)."""

    also = frozenset({"subject"})
    never = frozenset({"manifests", "fsLayers"})

    schema_version: Literal[2] = Field(alias="schemaVersion")
    media_type: str | None = Field(default=None, alias="mediaType")
    artifact_type: str | None = Field(default=None, alias="artifactType")
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: dict[str, str] | None = None


class RootFS(_Document):
    """The layers' diff ids as the config's writer claims them (config.md, "rootfs").

    Docker leaves ``diff_ids`` out of the config of an image without layers.
    """

    type: Literal["layers"]
    diff_ids: Annotated[tuple[DigestField, ...], BeforeValidator(_none_is_empty)] = ()


class HistoryEntry(_Document):
    """One step of the image's history (config.md, "history")."""

    created: str | None = None
    created_by: str | None = None
    comment: str | None = None
    author: str | None = None
    empty_layer: Annotated[bool, Field(strict=True)] = False


class ContainerConfig(_Document):
    """What a container starts with (config.md, "config")."""

    # moby, image/spec/v1.2.md and api/types/container
    also = frozenset(
        [
            "Hostname",
            "Domainname",
            "AttachStdin",
            "AttachStdout",
            "AttachStderr",
            "ExposedPorts",
            "Tty",
            "OpenStdin",
            "StdinOnce",
            "Healthcheck",
            "ArgsEscaped",
            "Image",
            "Volumes",
            "NetworkDisabled",
            "MacAddress",
            "StopSignal",
            "StopTimeout",
            "Shell",
            "Memory",
            "MemorySwap",
            "CpuShares",
        ]
    )

    env: tuple[str, ...] | None = Field(default=None, alias="Env")
    entrypoint: tuple[str, ...] | None = Field(default=None, alias="Entrypoint")
    cmd: tuple[str, ...] | None = Field(default=None, alias="Cmd")
    user: str | None = Field(default=None, alias="User")
    working_dir: str | None = Field(default=None, alias="WorkingDir")
    labels: dict[str, str] | None = Field(default=None, alias="Labels")
    # Docker's own (image spec v1.2, "OnBuild"); builders run it, runtimes do not
    on_build: tuple[str, ...] | None = Field(default=None, alias="OnBuild")

    @property
    def environment(self) -> dict[str, str]:
        """``Env`` as a mapping; the last of two equal names counts, as for the runtimes."""
        pairs = (entry.partition("=") for entry in self.env or ())
        return {name: value for name, _, value in pairs}


class ImageConfig(_Document):
    """An image configuration (config.md)."""

    also = frozenset(
        [
            "author",
            "os.version",
            "os.features",
            "id",
            "parent",
            "parent_id",
            "comment",
            "container",
            "container_config",
            "docker_version",
            "Size",
            "moby.buildkit.buildinfo.v1",
            "moby.buildkit.cache.v0",
        ]
    )

    os: str
    architecture: str
    variant: str | None = None
    created: str | None = None
    config: ContainerConfig | None = None
    rootfs: RootFS
    history: tuple[HistoryEntry, ...] | None = None

    @property
    def platform(self) -> Platform:
        """The platform in normal form."""
        return Platform.of(self.os, self.architecture, self.variant)


class SavedImage(_Document):
    """One entry of a classic archive's ``manifest.json`` (moby, image/spec/v1.2)."""

    also = frozenset({"Parent", "LayerSources"})

    config: str = Field(alias="Config")
    repo_tags: tuple[str, ...] | None = Field(default=None, alias="RepoTags")
    layers: tuple[str, ...] = Field(alias="Layers")


_Model = TypeVar("_Model", bound=_Document)


def parse_document(model: type[_Model], content: bytes, what: str) -> _Model:
    """Read one JSON document of an image.

    Raises:
        ImageError: the bytes are not JSON, or not such a document; `what` names it.
    """
    try:
        return model.model_validate(read_object(content, what, limit=DOCUMENT_LIMIT))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        said = first["msg"].removeprefix("Value error, ")
        raise ImageError(f"{what} is malformed: `{where}`: {said[:1].lower()}{said[1:]}") from error


def parse_json(content: bytes, what: str) -> dict[str, Any]:
    """Read a JSON object of this project's, or the outline of a foreign one.

    Raises:
        ImageError: the bytes are not one JSON object, or readers take them differently.
    """
    return read_object(content, what, limit=OWN_LIMIT, own=True)


def canonical_json(value: object) -> bytes:
    """Write JSON in the one form that this project's own documents have: sorted, indented, LF."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    # a path that is not UTF-8 holds lone surrogates; JSON can escape them, UTF-8 cannot
    return text.encode("utf-8", "backslashreplace") + b"\n"
