"""The checks of a launch, in the order in which a report has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagegate.checks.launch import (
    launch_arguments,
    launch_caches,
    launch_containers,
    launch_driver,
    launch_host,
    launch_image,
    launch_jobs,
    launch_killers,
    launch_memory,
    launch_network,
    launch_nodes,
    launch_ray,
    launch_watermarks,
    launch_weights,
)

if TYPE_CHECKING:
    from imagegate.checks.check import Check
    from imagegate.checks.launch.evidence import LaunchEvidence

CHECKS: tuple[Check[LaunchEvidence], ...] = (
    launch_nodes.CHECK,
    launch_image.CHECK,
    launch_arguments.CHECK,
    launch_containers.CHECK,
    launch_weights.CHECK,
    launch_memory.CHECK,
    launch_jobs.CHECK,
    launch_caches.CHECK,
    launch_killers.CHECK,
    launch_watermarks.CHECK,
    launch_driver.CHECK,
    launch_network.CHECK,
    launch_host.CHECK,
    launch_ray.CHECK,
)
