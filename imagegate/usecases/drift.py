"""``imagegate drift``: does the tag still lead to the pinned digest, and is that still served."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from imagegate.errors import ImagegateError
from imagegate.oci.documents import Index, parse_document
from imagegate.oci.image import is_index
from imagegate.sources.connection import DIRECT

if TYPE_CHECKING:
    from imagegate.oci.digest import Digest
    from imagegate.oci.reference import Reference
    from imagegate.recipe import Recipe
    from imagegate.sources.connection import Connection
    from imagegate.sources.registry import FetchedManifest, RegistryClient
    from imagegate.workspace import Workspace


class Answer(Enum):
    """What one question came to."""

    HOLDS = "holds"
    DRIFTED = "drifted"
    NOT_ASKED = "not asked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about a base and its answer.

    Attributes:
        asks: what was asked.
        answer: what it came to.
        detail: what was found, both sides labelled.
        found: where the tag leads now, where it has moved.
    """

    asks: str
    answer: Answer
    detail: str
    found: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What was asked about the base of one recipe.

    Attributes:
        recipe: the recipe's name.
        base: the pinned reference, ``None`` for a recipe that starts from scratch.
        adopt: the command that takes over what the tag leads to now, ``""`` where it has not moved.
    """

    recipe: str
    base: str | None
    questions: tuple[Question, ...]
    adopt: str = ""

    def has(self, answer: Answer) -> bool:
        """Say whether any question came to this."""
        return any(question.answer is answer for question in self.questions)


def find_drift(workspace: Workspace, name: str, connection: Connection = DIRECT) -> Drift:
    """Ask the registry of a recipe's base.

    Args:
        workspace: where the recipe is.
        name: the recipe.
        connection: how registries are spoken to.

    Raises:
        UsageError: there is no such recipe, or it cannot be used.
    """
    recipe = workspace.recipe(name)
    if recipe.base is None:
        nothing = Question(
            asks="base", answer=Answer.NOT_ASKED, detail="the recipe starts from scratch"
        )
        return Drift(recipe=name, base=None, questions=(nothing,))
    made_here = recipe.document.base.recipe
    if made_here is not None:
        detail = f"the base is composed here by the recipe `{made_here}`; no registry was asked"
        composed = Question(asks="base", answer=Answer.NOT_ASKED, detail=detail)
        return Drift(recipe=name, base=str(recipe.base), questions=(composed,))
    client = connection.client(recipe.base.registry)
    try:
        questions = tuple(_ask(client, recipe, recipe.base))
    finally:
        client.close()
    moved = any(q.asks == "tag" and q.found is not None for q in questions)
    adopt = (
        f"imagegate lock {name} --base docker://{recipe.base.name}:{recipe.base.tag}"
        if moved
        else ""
    )
    return Drift(recipe=name, base=str(recipe.base), questions=questions, adopt=adopt)


def _ask(client: RegistryClient, recipe: Recipe, base: Reference) -> list[Question]:
    assert base.digest is not None
    questions: list[Question] = []
    for ask in (_served, _tag):
        try:
            questions.append(ask(client, recipe, base))
        except ImagegateError as error:
            asks = "served" if ask is _served else "tag"
            questions.append(Question(asks=asks, answer=Answer.UNKNOWN, detail=error.message))
    return questions


def _served(client: RegistryClient, recipe: Recipe, base: Reference) -> Question:
    """Ask whether the digest is still there, and what it names."""
    assert base.digest is not None
    found = client.find_manifest(base.repository, base.digest)
    if found is None:
        return Question(
            asks="served",
            answer=Answer.DRIFTED,
            detail=f"`{base.name}` no longer serves {base.digest}",
        )
    if not _is_index(found):
        return Question(asks="served", answer=Answer.HOLDS, detail="served as platform manifest")
    entry = _entry(found, recipe)
    if entry is None:
        return Question(
            asks="served",
            answer=Answer.DRIFTED,
            detail=f"served as index, which has no entry for {recipe.platform}",
        )
    if client.find_manifest(base.repository, entry) is None:
        return Question(
            asks="served",
            answer=Answer.DRIFTED,
            detail=f"served as index, whose manifest for {recipe.platform} is gone: {entry}",
        )
    return Question(
        asks="served", answer=Answer.HOLDS, detail=f"served as index; {recipe.platform} is {entry}"
    )


def _tag(client: RegistryClient, recipe: Recipe, base: Reference) -> Question:
    """Ask where the tag leads now; the digest may be that of the index or of its platform."""
    assert base.digest is not None
    if base.tag is None:
        return Question(
            asks="tag",
            answer=Answer.NOT_ASKED,
            detail="the recipe names no tag; write `repository:tag@sha256:…` to have it watched",
        )
    found = client.find_manifest(base.repository, base.tag)
    if found is None:
        return Question(
            asks="tag",
            answer=Answer.DRIFTED,
            detail=f"`{base.tag}` is gone: pinned={base.digest} found=nothing",
        )
    if found.digest == base.digest:
        return Question(asks="tag", answer=Answer.HOLDS, detail=f"`{base.tag}` leads to it")
    if _is_index(found) and _entry(found, recipe) == base.digest:
        return Question(
            asks="tag",
            answer=Answer.HOLDS,
            detail=f"`{base.tag}` leads to it through the index {found.digest}",
        )
    return Question(
        asks="tag",
        answer=Answer.DRIFTED,
        detail=f"`{base.tag}` has moved: pinned={base.digest} found={found.digest}",
        found=found.digest,
    )


def _is_index(found: FetchedManifest) -> bool:
    return is_index(found.content, found.media_type, f"the manifest {found.digest}")


def _entry(found: FetchedManifest, recipe: Recipe) -> Digest | None:
    """Return the digest of the index's manifest for the recipe's platform."""
    index = parse_document(Index, found.content, f"the index {found.digest}")
    images = [entry for entry in index.manifests if not entry.is_attestation]
    if len(images) == 1:
        return images[0].digest
    fitting = [
        entry.digest
        for entry in images
        if entry.platform is not None and entry.platform.normal == recipe.platform
    ]
    return fitting[0] if fitting else None
