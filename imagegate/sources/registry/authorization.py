"""Who may ask what: challenges, scopes and tokens.

Follows RFC 9110, 11.6.1 (``WWW-Authenticate``) and distribution's token authentication
(docs/spec/auth/token.md and oauth.md). A token is had for one set of scopes and sent to the
registry that asked for it, to nobody else.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from imagegate.errors import FetchError
from imagegate.oci.strictjson import read_json
from imagegate.sources.registry.retry import TransientError, retry_after

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.sources.registry.credentials import Credentials, CredentialStore
    from imagegate.sources.registry.retry import Clock
    from imagegate.sources.registry.wire import Answer, Wire

_CLIENT_ID = "imagegate"
RETRIED_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_TOKEN68 = r"[A-Za-z0-9._~+/-]+=*"
_PARAMETER = re.compile(
    r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))\s*(?:,|$)"
)
_SCHEME = re.compile(rf"\s*,*\s*([A-Za-z0-9-]+)(?:\s+(?:({_TOKEN68})\s*(?:,|$))?|\s*(?:,|$))")


class DeniedError(FetchError):
    """The registry or its token service does not let this account do what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a request does to which repository.

    Attributes:
        push: whether it writes.
        mount_from: a second repository that it reads from.
    """

    repository: str
    push: bool = False
    mount_from: str | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of a token that allows it."""
        own = f"repository:{self.repository}:{'pull,push' if self.push else 'pull'}"
        if self.mount_from is None:
            return (own,)
        return (own, f"repository:{self.mount_from}:pull")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a ``WWW-Authenticate`` header."""

    scheme: str
    parameters: dict[str, str]


def parse_challenges(header: str) -> list[Challenge]:
    """Read all challenges of a header, schemes and parameter names in lower case."""
    found = []
    position = 0
    while position < len(header) and (match := _SCHEME.match(header, position)):
        position = match.end()
        parameters: dict[str, str] = {}
        while pair := _PARAMETER.match(header, position):
            quoted = pair[2]
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else pair[3]
            parameters[pair[1].lower()] = value
            position = pair.end()
        found.append(Challenge(match[1].lower(), parameters))
    return found


class Authorizer:
    """Keeps the registry's way of asking and the tokens that were had for it.

    Args:
        registry: the registry's name, under which its credentials are stored.
        wire: how the token service is asked.
        store: where credentials are looked up.
        clock: reads dates in ``Retry-After``.
    """

    def __init__(self, registry: str, wire: Wire, store: CredentialStore, clock: Clock) -> None:
        self._registry = registry
        self._wire = wire
        self._store = store
        self._clock = clock
        self._lock = threading.RLock()
        self._challenge: Challenge | None = None
        self._tokens: dict[Access, str] = {}
        self._credentials: dict[str, Credentials | None] = {}

    def learn(self, header: str) -> None:
        """Remember how the registry asks, so that the next request is authorized at once."""
        with self._lock:
            self._challenge = _best(parse_challenges(header)) or self._challenge

    def header(self, access: Access) -> str | None:
        """Return the ``Authorization`` header for a request, ``None`` where none is needed yet.

        Raises:
            FetchError: the token service refuses or fails.
        """
        with self._lock:
            challenge = self._challenge
            if challenge is None:
                return None
            credentials = self._for(access)
            if credentials is not None and credentials.registry_token:
                return f"Bearer {credentials.registry_token}"
            if challenge.scheme == "basic":
                return self._basic(credentials)
            token = self._tokens.get(access)
            if token is None:
                token = self._fetch(challenge, access, credentials)
                self._tokens[access] = token
            return f"Bearer {token}"

    def renew(self, header: str, access: Access, refused: str | None) -> str:
        """Answer a 401: return an ``Authorization`` header other than the refused one.

        Raises:
            DeniedError: there is no other; the hint says what to do.
            FetchError: the token service fails.
        """
        with self._lock:
            self.learn(header)
            if refused is not None and refused == f"Bearer {self._tokens.get(access)}":
                del self._tokens[access]
            fresh = self.header(access)
            if fresh is None or fresh == refused:
                raise self.denied(access)
            return fresh

    def denied(self, access: Access) -> DeniedError:
        """Say that what is stored, or nothing, does not let in."""
        known = self._for(access) is not None
        return DeniedError(
            f"`{self._registry}` refuses the stored credentials for `{access.repository}`"
            if known
            else f"`{self._registry}` asks for credentials for `{access.repository}`, and none are stored",
            hint=f"run `docker login {self._registry}`"
            + (" with an account that has the right" if known else ""),
        )

    def _for(self, access: Access) -> Credentials | None:
        if access.repository not in self._credentials:
            found = self._store.find(self._registry, access.repository)
            self._credentials[access.repository] = found
        return self._credentials[access.repository]

    def _basic(self, credentials: Credentials | None) -> str | None:
        return credentials.basic if credentials is not None else None

    def _fetch(self, challenge: Challenge, access: Access, credentials: Credentials | None) -> str:
        realm = challenge.parameters.get("realm", "")
        scopes = _merged([*access.scopes, *challenge.parameters.get("scope", "").split()])
        service = challenge.parameters.get("service")
        named = [("service", service)] if service else []
        if credentials is not None and credentials.identity_token:
            # oauth.md: a refresh token goes into the body, one scope parameter for all
            form = [
                ("grant_type", "refresh_token"),
                ("refresh_token", credentials.identity_token),
                ("client_id", _CLIENT_ID),
                ("scope", " ".join(scopes)),
                *named,
            ]
            answer = self._wire.exchange(
                "POST",
                realm,
                headers={"Content-Type": "application/x-www-form-urlencoded"},
                body=urlencode(form).encode(),
            )
        else:
            # token.md: GET with a scope parameter each, basic auth where there is an account
            query = urlencode([*named, *(("scope", scope) for scope in scopes)])
            basic = self._basic(credentials)
            answer = self._wire.exchange(
                "GET",
                f"{realm}{'&' if urlsplit(realm).query else '?'}{query}",
                headers={"Authorization": basic} if basic else {},
            )
        return self._token(answer, access)

    def _token(self, answer: Answer, access: Access) -> str:
        if answer.status in RETRIED_STATUS:
            raise TransientError(
                f"the token service `{answer.where}` answers {answer.status}",
                retry_after=retry_after(answer.headers.get("retry-after"), self._clock),
            )
        if answer.status in (400, 401, 403):
            raise self.denied(access)
        try:
            document = read_json(answer.content, "the token", error=FetchError)
        except FetchError:
            document = None
        if answer.status == 200 and isinstance(document, dict):
            token = document.get("token") or document.get("access_token")
            if isinstance(token, str) and re.fullmatch(r"[\x21-\x7e]+", token):
                return token
        raise FetchError(
            f"the token service `{answer.where}` answers {answer.status} without a token",
            hint=f"check that `{self._registry}` is a registry",
        )


def _best(challenges: list[Challenge]) -> Challenge | None:
    for scheme in ("bearer", "basic"):
        for challenge in challenges:
            if challenge.scheme != scheme:
                continue
            if scheme == "bearer" and "realm" not in challenge.parameters:
                continue
            return challenge
    return None


def _merged(scopes: Iterable[str]) -> list[str]:
    """Join the actions of scopes for the same resource, keeping the order of first mention."""
    actions: dict[str, dict[str, None]] = {}
    for scope in scopes:
        resource, _, named = scope.rpartition(":")
        if resource:
            actions.setdefault(resource, {}).update(dict.fromkeys(named.split(",")))
    return [f"{resource}:{','.join(sorted(named))}" for resource, named in actions.items()]
