"""Questions to an OpenAI-compatible server, timed."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imagegate.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered.

    Attributes:
        status: of HTTP.
        document: the JSON object, empty where it is none.
        seconds: until the answer was whole.
    """

    status: int
    document: Mapping[str, Any]
    seconds: float


class OpenAiServer:
    """One server; nothing is asked twice."""

    def __init__(self, url: str, *, key: str | None = None, seconds: float = 600.0) -> None:
        import requests

        self._url = url.rstrip("/").removesuffix("/v1")
        self._session = requests.Session()
        self._session.trust_env = False
        if key is not None:
            self._session.headers["Authorization"] = f"Bearer {key}"
        self._seconds = seconds

    def get(self, path: str) -> Answer:
        """Ask by GET."""
        return self._ask("GET", path, None)

    def chat(self, body: Mapping[str, Any]) -> Answer:
        """Ask ``/v1/chat/completions``."""
        return self._ask("POST", "/v1/chat/completions", body)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        import requests

        begun = time.monotonic()
        try:
            response = self._session.request(
                method, self._url + path, json=body, timeout=(10, self._seconds)
            )
            content = response.content
        except requests.Timeout as error:
            raise EngineError(
                f"`{self._url}{path}` did not answer in {self._seconds:g} s"
            ) from error
        except requests.RequestException as error:
            raise EngineError(f"`{self._url}{path}` was not reached") from error
        took = time.monotonic() - begun
        try:
            document = json.loads(content) if content else {}
        except ValueError:
            document = {}
        return Answer(
            status=response.status_code,
            document=document if isinstance(document, dict) else {},
            seconds=took,
        )
