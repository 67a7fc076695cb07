"""What an image was made from, as SLSA provenance v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from imagegate.attestation.components import wheel_purl
from imagegate.attestation.statement import (
    PROVENANCE_TYPE,
    TOOL,
    Statement,
    Subject,
    digest_set,
    image_purl,
    make_statement,
)
from imagegate.errors import AttestationError
from imagegate.oci.documents import DigestField

if TYPE_CHECKING:
    from imagegate.lock import Lock
    from imagegate.recipe import Recipe

# composed without a daemon, or by a container engine that ran the recipe's Dockerfile
COMPOSED = f"{TOOL}#build/compose/v1"
BY_ENGINE = f"{TOOL}#build/engine/v1"


class _Compressor(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    version: str
    level: int


class _BuiltLayer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    digest: DigestField
    diff_id: DigestField
    step: str


class _Engine(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    builder: str
    version: str
    network: str
    secrets: tuple[str, ...]
    image: str


class BuildRecord(BaseModel):
    """What a build left beside its layout (``build/<name>.build.json``).

    It has a compressor and layers, or the engine that built.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    imagegate: str
    digest: DigestField
    lock: DigestField
    compressor: _Compressor | None = None
    layers: tuple[_BuiltLayer, ...] = ()
    engine: _Engine | None = None

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if (self.compressor is None or not self.layers) == (self.engine is None):
            raise ValueError("it says neither what composed the layers nor which engine built them")
        return self

    @classmethod
    def parse(cls, content: bytes, where: str) -> BuildRecord:
        """Read a record.

        Raises:
            AttestationError: it is malformed.
        """
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise AttestationError(
                f"`{where}` is not a build record: {error.errors()[0]['msg'].lower()}",
                hint="build again",
            ) from error


def provenance(
    record: BuildRecord, recipe: Recipe, lock: Lock, subject: Subject, *, finished_at: str = ""
) -> Statement:
    """Write what the image was made from.

    Args:
        record: what the build left.
        recipe: the recipe.
        lock: the lock that was built from.
        subject: the image.
        finished_at: when the build ended, RFC 3339; left out where nobody knows.

    Raises:
        AttestationError: the record is of another image or lock: nothing is known of this one.
    """
    if (record.digest, record.lock) != (subject.digest, lock.digest):
        raise AttestationError(
            f"the build record is of another build: image={subject.digest} built={record.digest} "
            f"lock={lock.digest} built from={record.lock}",
            hint=f"run `imagegate build {recipe.name}`",
        )
    parameters: dict[str, object] = {
        "recipe": recipe.name,
        "repository": recipe.document.repository,
        "platform": str(recipe.platform),
        "config": recipe.document.config.model_dump(mode="json", exclude_none=True),
        "links": [link.model_dump(mode="json") for link in recipe.document.layer.links],
    }
    if record.engine is not None:
        # the names of secrets alone: their values reached the build and nothing else
        asked = record.engine.model_dump(mode="json", include={"network", "secrets"})
        parameters["engine"] = {"name": record.engine.name, **asked}
    definition = {
        "buildType": COMPOSED if record.engine is None else BY_ENGINE,
        "externalParameters": parameters,
        "internalParameters": _internal(record),
        "resolvedDependencies": _dependencies(recipe, lock),
    }
    details: dict[str, object] = {
        "builder": {"id": TOOL, "version": {"imagegate": record.imagegate}},
        "byproducts": [
            {
                "name": layer.step,
                "digest": digest_set(layer.digest),
                "annotations": {"diff_id": str(layer.diff_id)},
            }
            for layer in record.layers
        ],
    }
    if finished_at:
        details["metadata"] = {"finishedOn": finished_at}
    return make_statement(
        subject, PROVENANCE_TYPE, {"buildDefinition": definition, "runDetails": details}
    )


def _internal(record: BuildRecord) -> dict[str, object]:
    if record.engine is not None:
        included = {"name", "builder", "version", "image"}
        return {"engine": record.engine.model_dump(mode="json", include=included)}
    assert record.compressor is not None
    return {"compressor": record.compressor.model_dump(mode="json")}


def _dependencies(recipe: Recipe, lock: Lock) -> list[dict[str, object]]:
    """List what went in, as ResourceDescriptors: the base, the wheels, the assets, the lock."""
    found: list[dict[str, object]] = []
    if recipe.base is not None and lock.base.digest is not None:
        uri = image_purl(recipe.base.name, lock.base.digest, recipe.platform.architecture)
        found.append({"name": "base", "uri": uri, "digest": digest_set(lock.base.digest)})
    found += [
        {
            "name": wheel.name,
            "uri": wheel_purl(wheel.name, wheel.version),
            "digest": {"sha256": wheel.sha256},
        }
        for wheel in lock.wheels
    ]
    found += [
        {
            "name": asset.source,
            "digest": {"sha256": asset.sha256},
            "annotations": {"target": f"/{asset.target}"},
        }
        for asset in lock.assets
    ]
    return [
        *found,
        {"name": f"locks/{recipe.name}", "digest": digest_set(lock.digest)},
        {"name": f"images/{recipe.name}/image.toml", "digest": digest_set(lock.contents.recipe)},
    ]
