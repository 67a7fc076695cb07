"""The exception tree: every way in which imagegate can fail to judge or to act.

::

    ImagegateError            exit 3: could not judge or act
    +-- UsageError            exit 2: what the caller wrote is wrong
    |   +-- RecipeError       image.toml, requirements.in, asset folders
    |   +-- CoverageError     Dockerfile, ignore file or context given to coverage
    +-- ImageError            the image cannot be read as the format says
    |   +-- DigestMismatch    bytes are not the bytes that were promised
    |   +-- BlobMissing       a blob that must be read is not there
    +-- LockError             a lock is missing, unreadable, edited or stale
    +-- ResolveError          the added distributions cannot be resolved against the base
    +-- FetchError            a wheel or blob could not be had from outside
    +-- EngineError           a container engine is absent or failed
    +-- ProfileError          a published profile is missing or cannot be written
    +-- AttestationError      a statement or signature cannot be used, or a key cannot be read
    +-- RefusedError          exit 1: judged, and the answer is no

Findings are not errors: a finding says that the image is not what it should be, an error that
nothing could be said. Neither is ever turned into the other.
"""

from __future__ import annotations

from typing import ClassVar

from imagegate.foreign import shown


class ImagegateError(Exception):
    """Something that stops the work; caught once, in ``__main__``.

    Attributes:
        message: one sentence, lower case, both sides labelled.
        hint: what a person can do about it, or ``None``.
        exit_code: the process's exit code when it ends here.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ImagegateError):
    """What the caller gave is wrong: an argument, a name, a file of theirs."""

    exit_code: ClassVar[int] = 2


class RecipeError(UsageError):
    """A recipe or one of its files cannot be used as written."""


class CoverageError(UsageError):
    """A Dockerfile, an ignore file or a build context cannot be used as given."""


class ImageError(ImagegateError):
    """An image cannot be read as its format promises."""


class DigestMismatch(ImageError):  # noqa: N818 - the name says what was found
    """Bytes do not have the digest, the size or the diff id that was promised for them."""


class BlobMissing(ImageError):  # noqa: N818 - the name says what was found
    """A blob that has to be read is not in the source."""


class LockError(ImagegateError):
    """A lock is missing, unreadable, edited by hand, or made from something else."""


class ResolveError(ImagegateError):
    """The requirements cannot be met without moving the base."""


class FetchError(ImagegateError):
    """A wheel or a blob could not be had from where it should come from."""


class EngineError(ImagegateError):
    """A container engine is absent, unreachable or failed."""


class ProfileError(ImagegateError):
    """A published profile is missing, broken or cannot be written."""


class AttestationError(ImagegateError):
    """A statement, a signature or a key cannot be used."""


class RefusedError(ImagegateError):
    """The judgement was made and forbids what was asked for."""

    exit_code: ClassVar[int] = 1


# set to anything, an unexpected error shows where it came from
TRACEBACK = "IMAGEGATE_TRACEBACK"


def as_told(error: Exception) -> ImagegateError:
    """Return what a person is told of an error that nobody foresaw: never more than "not judged"."""
    if isinstance(error, ImagegateError):
        return error
    if isinstance(error, OSError):
        where = f"`{error.filename}`: " if error.filename else ""
        return ImagegateError(f"{where}{(error.strerror or str(error)).lower()}")
    said = shown(" ".join(str(error).split()))[:200]
    return ImagegateError(
        f"unexpected {type(error).__name__}: {said}",
        hint="this is a fault of imagegate's, and no verdict; please report it to the project, "
        f"with what `{TRACEBACK}=1` shows",
    )
