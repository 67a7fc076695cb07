"""Platforms and their normal form (OCI image-spec, image-index.md, "platform")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from imagegate.errors import UsageError

# what `uname -m` and others call an architecture, in GOARCH words
_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "aarch64": "arm64",
    "armhf": "arm",
    "armel": "arm",
    "i386": "386",
}
# Debian's soft-float port is for ARMv6 and below (containerd/platforms, database.go)
_NAMED_VARIANT = {"armel": "v6"}
# the variant that an architecture has when none is named (containerd's normalisation)
_IMPLIED_VARIANT = {"arm64": "v8", "arm": "v7", "amd64": "v1"}


@dataclass(frozen=True, slots=True)
class Platform:
    """Operating system, architecture and variant; construct with :meth:`of` or :meth:`parse`."""

    os: str
    architecture: str
    variant: str = ""

    @classmethod
    def of(cls, os: str, architecture: str, variant: str | None = None) -> Platform:
        """Normalise: ``aarch64`` is ``arm64``, and ``arm64/v8`` is ``arm64``."""
        architecture = architecture.lower()
        variant = variant or _NAMED_VARIANT.get(architecture)
        architecture = _ARCHITECTURES.get(architecture, architecture)
        variant = (variant or "").lower()
        if re.fullmatch(r"[0-9]+", variant):
            variant = f"v{variant}"
        if variant == _IMPLIED_VARIANT.get(architecture):
            variant = ""
        return cls(os.lower(), architecture, variant)

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Read ``os/architecture[/variant]``.

        Raises:
            UsageError: the text has another form.
        """
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(re.fullmatch(r"[A-Za-z0-9_.-]+", p) for p in parts):
            raise UsageError(
                f"not a platform: `{text}`", hint="write it like `linux/arm64` or `linux/amd64`"
            )
        return cls.of(*parts)

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)
