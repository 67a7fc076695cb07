"""Puts the parts of README.md that the program itself knows into it; CI wants no difference.

Usage: ``python .ci/readme.py [--check]``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from imagegate.checks.image import CHECKS
from imagegate.cli import COMMANDS

README = Path(__file__).parents[1] / "README.md"


def sections() -> dict[str, str]:
    """Return the generated parts by name."""
    checks = "\n\n".join(
        f"### `{check.id}`\n\n{check.question[0].upper()}{check.question[1:]}?\n\n"
        f"*Why:* {check.why}.\n*Fix:* {check.fix}."
        for check in CHECKS
    )
    commands = "\n".join(f"| `imagegate {name}` | {line} |" for name, (_, line) in COMMANDS.items())
    return {"checks": checks, "commands": f"| command | does |\n| --- | --- |\n{commands}"}


def main() -> int:
    """Write or compare; returns the exit code."""
    text = README.read_text(encoding="utf-8")
    fresh = text
    for name, content in sections().items():
        pattern = rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)"
        fresh, count = re.subn(
            pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", fresh, flags=re.DOTALL
        )
        if count != 1:
            print(f"README.md has no part `{name}`", file=sys.stderr)
            return 1
    if "--check" in sys.argv:
        if fresh != text:
            print(
                "README.md is not what the program says: run `python .ci/readme.py`",
                file=sys.stderr,
            )
        return int(fresh != text)
    README.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
