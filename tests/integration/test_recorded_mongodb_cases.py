"""Every third recorded MongoDB case gives the recorded events, or our own.

All of them take five minutes: `make golden` runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import engine_under_test
from tests.golden.case import OWN_CASES, case_folders
from tests.golden.mongo_runner import MongoRunner
from tests.golden.verdict import verdict
from tests.servers.mongodb import MongoServer

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.usefixtures("spark")]


CASES = case_folders(OWN_CASES / "mongodb")[::3]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_recorded_case_gives_its_events(folder: Path, mongodb: MongoServer):
    result = verdict(folder, MongoRunner(mongodb, engine_under_test.start_mongodb).run)

    assert result.fault is None
