"""A lock is read whole, or it is an error that says which file and what to do."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from backports import zstd

from imagegate.catalog import no_facts
from imagegate.errors import LockError
from imagegate.facts import Distribution, SiteDirectory
from imagegate.lock import (
    BASE_FILES,
    REVISION,
    BaseName,
    BaseParts,
    Lock,
    LockedAsset,
    LockedWheel,
    LockParts,
    decode_base,
    decode_lock,
    encode_base,
    encode_lock,
    named_base,
)
from imagegate.lock.blocks import BlockIndex, IndexWriter, InMemory, decode_index, encode_index
from imagegate.lock.sealed import seal
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


FACTS = replace(
    no_facts(),
    sites=(SiteDirectory(path=SITE, python="3.12"),),
    distributions=(
        Distribution(
            name="Torch", version="2.13.0", path=f"{SITE}/torch-2.13.0.dist-info", site=SITE
        ),
    ),
)
FILES = (node("usr/lib/x", owner="torch==2.13.0"), node("usr/lib/a"))
BASE = BaseParts(
    manifest_bytes=MANIFEST,
    config_bytes=IMAGE.config,
    platform="linux/arm64",
    compressed=len(IMAGE.layers[0]),
    facts=FACTS,
    freeze="torch==2.13.0\n",
    files=encode_index(FILES),
)
PARTS = LockParts(
    name="glm",
    recipe=Digest.of(b"recipe"),
    made_of={"python": {"version": "3.12"}},
    requirements_in=Digest.of(b"ray\n"),
    requested=("ray",),
    platform="linux/arm64",
    base=None,
    wheels=(LockedWheel(name="ray", version="2.55.0", sha256="1" * 64),),
    layer=(node(f"{SITE}/ray/__init__.py", owner="ray==2.55.0"),),
    assets=(
        LockedAsset(
            model="qwen38", source="recipes/qwen38/a", target="srv/a", size=1, sha256="2" * 64
        ),
    ),
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
TABLES = ("lock.json", "base.json")


def encoded(parts: LockParts = PARTS, base: BaseParts = BASE) -> dict[str, bytes]:
    """The files of both locks; no name is in both."""
    below = encode_base(base)
    locked = decode_base(below, "locks/bases/x")
    name = BaseName(image="registry.example/base@x", digest=locked.base, lock=locked.digest)
    return {**below, **encode_lock(replace(parts, base=name))}


def files() -> dict[str, bytes]:
    return encoded()


def decoded(changed: dict[str, bytes]) -> Lock:
    of_base = {name: changed[name] for name in BASE_FILES if name in changed}
    own = {name: content for name, content in changed.items() if name not in BASE_FILES}
    named_base("glm", own, "locks/glm")
    return decode_lock("glm", own, "locks/glm", decode_base(of_base, "locks/bases/x"))


def refusal(changed: dict[str, bytes]) -> LockError:
    with pytest.raises(LockError) as caught:
        decoded(changed)
    return caught.value


def digest_of(name: str, content: bytes) -> str:
    """A file's digest as its table of contents has it: an index's is that of its table."""
    if name in COMPRESSED:
        with suppress(LockError):
            return str(decode_index(content, name).digest)
    return str(Digest.of(content))


def sealed_anew(changed: dict[str, bytes], **contents: Any) -> dict[str, bytes]:
    """Give both locks the tables of contents that fit their files, as a careful forger would."""
    changed = dict(changed)
    for file in ("base.json", "lock.json"):
        try:
            table = json.loads(changed[file])
            del table["digest"]
            listed = table["files"]
        except (ValueError, TypeError, KeyError):
            continue
        table["files"] = {n: digest_of(n, changed[n]) for n in listed if n in changed}
        if file == "lock.json":
            table.update(contents)
            with suppress(ValueError, TypeError, KeyError):
                table["base"]["lock"] = json.loads(changed["base.json"])["digest"]
        table["digest"] = str(Digest.of(canonical_json(table)))
        changed[file] = canonical_json(table)
    return changed


# --- what was written is read


def test_a_lock_reads_back_as_it_was_written() -> None:
    lock = decoded(files())
    assert lock.base.facts == FACTS
    assert lock.base.digest == Digest.of(MANIFEST)
    assert list(lock.files) == sorted(FILES, key=lambda found: found.path)
    assert tuple(lock.layer) == PARTS.layer
    assert (lock.wheels, lock.assets, lock.freeze) == (PARTS.wheels, PARTS.assets, BASE.freeze)
    assert (lock.manifest_bytes, lock.config_bytes) == (MANIFEST, IMAGE.config)
    assert lock.manifest is not None
    assert lock.config is not None
    assert encode_index(FILES) == encode_index(FILES[::-1])


def test_a_lock_from_scratch_has_no_base() -> None:
    lock = decode_lock("glm", encode_lock(PARTS), "locks/glm", None)
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
    changed[name] = recompressed(changed[name])
    assert changed[name] != files()[name]
    assert decoded(changed).digest == decoded(files()).digest
    assert list(decoded(changed).files) == list(decoded(files()).files)


def recompressed(content: bytes) -> bytes:
    """The same index by another compressor: RFC 8878 leaves it how well it does."""
    sizes = frame_sizes(content)
    frames, start = [], 0
    for size in sizes:
        frames.append(zstd.compress(zstd.decompress(content[start : start + size]), level=-5))
        start += size
    payload = struct.pack(f"<{len(frames)}I", *map(len, frames)) + struct.pack(
        "<I4s", len(frames), b"IGX2"
    )
    return b"".join([*frames, struct.pack("<II", 0x184D2A5E, len(payload)), payload])


def frame_sizes(content: bytes) -> list[int]:
    count = struct.unpack("<I", content[-8:-4])[0]
    return list(struct.unpack(f"<{count}I", content[-8 - 4 * count : -8]))


def test_zstd_prints_an_index_whole() -> None:
    """RFC 8878, 3.1: frames follow each other, and a skippable one is skipped."""
    lines = zstd.decompress(files()["files.zst"]).decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == [
        "usr/lib/a",
        "usr/lib/x",
        "#imagegate-index-2",
        "usr/lib/a",
        "torch==2.13.0",
    ]


# --- what was changed is refused


def every_edit(name: str, content: bytes) -> dict[str, bytes]:
    if name in COMPRESSED:
        other = encode_index([node("another")])
        return {"longer": other, "other": other, "shorter": other}
    return {
        "longer": content + b"\n",
        "other": content.replace(b"1", b"3", 1),
        "shorter": content[:-2],
    }


@pytest.mark.parametrize("name", [name for name in (*TEXT, *COMPRESSED) if name not in TABLES])
@pytest.mark.parametrize("how", ["longer", "other", "shorter"])
def test_synthorg_2834_an_edited_file_is_named_with_both_sides(name: str, how: str) -> None:
    changed = files()
    edits = every_edit(name, changed[name])
    if how not in edits or edits[how] == changed[name]:
        how = "longer"
    error = refusal({**changed, name: edits[how]})
    assert f"/{name}`" in error.message
    assert "locked=sha256:" in error.message
    assert "found=sha256:" in error.message
    assert "imagegate" in (error.hint or "")


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
    assert "this is not a lock" in refusal({}).message


def test_the_lock_of_another_recipe_is_refused() -> None:
    with pytest.raises(LockError, match="expected=`other` found=`glm`"):
        decode_lock("other", files(), "locks/other", None)


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
    frame = zstd.compress(bytes(1 << 28))
    payload = struct.pack("<II4s", len(frame), 1, b"IGX2")
    content = frame + struct.pack("<II", 0x184D2A5E, len(payload)) + payload
    assert len(content) < 100_000
    with pytest.raises(LockError, match="damaged"):
        decode_index(content[: len(frame)] * 2 + content[len(frame) :], "files.zst")
    with pytest.raises(LockError, match="malformed"):
        decode_index(content, "files.zst")
    with pytest.raises(LockError, match="of a size that none has"):
        decode_index(table("#imagegate-index-2\t1\t0\na\t1\t-2\t0\n", b"x"), "files.zst")


def table(text: str, *blocks: bytes) -> bytes:
    """An index whose table somebody wrote by hand."""
    frames = [zstd.compress(block) for block in (*blocks, text.encode())]
    payload = struct.pack(f"<{len(frames)}I", *map(len, frames)) + struct.pack(
        "<I4s", len(frames), b"IGX2"
    )
    return b"".join([*frames, struct.pack("<II", 0x184D2A5E, len(payload)), payload])


def test_a_block_is_read_when_a_path_of_it_is_asked_for_and_no_other() -> None:
    nodes = [node(f"usr/{number:05}") for number in range(5000)]
    content = encode_index(nodes)
    sizes = frame_sizes(content)
    asked: list[tuple[int, int]] = []

    class Counting(InMemory):
        def read_at(self, offset: int, size: int) -> bytes:
            asked.append((offset, size))
            return super().read_at(offset, size)

    index = BlockIndex(Counting(content), "files.zst")
    asked.clear()
    assert index.get("usr/03000") == nodes[3000]
    assert index.get("usr/03001") == nodes[3001]
    assert index.get("usr/03001x") is None
    assert asked == [(sum(sizes[:2]), sizes[2])]
    assert [n.path for n in index.under("usr")] == [n.path for n in nodes]
    assert len(index) == 5000


def test_a_block_that_was_changed_is_refused_when_it_is_read() -> None:
    """The table covers every block, so that a part is proven as the whole is."""
    nodes = [node(f"usr/{number:05}") for number in range(2000)]
    content = encode_index(nodes)
    sizes = frame_sizes(content)
    text = zstd.decompress(content[sizes[0] : sizes[0] + sizes[1]])
    frame = zstd.compress(text.replace(b"644", b"666", 1))
    frames = [content[: sizes[0]], frame, content[sum(sizes[:2]) : sum(sizes)]]
    payload = struct.pack("<3I", *map(len, frames)) + struct.pack("<I4s", 3, b"IGX2")
    forged = b"".join([*frames, struct.pack("<II", 0x184D2A5E, len(payload)), payload])
    index = decode_index(forged, "files.zst")
    assert index.digest == decode_index(content, "files.zst").digest
    assert index.get("usr/00001") == nodes[1]
    with pytest.raises(LockError, match=r"block 2 is not the one of its table: locked=.* found="):
        index.get("usr/01999")


# --- a forged lock that fits its own digests still has to be one


def index(*lines: str) -> bytes:
    writer = IndexWriter()
    for line in lines:
        writer.add(line, "")
    return writer.finish()


LINE = "\tf\t644\t0:0\t1\t" + "0" * 64 + "\t\t\t"


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("not in order", index("b" + LINE, "a" + LINE)),
        ("not in order", index("a" + LINE, "a" + LINE)),
        ("not a path index", zstd.compress(b"#imagegate-index-1\n")),
        ("malformed", table("#imagegate-index-9\t0\t0\n")),
        ("malformed", table("#imagegate-index-2\t0\t0")),
        ("another number of blocks", table("#imagegate-index-2\t0\t0\n", b"a\n")),
        ("lists no path", index()),
    ],
    ids=["order", "twice", "first form", "version", "end", "blocks", "empty"],
)
def test_a_forged_index_is_refused(what: str, content: bytes) -> None:
    with pytest.raises(LockError, match=what):
        list(decoded(sealed_anew({**files(), "files.zst": content})).files)


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
    assert "nothing to build" in refusal(encoded(nothing)).message


def test_wheels_without_files_are_refused() -> None:
    assert "lists no path" in refusal(encoded(replace(PARTS, layer=()))).message


def test_a_manifest_that_is_not_the_bases_is_refused() -> None:
    changed = sealed_anew({**files(), "manifest.json": IMAGE.manifest})
    assert "is not the manifest" in refusal(changed).message


def test_the_lock_of_a_base_that_was_read_anew_does_not_fit() -> None:
    other = encode_base(replace(BASE, freeze="torch==2.14.0\n"))
    error = refusal({**files(), **other})
    assert "was made against another lock of its base" in error.message
    assert "imagegate lock glm" in (error.hint or "")


@pytest.mark.parametrize(
    ("number", "message"), [(1, "holds other facts"), (10**6, "newer imagegate")]
)
def test_another_revision_is_refused_by_name(number: int, message: str) -> None:
    changed = files()
    document = json.loads(changed["base.json"])
    del document["digest"]
    document["revision"] = number
    error = refusal({**changed, "base.json": seal(document)})
    assert message in error.message
    assert str(number) in error.message
    assert str(REVISION) in error.message


@pytest.mark.parametrize("name", ["base.json", "assets.json"])
@pytest.mark.parametrize("text", ["{}", "[]", "null", "{", '{"a": 1}', '{"assets": [{}]}'])
def test_a_forged_document_is_refused(name: str, text: str) -> None:
    error = refusal(sealed_anew({**files(), name: text.encode()}))
    assert f"/{name}" in error.message


def test_files_that_no_lock_has_are_refused() -> None:
    table = json.loads(files()["lock.json"])["files"]
    changed = {**files(), "more.json": b"{}"}
    table["more.json"] = str(Digest.of(b"{}"))
    assert "more.json" in refusal(sealed_anew(changed, files=table)).message


def test_a_table_that_leaves_a_file_out_is_refused() -> None:
    table = json.loads(files()["lock.json"])["files"]
    del table["assets.json"]
    assert "assets.json" in refusal(sealed_anew(files(), files=table)).message


@pytest.mark.parametrize(
    "change", [{"schema": 3}, {"schema": 1}, {"more": 1}, {"files": []}, {"recipe": "x"}]
)
def test_a_table_of_another_form_is_refused(change: dict[str, Any]) -> None:
    message = refusal(sealed_anew(files(), **change)).message
    assert "lock.json" in message or "held its base too" in message
