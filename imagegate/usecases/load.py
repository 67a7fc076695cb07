"""``imagegate load``: an image into an engine's store without a registry, and the proof of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imagegate.engines.store.archive import write_archive
from imagegate.engines.store.engines import find_store
from imagegate.errors import EngineError, ImagegateError, RefusedError, UsageError
from imagegate.oci.platform import Platform
from imagegate.profile import ProfileStore
from imagegate.sources import open_image
from imagegate.usecases.transfer import LayerSources, base_locations

if TYPE_CHECKING:
    from typing import IO

    from imagegate.engines.store.archive import Sending
    from imagegate.engines.store.engines import EngineName, Held, Store
    from imagegate.oci.digest import Digest
    from imagegate.oci.image import Image, ImageSource
    from imagegate.profile import PublishedState
    from imagegate.usecases.invocation import Invocation
    from imagegate.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadChoice:
    """Where an image goes, and out of what.

    Attributes:
        engine: docker or podman.
        host: the engine's host; ``None`` for the one that its configuration names.
        image: the image to load; ``None`` for what the profile names, or the build without one.
        base: where the base's layers are.
    """

    engine: EngineName
    host: str | None = None
    image: str | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An image that is in an engine's store.

    Attributes:
        identity: what the engine calls it, and what starts it.
        name: a name of its own, so that the engine does not collect it.
        where: the engine.
        location: what it was loaded from.
        sent: layers that went over.
        held: layers that the engine had.
        size: bytes of layers that went over, as they lay in the source.
        published: whether the profile names it; ``None`` where there is no profile.
        remark: what a person should know besides, or empty.
    """

    identity: Digest
    name: str
    where: str
    location: str
    sent: int
    held: int
    size: int
    published: bool | None
    remark: str


def load_image(call: Invocation, name: str, choice: LoadChoice) -> Loaded:
    """Bring an image into an engine's store, and read back what the engine has then.

    Args:
        call: the workspace, or a folder with nothing but `profiles/`.
        name: the recipe or profile.
        choice: from where and to where.

    Raises:
        UsageError: there is no such image, recipe or profile.
        BlobMissing: a layer that has to be sent is nowhere.
        DigestMismatch: a blob has other bytes than was promised.
        EngineError: the engine is absent, refuses or fails.
        RefusedError: the engine holds something else than was sent.
    """
    state = _published(call.workspace, name)
    source = _open(call, name, state, choice)
    image = source.image
    store = find_store(choice.engine, choice.host)
    identity = store.identity(image)
    held = store.describe(str(identity))
    size = 0
    if held is None:
        layers = LayerSources(
            source,
            _bases(call.workspace, name, choice.base),
            connection=call.connection.of(image.config.platform),
            folder=call.workspace.root,
        )
        sending = store.sending(image)
        size = _send(call, store, sending, layers)
        held = store.describe(str(identity))
        sent = len(sending.sent)
    else:
        sent = 0
    _require_same(store, identity, image, held)
    tag = f"localhost/imagegate/{name}:{identity.short}"
    store.tag(identity, tag)
    return Loaded(
        identity=identity,
        name=tag,
        where=f"{store.where} {store.version} ({store.kind} store)"
        if store.kind != "podman"
        else f"{store.where} {store.version}",
        location=image.location,
        sent=sent,
        held=len(image.layers) - sent,
        size=size,
        published=None if state is None else _names(state, image),
        remark=_foreign_platform(store, image),
    )


def _published(workspace: Workspace, name: str) -> PublishedState | None:
    """Return what is published under the name, ``None`` where nothing is.

    Raises:
        UsageError: there is neither a profile nor a recipe of that name.
    """
    store = ProfileStore(workspace.profiles())
    if name in store.names():
        return store.current(name)
    workspace.recipe_path(name)
    return None


def _names(state: PublishedState, image: Image) -> bool:
    return state.env.get("IMAGE_ID") == str(image.config_digest)


def _open(
    call: Invocation, name: str, state: PublishedState | None, choice: LoadChoice
) -> ImageSource:
    """Open the image that the caller names, else the published one, else the build."""
    workspace = call.workspace
    layout = workspace.layout(name)
    built = f"oci:{workspace.relative(layout)}"
    if choice.image is not None:
        return call.open(choice.image, _platform(workspace, name, state))
    if state is None:
        if not layout.is_dir():
            raise UsageError(
                f"`{name}` is neither published nor built here",
                hint=f"run `imagegate build {name}`, or name an image with `--image`",
            )
        connection = call.connection.of(_platform(workspace, name, state))
        return open_image(built, connection, folder=workspace.root)
    connection = call.connection.of(_platform(workspace, name, state))
    why = "not built here"
    if layout.is_dir():
        try:
            source = open_image(
                f"{built}@{state.env['IMAGE_DIGEST']}", connection, folder=workspace.root
            )
        except ImagegateError as error:
            why = error.message
        else:
            return source
    try:
        return open_image(f"docker://{state.env['IMAGE']}", connection)
    except ImagegateError as error:
        raise type(error)(
            f"the published image of `{name}` is nowhere: `{built}`: {why}; "
            f"`{state.env['IMAGE']}`: {error.message}",
            hint="say with `--image REF` which layout, archive or registry holds it",
        ) from error


def _platform(workspace: Workspace, name: str, state: PublishedState | None) -> Platform:
    if state is not None:
        return Platform.parse(state.env["IMAGE_PLATFORM"])
    return workspace.recipe(name).platform


def _bases(workspace: Workspace, name: str, chosen: str | None) -> tuple[str, ...]:
    """Say where the base's layers may be; a node that has profiles alone has the image's own."""
    if name in workspace.recipe_names():
        return tuple(base_locations(workspace, workspace.recipe(name), chosen))
    return () if chosen is None else (chosen,)


def _send(call: Invocation, store: Store, sending: Sending, layers: LayerSources) -> int:
    """Stream the image into the engine; returns the bytes of layers that went over."""
    moved = 0
    total = sending.size
    call.reporter.say(
        f"loading {len(sending.sent)} of {len(sending.image.layers)} layers into {store.where}"
        + (f": {total} bytes" if total is not None else "")
    )
    with call.reporter.task(f"into {store.where}", total) as task:

        def advance(count: int) -> None:
            nonlocal moved
            moved += count
            task.advance(count)

        def write(sink: IO[bytes]) -> None:
            write_archive(sink, sending, layers, advance=advance)

        store.load(write)
    return moved


def _require_same(store: Store, identity: Digest, image: Image, held: Held | None) -> None:
    """Require that the store holds the image: its id, its layers, what it starts.

    Raises:
        EngineError: the store has no image of that id after it took one.
        RefusedError: it holds another.
    """
    if held is None:
        raise EngineError(
            f"{store.where} took the image and holds none with the id {identity}",
            hint=f"`{store.engine} images` lists what it holds; nothing was tagged",
        )
    pairs: list[tuple[str, object, object]] = [("id", str(identity), str(held.id))]
    wanted = [str(layer.diff_id) for layer in image.layers]
    found = [str(one) for one in held.diff_ids]
    pairs += [("layers", len(wanted), len(found))]
    pairs += [
        (f"diff id of layer {number}", one, other)
        for number, (one, other) in enumerate(zip(wanted, found, strict=False), 1)
    ]
    pairs += [("platform", str(image.config.platform), str(held.platform))]
    started = image.config.config
    for key, value in (
        ("Env", started and started.env),
        ("Entrypoint", started and started.entrypoint),
        ("Cmd", started and started.cmd),
        ("User", started and started.user),
        ("WorkingDir", started and started.working_dir),
        ("Labels", started and started.labels),
    ):
        pairs.append((f"`{key}`", _plain(value), _plain(held.config.get(key))))
    for what, expected, got in pairs:
        if expected != got:
            raise RefusedError(
                f"{store.where} holds another image under {identity}: "
                f"{what}: sent={expected} held={got}",
                hint=f"remove it (`{store.engine} rmi {identity}`) and load again",
            )


def _plain(value: object) -> object:
    """Write nothing, an empty list and an empty text alike, as engines do."""
    return (list(value) if isinstance(value, tuple) else value) or None


def _foreign_platform(store: Store, image: Image) -> str:
    platform = image.config.platform
    if (platform.os, platform.architecture) == (store.platform.os, store.platform.architecture):
        return ""
    return f"the image is for {platform} and {store.where} runs on {store.platform}"
