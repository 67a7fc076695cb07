"""The arguments that builders set from the platforms they build on and for.

https://docs.docker.com/reference/dockerfile/#automatic-platform-args-in-the-global-scope
"""

from __future__ import annotations

NAMES = frozenset(
    f"{side}{part}"
    for side in ("TARGET", "BUILD")
    for part in ("PLATFORM", "OS", "ARCH", "VARIANT")
)


def platform_args(platform: str | None, host: str | None) -> dict[str, str]:
    """Return the values of ``TARGET…`` and ``BUILD…``.

    Args:
        platform: what is built for, such as ``linux/arm64`` or ``linux/arm/v7``.
        host: the platform of the builder's own machine.
    """
    values: dict[str, str] = {}
    for side, named in (("TARGET", platform), ("BUILD", host)):
        if named:
            os, architecture, variant = [*named.split("/"), "", ""][:3]
            values |= {
                f"{side}PLATFORM": named,
                f"{side}OS": os,
                f"{side}ARCH": architecture,
                f"{side}VARIANT": variant,
            }
    return values
