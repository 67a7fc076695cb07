"""What the engine tests stand on: engines that run, a real base, a workspace over it.

Downloads are kept under ``.peers/engines`` (or ``IMAGEGATE_PEERS``), so that a second run makes
none. Needs the Debian packages docker.io, podman, buildah, skopeo, docker-registry, mmdebstrap and
crun or runc; buildx and crane are looked for in ``.peers`` and on the path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imagegate.cli import run as imagegate
from imagegate.usecases.gate import judge
from imagegate.usecases.ports import Silent
from imagegate.usecases.verify import open_judged
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.judging import COMPOSED
from tests.registry_source.peers import run

if TYPE_CHECKING:
    from collections.abc import Iterator

PEERS = Path(os.environ.get("IMAGEGATE_PEERS", Path(__file__).parents[2] / ".peers"))
KEPT = PEERS / "engines"
SITE = "usr/local/lib/python3.11/dist-packages"
# what the base carries; aiohttp is older than the newest ray wants, as in the images of 2026, and
# flashinfer lacks its torch, which is the base's own to lack
BASE_PINS = (
    "aiohttp==3.13.3",
    "filelock==3.20.3",
    "flashinfer-python==0.6.18",
    "packaging==25.0",
)
_AIOHTTP_NEEDS = (
    "aiohappyeyeballs==2.6.1",
    "aiosignal==1.4.0",
    "attrs==25.4.0",
    "frozenlist==1.8.0",
    "multidict==6.7.0",
    "propcache==0.4.1",
    "typing_extensions==4.15.0",
    "yarl==1.22.0",
    "idna==3.11",
)
# where the base's only apt source is looked for; nothing is there until somebody mounts it
ARCHIVE = "/media/archive"
IMAGE_TOML = """\
schema = 1
platform = "linux/{architecture}"
repository = "localhost/demo"

[base]
image = "{base}"

[python]
version = "3.11"
site = "/usr/local/lib/python3.11/dist-packages"
scripts = "/usr/local/bin"
interpreter = "/usr/bin/python3"
glibc = "2.36"

[layer]
exclude_newer = 2026-11-20T00:00:00Z

[[layer.links]]
path = "/usr/local/share/demo/current"
target = "/usr/share/demo/recipes/alpha"

[assets]
target = "/usr/share/demo/recipes/{{model}}"
models = ["alpha", "beta"]

[config]
labels = {{ "org.example.quoted" = 'a "quoted" $value \\ here' }}
cmd = ["python3"]

[config.env]
DEMO_TEXT = 'with "quotes", $dollar and \\backslash'
"""


def architecture() -> str:
    return run("dpkg", "--print-architecture").decode().strip()


def find_tool(name: str, under: str) -> str | None:
    found = shutil.which(name)
    kept = PEERS / under
    return str(kept) if kept.is_file() else found


def start_docker(folder: Path) -> subprocess.Popen[bytes] | None:
    """Use the daemon that runs, or start one; returns the process that was started."""
    if _docker_answers():
        return None
    log = (folder / "dockerd.log").open("wb")
    process = subprocess.Popen(["dockerd"], stdout=log, stderr=log)
    for _ in range(300):
        if _docker_answers():
            return process
        assert process.poll() is None, (folder / "dockerd.log").read_text()
        time.sleep(0.2)
    raise AssertionError((folder / "dockerd.log").read_text())


def _docker_answers() -> bool:
    done = subprocess.run(["docker", "version"], capture_output=True, check=False)
    return done.returncode == 0


def forget_images(prefix: str) -> None:
    """Remove what the tests left in the engines' stores under names of theirs."""
    for engine in ("docker", "podman"):
        listed = run(engine, "images", "--format", "{{.Repository}} {{.ID}}").decode()
        found = {line.split()[1] for line in listed.splitlines() if line.startswith(prefix)}
        if found:
            # one that a container of somebody else uses stays
            subprocess.run([engine, "rmi", "--force", *found], capture_output=True, check=False)


def make_root() -> Path:
    """A Debian with Python and pip, unpacked by nobody but the engines."""
    KEPT.mkdir(parents=True, exist_ok=True)
    tar = KEPT / "base.tar"
    if not tar.is_file():
        fresh = KEPT / "base.new.tar"
        run(
            *("mmdebstrap", "--variant=minbase", "--include=python3,python3-pip,ca-certificates"),
            *("bookworm", str(fresh)),
        )
        fresh.rename(tar)
    return tar


def download(folder: Path, *requirements: str) -> list[Path]:
    """Wheels for the base's Python, through the machine's own pip configuration."""
    kept = KEPT / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(kept)]
    command += ["--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp"]
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture()]
    for platform in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
        command += ["--platform", f"{platform}_{machine}"]
    run(*command, "--platform", "any", *requirements)
    folder.mkdir(parents=True)
    found = []
    for requirement in requirements:
        name, _, version = requirement.partition("==")
        (wheel,) = kept.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        shutil.copy(wheel, folder)
        found.append(folder / wheel.name)
    return found


def make_package(folder: Path, version: str) -> Path:
    """Write a Debian package of our own and the index of an archive that holds it alone."""
    tree = folder / f"base-tool_{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    control = f"Package: base-tool\nVersion: {version}\nArchitecture: all\n"
    control += "Maintainer: Base <base@example.org>\nDescription: stands in for any package\n"
    (tree / "DEBIAN/control").write_text(control)
    (tree / "usr/share/base-tool").mkdir(parents=True)
    (tree / "usr/share/base-tool/version").write_text(f"{version}\n")
    package = folder / f"base-tool_{version}_all.deb"
    run("dpkg-deb", "--root-owner-group", "--build", str(tree), str(package))
    shutil.rmtree(tree)
    # a flat archive, as sources.list(5) has it: the control file with where the package is
    content = package.read_bytes()
    (folder / "Packages").write_text(
        f"{control}Filename: ./{package.name}\nSize: {len(content)}\n"
        f"SHA256: {sha256(content).hexdigest()}\n"
    )
    return package


def make_base(
    registry: str, folder: Path, pins: tuple[str, ...] = (), name: str = "team/base"
) -> str:
    """Build the base with docker and push it; returns its reference by digest.

    Args:
        registry: where to.
        folder: a new one, for the build's context.
        pins: its distributions with everything that they require; the usual ones if empty.
        name: its repository.
    """
    folder.mkdir()
    (folder / "base.tar").hardlink_to(make_root())
    make_package(folder / "debs", "1.0")
    pins = pins or (*BASE_PINS, *_AIOHTTP_NEEDS)
    download(folder / "wheels", *pins)
    (folder / "Dockerfile").write_text(
        "FROM scratch\n"
        "ADD base.tar /\n"
        "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin BASE_SAYS=hello\n"
        "RUN --mount=type=bind,source=wheels,target=/mnt "
        "PIP_BREAK_SYSTEM_PACKAGES=1 pip install --no-index --no-deps --no-compile --no-cache-dir "
        # by name, as out of an index: from a path pip would record where each came from
        f"--root-user-action=ignore --find-links /mnt {' '.join(pins)}\n"
        "RUN --mount=type=bind,source=debs,target=/mnt dpkg --install /mnt/*.deb && "
        f"echo 'deb [trusted=yes] file:{ARCHIVE} ./' >/etc/apt/sources.list\n"
    )
    return build_and_push(f"{registry}/{name}", folder)


def build_and_push(name: str, folder: Path) -> str:
    """Build a folder's Dockerfile without a network and push it; returns tag and digest."""
    run(
        *("docker", "buildx", "build", "--provenance=false", "--network", "none", "--load"),
        *("--tag", f"{name}:stable", str(folder)),
    )
    run("docker", "push", f"{name}:stable")
    inspected = json.loads(run("docker", "image", "inspect", f"{name}:stable"))
    digests: list[str] = inspected[0]["RepoDigests"]
    found = next(digest for digest in digests if digest.startswith(f"{name}@"))
    return found.replace("@", ":stable@")


@dataclass(frozen=True)
class Site:
    """A workspace over the real base.

    Attributes:
        root: the workspace.
        base: the base's reference.
        registry: the open registry.
    """

    root: Path
    base: str
    registry: str

    @property
    def layout(self) -> Path:
        return self.root / "build/demo"

    def run(self, *arguments: str) -> int:
        return imagegate([*arguments, "--workspace", str(self.root)])

    def copy(self, folder: Path) -> Site:
        """The workspace to change freely; builds are left out."""
        shutil.copytree(self.root, folder, ignore=shutil.ignore_patterns("build", "profiles"))
        return Site(folder, self.base, self.registry)

    def template(self, text: str) -> None:
        (self.root / "images/demo/Dockerfile.j2").write_text(text)

    def failures(self) -> list[dict[str, Any]]:
        """The findings of the last build that forbid it."""
        report = json.loads((self.root / "build/demo.verdict.json").read_text())
        return [
            finding
            for check in report["checks"]
            for finding in check["findings"]
            if finding["severity"] == "fail"
        ]

    def finding(self, code: str, subject: str) -> dict[str, Any]:
        """The failure of a check on one thing; there has to be one."""
        found = [one for one in self.failures() if one["code"].startswith(code)]
        assert found, self.failures()
        return next(one for one in found if subject in f"{one['subject']} {one['place']['path']}")


def make_site(root: Path, base: str, registry: str) -> Site:
    recipe = root / "images/demo"
    for model in ("alpha", "beta"):
        (recipe / "recipes" / model / "deep er").mkdir(parents=True)
        (recipe / "recipes" / model / "template.jinja").write_text(f"{{{{ {model} }}}}\n")
    # names that mean something to ignore files, shells and Dockerfiles
    (recipe / "recipes/alpha/deep er/a[1] $b*.json").write_text("{}\n")
    (recipe / "notes.txt").write_text("no asset: the ignore file keeps it out\n")
    (root / "locks").mkdir()
    (recipe / "image.toml").write_text(IMAGE_TOML.format(base=base, architecture=architecture()))
    (recipe / "requirements.in").write_text("ray[default]\n")
    return Site(root, base, registry)


@dataclass(frozen=True)
class Inside:
    """What the gate read in a built image.

    Attributes:
        files: every path with kind, mode, owner and content; of what each installer writes in
            words of its own (its name, its RECORD of them, its launchers) all but the content.
        freeze: names and versions.
        environment: of the config.
        labels: of the config.
    """

    files: dict[str, str]
    freeze: str
    environment: dict[str, str]
    labels: dict[str, str]


def look_inside(site: Site, layout: Path) -> Inside:
    from imagegate.catalog.freeze import freeze

    workspace = Workspace(site.root)
    state, lock = workspace.state("demo"), workspace.lock("demo")
    source = open_judged(calling(workspace), state, f"oci:{layout}")
    _, evidence = judge(state, lock, source, Silent(), copying=COMPOSED, today=date(2026, 11, 29))
    own_words = {node.path for node in lock.layer if node.path.startswith("usr/local/bin/")}
    files = {}
    for node in evidence.tree.under(""):
        name = node.path.rpartition("/")[2]
        if name == "REQUESTED":  # PEP 376: pip leaves it for what was asked for by name
            continue
        own = node.path in own_words or name in ("RECORD", "INSTALLER")
        content = "" if own else f"{node.sha256}{node.target}"
        files[node.path] = f"{node.kind} {node.mode:o} {node.uid}:{node.gid} {content}"
    config = source.image.config.config
    assert config is not None
    return Inside(
        files=files,
        freeze=freeze(evidence.facts.distributions, "3.11"),
        environment=config.environment,
        labels=config.labels or {},
    )


@contextmanager
def second_docker(folder: Path) -> Iterator[str]:
    """Run a docker of a later suite, with containerd's image store, beside the one that runs.

    Yields:
        Its address, for `DOCKER_HOST`.
    """
    house = PEERS / "docker28/usr"
    assert (house / "sbin/dockerd").is_file(), "put Debian sid's docker.io and containerd there"
    bridge = "imagegate-second"
    subprocess.run(["docker", "network", "rm", bridge], capture_output=True, check=False)
    # two daemons that share `docker0` take it away from each other
    run(
        "docker",
        "network",
        "create",
        "--opt",
        f"com.docker.network.bridge.name={bridge[:15]}",
        bridge,
    )
    address = f"unix://{folder}/sock"
    log = folder / "dockerd.log"
    # a path of its own for containerd and its shim; runc is this suite's
    path = f"{house}/bin:{house}/sbin:{os.environ['PATH']}"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                *(house / "sbin/dockerd", "--host", address, "--pidfile", folder / "pid"),
                *("--data-root", folder / "data", "--exec-root", folder / "exec"),
                *("--iptables=false", "--ip6tables=false", "--bridge", bridge[:15]),
                *("--feature", "containerd-snapshotter=true"),
            ],
            stdout=stream,
            stderr=stream,
            env={**os.environ, "PATH": path},
        )
    try:
        for _ in range(300):
            asked = ["docker", "--host", address, "version"]
            if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()
        subprocess.run(["docker", "network", "rm", bridge], capture_output=True, check=False)
