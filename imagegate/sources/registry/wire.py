"""One HTTP exchange: what goes over the wire is counted, what fails is said in our own words.

A message names scheme, host and path only: queries hold signatures of storage providers, and
texts of foreign exceptions hold whole addresses.
"""

from __future__ import annotations

import ipaddress
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import requests
import urllib3
from requests.auth import AuthBase

from imagegate.errors import FetchError, ImageError
from imagegate.oci.documents import DOCUMENT_LIMIT
from imagegate.sources.registry.failures import unreachable
from imagegate.sources.registry.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Mapping

# seconds to connect and seconds of silence
TIMEOUT = (10, 60)
_CHUNK = 1 << 20
_STREAMED = (200, 206)
_BUNDLE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(slots=True)
class Traffic:
    """What went over the wire, in bytes of HTTP bodies."""

    requests: int = 0
    received: int = 0
    sent: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, *, requests: int = 0, received: int = 0, sent: int = 0) -> None:
        """Count more; layers are read in several threads."""
        with self._lock:
            self.requests += requests
            self.received += received
            self.sent += sent


class Body:
    """The body of an answer, as the bytes that were sent: no content encoding is undone."""

    def __init__(
        self,
        response: requests.Response,
        traffic: Traffic,
        where: str,
        pace: Pace | None = None,
    ) -> None:
        self._response = response
        self._traffic = traffic
        self._where = where
        self._pace = pace or Pace(where)

    def read(self, size: int) -> bytes:
        """Read what there is, up to `size` bytes; none are the end.

        Raises:
            TransientError: the connection was cut or fell silent.
            FetchError: the bytes come too slowly.
        """
        since = self._pace.start()
        try:
            content: bytes = self._response.raw.read1(size, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise unreachable(error, f"the answer of `{self._where}` was cut") from error
        self._traffic.add(received=len(content))
        self._pace.received(len(content), since)
        return content

    def close(self) -> None:
        """Give the connection back or close it."""
        self._response.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

    Attributes:
        where: scheme, host and path that answered.
        headers: by lower-case name.
        content: the body; empty where `body` is given.
        authorization: what the request was authorized with; never to be shown.
        body: the body to be read, where a stream was asked for and status is 200 or 206.
    """

    status: int
    where: str
    headers: Mapping[str, str]
    content: bytes = b""
    authorization: str = field(default="", repr=False)
    body: Body | None = None


class _NoAuth(AuthBase):
    """Keeps requests from overwriting our Authorization header with one from ``~/.netrc``."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class Wire:
    """Sends requests with the CA bundle and the proxies that the environment names.

    Args:
        insecure: allow plain http to any host, not only to loopback.
        environment: where the CA bundle is looked up; requests reads the proxies itself.

    Raises:
        FetchError: the CA bundle does not exist.
    """

    def __init__(self, *, insecure: bool, environment: Mapping[str, str]) -> None:
        self.traffic = Traffic()
        self._insecure = insecure
        self._session = requests.Session()
        self._session.auth = _NoAuth()
        variable = next((v for v in _BUNDLE_VARIABLES if environment.get(v)), None)
        self._bundle: str | None = None
        self._authorities = ""
        if variable is not None:
            bundle = environment[variable]
            self._authorities = f"`{bundle}`, which `{variable}` names,"
            if not Path(bundle).exists():
                raise FetchError(
                    f"the CA bundle `{bundle}` that the environment names does not exist",
                    hint=f"correct or unset {', '.join(f'`{v}`' for v in _BUNDLE_VARIABLES)}",
                )
            self._bundle = bundle

    def exchange(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        stream: bool = False,
    ) -> Answer:
        """Send one request and follow nothing.

        Raises:
            TransientError: the other side could not be reached or fell silent.
            FetchError: the request may not be sent, or cannot be.
            ImageError: the answer is larger than a document may be.
        """
        where = self._permitted(url)
        self.traffic.add(requests=1, sent=len(body or b""))
        # storage providers and proxies compress on their own where they are allowed to
        sent = {"User-Agent": "imagegate", "Accept-Encoding": "identity", **headers}
        try:
            response = self._session.request(
                method,
                url,
                headers=sent,
                data=body,
                stream=True,
                allow_redirects=False,
                timeout=TIMEOUT,
                proxies=_proxies(url),
                # of the request, because requests puts the process's variables over the session's
                verify=self._bundle,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise unreachable(error, f"cannot reach `{where}`", self._authorities) from error
        except (ValueError, UnicodeError) as error:
            raise FetchError(f"`{where}` is not an address that can be asked") from error
        given = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(
            status=response.status_code,
            where=where,
            headers=given,
            authorization=headers.get("Authorization", ""),
        )
        body_read = Body(response, self.traffic, where)
        if stream and answer.status in _STREAMED:
            return replace(answer, body=body_read)
        try:
            return replace(answer, content=_whole(body_read, where))
        finally:
            body_read.close()

    def permits_http(self, host: str) -> bool:
        """Say whether plain http may be spoken with `host` (``name`` or ``name:port``)."""
        return self._insecure or is_loopback(host)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    def _permitted(self, url: str) -> str:
        """Refuse what would send bytes in the clear; return the address for messages."""
        where = shown(url)
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError as error:
            raise FetchError(f"`{where}` is not an address that can be asked") from error
        if parts.scheme not in ("http", "https") or not host:
            raise FetchError(f"`{where}` is not an http address")
        if parts.scheme == "http" and not self.permits_http(parts.netloc.rpartition("@")[2]):
            raise FetchError(
                f"`{where}` speaks plain HTTP, which is allowed for loopback only",
                hint="use https, or allow it with `--insecure`",
            )
        return where


def is_loopback(host: str) -> bool:
    """Say whether `host`, with or without port, is this machine by its very name.

    These are the hosts that docker lets speak plain http: ``localhost``, ``127.0.0.0/8``, ``::1``.
    """
    name = urlsplit(f"//{host}").hostname or ""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def shown(url: str) -> str:
    """Shorten an address to what a message may show: no user, no query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _whole(body: Body, where: str) -> bytes:
    pieces = []
    left = DOCUMENT_LIMIT
    while piece := body.read(_CHUNK):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise ImageError(f"`{where}` answers with more than {DOCUMENT_LIMIT} bytes")
    return b"".join(pieces)


def _proxies(url: str) -> dict[str, str] | None:
    """Keep loopback away from a proxy, as Go's clients do; the environment rules the rest."""
    if is_loopback(urlsplit(url).netloc.rpartition("@")[2]):
        # requests takes `None` for "no proxy whatever the environment says"; its types do not
        return cast("dict[str, str]", {"http": None, "https": None, "all": None})
    return None
