"""What a wheel must fit: tags (PEP 425, PEP 600) and markers (PEP 508) of the image's Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.tags import Tag, compatible_tags, cpython_tags

from imagegate.errors import RecipeError

if TYPE_CHECKING:
    from packaging.markers import Environment

    from imagegate.recipe import Recipe

# GOARCH to the machine's name in tags and markers, and the oldest glibc of manylinux there
_MACHINES = {"arm64": ("aarch64", 17), "amd64": ("x86_64", 5)}
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# the glibc versions that uv knows as a platform
_UV_GLIBC = (17, 28, *range(31, 41))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The Python that distributions are chosen for; never the one that runs this program."""

    machine: str
    python: tuple[int, int]
    glibc: int
    oldest_glibc: int

    @classmethod
    def of(cls, recipe: Recipe) -> Target:
        """Read the target from a recipe.

        Raises:
            RecipeError: no wheels are published for the platform.
        """
        platform = recipe.platform
        known = _MACHINES.get(platform.architecture)
        if platform.os != "linux" or known is None:
            raise RecipeError(
                f"`{platform}` is not a platform that wheels are chosen for",
                hint="use `linux/arm64` or `linux/amd64`",
            )
        section = recipe.python
        major, _, minor = section.version.partition(".")
        return cls(
            machine=known[0],
            python=(int(major), int(minor)),
            glibc=int(section.glibc.partition(".")[2]),
            oldest_glibc=known[1],
        )

    @property
    def python_version(self) -> str:
        """``major.minor``."""
        return f"{self.python[0]}.{self.python[1]}"

    @property
    def platform_tags(self) -> list[str]:
        """Platform tags from the newest glibc down (PEP 600 and the names before it)."""
        tags: list[str] = []
        for minor in range(self.glibc, self.oldest_glibc - 1, -1):
            tags.append(f"manylinux_2_{minor}_{self.machine}")
            if minor in _LEGACY:
                tags.append(f"{_LEGACY[minor]}_{self.machine}")
        return [*tags, f"linux_{self.machine}"]

    @property
    def tags(self) -> list[Tag]:
        """All tags that fit, best first."""
        interpreter = f"cp{self.python[0]}{self.python[1]}"
        specific = cpython_tags(self.python, [interpreter], self.platform_tags)
        return [*specific, *compatible_tags(self.python, interpreter, self.platform_tags)]

    @property
    def environment(self) -> Environment:
        """Values of the environment markers."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python_version}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python_version}.0",
            "python_version": self.python_version,
            "sys_platform": "linux",
        }

    @property
    def uv_platform(self) -> str:
        """The name that uv has for the platform, rounded down to a glibc that it knows."""
        fitting = [minor for minor in _UV_GLIBC if minor <= self.glibc]
        minor = fitting[-1] if fitting else _UV_GLIBC[0]
        return f"{self.machine}-manylinux_2_{minor}"
