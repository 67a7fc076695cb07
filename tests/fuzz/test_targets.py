"""Every fuzzed parser reads its own seeds, and what a cut or a flipped byte makes of them."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS, run


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_seeds_and_their_neighbours_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        target.read(seed) if name not in ("recipe", "tar", "layer", "index") else run(target, seed)
        for at in range(0, len(seed), max(1, len(seed) // 24)):
            run(target, seed[:at])
            run(target, seed[:at] + bytes([seed[at] ^ 0x80]) + seed[at + 1 :])
