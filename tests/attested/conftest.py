"""One built workspace for all tests that only read it."""

from __future__ import annotations

from datetime import date

import pytest

from imagegate.usecases.verify import verify_recipe
from tests.attested.cases import Judged
from tests.calls import calling
from tests.workspaces import Built, built_workspace


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built_workspace(tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="session")
def judged(built: Built) -> Judged:
    verdict, evidence = verify_recipe(
        calling(built.workspace, today=date(2026, 11, 29)), "served", image=None
    )
    assert verdict.passed
    return Judged(built, verdict, evidence)
