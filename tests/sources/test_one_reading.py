"""Archives and documents that loaders in use take differently are refused, whatever they hold.

How docker 20.10, podman and skopeo read them: docker unpacks and reads files, skopeo looks names up
in the stream, podman takes ``index.json`` before ``manifest.json``; all match JSON names whatever
their case (Go's encoding/json).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from imagegate.errors import ImageError
from imagegate.sources import open_image
from tests.images import (
    BuiltImage,
    Content,
    Directory,
    HardLink,
    ImageBuilder,
    Link,
    digest,
    tar,
    write_layout,
)
from tests.rawtar import entry

if TYPE_CHECKING:
    from pathlib import Path

Members = list[tuple[str, Content]]


def image(text: bytes) -> BuiltImage:
    return ImageBuilder(compression="plain").layer({"etc/f": text}, "COPY f").build()


GOOD, EVIL = image(b"good"), image(b"evil")
GOOD_NAME, EVIL_NAME = (f"{digest(i.config)[7:]}.json" for i in (GOOD, EVIL))


def saved(which: BuiltImage, **more: Any) -> dict[str, Any]:
    return {
        "Config": f"{digest(which.config)[7:]}.json",
        "RepoTags": None,
        "Layers": [f"{digest(t)[7:]}/layer.tar" for t in which.tars],
        **more,
    }


def files(*images: BuiltImage) -> Members:
    found: Members = []
    for one in images:
        found.append((f"{digest(one.config)[7:]}.json", one.config))
        found += [(f"{digest(t)[7:]}/layer.tar", t) for t in one.tars]
    return found


def listing(*entries: dict[str, Any]) -> str:
    return json.dumps(list(entries))


BASE = files(GOOD, EVIL)
RIGHT = ("manifest.json", listing(saved(GOOD)))
WRONG = ("manifest.json", listing(saved(EVIL)))
ROWS: dict[str, Members] = {
    "two members of one name": [*BASE, RIGHT, WRONG],
    "two of the same bytes": [*BASE, RIGHT, RIGHT],
    "another spelling": [*BASE, RIGHT, ("./manifest.json", WRONG[1])],
    "an absolute spelling": [*BASE, ("/manifest.json", WRONG[1]), RIGHT],
    "a doubled slash": [*BASE, (f"{GOOD_NAME[:-5]}//x", b""), (f"{GOOD_NAME[:-5]}/x", b"y")],
    "case": [*BASE, RIGHT, ("Manifest.json", WRONG[1])],
    "a member below a link": [
        *BASE, RIGHT, ("d", Link(".")), ("d/manifest.json", WRONG[1]),
    ],
    "below a link that comes later": [
        *BASE, RIGHT, ("d/manifest.json", WRONG[1]), ("d", Link(".")),
    ],
    "below a file": [*BASE, RIGHT, (f"{GOOD_NAME}/x", b"")],
    "a link to a folder": [*BASE, RIGHT, ("real", Directory()), ("d", Link("real"))],
    "a link to itself": [*BASE, ("manifest.json", Link("manifest.json"))],
    "a link over a link": [
        *BASE, ("d", Link("e")), ("e/m", RIGHT[1]), ("manifest.json", Link("d/m")),
    ],
    "a link through what is not there": [*BASE, ("m", RIGHT[1]), ("manifest.json", Link("x/../m"))],
    "a link out and in again": [*BASE, ("m", RIGHT[1]), ("manifest.json", Link("../m"))],
    "a hard link to a later member": [*BASE, ("manifest.json", HardLink("m")), ("m", WRONG[1])],
    "a hard link to nothing": [*BASE, ("manifest.json", HardLink("m"))],
    "a hard link to a link": [
        *BASE, ("m", WRONG[1]), ("l", Link("m")), ("manifest.json", HardLink("l")),
    ],
    "names in another case, behind": [
        *BASE,
        ("manifest.json", listing(saved(GOOD, config=EVIL_NAME, layers=saved(EVIL)["Layers"]))),
    ],
    "names with letters that fold": [*BASE, ("manifest.json", listing(saved(GOOD, Layerſ=[])))],
    "a name that stands twice": [
        *BASE, ("manifest.json", RIGHT[1][:-2] + f', "Config": "{EVIL_NAME}"}}]'),
    ],
    "two images": [*BASE, ("manifest.json", listing(saved(GOOD), saved(EVIL)))],
    "a name that is not in one form": [
        *BASE, ("manifest.json", listing(saved(GOOD, Config=f"x/../{GOOD_NAME}"))),
    ],
    "an index without oci-layout": [*BASE, RIGHT, ("index.json", b"{}")],
    "an oci-layout without index": [*BASE, RIGHT, ("oci-layout", b"{}")],
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_what_two_loaders_take_differently_is_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar(ROWS[row]))
    with pytest.raises(ImageError):
        open_image(f"docker-archive:{path}")


@pytest.mark.parametrize("flag", [b"3", b"4", b"6"])
def test_a_member_that_is_neither_file_nor_link(tmp_path: Path, flag: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(entry(b"x", flag=flag) + tar([*BASE, RIGHT]))
    with pytest.raises(ImageError, match="its member `x` is a"):
        open_image(str(path))


@pytest.mark.parametrize(
    "members",
    [
        [*BASE, RIGHT],
        [("./", Directory()), *((f"./{name}", content) for name, content in [*BASE, RIGHT])],
        # docker's classic store: equal layers are links, and folders stand in order of name
        [*BASE, RIGHT, ("0", Directory()), ("0/layer.tar", Link(f"../{saved(GOOD)['Layers'][0]}"))],
        [*BASE, RIGHT, ("0/layer.tar", HardLink(saved(GOOD)["Layers"][0]))],
        [("0", Directory()), ("0", Directory()), *BASE, RIGHT],
    ],
)
def test_what_loaders_take_alike_is_read(tmp_path: Path, members: Members) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar(members))
    assert open_image(f"docker-archive:{path}").image.config_bytes == GOOD.config


# --- both forms in one archive


def both(tmp_path: Path, entries: list[dict[str, Any]], index: BuiltImage = GOOD) -> str:
    layout = write_layout(tmp_path / "l", GOOD, EVIL)
    (layout / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "manifests": [index.descriptor()]})
    )
    members: Members = [
        (str(found.relative_to(layout)), found.read_bytes())
        for found in sorted(layout.rglob("*"))
        if found.is_file()
    ]
    path = tmp_path / "a.tar"
    path.write_bytes(tar([*members, *files(GOOD, EVIL), ("manifest.json", listing(*entries))]))
    return f"oci-archive:{path}"


def by_blob(which: BuiltImage, layers: BuiltImage | None = None) -> dict[str, Any]:
    blobs = [f"blobs/sha256/{digest(t)[7:]}" for t in (layers or which).tars]
    return {"Config": f"blobs/sha256/{digest(which.config)[7:]}", "Layers": blobs}


def test_both_forms_may_stand_side_by_side(tmp_path: Path) -> None:
    assert open_image(both(tmp_path, [by_blob(GOOD)])).image.config_bytes == GOOD.config


@pytest.mark.parametrize(
    "entries",
    [
        [by_blob(EVIL)],
        [saved(EVIL)],
        [by_blob(GOOD, EVIL)],
        [{**by_blob(GOOD), "Layers": []}],
        [by_blob(GOOD), by_blob(EVIL)],
        [],
    ],
)
def test_both_forms_have_to_agree(tmp_path: Path, entries: list[dict[str, Any]]) -> None:
    with pytest.raises(ImageError, match=r"two images in one|holds \d images"):
        open_image(both(tmp_path, entries))


# --- one document, two kinds


def served(tmp_path: Path, manifest: dict[str, Any], media_type: str) -> str:
    content = json.dumps({**json.loads(GOOD.manifest), **manifest}).encode()
    descriptor = {"mediaType": media_type, "digest": digest(content), "size": len(content)}
    index = {"schemaVersion": 2, "manifests": [descriptor]}
    extra = {digest(content): content}
    return f"oci:{write_layout(tmp_path / 'l', GOOD, index=index, extra=extra)}"


@pytest.mark.parametrize(
    ("manifest", "media_type"),
    [
        ({"manifests": []}, GOOD.media_type),
        ({"mediaType": None, "manifests": []}, GOOD.media_type),
        ({"Manifests": []}, GOOD.media_type),
        ({"fsLayers": []}, GOOD.media_type),
        ({}, "application/vnd.docker.distribution.manifest.v2+json"),
        ({}, "application/vnd.oci.image.index.v1+json"),
        ({"mediaType": "application/vnd.oci.image.index.v1+json"}, GOOD.media_type),
    ],
)
def test_cve_2021_41190_a_manifest_that_is_something_else_too(
    tmp_path: Path, manifest: dict[str, Any], media_type: str
) -> None:
    with pytest.raises(ImageError):
        open_image(served(tmp_path, manifest, media_type))


@pytest.mark.parametrize("name", ["layers", "config", "Layers", "fsLayers"])
def test_cve_2021_41190_an_index_that_is_a_manifest_too(tmp_path: Path, name: str) -> None:
    index = {"schemaVersion": 2, "manifests": [GOOD.descriptor()], name: []}
    with pytest.raises(ImageError, match="readers take it differently"):
        open_image(f"oci:{write_layout(tmp_path / 'l', GOOD, index=index)}")
