"""The checks of an image, in the order in which a report has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.image import (
    base_annotations,
    base_digest,
    conda_pins,
    config_moves,
    config_starts,
    copy_context,
    copy_coverage,
    copy_present,
    debian_pins,
    files_explained,
    files_moves,
    lock_fresh,
    native_abi,
    native_caches,
    native_flashinfer,
    native_pins,
    native_plugins,
    native_toolchain,
    pins_declared,
    programs_search,
    python_bytecode,
    python_content,
    python_imports,
    python_locked,
    python_metadata,
    python_pins,
    python_requirements,
    python_startup,
    secrets_leaked,
    serve_options,
    users_declared,
    waivers,
)

if TYPE_CHECKING:
    from imagegate.checks.check import Check
    from imagegate.checks.image.evidence import Evidence

CHECKS: tuple[Check[Evidence], ...] = (
    base_digest.CHECK,
    base_annotations.CHECK,
    python_pins.CHECK,
    python_content.CHECK,
    python_locked.CHECK,
    python_requirements.CHECK,
    python_startup.CHECK,
    python_imports.CHECK,
    python_metadata.CHECK,
    python_bytecode.CHECK,
    programs_search.CHECK,
    native_pins.CHECK,
    native_plugins.CHECK,
    native_caches.CHECK,
    native_flashinfer.CHECK,
    native_toolchain.CHECK,
    native_abi.CHECK,
    pins_declared.CHECK,
    debian_pins.CHECK,
    conda_pins.CHECK,
    config_moves.CHECK,
    config_starts.CHECK,
    files_moves.CHECK,
    files_explained.CHECK,
    users_declared.CHECK,
    secrets_leaked.CHECK,
    serve_options.CHECK,
    copy_context.CHECK,
    copy_coverage.CHECK,
    copy_present.CHECK,
    lock_fresh.CHECK,
    waivers.CHECK,
)
