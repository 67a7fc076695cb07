"""Image references (github.com/distribution/reference, the grammar of ``name[:tag][@digest]``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from imagegate.errors import ImageError, UsageError
from imagegate.oci.digest import Digest

_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_DEFAULT_REGISTRY = "docker.io"
# the registry's older name, which Docker takes for the same
_DEFAULT_ALIAS = "index.docker.io"
_OFFICIAL = "library"
_NAME_LIMIT = 255
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository in a registry, with a tag, a digest or both; where both stand, the digest rules."""

    registry: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference; a name without a registry belongs to ``docker.io``.

        Raises:
            UsageError: the text does not follow the grammar.
        """
        rest, _, digest_text = text.partition("@")
        try:
            digest = Digest.parse(digest_text) if "@" in text else None
        except ImageError as error:
            raise UsageError(
                f"bad image reference `{text}`: {error.message}", hint=error.hint
            ) from error
        tag: str | None = None
        head, colon, last = rest.rpartition(":")
        if colon and "/" not in last:
            rest, tag = head, last
            if not _TAG.fullmatch(tag):
                raise UsageError(f"bad image reference `{text}`: `{tag}` is not a tag")
        registry, slash, repository = rest.partition("/")
        if not slash or not _is_registry(registry):
            registry, repository = _DEFAULT_REGISTRY, rest
        if registry == _DEFAULT_ALIAS:
            registry = _DEFAULT_REGISTRY
        if _IDENTIFIER.fullmatch(rest):
            raise UsageError(f"bad image reference `{text}`: it is an image id, not a name")
        if registry == _DEFAULT_REGISTRY and "/" not in repository:
            repository = f"{_OFFICIAL}/{repository}"
        if (
            len(registry) + 1 + len(repository) > _NAME_LIMIT
            or not _HOST.fullmatch(registry)
            or not _REPOSITORY.fullmatch(repository)
        ):
            raise UsageError(
                f"bad image reference `{text}`",
                hint="write it like `registry.example/team/image@sha256:<64 hex digits>`",
            )
        return cls(registry, repository, tag, digest)

    @classmethod
    def parse_pinned(cls, text: str) -> Reference:
        """Read a reference that names its image by digest.

        Raises:
            UsageError: the text does not follow the grammar or has no digest.
        """
        reference = cls.parse(text)
        if reference.digest is None:
            raise UsageError(
                f"`{text}` names no digest",
                hint="a tag can move; write `repository@sha256:<64 hex digits>`",
            )
        return reference

    @property
    def name(self) -> str:
        """Registry and repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def _is_registry(part: str) -> bool:
    """Tell a registry from a first path component, as docker does."""
    return "." in part or ":" in part or part == "localhost" or part != part.lower()
