"""``launch.driver``: kernel and driver now, at the next boot, and alike on all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.check import Check, Findings
from imagegate.checks.launch.evidence import UNSEEN, LaunchEvidence
from imagegate.launch.drivers import compare_kernels, covered, next_kernel

if TYPE_CHECKING:
    from imagegate.launch.facts import NodeFacts
    from imagegate.verdict import CheckReport


def _judge(evidence: LaunchEvidence) -> CheckReport:
    findings = Findings(CHECK.id)
    compared = []
    for node in evidence.nodes:
        driver = node.driver
        compared.append(
            f"{node.name}: kernel {driver.running_kernel}, driver {driver.loaded or 'not loaded'}"
        )
        _now(node, findings)
        _next(node, findings)
    loaded = {node.name: node.driver.loaded for node in evidence.nodes if node.driver.loaded}
    if len(set(loaded.values())) > 1:
        findings.fail("differ", "driver", "the drivers of the nodes differ",
                      locked="one version on all nodes",
                      found=", ".join(f"{name}: {version}" for name, version in loaded.items()))  # fmt: skip
    return findings.report(compared)


def _now(node: NodeFacts, findings: Findings) -> None:
    driver = node.driver
    if driver.loaded is None:
        if not driver.modules_seen:
            findings.fail(UNSEEN, node.name, "no driver is loaded and the kernel's modules cannot be seen",
                          locked="/lib/modules of the host", found="nothing",
                          hint="take the facts on the host")  # fmt: skip
            return
        there = covered(driver.running_kernel, driver.modules, [])
        others = [kernel for kernel, files in driver.modules.items() if files]
        findings.fail("not-loaded", node.name,
                      "the driver is not loaded" + ("" if there else ": no nvidia.ko for the running kernel"),
                      locked=f"nvidia.ko for {driver.running_kernel}",
                      found=there or f"modules for {', '.join(others) or 'no kernel'}",
                      hint="`modprobe nvidia`" if there else "install the modules of this kernel, or boot one that has them")  # fmt: skip
        return
    if driver.libraries and driver.loaded not in driver.libraries:
        findings.fail("mismatch", node.name, "the loaded driver and its libraries differ",
                      locked=f"libraries {driver.loaded}", found=", ".join(driver.libraries),
                      hint="reboot, or load the module that fits")  # fmt: skip
    if driver.modules_seen and not driver.modules.get(driver.running_kernel):
        findings.note("module-gone", node.name,
                      "the driver is loaded and its file is gone: it does not come back after a reboot",
                      found=driver.running_kernel)  # fmt: skip


def _next(node: NodeFacts, findings: Findings) -> None:
    driver = node.driver
    if not driver.packages_seen or not driver.modules_seen:
        findings.weigh(UNSEEN, node.name, "the next boot is not judged: packages or modules were not seen",
                       because="the driver is loaded now" if driver.loaded else "",
                       locked="dpkg and /lib/modules of the host", found="not seen")  # fmt: skip
        return
    if driver.grub_default not in (None, "", "0"):
        findings.note("grub", node.name,
                      f"which kernel boots next is not known: GRUB_DEFAULT={driver.grub_default}")  # fmt: skip
        return
    packages = [package.model_dump() for package in driver.packages]
    kernel = next_kernel(packages)
    if kernel is None:
        findings.note("next-unknown", node.name, "no installed kernel package was found")
        return
    by = covered(kernel, driver.modules, packages)
    if not by:
        findings.note("next-uncovered", node.name,
                      "after the next boot there is no driver: the newest kernel has no module",
                      locked=f"nvidia.ko for {kernel}", found="none",
                      hint=f"install the modules package of {kernel} before rebooting")  # fmt: skip
    elif compare_kernels(kernel, driver.running_kernel) > 0:
        findings.note("reboot-pending", node.name,
                      f"{kernel} boots next and is covered by {by}", found=driver.running_kernel)  # fmt: skip


CHECK = Check(
    id="launch.driver",
    question="is a driver loaded that fits its libraries, on all nodes alike, and after a reboot",
    why="a kernel update without its module takes the GPU at the next boot; mixed drivers hang",
    fix="install the module of the kernel that is named, on the node that is named",
    judge=_judge,
    revision=1,
)
