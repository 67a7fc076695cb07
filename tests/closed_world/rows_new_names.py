"""Names that nothing in the base answered to: programs try such imports, and take what they find."""

from __future__ import annotations

from tests.closed_world.debian import CONFIG
from tests.closed_world.rows import Row, on_base
from tests.closed_world.rows_files import allow
from tests.images import File

WORK = {"WorkingDir": "/srv/work"}
SETTING = '[config]\nworking_dir = "/srv/work"\n'
MODULE = "raise SystemExit('foreign')\n"

ROWS = (
    *(
        Row(
            name=f"a new name in the working folder under a wildcard: {form}",
            case=on_base(
                {f"srv/work/{form}": MODULE},
                config=WORK,
                recipe=allow("/srv/work/**") + SETTING,
            ),
            fails=("python.imports/new-name",),
        )
        for form in (
            "uvloop.py",
            "apex/__init__.py",
            "triton_kernels.cpython-312-aarch64-linux-gnu.so",
            "flash_attn_3.abi3.so",
            "xformers/__init__.so",
        )
    ),
    Row(
        name="a new name along PYTHONPATH under a wildcard",
        case=on_base(
            {"srv/more/uvloop.py": MODULE},
            config={"Env": [*CONFIG["Env"], "PYTHONPATH=/srv/more"]},
            recipe=allow("/srv/more/**") + '[config.env]\nPYTHONPATH = "/srv/more"\n',
        ),
        fails=("python.imports/new-name",),
    ),
    Row(
        name="a new name in the working folder that is named in full",
        case=on_base(
            {"srv/work/app.py": MODULE}, config=WORK, recipe=allow("/srv/work/app.py") + SETTING
        ),
    ),
    Row(
        name="an application below the working folder's folders, and its data",
        case=on_base(
            {
                "srv/work/app/main.py": MODULE,
                "srv/work/app/page.html": "<p>",
                "srv/work/run.sh": File(b"#!/bin/sh\n", mode=0o755),
            },
            config=WORK,
            recipe=allow("/srv/work/**") + SETTING,
        ),
    ),
    Row(
        name="a module where Python does not search",
        case=on_base({"srv/other/uvloop.py": MODULE}, recipe=allow("/srv/other/**")),
    ),
)
