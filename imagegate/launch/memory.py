"""Budgets and jobs. GiB unless a name says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

KIB_PER_GIB = 1024 * 1024


def gib(kib: float) -> float:
    """Turn KiB into GiB."""
    return kib / KIB_PER_GIB


def show(value: float) -> str:
    """Write GiB for a person."""
    return f"{value:.2f} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """What a value of ``MAX_JOBS`` becomes.

    Attributes:
        count: how many compilers run; ``None`` for as many as there are modules.
        why: how the value is read.
    """

    count: int | None
    why: str


def read_max_jobs(value: str | None, cpus: int) -> Jobs:
    """Read ``MAX_JOBS`` as FlashInfer does (``jit/cpp_ext.py``): only where it ``isdigit``.

    What is not a number is ignored, and ninja then takes CPUs + 2; ``0`` is handed on, and for
    ninja ``-j 0`` is without limit.
    """
    if value is None or not value.isdigit():
        said = "unset" if value is None else f"`{value}` is not a number and is ignored"
        return Jobs(count=cpus + 2, why=f"{said}; ninja takes CPUs + 2")
    if not value.isascii():
        return Jobs(count=None, why=f"`{value}` counts as digits for Python; ninja refuses it")
    if int(value) == 0:
        return Jobs(count=None, why="ninja takes `-j 0` as without limit")
    return Jobs(count=int(value), why=f"MAX_JOBS={value}")


def jobs_that_fit(free: float, per_job: float, cpus: int) -> int:
    """Return how many compilers fit into memory, at most one a CPU; 0 where none does."""
    return max(0, min(cpus, int(free / per_job)))
