"""Draws image archives, honest ones and ones that try to be two images to two loaders."""

from __future__ import annotations

import json
import random
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.images import (
    BuiltImage,
    Content,
    Directory,
    File,
    HardLink,
    ImageBuilder,
    Link,
    digest,
    tar,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Members = list[tuple[str, Content]]


@dataclass(frozen=True)
class Draw:
    """One archive: its bytes, how it was changed (nothing: honest), what its author shows."""

    form: str
    changes: tuple[str, ...]
    content: bytes
    shown: BuiltImage


@dataclass
class _Draft:
    chance: random.Random
    good: BuiltImage
    evil: BuiltImage
    members: Members

    def put(self, name: str, content: Content, *, first: bool = False) -> None:
        self.members.insert(0 if first else len(self.members), (name, content))

    def replace(self, name: str, content: Content) -> None:
        self.members = [(n, content if n == name else c) for n, c in self.members]

    def text(self, name: str) -> str:
        found = dict(self.members).get(name)
        return found.decode() if isinstance(found, bytes) else ""

    def list_name(self) -> str:
        """The name of a list that the archive has."""
        names = [n for n, _ in self.members if n in {"manifest.json", "index.json"}]
        return self.chance.choice(names) if names else "manifest.json"

    def listing(self, name: str, which: BuiltImage, **more: Any) -> bytes:
        if name == "index.json":
            return _index(which)
        return json.dumps([{**_saved(which), **more}]).encode()


def _blob(content: bytes) -> str:
    return f"blobs/sha256/{digest(content)[7:]}"


def _saved(which: BuiltImage) -> dict[str, Any]:
    layers = [_blob(layer) for layer in which.tars]
    return {"Config": _blob(which.config), "RepoTags": None, "Layers": layers}


def _index(*images: BuiltImage) -> bytes:
    listed = [one.descriptor() for one in images]
    return json.dumps({"schemaVersion": 2, "manifests": listed}).encode()


def _again(draft: _Draft) -> None:
    name = draft.list_name()
    spelt = draft.chance.choice(["{}", "./{}", "/{}", ".//{}", "x/../{}", "../{}", "{}/"])
    draft.put(
        spelt.format(name), draft.listing(name, draft.evil), first=draft.chance.random() < 0.5
    )


def _case(draft: _Draft) -> None:
    name = draft.list_name()
    other = draft.chance.choice([name.upper(), name.title(), name.replace("s", "\u017f")])
    draft.put(other, draft.listing(name, draft.evil), first=draft.chance.random() < 0.5)


def _folder_link(draft: _Draft) -> None:
    name = draft.list_name()
    link = ("d", Link(draft.chance.choice([".", "/", "./x/.."])))
    below = (f"d/{name}", draft.listing(name, draft.evil))
    draft.members += draft.chance.sample([link, below], 2)


def _list_is_a_link(draft: _Draft) -> None:
    name = draft.list_name()
    draft.put("m", draft.listing(name, draft.evil), first=draft.chance.random() < 0.5)
    links: list[Content] = [Link("m"), HardLink("m")]
    draft.replace(name, draft.chance.choice(links))


def _pax_path(draft: _Draft) -> None:
    name = draft.list_name()
    content = draft.listing(name, draft.evil)
    draft.put("harmless", File(content, pax=(("path", name),)), first=draft.chance.random() < 0.5)


def _sparse(draft: _Draft) -> None:
    name = draft.list_name()
    content = draft.listing(name, draft.evil)
    records = (("GNU.sparse.name", name), ("GNU.sparse.realsize", str(len(content))))
    major = (("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"))
    table = b"1\n0\n%d\n" % len(content)
    body = table.ljust(512, b"\0") + content
    draft.put("sparse", File(body, pax=(*major, *records)), first=draft.chance.random() < 0.5)


def _name_twice(draft: _Draft) -> None:
    """A JSON name again, in its own or another case, before or behind the right one."""
    name = draft.list_name()
    text = draft.text(name)
    evil = json.loads(draft.listing(name, draft.evil))
    key = draft.chance.choice(["manifests"] if name == "index.json" else ["Config", "Layers"])
    value = evil[key] if name == "index.json" else evil[0][key]
    spelt = draft.chance.choice([key, key.lower(), key.upper(), key.replace("s", "\u017f")])
    extra = f"{json.dumps(spelt)}: {json.dumps(value)}"
    at = text.find("{") + 1 if draft.chance.random() < 0.5 else text.rfind("}")
    comma = (extra + ", ") if text[at - 1 : at] == "{" else (", " + extra)
    draft.replace(name, (text[:at] + comma + text[at:]).encode())


def _other_order(draft: _Draft) -> None:
    saved = _saved(draft.good)
    draft.replace(
        "manifest.json", json.dumps([{**saved, "Layers": saved["Layers"][::-1]}]).encode()
    )


def _other_parts(draft: _Draft) -> None:
    good, evil = _saved(draft.good), _saved(draft.evil)
    key = draft.chance.choice(["Config", "Layers"])
    draft.replace("manifest.json", json.dumps([{**good, key: evil[key]}]).encode())


def _other_list(draft: _Draft) -> None:
    """One of the two lists of an archive names the other image."""
    name = draft.list_name()
    draft.replace(name, draft.listing(name, draft.evil))


def _two_images(draft: _Draft) -> None:
    pair = draft.chance.sample([draft.good, draft.evil], 2)
    listed = json.dumps([_saved(one) for one in pair]).encode()
    draft.replace("manifest.json", listed)
    draft.replace("index.json", _index(*pair))


def _nested(draft: _Draft) -> None:
    """An index below the index, of one image or of two."""
    pair = draft.chance.sample([draft.good, draft.evil], draft.chance.choice([1, 2]))
    inner = _index(*pair)
    kind = "application/vnd.oci.image.index.v1+json"
    listed = [{"mediaType": kind, "digest": digest(inner), "size": len(inner)}]
    draft.put(_blob(inner), inner)
    draft.replace("index.json", json.dumps({"schemaVersion": 2, "manifests": listed}).encode())


def _swapped_bytes(draft: _Draft) -> None:
    """The other image's bytes under the good image's name."""
    which = draft.chance.choice(["config", "layers"])
    bad = draft.evil.config if which == "config" else draft.evil.tars[0]
    good = draft.good.config if which == "config" else draft.good.tars[0]
    draft.replace(_blob(good), bad)


def _tags(draft: _Draft) -> None:
    names = ["localhost/hostile/a:1", "localhost/hostile/a:2", "localhost/hostile/b:1"]
    draft.replace("manifest.json", draft.listing("manifest.json", draft.good, RepoTags=names))


CHANGES: dict[str, Callable[[_Draft], None]] = {
    change.__name__.strip("_"): change
    for change in (
        _again, _case, _folder_link, _list_is_a_link, _pax_path, _sparse, _name_twice,
        _other_order, _other_parts, _other_list, _two_images, _nested, _swapped_bytes, _tags,
    )
}  # fmt: skip


def draw(seed: int) -> Draw:
    """Draw one archive; the same seed gives the same bytes."""
    chance = random.Random(seed)
    good, evil = (
        ImageBuilder(compression="plain", architecture="amd64")
        .layer({"f": f"{kind} {seed}"}, "COPY f")
        .layer({"g": f"{kind} {seed}", "l": Link("f")}, "COPY g")
        .build()
        for kind in ("good", "evil")
    )
    form = chance.choice(["docker", "oci", "both"])
    blobs = [
        (_blob(content), content)
        for one in (good, evil)
        for content in (one.config, *one.tars, *((one.manifest,) if form != "docker" else ()))
    ]
    members: Members = [*dict(blobs).items()]
    if form != "docker":
        members += [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", _index(good))]
    if form != "oci":
        members.append(("manifest.json", json.dumps([_saved(good)]).encode()))
    chance.shuffle(members)
    if chance.random() < 0.3:  # folders, as docker's own archives have them
        members = [("blobs/", Directory()), ("blobs/sha256/", Directory()), *members]
    draft = _Draft(chance, good, evil, members)
    changes = tuple(chance.sample(sorted(CHANGES), chance.choice([0, 1, 1, 1, 2])))
    for name in changes:
        CHANGES[name](draft)
    kind = chance.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    if {"pax_path", "sparse"} & {*changes} or not all(n.isascii() for n, _ in draft.members):
        kind = tarfile.PAX_FORMAT
    return Draw(form, changes, tar(draft.members, format=kind), good)
