"""Workspaces in a temporary folder: a small base, a recipe over it, locked and built for real."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from imagegate.usecases.build import BuildOutcome, build_recipe
from imagegate.usecases.lock import lock_recipe
from imagegate.workspace import Workspace
from tests.calls import calling
from tests.images import BuiltImage, Content, ImageBuilder, Link, write_layout

if TYPE_CHECKING:
    from pathlib import Path

SITE = "usr/local/lib/python3.12/dist-packages"
REPOSITORY = "registry.example/team/served"


def distribution(name: str, version: str, files: dict[str, bytes]) -> dict[str, Content]:
    """The files of an installed wheel, its RECORD included (PEP 376, PEP 427)."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    everything = {**files, f"{folder}/METADATA": metadata, f"{folder}/INSTALLER": b"pip\n"}
    lines = [f"{path},{_recorded(content)}\n" for path, content in everything.items()]
    record = "".join([*lines, f"{folder}/RECORD,,\n"]).encode()
    return {f"{SITE}/{path}": c for path, c in {**everything, f"{folder}/RECORD": record}.items()}


def _recorded(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(content)}"


def base_image() -> BuiltImage:
    """A base in small: torch, NCCL in a wheel, a variable that claims NCCL's version."""
    builder = ImageBuilder(config={"Env": ["NCCL_VERSION=2.30.7", "PATH=/usr/bin"]})
    builder.layer(
        {"usr/bin/python3.12": b"interpreter", "usr/bin/python3": Link("python3.12")},
        "RUN apt-get install python3",
    )
    nccl = b"\x7fELF" + b"\0" * 80 + b"NCCL version 2.30.7+cuda13.3\0"
    builder.layer(
        {
            **distribution(
                "torch", "2.13.0+cu130", {"torch/version.py": b"__version__ = '2.13.0+cu130'\n"}
            ),
            **distribution("nvidia-nccl-cu13", "2.30.7", {"nvidia/nccl/lib/libnccl.so.2": nccl}),
        },
        "RUN pip install torch",
    )
    return builder.build()


@dataclass(frozen=True)
class Built:
    """A workspace whose recipe ``served`` is locked and built."""

    workspace: Workspace
    base: BuiltImage
    outcome: BuildOutcome

    @property
    def root(self) -> Path:
        return self.workspace.root


def built_workspace(root: Path, *, models: tuple[str, ...] = ("glm53", "kimi3")) -> Built:
    """Make, lock and build; nothing is downloaded, the layer holds assets alone."""
    base = base_image()
    layout = write_layout(root / "base", base)
    folder = root / "images" / "served"
    for model in models:
        recipes = folder / "recipes" / model
        recipes.mkdir(parents=True)
        (recipes / "chat_template.jinja").write_text(f"{{{{ {model} }}}}\n")
    (folder / "recipes" / models[0] / "serve.yaml").write_text("tensor-parallel-size: 2\n")
    (root / "locks").mkdir()
    (folder / "image.toml").write_text(
        f"""schema = 1
platform = "linux/arm64"
repository = "{REPOSITORY}"

[base]
image = "registry.example/team/base@{base.digest}"

[python]
version = "3.12"
site = "/{SITE}"
glibc = "2.39"

[assets]
target = "/usr/share/served/{{model}}"
models = [{", ".join(f'"{model}"' for model in models)}]

[config.env]
SERVED = "/usr/share/served"

[profile.env]
MAX_JOBS = "16"
"""
    )
    workspace = Workspace(root)
    cache = root / "cache"
    lock_recipe(calling(workspace, cache=cache), "served", base=f"oci:{layout}")
    outcome = build_recipe(
        calling(workspace, cache=cache, today=date(2026, 11, 29)), "served", full_from=None
    )
    return Built(workspace, base, outcome)
