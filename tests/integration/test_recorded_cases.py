"""Every recorded case gives the recorded events, or our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import engine_under_test
from tests.golden.case import OWN_CASES, case_folders
from tests.golden.runner import Runner
from tests.golden.verdict import verdict
from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.usefixtures("spark")]

CASES = case_folders(OWN_CASES / "postgres")


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_recorded_case_gives_its_events(folder: Path, postgres15: PostgresServer):
    result = verdict(folder, Runner(postgres15, engine_under_test.start).run)

    assert result.fault is None
