r"""Images in registries: reading by digest, pushing bytes as they are, referrers.

::

                                push_image (push)
                                   |
    RegistrySource (source)     RegistrySink (sink)
          |                        |        \
    ResumingReader (download)   upload    referrers
                 \                 |        /
                     RegistryClient (client)      statuses, redirects, attempts
                        |              |
                  Authorizer        Wire (wire)   one exchange, errors in our own words (failures)
                  (authorization)
                        |
                  CredentialStore (credentials)

Follows the OCI distribution-spec v1.1 and distribution's token authentication.
"""

from __future__ import annotations

from imagegate.sources.registry.client import FetchedManifest, RegistryClient
from imagegate.sources.registry.credentials import (
    Anonymous,
    Credentials,
    CredentialStore,
    DockerCredentials,
)
from imagegate.sources.registry.push import PushedBlob, PushedImage, push_image
from imagegate.sources.registry.referrers import fallback_tag, list_referrers
from imagegate.sources.registry.retry import Clock, SystemClock
from imagegate.sources.registry.sink import RegistrySink
from imagegate.sources.registry.source import (
    RegistrySource,
    open_registry_image,
    registry_reference,
)
from imagegate.sources.registry.wire import Traffic, is_loopback

__all__ = [
    "Anonymous",
    "Clock",
    "CredentialStore",
    "Credentials",
    "DockerCredentials",
    "FetchedManifest",
    "PushedBlob",
    "PushedImage",
    "RegistryClient",
    "RegistrySink",
    "RegistrySource",
    "SystemClock",
    "Traffic",
    "fallback_tag",
    "is_loopback",
    "list_referrers",
    "open_registry_image",
    "push_image",
    "registry_reference",
]
