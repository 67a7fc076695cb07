"""What an unlocked install says: one cause a distribution, and all of it on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from imagegate.report.formats import Format, render
from tests.closed_world.rows import on_base
from tests.judging import SITE, dist

if TYPE_CHECKING:
    from pathlib import Path

    from tests.images import Content

# what `pip install ray==2.48.0` brings beside what a base has
RAY = {
    "ray": 900,
    **dict.fromkeys(("protobuf", "jsonschema", "msgpack", "click", "filelock", "rpds-py"), 60),
    "pyyaml": 60,
}


def installed(versions: dict[str, int], version: str = "9.9") -> dict[str, Content]:
    layer: dict[str, Content] = {}
    for name, count in versions.items():
        folder = name.replace("-", "_")
        layer |= dist(name, version, files={f"{folder}/m{n}.py": f"# {n}\n" for n in range(count)})
    return layer


def moved() -> dict[str, Content]:
    """`pip install 'numpy<2.2' pandas`: numpy goes down, its files are others."""
    old = dist("numpy", "2.2.0", files={"numpy/__init__.py": "# numpy\n"})
    gone: dict[str, Content] = {
        f"{SITE}/.wh.numpy-2.2.0.dist-info": "",
        f"{SITE}/numpy/__init__.py": "# another\n",
    }
    assert f"{SITE}/numpy-2.2.0.dist-info/METADATA" in old
    new = dist("numpy", "2.1.3", files={"numpy/__init__.py": "# another\n"})
    return {**gone, **new, **installed({"pandas": 900, "pytz": 300})}


@pytest.mark.parametrize(
    ("layer", "causes"),
    [
        pytest.param(installed(RAY), ("ray", "msgpack", "rpds-py"), id="pip install ray"),
        pytest.param(moved(), ("numpy", "pandas", "pytz"), id="pip install numpy<2.2 pandas"),
    ],
)
def test_it_fits_a_screen_and_names_every_cause(
    layer: dict[str, Content], causes: tuple[str, ...], tmp_path: Path
) -> None:
    verdict = on_base(layer, steps=["RUN pip install"]).judge(tmp_path)
    assert not verdict.passed
    assert len(verdict.failures) > 1000

    text = render([verdict], Format.TEXT, version="1", details=False)
    shown = render([verdict], Format.MARKDOWN, version="1", details=False).split("<details>")[0]
    for said in (text, shown):
        assert said.count("\n") < 50, said
        assert [cause for cause in causes if cause not in said] == []
    assert render([verdict], Format.JSON, version="1", details=False).count('"code"') >= len(
        verdict.failures
    )
