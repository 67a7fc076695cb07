"""The console script: the one place where errors become a message and an exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ends the process with the exit codes that the README lists."""
    from imagegate.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
