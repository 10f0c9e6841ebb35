"""States that commit 90f822a saved are read, and what they keep of each source is, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adapters.mongodb import saved as mongodb
from adapters.postgres import saved as postgres
from adapters.sqlserver import saved as sqlserver
from engine.job.saved.state_document import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.saved.state import State

STATES = Path(__file__).parent / "states"


@pytest.mark.parametrize(
    ("source", "read", "reading"),
    [
        ("postgres", postgres.saved_of, 0),
        ("mongodb", mongodb.saved_of, 1),
        ("sqlserver", sqlserver.check_saved, 1),
    ],
)
def test_a_state_of_an_older_commit_is_read(source: str, read: Callable[[State], object], reading: int):
    state = from_json((STATES / f"{source}.json").read_bytes())
    read(state)

    assert sum(table.progress is not None for table in state.snapshot.tables) == reading
    assert state.position is not None
    assert from_json(to_json(state)) == state
