"""``native.driver``: is the driver library that is loaded the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.image.evidence import ON_THE_BASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from imagegate.checks.image.evidence import Evidence
    from imagegate.verdict import CheckReport

# the driver's library: the host's has to be loaded, which the container runtime mounts
_DRIVER = "libcuda.so.1"


def _judge(evidence: Evidence) -> CheckReport:
    findings = Findings("native.driver")
    return findings.report(list(_judge_driver(evidence, findings)))


def _judge_driver(evidence: Evidence, findings: Findings) -> Iterator[str]:
    """Say it when the image brings a driver library that is found before the host's.

    The container runtime mounts the host's into a default folder and runs ``ldconfig``, so that
    the loader's configuration counts here whether or not the image has a cache.
    """
    before, now = (
        evidence.base_loader.configured_copy(_DRIVER),
        evidence.loader.configured_copy(_DRIVER),
    )
    if not now.path:
        yield f"driver: no configured folder of the image has `{_DRIVER}`; the host's is loaded"
        return
    yield f"driver: `/{now.path}` is found before the host's: {now.because}"
    node = evidence.tree.get(now.path)
    known = before == now and (node is None or not node.layer)
    add = findings.note if known else findings.fail
    add(
        "driver-in-image",
        _DRIVER,
        "the image's own driver library is loaded instead of the host's; on a newer host that is "
        "CUDA's error 803" + ("; also true of the base" if known else ""),
        locked=f"/{before.path}" if before.path else "nothing",
        found=f"/{now.path} ({now.because})",
        place=evidence.place(now.path, node.layer if node else 0),
        hint="keep CUDA's `compat` and `stubs` folders out of ld.so.conf.d and LD_LIBRARY_PATH",
    )


CHECK = Check(
    id="native.driver",
    question="is the driver library that is loaded the host's",
    why="the image's own driver library fails on a newer host with CUDA's error 803",
    fix="keep CUDA's `compat` and `stubs` folders out of what the loader searches",
    judge=_judge,
    revision=1,
    rests_on=ON_THE_BASE,
)
