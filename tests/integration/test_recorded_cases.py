"""Recorded cases give the recorded events, or our own: a sample of each kind on a server.

All of them: `make golden`. `tests/unit/golden_wal` decodes the log of every case that has one.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden import engine_under_test
from tests.golden.case import OWN_CASES, case_folders, load_case
from tests.golden.runner import Runner
from tests.golden.verdict import verdict
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.usefixtures("spark")]


def sample(folders: Sequence[Path]) -> list[Path]:
    """Two cases of each family that reads rows, and every third of those that only stream."""
    families: dict[str, list[Path]] = defaultdict(list)
    streamed = []
    for folder in folders:
        if any(event.op == "r" for event in load_case(folder).expected):
            families[folder.name.partition("_")[0]].append(folder)
        else:
            streamed.append(folder)
    return sorted(streamed[::3] + [folder for family in families.values() for folder in family[:2]])


CASES = sample(case_folders(OWN_CASES / "postgres"))


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_recorded_case_gives_its_events(folder: Path, postgres15: PostgresServer):
    result = verdict(folder, Runner(postgres15, engine_under_test.start).run)

    assert result.fault is None
