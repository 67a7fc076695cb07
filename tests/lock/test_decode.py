"""A lock is read whole, or it is an error that says which file and what to do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from backports import zstd

from imagegate.catalog import no_facts
from imagegate.errors import LockError
from imagegate.facts import Distribution, SiteDirectory
from imagegate.lock import (
    BaseDocument,
    Lock,
    LockedAsset,
    LockedWheel,
    LockParts,
    decode_lock,
    encode_lock,
)
from imagegate.oci.digest import Digest
from imagegate.oci.documents import canonical_json
from imagegate.oci.tar import Kind
from imagegate.rootfs import Node
from tests.images import ImageBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = ImageBuilder().layer({"usr/lib/x": b"x"}).build()
# registries hold manifests that their clients wrote, often indented, with LF
MANIFEST = json.dumps(json.loads(IMAGE.manifest), indent=3).encode()
SITE = "usr/lib/python3.12/dist-packages"


def node(path: str, **more: Any) -> Node:
    return Node(path=path, kind=Kind.FILE, mode=0o644, size=1, sha256="0" * 64, **more)


BASE = BaseDocument(
    image="registry.example/base@" + IMAGE.digest,
    digest=Digest.of(MANIFEST),
    index=None,
    platform="linux/arm64",
    compressed=len(IMAGE.layers[0]),
    facts=replace(
        no_facts(),
        sites=(SiteDirectory(path=SITE, python="3.12"),),
        distributions=(
            Distribution(name="Torch", version="2.13.0", path=f"{SITE}/torch-2.13.0.dist-info", site=SITE),
        ),
    ),
)  # fmt: skip
PARTS = LockParts(
    name="glm",
    recipe=Digest.of(b"recipe"),
    requirements_in=Digest.of(b"ray\n"),
    base=BASE,
    freeze="torch==2.13.0\n",
    manifest_bytes=MANIFEST,
    config_bytes=IMAGE.config,
    files=(node("usr/lib/x", owner="torch==2.13.0"), node("usr/lib/a")),
    wheels=(LockedWheel(name="ray", version="2.55.0", sha256="1" * 64),),
    layer=(node(f"{SITE}/ray/__init__.py", owner="ray==2.55.0"),),
    assets=(
        LockedAsset(
            model="qwen38", source="recipes/qwen38/a", target="srv/a", size=1, sha256="2" * 64
        ),
    ),
)
SCRATCH = replace(
    PARTS,
    base=BaseDocument(
        image=None, digest=None, index=None, platform="linux/arm64", compressed=0, facts=no_facts()
    ),
    freeze="",
    manifest_bytes=None,
    config_bytes=None,
    files=(),
)
TEXT = (
    "lock.json",
    "base.json",
    "freeze.txt",
    "manifest.json",
    "config.json",
    "requirements.txt",
    "assets.json",
)
COMPRESSED = ("files.zst", "layer.zst")


def files() -> dict[str, bytes]:
    return encode_lock(PARTS)


def decoded(changed: dict[str, bytes]) -> Lock:
    return decode_lock("glm", changed, "locks/glm")


def refusal(changed: dict[str, bytes]) -> LockError:
    with pytest.raises(LockError) as caught:
        decoded(changed)
    return caught.value


def sealed_anew(changed: dict[str, bytes], **contents: Any) -> dict[str, bytes]:
    """Give a lock the table of contents that fits its files, as a careful forger would."""
    table = json.loads(changed["lock.json"])
    del table["digest"]
    table["files"] = {
        name: str(
            Digest.of(zstd.decompress(changed[name]) if name in COMPRESSED else changed[name])
        )
        for name in table["files"]
        if name in changed
    }
    table.update(contents)
    table["digest"] = str(Digest.of(canonical_json(table)))
    return {**changed, "lock.json": canonical_json(table)}


# --- what was written is read


def test_a_lock_reads_back_as_it_was_written() -> None:
    lock = decoded(files())
    assert lock.base == BASE
    assert list(lock.files) == sorted(PARTS.files, key=lambda found: found.path)
    assert tuple(lock.layer) == PARTS.layer
    assert (lock.wheels, lock.assets, lock.freeze) == (PARTS.wheels, PARTS.assets, PARTS.freeze)
    assert (lock.manifest_bytes, lock.config_bytes) == (MANIFEST, IMAGE.config)
    assert lock.manifest is not None
    assert lock.config is not None
    assert encode_lock(PARTS) == encode_lock(replace(PARTS, files=tuple(PARTS.files)[::-1]))


def test_a_lock_from_scratch_has_no_base() -> None:
    lock = decode_lock("glm", encode_lock(SCRATCH), "locks/glm")
    assert (lock.manifest, lock.config, lock.base.digest, len(lock.files)) == (None, None, None, 0)


def test_a_lock_names_no_address() -> None:
    assert b"http" not in files()["requirements.txt"]
    assert files()["requirements.txt"] == b"ray==2.55.0 --hash=sha256:" + b"1" * 64 + b"\n"


@pytest.mark.parametrize("name", TEXT)
def test_synthorg_2834_a_crlf_checkout_is_the_same_lock(name: str) -> None:
    changed = files()
    changed[name] = changed[name].replace(b"\n", b"\r\n")
    assert (
        decoded(changed) == decoded(files()) or decoded(changed).digest == decoded(files()).digest
    )
    assert decoded(changed).manifest_bytes == MANIFEST


def test_synthorg_2834_all_of_it_in_crlf_is_the_same_lock() -> None:
    changed = {
        name: content if name in COMPRESSED else content.replace(b"\n", b"\r\n")
        for name, content in files().items()
    }
    assert any(b"\r\n" in content for content in changed.values())
    assert decoded(changed).digest == decoded(files()).digest


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_lock_is_over_the_uncompressed_index(name: str) -> None:
    changed = files()
    changed[name] = zstd.compress(zstd.decompress(changed[name]), level=1)
    assert decoded(changed).digest == decoded(files()).digest


def test_an_index_may_have_several_frames() -> None:
    changed = files()
    text = zstd.decompress(changed["files.zst"])
    changed["files.zst"] = zstd.compress(text[:30]) + zstd.compress(text[30:])
    assert len(decoded(changed).files) == 2


# --- what was changed is refused


def every_edit(name: str, content: bytes) -> dict[str, bytes]:
    if name in COMPRESSED:
        text = zstd.decompress(content)
        return {"longer": zstd.compress(text + b"\n"), "other": zstd.compress(text.swapcase())}
    return {
        "longer": content + b"\n",
        "other": content.replace(b"1", b"3", 1),
        "shorter": content[:-2],
    }


@pytest.mark.parametrize("name", [name for name in (*TEXT, *COMPRESSED) if name != "lock.json"])
@pytest.mark.parametrize("how", ["longer", "other", "shorter"])
def test_synthorg_2834_an_edited_file_is_named_with_both_sides(name: str, how: str) -> None:
    changed = files()
    edits = every_edit(name, changed[name])
    if how not in edits or edits[how] == changed[name]:
        how = "longer"
    error = refusal({**changed, name: edits[how]})
    assert f"`locks/glm/{name}`" in error.message
    assert "locked=sha256:" in error.message
    assert "found=sha256:" in error.message
    assert "imagegate lock glm" in (error.hint or "")


def test_an_edited_table_of_contents_no_longer_fits_its_digest() -> None:
    changed = files()
    changed["lock.json"] = changed["lock.json"].replace(
        str(PARTS.recipe).encode(), str(Digest.of(b"other")).encode()
    )
    assert "changed by hand" in refusal(changed).message


@pytest.mark.parametrize("name", [*TEXT, *COMPRESSED])
def test_a_missing_file_is_named(name: str) -> None:
    changed = files()
    del changed[name]
    assert name in refusal(changed).message


@pytest.mark.parametrize("name", [*TEXT, *COMPRESSED])
def test_an_empty_file_is_an_error(name: str) -> None:
    assert name in refusal({**files(), name: b""}).message


def test_no_file_at_all_is_no_lock() -> None:
    assert "this is no lock" in refusal({}).message


def test_the_lock_of_another_recipe_is_refused() -> None:
    with pytest.raises(LockError, match="expected=`other` found=`glm`"):
        decode_lock("other", files(), "locks/other")


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize(
    "damage", [lambda c: c[:-3], lambda c: c + b"junk", lambda _: b"plain text"]
)
def test_a_damaged_index_is_an_error(name: str, damage: Callable[[bytes], bytes]) -> None:
    changed = files()
    changed[name] = damage(changed[name])
    error = refusal(changed)
    assert name in error.message


def test_an_index_that_unpacks_without_end_is_an_error() -> None:
    """A few kilobytes of zstd hold a gigabyte of zeros."""
    changed = files()
    changed["files.zst"] = zstd.compress(bytes(1 << 20)) * 600
    assert len(changed["files.zst"]) < 100_000
    assert "more than 536870912 bytes" in refusal(changed).message


# --- a forged lock that fits its own digests still has to be one


def index(*lines: str, header: str = "#imagegate-index-1", end: str = "\n") -> bytes:
    return zstd.compress(("\n".join([header, *lines]) + end).encode())


LINE = "\tf\t644\t0:0\t1\t" + "0" * 64 + "\t\t\t"


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("not in order", index("b" + LINE, "a" + LINE)),
        ("not in order", index("a" + LINE, "a" + LINE)),
        ("not a path index", index("a" + LINE, header="#imagegate-index-9")),
        ("not a path index", index("a" + LINE, end="")),
        ("not UTF-8", zstd.compress(b"#imagegate-index-1\n\xff\n")),
        ("lists no path", index()),
    ],
)
def test_a_forged_index_is_refused(what: str, content: bytes) -> None:
    assert what in refusal(sealed_anew({**files(), "files.zst": content})).message


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a\tf",
        "a" + LINE + "\textra",
        "a" + LINE.replace("644", "rw-"),
        "a" + LINE.replace("\tf\t", "\tz\t"),
        "a" + LINE.replace("0:0", "root:root"),
    ],
)
def test_a_forged_line_is_refused_when_it_is_asked_for(line: str) -> None:
    lock = decoded(sealed_anew({**files(), "files.zst": index(line)}))
    with pytest.raises(LockError, match="malformed"):
        list(lock.files)


@pytest.mark.parametrize(
    "text",
    [
        "ray==2.55.0\n",
        "ray>=2.55.0 --hash=sha256:" + "1" * 64 + "\n",
        "Ray==2.55.0 --hash=sha256:" + "1" * 64 + "\n",
        "ray @ https://example.com/ray.whl --hash=sha256:" + "1" * 64 + "\n",
        "-r other.txt\n",
        "--index-url https://example.com\n",
        ("ray==2.55.0 --hash=sha256:" + "1" * 64 + "\n") * 2,
        "\n",
    ],
)
def test_forged_requirements_are_refused(text: str) -> None:
    error = refusal(sealed_anew({**files(), "requirements.txt": text.encode()}))
    assert "requirements.txt" in error.message


def test_a_lock_that_adds_nothing_is_refused() -> None:
    nothing = replace(PARTS, wheels=(), layer=(), assets=())
    assert "nothing to build" in refusal(encode_lock(nothing)).message


def test_wheels_without_files_are_refused() -> None:
    assert "lists no path" in refusal(encode_lock(replace(PARTS, layer=()))).message


def test_a_manifest_that_is_not_the_bases_is_refused() -> None:
    changed = sealed_anew({**files(), "manifest.json": IMAGE.manifest})
    assert "is not the manifest" in refusal(changed).message


def test_base_and_manifest_have_to_agree_on_whether_there_is_a_base() -> None:
    changed = sealed_anew({**files(), "base.json": encode_lock(SCRATCH)["base.json"]})
    assert "disagree" in refusal(changed).message


@pytest.mark.parametrize("name", ["base.json", "assets.json"])
@pytest.mark.parametrize("text", ["{}", "[]", "null", "{", '{"a": 1}', '{"assets": [{}]}'])
def test_a_forged_document_is_refused(name: str, text: str) -> None:
    error = refusal(sealed_anew({**files(), name: text.encode()}))
    assert f"locks/glm/{name}" in error.message


def test_files_that_no_lock_has_are_refused() -> None:
    table = json.loads(files()["lock.json"])["files"]
    changed = {**files(), "more.json": b"{}"}
    table["more.json"] = str(Digest.of(b"{}"))
    assert "more.json" in refusal(sealed_anew(changed, files=table)).message


def test_a_table_that_leaves_a_file_out_is_refused() -> None:
    table = json.loads(files()["lock.json"])["files"]
    del table["assets.json"]
    assert "assets.json" in refusal(sealed_anew(files(), files=table)).message


@pytest.mark.parametrize("change", [{"schema": 2}, {"more": 1}, {"files": []}, {"recipe": "x"}])
def test_a_table_of_another_form_is_refused(change: dict[str, Any]) -> None:
    assert "lock.json" in refusal(sealed_anew(files(), **change)).message
