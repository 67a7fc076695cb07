"""Real wheels over a real older base: what moves, what breaks, and at which point it is refused.

Which distributions move is told by `pip list` in the containers, which requirement breaks by
`pip check`; both are compared with the report.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.engines.machines import Site, make_base, make_site
from tests.engines.test_sabotage import certificates
from tests.registry_source.peers import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines

# of the base of 2026 on which ray[default] was tried (facts on GPU images, section 2.1)
OLDER = (
    *("aiohttp==3.13.3", "filelock==3.20.3", "packaging==24.1", "platformdirs==3.11.0"),
    *("virtualenv==20.21.1", "protobuf==6.33.6", "requests==2.32.5"),
    *("opentelemetry_api==1.38.0", "opentelemetry_sdk==1.38.0"),
    *("opentelemetry_semantic_conventions==0.59b0", "opentelemetry_proto==1.38.0"),
    *("opentelemetry_exporter_otlp_proto_common==1.38.0",),
    *("opentelemetry_exporter_otlp_proto_http==1.38.0", "googleapis_common_protos==1.72.0"),
    *("importlib_metadata==8.7.0", "zipp==3.23.0", "distlib==0.3.9"),
    *("aiohappyeyeballs==2.6.1", "aiosignal==1.4.0", "attrs==25.4.0", "frozenlist==1.8.0"),
    *("multidict==6.7.0", "propcache==0.4.1", "typing_extensions==4.15.0", "yarl==1.22.0"),
    *("idna==3.11", "certifi==2025.11.12", "charset_normalizer==3.4.4", "urllib3==2.5.0"),
)
INSTALL = {
    "pip": "pip install --no-cache-dir 'ray[default]==2.60.0'",
    # uv keeps less of what is there than pip does; the same line of a Dockerfile moves more
    "uv": (
        "pip install --no-cache-dir --target /opt/uv uv==0.9.9 "
        "&& SSL_CERT_FILE=/run/secrets/ca /opt/uv/bin/uv pip install --no-cache --system "
        "--break-system-packages --upgrade-package opentelemetry-sdk 'ray[default]==2.60.0'"
    ),
}


@dataclass(frozen=True)
class Older:
    """A workspace over the older base; its lock asks for nothing that moves it."""

    site: Site
    base: str


@pytest.fixture(scope="module")
def older(engines: Path, plain: str, tmp_path_factory: pytest.TempPathFactory) -> Older:
    assert (engines / "cli-plugins").is_dir()
    folder = tmp_path_factory.mktemp("older")
    base = make_base(plain, folder / "base", OLDER, "team/older")
    site = make_site(folder / "workspace", base, plain)
    (site.root / "images/demo/requirements.in").write_text("colorful\n")
    assert site.run("lock", "demo") == 0
    return Older(site, base)


def image_of(site: Site) -> str:
    """The built image by its config's digest, which is its name in the engine's classic store."""
    index = json.loads((site.layout / "index.json").read_text())
    digest = index["manifests"][0]["digest"].removeprefix("sha256:")
    manifest = json.loads((site.layout / "blobs/sha256" / digest).read_text())
    return str(manifest["config"]["digest"])


def frozen(image: str) -> dict[str, str]:
    """Name and version of what the image's own pip finds, names as they are compared (PEP 503)."""
    command = ("docker", "run", "--rm", "--network", "none", image, "python3", "-m", "pip")
    listed = json.loads(run(*command, "list", "--format", "json", "--disable-pip-version-check"))
    return {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in listed}


def broken(image: str) -> set[str]:
    """What `pip check` says: who requires what, and what is there."""
    done = run(
        *(
            "docker",
            "run",
            "--rm",
            "--network",
            "none",
            image,
            "sh",
            "-c",
            "python3 -m pip check || true",
        )
    ).decode()
    return set(re.findall(r"^(\S+ \S+) has requirement", done, re.MULTILINE))


@pytest.mark.parametrize("installer", sorted(INSTALL))
def test_an_unpinned_install_names_exactly_what_moved_and_what_broke(
    installer: str, older: Older, tmp_path: Path
) -> None:
    site = older.site.copy(tmp_path / "site")
    site.template(
        "FROM {{ base }}\n"
        "RUN --mount=type=secret,id=ca PIP_CERT=/run/secrets/ca PIP_BREAK_SYSTEM_PACKAGES=1 "
        f'sh -c "{INSTALL[installer]}"\n'
        'COPY ["recipes/", "/usr/share/demo/recipes/"]\n'
    )

    built = site.run(
        *("build", "demo", "--engine", "docker", "--builder", "buildkit"),
        *("--network", "host", "--secret", f"ca={certificates()}"),
    )

    assert built == 1
    image = image_of(site)
    before, now = frozen(older.base), frozen(image)
    moved = {
        name: (version, now.get(name))
        for name, version in before.items()
        if now.get(name) != version
    }
    report = json.loads((site.root / "build/demo.verdict.json").read_text())
    findings = [f for check in report["checks"] for f in check["findings"]]
    told = {
        f["subject"]: (f["locked"], f["found"])
        for f in findings
        if f["code"] == "python.pins/version-moved"
    }
    assert told == moved
    assert {"virtualenv", "platformdirs", "aiohttp"} <= told.keys()
    requirements = {f["subject"] for f in findings if f["code"] == "python.requirements/broken"}
    of_pip = {
        f"{one.split(' ')[0]}=={one.split(' ')[1]}" for one in broken(image) - broken(older.base)
    }
    assert requirements == of_pip
    if installer == "uv":
        assert "opentelemetry-exporter-otlp-proto-http==1.38.0" in requirements


def test_the_lock_refuses_what_would_move_the_base_and_names_both_sides(
    older: Older, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = older.site.copy(tmp_path / "site")
    (site.root / "images/demo/requirements.in").write_text("ray[default]==2.60.0\n")
    before = (site.root / "locks/demo/requirements.txt").read_bytes()
    capsys.readouterr()

    assert site.run("lock", "demo") == 3

    said = capsys.readouterr().err
    assert "without moving the base" in said
    # ray 2.60 excludes virtualenv 20.21.1 and wants aiohttp from 3.14.4 on
    assert re.search(r"`aiohttp`: base=3\.13\.3 needed=3\.1[4-9]", said)
    assert re.search(r"`virtualenv`: base=20\.21\.1 needed=", said)
    assert (site.root / "locks/demo/requirements.txt").read_bytes() == before
