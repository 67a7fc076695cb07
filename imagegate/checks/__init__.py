"""The checks, in the order in which a report has them."""

from __future__ import annotations

from imagegate.checks import (
    base,
    config_moves,
    copy_coverage,
    files_moves,
    native_abi,
    native_flashinfer,
    native_pins,
    native_toolchain,
    pins_declared,
    python_content,
    python_locked,
    python_pins,
    python_requirements,
    python_startup,
    secrets_leaked,
    system_pins,
    waivers,
    workspace_state,
)
from imagegate.checks.evidence import Check

CHECKS: tuple[Check, ...] = (
    base.DIGEST,
    base.ANNOTATIONS,
    python_pins.CHECK,
    python_content.CHECK,
    python_locked.CHECK,
    python_requirements.CHECK,
    python_startup.CHECK,
    native_pins.CHECK,
    native_flashinfer.CHECK,
    native_toolchain.CHECK,
    native_abi.CHECK,
    pins_declared.CHECK,
    system_pins.DEBIAN,
    system_pins.CONDA_PINS,
    config_moves.CHECK,
    files_moves.CHECK,
    secrets_leaked.CHECK,
    copy_coverage.CONTEXT,
    copy_coverage.COVERAGE,
    workspace_state.PRESENT,
    workspace_state.FRESH,
    waivers.CHECK,
)

__all__ = ["CHECKS", "Check"]
