"""A small workspace with everything that the shipped one has, made without a network.

The base carries the pins that matter in a few hundred bytes each; the layer's wheels come from a
folder that pip's own configuration names, so resolving, fetching and composing are the real ones.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from imagegate.cli import run
from tests.images import BuiltImage, ImageBuilder, Layer, Link, digest, write_layout
from tests.wheels import installed, write_wheel

SITE = "usr/local/lib/python3.12/dist-packages"
NCCL = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"
MODELS = ("alpha", "beta")
IMAGE_TOML = """\
schema = 1
platform = "linux/arm64"
repository = "localhost/demo"

[base]
image = "localhost/base@{digest}"

[python]
version = "3.12"
site = "/usr/local/lib/python3.12/dist-packages"
glibc = "2.39"

[[layer.links]]
path = "/usr/local/cuda/lib64/libnvrtc.so"
target = "/usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/libnvrtc.so.13"

[assets]
target = "/usr/share/demo/recipes/{{model}}"
models = ["alpha", "beta"]

[profile.env]
MAX_JOBS = "16"

[profile.settings]
flags = ["--limit-mm-per-prompt", '{{"image": 0}}']
"""


def elf(build_id: str, text: bytes = b"") -> bytes:
    """Write a 64-bit ELF file with one note segment that holds a build id (ELF gABI)."""
    identity = bytes.fromhex(build_id)
    note = struct.pack("<III", 4, len(identity), 3) + b"GNU\0" + identity
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    program = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(note), len(note), 4)
    return header + program + note + b"\0" * 64 + text + b"\0"


def nccl(version: str = "2.30.7+cuda13.3", build_id: str = "ab" * 20) -> bytes:
    """A library that says what the real one says, lookalikes included (facts on NCCL strings)."""
    lookalikes = b"NCCL version info message\0compiled with NCCL version %s\0"
    return elf(build_id, lookalikes + f"NCCL version {version}".encode())


def base_layers() -> list[tuple[Layer, str]]:
    """Two layers: a system with a link as usrmerge has it, and the Python site directory."""
    system: Layer = {
        "etc/os-release": "ID=test\n",
        "usr/lib/libc.so.6": b"libc",
        "lib": Link("usr/lib"),
        "opt/tool/one": "1",
        "opt/tool/two": "2",
    }
    site: dict[str, bytes] = {}
    site |= installed(
        SITE,
        "flashinfer-python",
        "0.6.18",
        {
            "flashinfer/__init__.py": "",
            "flashinfer/decode.py": "BLOCK = 64\n",
            "flashinfer/_build_meta.py": '__version__ = "0.6.18"\n__git_version__ = "69ff11f"\n',
        },
    )
    # the metadata has no local part, the module has: an honest base
    site |= installed(
        SITE,
        "torch",
        "2.13.0",
        {
            "torch/__init__.py": "",
            "torch/version.py": "__version__ = '2.13.0+cu130'\ncuda = '13.0'\n",
        },
        requires=("nvidia-nccl-cu13==2.29.7",),
    )
    site |= installed(SITE, "nvidia-nccl-cu13", "2.30.7", {"nvidia/nccl/lib/libnccl.so.2": nccl()})
    site |= installed(
        SITE, "nvidia-cuda-nvrtc", "13.0.88", {"nvidia/cu13/lib/libnvrtc.so.13": elf("cd" * 20)}
    )
    site |= installed(SITE, "aiohttp", "3.13.3", {"aiohttp/__init__.py": ""})
    site |= installed(
        SITE,
        "patched",
        "1.0",
        {"patched.py": ""},
        direct_url='{"url": "https://example.invalid/p.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}',
    )
    return [(system, "ADD system"), (dict(site), "RUN pip install the pins")]


def base_image(**settings: object) -> BuiltImage:
    builder = ImageBuilder(**settings)  # type: ignore[arg-type]
    for layer, step in base_layers():
        builder.layer(layer, step)
    builder.config = {"Env": ["PATH=/usr/local/bin:/usr/bin", "NCCL_VERSION=2.30.7"]}
    return builder.build()


def write_layer_wheels(folder: Path) -> None:
    """The wheels that the recipe's layer is resolved from."""
    write_wheel(
        folder,
        "rayish",
        "2.60.0",
        {
            "rayish/__init__.py": "",
            "rayish/core.py": "def main(): ...\n",
            # vendored metadata deeper down counts as files, not as a distribution
            "rayish/thirdparty_files/aiohttp-9.9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: aiohttp\nVersion: 9.9.9\n",
            "rayish/core/native": b"\x7fELF not really",
        },
        requires=("aiohttp>=3.13", "helperish"),
        scripts={"rayish": "rayish.core:main"},
        executable=("rayish/core/native",),
    )
    write_wheel(folder, "helperish", "1.2", {"helperish.py": "VALUE = 1\n"})
    write_wheel(folder, "greedyish", "1.0", {"greedyish.py": ""}, requires=("aiohttp>=3.14.4",))
    write_wheel(folder, "aiohttp", "3.14.5", {"aiohttp/__init__.py": "new"})


@dataclass
class World:
    """A workspace on disk.

    Attributes:
        root: the workspace.
        base: the base as bytes; its layout lies under ``base`` beside the workspace.
    """

    root: Path
    base: BuiltImage

    @property
    def layout(self) -> Path:
        return self.root / "build" / "demo"

    @property
    def lock(self) -> Path:
        return self.root / "locks" / "demo"

    @property
    def base_lock(self) -> Path:
        return self.root / "locks" / "bases" / self.base.digest.replace(":", "-")

    def forget_base(self) -> None:
        """Remove the base's lock, so that the base has to be read again."""
        import shutil

        shutil.rmtree(self.base_lock)

    @property
    def base_layout(self) -> Path:
        return self.root.parent / "base"

    def run(self, *arguments: str) -> int:
        """Run one command line in this workspace, in this process."""
        return run([*arguments, "--workspace", str(self.root)])

    def image(self) -> BuiltImage:
        """The built image, with the base's blobs beside its own."""
        import json

        blobs = self.layout / "blobs" / "sha256"
        index = json.loads((self.layout / "index.json").read_text())
        manifest = (blobs / index["manifests"][0]["digest"].removeprefix("sha256:")).read_bytes()
        document = json.loads(manifest)
        names = [layer["digest"] for layer in document["layers"]]
        have = self.base.blobs
        layers = tuple(
            have.get(name) or (blobs / name.removeprefix("sha256:")).read_bytes() for name in names
        )
        config = (blobs / document["config"]["digest"].removeprefix("sha256:")).read_bytes()
        return BuiltImage(manifest, config, layers, tuple(_plain(layer) for layer in layers))


def _plain(blob: bytes) -> bytes:
    import gzip

    return gzip.decompress(blob) if blob[:2] == b"\x1f\x8b" else blob


def configure(environment: dict[str, str], folder: Path) -> None:
    """Let pip and uv find nothing but the wheels of a folder, and keep their own caches."""
    for name in [name for name in environment if name.startswith(("PIP_", "UV_"))]:
        del environment[name]
    environment["PIP_CONFIG_FILE"] = os.devnull
    environment["PIP_NO_INDEX"] = "1"
    environment["PIP_FIND_LINKS"] = str(folder / "wheelhouse")
    environment["IMAGEGATE_CACHE"] = str(folder / "cache")


def make_world(folder: Path) -> World:
    """Write base, recipe and wheels; nothing is locked yet."""
    base = base_image()
    write_layout(folder / "base", base)
    write_layer_wheels(folder / "wheelhouse")
    root = folder / "workspace"
    recipe = root / "images" / "demo"
    recipe.mkdir(parents=True)
    (root / "locks").mkdir()
    (recipe / "image.toml").write_text(IMAGE_TOML.format(digest=base.digest))
    (recipe / "requirements.in").write_text("rayish\n")
    for model in MODELS:
        (recipe / "recipes" / model).mkdir(parents=True)
        (recipe / "recipes" / model / "template.jinja").write_text(f"{{{{ {model} }}}}\n")
    return World(root, base)


def pin(world: World, reference: str) -> None:
    """Let the recipe name its base so."""
    path = world.root / "images/demo/image.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join(
            f'image = "{reference}"\n' if line.startswith("image = ") else line for line in lines
        )
    )


__all__ = [
    "MODELS",
    "NCCL",
    "SITE",
    "World",
    "base_image",
    "configure",
    "digest",
    "elf",
    "make_world",
    "nccl",
    "pin",
]
