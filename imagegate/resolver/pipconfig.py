"""The user's pip configuration: where packages come from is theirs to say, and said once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from imagegate.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Mapping

PIP = (sys.executable, "-m", "pip")


def pip_settings() -> dict[str, str]:
    """Ask pip for its merged configuration.

    Returns:
        Settings of ``pip download`` by option name; a command's own section beats ``global``,
        the environment beats both, as for pip itself.

    Raises:
        FetchError: pip cannot be run.
    """
    command = [*PIP, "config", "list"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise FetchError(
            f"pip cannot read its own configuration: {found.stderr.strip()}",
            hint=f"run `{' '.join(command)}`",
        )
    by_section: dict[str, dict[str, str]] = {"global": {}, "download": {}, ":env:": {}}
    for line in found.stdout.splitlines():
        name, equals, literal = line.partition("=")
        section, dot, option = name.rpartition(".")
        if equals and dot and section in by_section:
            by_section[section][option] = str(ast.literal_eval(literal))
    return {**by_section["global"], **by_section["download"], **by_section[":env:"]}


def uv_options(settings: Mapping[str, str]) -> list[str]:
    """Translate what uv takes as an option only."""
    no_index = settings.get("no-index", "").lower() in ("1", "true", "t", "yes", "y", "on")
    return ["--no-index"] if no_index else []


def uv_environment(settings: Mapping[str, str], cache: str) -> dict[str, str]:
    """Translate pip's settings into the environment that makes uv read the same indexes.

    A variable that the user has set for uv stays as it is.
    """
    translated: dict[str, str] = {"UV_NO_CONFIG": "1", "UV_CACHE_DIR": cache, "NO_COLOR": "1"}
    if "index-url" in settings:
        translated["UV_DEFAULT_INDEX"] = settings["index-url"]
    extra = settings.get("extra-index-url", "").split()
    if extra:
        translated["UV_INDEX"] = " ".join(extra)
        # pip takes the best version of all indexes; uv by default the first index that has any
        translated["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if settings.get("find-links", "").split():
        translated["UV_FIND_LINKS"] = ",".join(settings["find-links"].split())
    if "cert" in settings:
        translated["SSL_CERT_FILE"] = settings["cert"]
    if settings.get("trusted-host", "").split():
        translated["UV_INSECURE_HOST"] = " ".join(settings["trusted-host"].split())
    if "proxy" in settings:
        translated["ALL_PROXY"] = settings["proxy"]
    return {**translated, **os.environ, "UV_CACHE_DIR": cache}
