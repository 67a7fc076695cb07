"""Policies that let only judged images run, for the programs that decide what may.

Each consumes the signed SLSA verification summary beside the image (predicate type
``https://slsa.dev/verification_summary/v1``): who gave it, that it says PASSED, by which lock, that
every check there is was among those that passed, and when. That the statement is about the image
that is to run is for the program to prove: a DSSE envelope's subject names its digest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined

from imagegate.attestation.statement import SUMMARY_TYPE, TOOL
from imagegate.attestation.summary import level_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from imagegate.oci.digest import Digest


class Engine(StrEnum):
    """What decides whether an image may run; the value is the command line's word."""

    KYVERNO = "kyverno"
    POLICY_CONTROLLER = "policy-controller"
    COSIGN = "cosign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """What may run of one repository.

    Attributes:
        profile: the profile's name.
        repository: registry and path, without tag and digest.
        lock: digest of the lock that the published image was judged by.
    """

    profile: str
    repository: str
    lock: Digest


def render(
    engine: Engine,
    gated: Iterable[Gated],
    *,
    key: str,
    checks: Iterable[str],
    not_before: str | None = None,
    version: str,
) -> str:
    """Write the policy, one document a profile.

    Args:
        engine: who is to obey it.
        gated: what may run.
        key: the public key that signs verdicts, as PEM.
        checks: ids of the checks that a summary has to name.
        not_before: RFC 3339 in UTC; a verdict given earlier does not count.
        version: this tool's version.
    """
    environment = Environment(  # noqa: S701 - YAML and CUE are written; every value is quoted as JSON
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    # a JSON string is a string of YAML 1.2 and of CUE
    environment.filters["quoted"] = json.dumps
    folder = files(__name__)
    template = environment.from_string(folder.joinpath(f"{engine.value}.j2").read_text("utf-8"))
    summary = environment.from_string(folder.joinpath("summary.cue.j2").read_text("utf-8"))
    levels = [level_of(check) for check in checks]
    assert levels
    documents = []
    for one in gated:
        values = {
            "gated": one,
            "repository": one.repository,
            "lock": one.lock.encoded,
            "key": key.strip().splitlines(),
            "levels": levels,
            "not_before": not_before,
            "predicate_type": SUMMARY_TYPE,
            "verifier": TOOL,
            "version": version,
        }
        documents.append(template.render(values, cue=summary.render(values).rstrip("\n")))
    return "".join(documents)
