"""A running image against its bytes, with a real NCCL: what it answers, which one the name leads to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engines.machines import SITE, Site, build_and_push, download, make_site

pytestmark = pytest.mark.engines
# the smallest release that still is a library of its own to every driver; 166 MB
NCCL = "nvidia-nccl-cu12==2.19.3"
FOLDER = f"/{SITE}/nvidia/nccl/lib"
# `mov dword ptr [rdi], 21903` of amd64's ncclGetVersion (nccl.h, NCCL_VERSION), and another answer
PATCH = """\
from pathlib import Path
content = Path("{folder}/libnccl.so.2").read_bytes()
before, after = (b"\\xc7\\x07" + code.to_bytes(4, "little") for code in (21903, 21805))
assert content.count(before) == 1
Path("/opt/other").mkdir()
Path("/opt/other/libnccl.so.2").write_bytes(content.replace(before, after))
Path("/{site}/other.pth").write_text("import ctypes; ctypes.CDLL('/opt/other/libnccl.so.2')\\n")
"""


@pytest.fixture(scope="module")
def site(locked: Site, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A workspace over the base with NCCL's own wheel, which the loader is told of."""
    folder = tmp_path_factory.mktemp("nccl")
    download(folder / "base/wheels", NCCL)
    (folder / "base/Dockerfile").write_text(
        f"FROM {locked.base.replace(':stable@', '@')}\n"
        f"ENV LD_LIBRARY_PATH={FOLDER}\n"
        "RUN --mount=type=bind,source=wheels,target=/mnt PIP_BREAK_SYSTEM_PACKAGES=1 "
        "pip install --no-index --no-deps --no-compile --no-cache-dir /mnt/*.whl\n"
    )
    base = build_and_push(f"{locked.registry}/team/nccl", folder / "base")
    found = make_site(folder / "workspace", base, locked.registry)
    # the layer is the assets alone: what is asked here is the base
    (found.root / "images/demo/requirements.in").unlink()
    assert found.run("lock", "demo") == 0
    return found


def build(site: Site) -> int:
    return site.run("build", "demo", "--engine", "docker", "--builder", "buildkit")


def test_the_running_nccl_answers_what_its_bytes_say(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(site) == 0
    capsys.readouterr()

    assert site.run("verify", "demo", "--probe", "--details") == 0

    said = capsys.readouterr().out
    library = f"{FOLDER.lstrip('/')}/libnccl.so.2"
    assert f"{library}: ncclGetVersion 21903" in said
    assert f"NCCL by its name: /{library}, ncclGetVersion 21903" in said


def test_a_copy_that_answers_otherwise_and_takes_the_name_is_seen_by_asking(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy's version string is unchanged and no variable names it: only running shows it."""
    changed = site.copy(tmp_path / "site")
    recipe = changed.root / "images/demo"
    (recipe / "patch.py").write_text(PATCH.format(folder=FOLDER, site=SITE))
    (recipe / "Dockerfile.dockerignore").write_text("**\n!recipes/**\n!patch.py\n")
    step = "RUN --mount=type=bind,source=patch.py,target=/mnt/patch.py python3 /mnt/patch.py\n"
    changed.template('{% include "Dockerfile.j2" %}\n' + step)
    assert build(changed) == 1
    capsys.readouterr()

    assert changed.run("verify", "demo", "--probe", "--format", "json") == 1

    report = json.loads(capsys.readouterr().out)
    (probed,) = [check for check in report["checks"] if check["id"] == "probe.agrees"]
    found = {
        finding["code"]: (finding["subject"], finding["locked"], finding["found"])
        for finding in probed["findings"]
        if finding["severity"] == "fail"
    }
    other = "opt/other/libnccl.so.2"
    by_search = f"{FOLDER}/libnccl.so.2 (LD_LIBRARY_PATH `{FOLDER}`)"
    assert found == {
        "probe.agrees/nccl": (other, "2.19.3+cuda12.3", "2.18.5"),
        "probe.agrees/nccl-loaded": (other, by_search, f"/{other} (ncclGetVersion 21805)"),
    }
