"""Why an exchange failed, in our own words: foreign texts hold whole addresses."""

from __future__ import annotations

import ssl

import requests
import urllib3

from imagegate.errors import FetchError
from imagegate.sources.registry.retry import TransientError


class UntrustedError(FetchError):
    """The other side speaks TLS, and its certificate is not trusted."""


def unreachable(error: Exception, what: str, authorities: str = "") -> FetchError:
    """Say in our own words why an exchange failed.

    Args:
        error: what requests, urllib3 or the system raised.
        what: the beginning of the message.
        authorities: the CA bundle that was chosen, and by what; empty for the system's own.
    """
    chain = list(_chain(error))
    if any(isinstance(e, ssl.SSLCertVerificationError) for e in chain):
        return UntrustedError(
            f"{what}: its certificate is not trusted",
            hint=f"{authorities} does not hold its authority; put it there or name another bundle"
            if authorities
            else "name your authority's bundle in `REQUESTS_CA_BUNDLE` or `SSL_CERT_FILE`",
        )
    if any(isinstance(e, ssl.SSLError) for e in chain):
        return FetchError(
            f"{what}: it does not speak TLS as it should",
            hint="check address and port; plain HTTP has to be allowed with `--insecure`",
        )
    if any(isinstance(e, requests.exceptions.InvalidURL) for e in chain):
        return FetchError(f"{what}: it is not an address that can be asked")
    if any(isinstance(e, urllib3.exceptions.NameResolutionError) for e in chain):
        return TransientError(
            f"{what}: its name does not resolve", hint="check the name and the network"
        )
    if any(isinstance(e, urllib3.exceptions.ProxyError) for e in chain):
        return TransientError(
            f"{what}: the proxy does not answer",
            hint="check `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`",
        )
    system = next((e.strerror for e in chain if isinstance(e, OSError) and e.strerror), None)
    # a refused connection is a kind of timeout to urllib3; the system's own word is better
    if system is not None:
        return TransientError(
            f"{what}: {system.lower()}",
            hint="check that the registry runs and can be reached, and run again",
        )
    if any(isinstance(e, requests.Timeout | urllib3.exceptions.TimeoutError) for e in chain):
        return TransientError(
            f"{what}: it is silent for too long", hint="check the network and run again"
        )
    return TransientError(
        f"{what}: the connection broke",
        hint="check that the registry runs and can be reached, and run again",
    )


def _chain(error: BaseException) -> list[BaseException]:
    """All exceptions that led to `error`, including those that foreign ones carry as arguments."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            waiting += [getattr(one, "reason", None), one.__cause__, one.__context__, *one.args]
    return found
