"""What the thread that opens a window asks, over which sessions, and what becomes of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from adapters.postgres.log.pending_visibility import PendingVisibility
from adapters.postgres.snapshot.windows import OpenWindows
from engine.errors import SourceError
from engine.model import CollectionId, Run, Target, Window

WINDOW = Window("w", (Run(1, Target(CollectionId(("public", "t"))), None, None),))


class Pool:
    """Hands out numbered sessions, and records which were given back."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.given: list[int] = []

    def take(self) -> Any:
        self.taken.append(session := MagicMock(number=len(self.taken)))
        return session

    def give(self, session: Any) -> None:
        self.given.append(session.number)


@pytest.fixture
def tables() -> MagicMock:
    return MagicMock()


@pytest.fixture
def pool() -> Pool:
    return Pool()


@pytest.fixture
def opening(pool: Pool, tables: MagicMock) -> OpenWindows:
    made: Any = SimpleNamespace
    return OpenWindows(
        MagicMock(),
        made(clock=MagicMock(), slot=made(watch=None)),
        made(initial=None, blocking=None),
        made(pool=pool, tables=tables),
        MagicMock(),
    )


def test_tables_are_looked_up_over_another_session_which_is_given_back(opening, pool, tables):
    taken = opening._export(WINDOW, PendingVisibility())

    (session, targets) = tables.looked_up_over.call_args.args
    assert (session.number, list(targets)) == (1, [run.target for run in WINDOW.runs])
    assert taken.looked is tables.looked_up_over.return_value
    assert pool.given == [1]
    taken.close()
    assert pool.given == [1, 0]


def test_what_can_not_be_looked_up_leaves_no_snapshot_held(opening, pool, tables):
    tables.looked_up_over.side_effect = SourceError("the catalog can't be read")

    with pytest.raises(SourceError, match="catalog"):
        opening._export(WINDOW, PendingVisibility())
    assert sorted(pool.given) == [0, 1]
