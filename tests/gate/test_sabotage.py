"""Each way in which a layer can move a pin is refused, by the right check, with both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.images import (
    BuiltImage,
    Compression,
    Content,
    Directory,
    File,
    ImageBuilder,
    Layer,
    Link,
    digest,
    tar,
    write_classic_archive,
    write_layout,
    write_layout_archive,
)
from tests.wheels import installed
from tests.world import NCCL, SITE, World, base_layers, nccl


def rebuilt(
    image: BuiltImage,
    extra: list[Layer | bytes],
    *,
    compression: Compression = "gzip",
    step: str = "RUN sabotage",
) -> BuiltImage:
    """Put further layers on top of an image; what is below keeps its tars."""
    config = json.loads(image.config)
    manifest = json.loads(image.manifest)
    builder = ImageBuilder(compression=compression, annotations=manifest.get("annotations", {}))
    builder.config = config["config"]
    steps = [entry["created_by"] for entry in config["history"]]
    for below, created_by in zip(image.tars, steps, strict=True):
        builder.layer(below, created_by)
    for layer in extra:
        builder.layer(layer, step)
    return builder.build()


def verdict(
    world: World, image: BuiltImage, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """Judge an image out of a layout and return exit code and report."""
    layout = write_layout(folder, image)
    capsys.readouterr()
    code = world.run("verify", "demo", "--image", f"oci:{layout}", "--format", "json")
    return code, json.loads(capsys.readouterr().out)


def findings(report: dict[str, Any], code: str) -> list[dict[str, Any]]:
    """All findings of one code."""
    return [f for check in report["checks"] for f in check["findings"] if f["code"] == code]


def failures(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Findings that fail, by code."""
    return {
        finding["code"]: finding
        for check in report["checks"]
        for finding in check["findings"]
        if finding["severity"] == "fail"
    }


UPGRADE = installed(SITE, "aiohttp", "3.14.5", {"aiohttp/__init__.py": "new"})
WITHOUT_OLD = {f"{SITE}/.wh.aiohttp-3.13.3.dist-info": b""}
FLASHINFER = f"{SITE}/flashinfer/decode.py"

SABOTAGE: dict[str, tuple[Layer, str, str, str]] = {
    # name: layer, code of the finding, what was locked, what is found
    "an upgrade as pip does it": (
        {**WITHOUT_OLD, **UPGRADE},
        "python.pins/version-moved",
        "3.13.3",
        "3.14.5",
    ),
    "a second dist-info": (dict(UPGRADE), "python.pins/second-copy", "3.13.3", "3.14.5 in"),
    "a second copy in another site directory": (
        dict(
            installed("opt/venv/lib/python3.12/site-packages", "torch", "2.10.0", {"torch.py": ""})
        ),
        "python.pins/second-copy",
        "2.13.0",
        "2.10.0 in",
    ),
    "a distribution removed": (
        {f"{SITE}/.wh.aiohttp-3.13.3.dist-info": b"", f"{SITE}/.wh.aiohttp": b""},
        "python.pins/removed",
        "3.13.3",
        "nothing",
    ),
    "another origin of the same version": (
        {
            f"{SITE}/patched-1.0.dist-info/direct_url.json": '{"url": "https://example.invalid/p.git", "vcs_info": {"vcs": "git", "commit_id": "2"}}'
        },
        "python.pins/origin-moved",
        '"commit_id": "1"',
        '"commit_id": "2"',
    ),
    "a file of flashinfer with the version unchanged": (
        {FLASHINFER: "BLOCK = 128\n"},
        "python.content/overwritten",
        digest(b"BLOCK = 64\n")[7:],
        digest(b"BLOCK = 128\n")[7:],
    ),
    "a file of flashinfer deleted by a whiteout": (
        {f"{SITE}/flashinfer/.wh.decode.py": b""},
        "python.content/deleted",
        digest(b"BLOCK = 64\n")[7:],
        "nothing",
    ),
    "flashinfer emptied by an opaque marker": (
        {f"{SITE}/flashinfer/.wh..wh..opq": b""},
        "python.content/deleted",
        "",
        "nothing",
    ),
    "a module shadowed by a package": (
        {f"{SITE}/patched/__init__.py": "evil"},
        "python.imports/shadowed",
        f"{SITE}/patched.py",
        f"{SITE}/patched/__init__.py",
    ),
    "a module shadowed by an extension module": (
        {f"{SITE}/patched.cpython-312-aarch64-linux-gnu.so": b"evil"},
        "python.imports/shadowed",
        f"{SITE}/patched.py",
        "patched.cpython-312",
    ),
    "bytecode that is used without looking at its source": (
        {
            f"{SITE}/flashinfer/__pycache__/decode.cpython-312.pyc": b"\xcb\r\r\n\x01\0\0\0"
            + bytes(8)
        },
        "python.bytecode/unchecked",
        "nothing",
        "",
    ),
    "bytecode that Python compares, with a forged time": (
        {f"{SITE}/flashinfer/__pycache__/decode.cpython-312.pyc": b"\xcb\r\r\n" + bytes(12)},
        "python.bytecode/unproven",
        "nothing",
        digest(b"\xcb\r\r\n" + bytes(12))[7:],
    ),
    "another build of NCCL with the same version": (
        {NCCL: nccl(build_id="ef" * 20)},
        "native.pins/moved",
        "ab" * 20,
        "ef" * 20,
    ),
    "another version of NCCL": (
        {NCCL: nccl("2.28.9+cuda13.0")},
        "native.pins/moved",
        "2.30.7+cuda13.3",
        "2.28.9+cuda13.0",
    ),
    "NCCL replaced by a link": (
        {NCCL: Link("/usr/lib/libnccl.so.2")},
        "native.pins/replaced",
        "version string=2.30.7+cuda13.3",
        "a link to `/usr/lib/libnccl.so.2`",
    ),
    "a second NCCL beside the first": (
        {"usr/lib/aarch64-linux-gnu/libnccl.so.2": nccl("2.28.9+cuda13.0")},
        "native.pins/second-copy",
        NCCL,
        "usr/lib/aarch64-linux-gnu/libnccl.so.2",
    ),
    "an undeclared link to a watched library": (
        {"usr/lib/libnccl.so": Link(f"/{NCCL}")},
        "native.pins/new-link",
        "nothing",
        f"/{NCCL}",
    ),
    "a base file deleted": (
        {"opt/tool/.wh.one": b""},
        "files.moves/deleted",
        digest(b"1")[7:],
        "nothing",
    ),
    "a base folder emptied": ({"opt/tool/.wh..wh..opq": b""}, "files.moves/deleted", "", "nothing"),
    "a base file overwritten": (
        {"etc/os-release": "ID=other\n"},
        "files.moves/overwritten",
        digest(b"ID=test\n")[7:],
        digest(b"ID=other\n")[7:],
    ),
    "usrmerge: a folder in the place of a link": (
        {"lib": Directory(), "lib/libfoo.so": b"x"},
        "files.moves/type-changed",
        "usr/lib",
        "directory",
    ),
    "usrmerge: written through a link": (
        {"lib/libfoo.so": b"x"},
        "files.moves/through-link",
        "",
        "is a link to `usr/lib`",
    ),
    "a link of the base that leads elsewhere": (
        {"lib": Link("opt")},
        "files.moves/retargeted",
        "usr/lib",
        "opt",
    ),
    "two different entries of one path": (
        [("opt/new", b"1"), ("opt/new", b"2")],
        "files.moves/duplicate-path",
        "",
        "two entries",
    ),
    "a new setuid file": (
        {"usr/bin/su2": File(b"x", mode=0o4755)},
        "files.moves/setuid",
        "nothing",
        "4755",
    ),
    "a distribution that is not locked": (
        dict(installed(SITE, "stowaway", "1.0", {"stowaway.py": ""})),
        "python.locked/not-locked",
        "nothing",
        "1.0",
    ),
    "a loose module that no wheel has": (
        {f"{SITE}/loose.py": "x"},
        "python.locked/file-not-locked",
        "nothing",
        digest(b"x")[7:],
    ),
    "a locked distribution whose file is another": (
        {f"{SITE}/helperish.py": "VALUE = 2\n"},
        "python.locked/file-differs",
        digest(b"VALUE = 1\n")[7:],
        digest(b"VALUE = 2\n")[7:],
    ),
    "a launcher that calls something else": (
        {"usr/local/bin/rayish": File(b"#!/usr/bin/python3\nimport os\n", mode=0o755)},
        "python.locked/file-differs",
        "",
        digest(b"#!/usr/bin/python3\nimport os\n")[7:],
    ),
    "a locked distribution missing": (
        {f"{SITE}/.wh.helperish-1.2.dist-info": b""},
        "python.locked/missing",
        "1.2",
        "nothing",
    ),
    "an asset missing": (
        {"usr/share/demo/recipes/alpha/.wh.template.jinja": b""},
        "copy.present/absent",
        digest(b"{{ alpha }}\n")[7:],
        "nothing",
    ),
    "an asset with other bytes": (
        {"usr/share/demo/recipes/beta/template.jinja": "{{ alpha }}\n"},
        "copy.present/other-content",
        digest(b"{{ beta }}\n")[7:],
        digest(b"{{ alpha }}\n")[7:],
    ),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage_is_refused_with_both_sides_and_the_layer(
    name: str, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layer, code, locked, found = SABOTAGE[name]
    image = rebuilt(world.image(), [layer])

    exit_code, report = verdict(world, image, tmp_path / "image", capsys)

    assert exit_code == 1
    assert report["verdict"] == "FAILED"
    finding = next(
        f
        for f in findings(report, code)
        if locked in f["locked"] and found in f["found"] and f["severity"] == "fail"
    )
    if code not in ("python.locked/missing", "copy.present/absent"):  # what is gone is in no layer
        assert finding["place"]["layer"] == len(image.layers)
        assert finding["place"]["step"] == "RUN sabotage"


HONEST: dict[str, Layer] = {
    "a log of the package manager": {"var/log/apt/history.log": "hello"},
    "a base file written again with the same bytes": {FLASHINFER: "BLOCK = 64\n"},
    "the same NCCL written again": {NCCL: nccl()},
    "an opaque marker where nothing is below": {
        "var/log/apt/.wh..wh..opq": b"",
        "var/log/apt/history.log": "x",
    },
    "a whiteout of nothing": {"srv/.wh.nothing": b""},
    "a folder of the base with the attributes it had": {"opt/tool": Directory(0o755)},
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_layers_raise_no_alarm(
    name: str, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code, report = verdict(
        world, rebuilt(world.image(), [HONEST[name]]), tmp_path / "image", capsys
    )

    assert failures(report) == {}
    assert exit_code == 0


def test_pips_own_forms_of_generated_files_are_accepted(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the launcher is verbatim what pip 26.3 writes
    launcher = (
        b"#!/usr/bin/python3.12\nimport sys\nfrom rayish.core import main\n"
        b"if __name__ == '__main__':\n    sys.argv[0] = sys.argv[0].removesuffix('.exe')\n"
        b"    sys.exit(main())\n"
    )
    layer: dict[str, Content] = {
        "usr/local/bin/rayish": File(launcher, mode=0o755),
        f"{SITE}/rayish-2.60.0.dist-info/INSTALLER": "pip\n",
        f"{SITE}/rayish-2.60.0.dist-info/RECORD": "rayish/__init__.py,,\n",
        f"{SITE}/rayish-2.60.0.dist-info/REQUESTED": "",
    }

    exit_code, report = verdict(world, rebuilt(world.image(), [layer]), tmp_path / "image", capsys)

    assert failures(report) == {}
    assert exit_code == 0
    notes = [finding["code"] for check in report["checks"] for finding in check["findings"]]
    assert "secrets.leaked/by-hash-only" not in notes, "no hash holds for them: they were searched"


@pytest.mark.parametrize("compression", ["gzip1", "gzip9", "zstd", "plain"])
def test_recompression_changes_digests_and_not_the_verdict(
    compression: Compression, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = rebuilt(world.image(), [], compression=compression)

    exit_code, report = verdict(world, image, tmp_path / "image", capsys)

    assert exit_code == 0
    assert report["image"]["digest"] != world.image().digest
    assert report["cost"]["base_layers_read"] == 2
    notes = [f["code"] for check in report["checks"] for f in check["findings"]]
    assert notes.count("base.digest/recompressed") == 2


def test_the_base_is_not_read_where_its_digests_are_the_locked_ones(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert world.run("verify", "demo", "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)

    added = [layer for layer in world.image().layers if digest(layer) not in world.base.blobs]
    assert not (world.layout / "blobs/sha256" / digest(world.base.layers[0])[7:]).exists()
    assert report["cost"]["read"] == sum(map(len, added)) == report["cost"]["added"]
    assert report["cost"]["base_layers_read"] == 0


@pytest.mark.parametrize("form", ["classic archive", "layout archive"])
def test_archives_get_the_same_verdict(
    form: str, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "image.tar"
    if form == "classic archive":
        write_classic_archive(path, world.image())
    else:
        write_layout_archive(path, write_layout(tmp_path / "layout", world.image()))
    capsys.readouterr()

    exit_code = world.run("verify", "demo", "--image", f"docker-archive:{path}", "--format", "json")

    report = json.loads(capsys.readouterr().out)
    assert (exit_code, report["verdict"]) == (0, "PASSED")
    assert (report["image"]["digest"] is None) == (form == "classic archive")


def test_a_config_that_claims_the_bases_diff_ids_over_other_blobs_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = world.image()
    other = ImageBuilder().layer({"etc/os-release": "ID=forged\n"}).build().layers[0]
    manifest = json.loads(honest.manifest)
    manifest["layers"][0].update(digest=digest(other), size=len(other))
    forged = BuiltImage(
        json.dumps(manifest).encode(), honest.config, (other, *honest.layers[1:]), honest.tars
    )

    exit_code, report = verdict(world, forged, tmp_path / "image", capsys)

    assert exit_code == 1
    found = failures(report)
    assert found["base.digest/not-a-prefix"]["locked"] == digest(honest.tars[0])
    assert found["base.digest/config-lies"]["found"] == digest(honest.tars[0])
    # what compares with a base that is not there is not asked, and says so
    unasked = {check["id"] for check in report["checks"] if check["left_out"]}
    assert {"files.moves", "files.explained", "python.content", "python.locked"} <= unasked


def test_a_squashed_image_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything: dict[str, Content] = {}
    for layer, _ in base_layers():
        everything.update(layer)
    squashed = ImageBuilder().layer(everything, "squashed").build()

    exit_code, report = verdict(world, squashed, tmp_path / "image", capsys)

    assert exit_code == 1
    assert "base.digest/layer-absent" in failures(report)
    assert {
        code for code in failures(report) if code.startswith(("files.", "python.content"))
    } == set()


def test_the_base_itself_is_no_build_of_the_recipe(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code, report = verdict(world, world.base, tmp_path / "image", capsys)

    assert exit_code == 1
    assert "base.digest/nothing-added" in failures(report)


def test_another_platform_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = world.image()
    config = json.loads(image.config)
    config["architecture"] = "amd64"
    content = json.dumps(config).encode()
    manifest = json.loads(image.manifest)
    manifest["config"].update(digest=digest(content), size=len(content))
    other = BuiltImage(json.dumps(manifest).encode(), content, image.layers, image.tars)

    exit_code, report = verdict(world, other, tmp_path / "image", capsys)

    assert exit_code == 1
    assert failures(report)["base.digest/platform"]["found"] == "linux/amd64"


@pytest.mark.parametrize(
    ("annotation", "value", "code"),
    [
        (
            "org.opencontainers.image.base.digest",
            "sha256:" + "0" * 64,
            "base.annotations/digest-lies",
        ),
        (
            "org.opencontainers.image.base.name",
            "docker.io/library/debian",
            "base.annotations/name-lies",
        ),
    ],
)
def test_a_base_annotation_that_lies_is_refused(
    annotation: str,
    value: str,
    code: str,
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = world.image()
    annotations = {**json.loads(image.manifest)["annotations"], annotation: value}

    exit_code, report = verdict(
        world, image.with_manifest(annotations=annotations), tmp_path / "i", capsys
    )

    assert exit_code == 1
    assert failures(report)[code]["found"] == value


def test_the_composed_annotations_tell_the_truth(world: World) -> None:
    annotations = json.loads(world.image().manifest)["annotations"]

    # image-spec, annotations.md
    assert annotations["org.opencontainers.image.base.digest"] == world.base.digest
    assert annotations["org.opencontainers.image.base.name"] == "localhost/base"


def test_a_layer_tar_with_an_upgraded_pin_names_every_step_of_it(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layer = tar({**WITHOUT_OLD, **UPGRADE})
    layout = write_layout(
        tmp_path / "image", rebuilt(world.image(), [layer], step="RUN pip install x")
    )
    capsys.readouterr()

    assert world.run("verify", "demo", "--image", f"oci:{layout}") == 1

    text = capsys.readouterr().out
    assert "python.pins/version-moved" in text
    assert "locked=3.13.3" in text
    assert "found=3.14.5" in text
    assert "RUN pip install x" in text
    assert text.rstrip().splitlines()[-1].startswith("FAILED")
