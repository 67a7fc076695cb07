"""The JSON schema of ``coverage.toml``, as it is shipped."""

from __future__ import annotations

from importlib.resources import files


def schema_text() -> str:
    """Return the schema (JSON Schema 2020-12) of `imagegate.asking.document.CoverageToml`."""
    return files("imagegate.asking").joinpath("coverage.schema.json").read_text(encoding="utf-8")
