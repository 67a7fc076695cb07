"""From the files of an image to the table of its serving programs."""

from __future__ import annotations

import configparser
import re
from typing import TYPE_CHECKING

from imagegate.serving.click_options import read_ray
from imagegate.serving.modules import Modules
from imagegate.serving.sglang import read_sglang
from imagegate.serving.table import ServingOptions
from imagegate.serving.vllm import read_vllm

if TYPE_CHECKING:
    from collections.abc import Mapping

# model implementations and kernels are most of vLLM's text and declare no options
SOURCE = re.compile(
    r"(?P<site>.*/(?:site|dist)-packages/|)"
    r"(?P<path>"
    r"vllm/(?!model_executor/(?:models|layers)/).*\.py"
    r"|vllm/model_executor/models/registry\.py"
    r"|vllm/model_executor/layers/quantization/__init__\.py"
    r"|sglang/srt/(?!models/|layers/).*\.py"
    r"|ray/scripts/.*\.py|ray/autoscaler/_private/cli_logger\.py|ray/_private/[^/]*\.py"
    r"|[^/]+\.dist-info/entry_points\.txt"
    r"|(?:vllm|sglang|ray)-[^/]+\.dist-info/METADATA)"
)
_GROUPS = {
    "vllm": ("vllm.general_plugins", "vllm.platform_plugins", "vllm.reasoning_parsers",
             "vllm.tool_parsers"),
    "sglang": ("sglang.plugins", "sglang.srt.plugins"),
}  # fmt: skip


def wants_source(path: str) -> bool:
    """Say whether a file of an image is needed to read its serving options."""
    return SOURCE.fullmatch(path) is not None


def read_options(files: Mapping[str, bytes]) -> ServingOptions:
    """Read the serving programs that an image's files are.

    Args:
        files: contents by path in the image, of those that :func:`wants_source` names; where
            several site directories have one program, the first by path counts.
    """
    sources: dict[str, bytes] = {}
    for path in sorted(files):
        match = SOURCE.fullmatch(path)
        if match is not None:
            sources.setdefault(match["path"], files[path])
    modules = Modules(sources)
    plugins = {name: _plugins(sources, groups) for name, groups in _GROUPS.items()}
    found = (
        read_vllm(modules, _version(sources, "vllm"), plugins["vllm"]),
        read_sglang(modules, _version(sources, "sglang"), plugins["sglang"]),
        read_ray(modules, _version(sources, "ray")),
    )
    return ServingOptions(programs=tuple(one for one in found if one is not None))


def _version(sources: Mapping[str, bytes], name: str) -> str:
    for path in sources:
        match = re.fullmatch(rf"{name}-([^/]+)\.dist-info/METADATA", path)
        if match is not None:
            return match[1]
    return ""


def _plugins(sources: Mapping[str, bytes], groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``distribution: group name = target`` of each entry point that is loaded at start."""
    found = []
    for path, content in sources.items():
        if not path.endswith("/entry_points.txt"):
            continue
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
        try:
            parser.read_string(content.decode("utf-8"))
        except (configparser.Error, UnicodeDecodeError):
            continue
        owner = path.partition(".dist-info")[0]
        found += [
            f"{owner}: {group} {name} = {value}"
            for group in groups
            if parser.has_section(group)
            for name, value in parser.items(group)
        ]
    return tuple(sorted(found))
