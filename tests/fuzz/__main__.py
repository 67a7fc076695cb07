"""Fuzz one parser for some time: ``python -m tests.fuzz TARGET --seconds N``.

Needs ``pip install --editable '.[fuzz]'``. A crash, a reading of more than ten seconds and more
than 600 MB of memory end the run with the input in the current folder; exit code 0 otherwise.
The last line says how many inputs were read.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run libFuzzer on a target; it ends the process itself."""
    import atheris

    # everything that reads is instrumented when it is imported
    with atheris.instrument_imports(include=["imagegate"]):
        from tests.fuzz.targets import TARGETS, run

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    target = TARGETS[arguments.target]
    corpus = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for number, seed in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(seed)
    options = [
        f"-max_total_time={arguments.seconds}",
        f"-seed={arguments.seed}",
        "-timeout=10",
        "-rss_limit_mb=600",
        "-print_final_stats=1",
        "-max_len=4096",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda content: run(target, content))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
