"""What is known of one build before it is made, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from imagegate.verdict import Verdict

if TYPE_CHECKING:
    from imagegate.coverage.render import FileReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Covering:
    """What COPY coverage says of one build.

    Attributes:
        report: the judgement; ``None`` where the build could not be judged.
        refused: why it could not.
        hint: what to do about it.
        notes: what was not looked at, and why.
        strict: notes fail, too.
    """

    report: FileReport | None
    refused: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageVerdict(Verdict):
    """The judgement on one build.

    Attributes:
        dockerfile: the Dockerfile's path.
        builders: the builders that it was judged for.
        assets: how many assets were asked for.
    """

    kind: ClassVar[str] = "coverage"

    dockerfile: str
    builders: tuple[str, ...] = ()
    assets: int = 0

    @property
    def file(self) -> str:
        """The Dockerfile."""
        return self.dockerfile

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """The builders and the number of assets."""
        if not self.builders:
            return ()
        return (("builders", ", ".join(self.builders)), ("assets", str(self.assets)))

    def particulars(self) -> dict[str, object]:
        """Return subject, Dockerfile, builders and the number of assets."""
        return {
            "subject": self.subject,
            "dockerfile": self.dockerfile,
            "builders": list(self.builders),
            "assets": self.assets,
        }
