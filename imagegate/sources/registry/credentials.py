"""Credentials as docker and podman keep them: ``config.json``, ``auth.json``, credential helpers.

See docker/cli's ``config.json`` reference, containers-auth.json(5), and the protocol of
docker-credential-helpers. No message here holds a value that was read.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict, Field

from imagegate.errors import FetchError
from imagegate.localfiles import read_regular
from imagegate.oci.strictjson import read_object, require_exact_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCKER_HUB = "docker.io"
# the name under which docker keeps the credentials of docker.io
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_HELPER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_HELPER_TIMEOUT = 60
# what the protocol defines as the answer for "there are none" (credentials/error.go)
_HELPER_NOT_FOUND = "credentials not found in native keychain"
_ENTRY_NAMES = (
    "auth",
    "username",
    "password",
    "email",
    "serveraddress",
    "identitytoken",
    "registrytoken",
)
# the user name that says that the secret is an identity token
_TOKEN_USER = "<token>"  # noqa: S105 - the protocol's marker, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What proves who asks; exactly one of the three forms is filled.

    Attributes:
        username: with `password`, for basic auth and for the token service.
        identity_token: an OAuth2 refresh token for the token service.
        registry_token: a bearer token to be sent as it is.
    """

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str | None:
        """The value of an ``Authorization`` header, where there are user and password."""
        if not self.username:
            return None
        pair = f"{self.username}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode()


class CredentialStore(Protocol):
    """Where credentials are looked up."""

    def find(self, registry: str, repository: str) -> Credentials | None:
        """Return what is stored for the repository or its registry, if anything."""


class Anonymous:
    """Has no credentials."""

    def find(self, registry: str, repository: str) -> Credentials | None:  # noqa: ARG002
        """Return nothing."""
        return None


class _Entry(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    auth: str | None = None
    username: str | None = None
    password: str | None = None
    identity_token: str | None = Field(default=None, alias="identitytoken")
    registry_token: str | None = Field(default=None, alias="registrytoken")


class _ConfigFile(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    auths: dict[str, _Entry] | None = None
    helpers: dict[str, str] | None = Field(default=None, alias="credHelpers")
    store: str | None = Field(default=None, alias="credsStore")


class _HelperAnswer(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    username: str = Field(alias="Username")
    secret: str = Field(alias="Secret")


class DockerCredentials:
    """Looks into the files of docker and podman, and asks the helpers that they name.

    Args:
        environment: ``REGISTRY_AUTH_FILE``, ``DOCKER_CONFIG``, ``XDG_RUNTIME_DIR`` and
            ``XDG_CONFIG_HOME`` are looked up here; helpers run with it.
        home: the user's home, ``None`` where there is none.
    """

    def __init__(self, environment: Mapping[str, str], home: Path | None) -> None:
        self._environment = environment
        self._home = home

    def find(self, registry: str, repository: str) -> Credentials | None:
        """Return what the first file that knows the registry says.

        Raises:
            FetchError: a file cannot be read, or a helper fails.
        """
        for path in self._files():
            config = _read(path)
            if config is None:
                continue
            found = self._in_file(config, path, registry, repository)
            if found is not None:
                return found
        return None

    def _files(self) -> Iterator[Path]:
        environment = self._environment
        if name := environment.get("REGISTRY_AUTH_FILE"):
            yield Path(name)
        if name := environment.get("DOCKER_CONFIG"):
            yield Path(name) / "config.json"
        elif self._home is not None:
            yield self._home / ".docker" / "config.json"
        if name := environment.get("XDG_RUNTIME_DIR"):
            yield Path(name) / "containers" / "auth.json"
        if name := environment.get("XDG_CONFIG_HOME"):
            yield Path(name) / "containers" / "auth.json"
        elif self._home is not None:
            yield self._home / ".config" / "containers" / "auth.json"

    def _in_file(
        self, config: _ConfigFile, path: Path, registry: str, repository: str
    ) -> Credentials | None:
        # docker/cli, config.json: a registry's own helper comes before the store for all
        helper = (config.helpers or {}).get(registry) or config.store
        if helper:
            key = _DOCKER_HUB_KEY if registry == DOCKER_HUB else registry
            found = self._ask(helper, key)
            if found is not None:
                return found
        # containers-auth.json(5): the longest matching name space wins
        entries = {_normal(name): entry for name, entry in (config.auths or {}).items()}
        name = f"{registry}/{repository}"
        while True:
            entry = entries.get(name)
            credentials = _decoded(entry, path, name) if entry else None
            if credentials is not None or "/" not in name:
                return credentials
            name = name.rpartition("/")[0]

    def _ask(self, helper: str, key: str) -> Credentials | None:
        """Run a helper: ``get`` with the server on standard input, JSON on standard output."""
        program = f"docker-credential-{helper}"
        if not _HELPER_NAME.fullmatch(helper):
            raise FetchError(f"`{helper}` is not the name of a credential helper")
        try:
            done = subprocess.run(
                [program, "get"],
                input=key.encode(),
                capture_output=True,
                timeout=_HELPER_TIMEOUT,
                check=False,
                env=dict(self._environment),
            )
        except OSError as error:
            raise FetchError(
                f"the credential helper `{program}` for `{key}` does not run: {error.strerror}",
                hint=f"install `{program}`, or take it out of docker's config.json",
            ) from error
        except subprocess.TimeoutExpired as error:
            raise FetchError(
                f"the credential helper `{program}` for `{key}` does not answer",
                hint="it may wait for a password; run `docker login` in a terminal",
            ) from error
        if done.returncode != 0:
            if done.stdout.decode(errors="replace").strip() == _HELPER_NOT_FOUND:
                return None
            raise FetchError(
                f"the credential helper `{program}` for `{key}` failed with exit code {done.returncode}",
                hint=f"try `echo {key} | {program} get`",
            )
        try:
            document = read_object(done.stdout, "the answer", error=FetchError)
            require_exact_names(document, ("ServerURL", "Username", "Secret"))
            answer = _HelperAnswer.model_validate(document)
        except (FetchError, ValueError):
            raise FetchError(
                f"the credential helper `{program}` for `{key}` answers in no known form"
            ) from None
        if answer.username == _TOKEN_USER:
            return Credentials(identity_token=answer.secret)
        return Credentials(username=answer.username, password=answer.secret)


def _read(path: Path) -> _ConfigFile | None:
    try:
        content = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FetchError(f"cannot read the credentials in `{path}`: {error.strerror}") from error
    what = f"`{path}`"
    try:
        document = read_object(content or b"{}", what, error=FetchError)
        require_exact_names(document, ("auths", "credHelpers", "credsStore"))
        for entry in (document.get("auths") or {}).values():
            require_exact_names(entry or {}, _ENTRY_NAMES)
        return _ConfigFile.model_validate(document)
    except (FetchError, ValueError, AttributeError):
        # what is wrong with it is not repeated: it may stand beside a secret
        raise FetchError(
            f"`{path}` is not a docker or podman credentials file that all readers take alike",
            hint="repair or move it",
        ) from None


def _normal(name: str) -> str:
    """Reduce a key to host and name space: ``https://host/v1/`` and ``host`` are the same."""
    if name == _DOCKER_HUB_KEY:
        return DOCKER_HUB
    name = re.sub(r"^https?://", "", name)
    host, _, path = name.partition("/")
    return host if path.strip("/") in ("", "v1", "v2") else f"{host}/{path.strip('/')}"


def _decoded(entry: _Entry, path: Path, name: str) -> Credentials | None:
    if entry.identity_token:
        return Credentials(identity_token=entry.identity_token)
    if entry.registry_token:
        return Credentials(registry_token=entry.registry_token)
    if entry.auth:
        try:
            pair = base64.b64decode(entry.auth, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise FetchError(f"`{path}` holds an unreadable `auth` for `{name}`") from None
        username, _, password = pair.partition(":")
        return Credentials(username=username, password=password.strip("\0"))
    if entry.username:
        return Credentials(username=entry.username, password=entry.password or "")
    # `docker login` with a credential helper leaves empty entries behind
    return None
