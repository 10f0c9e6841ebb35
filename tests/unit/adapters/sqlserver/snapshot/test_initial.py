"""What an initial snapshot remembers, and what becomes of its rows when locks are lost."""

from __future__ import annotations

import pytest

from adapters.sqlserver.server.position import LogPosition, began_at, position_of
from adapters.sqlserver.snapshot.initial import by_database
from adapters.sqlserver.snapshot.watermark import AtBeginning
from engine.errors import SourceError
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import lsn

A, B = LogPosition(lsn(1)), LogPosition(lsn(2), 3, lsn(3), 4)


def test_where_logs_began_is_remembered_by_name():
    saved = {"names": ["b", "c"], "first": {"begins_at": {"a": str(A), "b": str(B)}}}

    assert began_at(saved) == {"a": A, "b": B}


def test_tables_are_read_database_by_database():
    short = [CollectionId(("dbo", name)) for name in ("b", "a")]
    tables = [CollectionId((database, "dbo", name)) for database in "xy" for name in "abc"]

    found = by_database(tables, ["y", "x"], short)

    assert list(map(str, found)) == ["y.dbo.b", "y.dbo.a", "x.dbo.b", "x.dbo.a"]


def test_older_states_have_the_places_in_the_order_of_the_names_they_were_saved_with():
    saved = {"names": ["a", "b"], "first": {"begins_at": list(position_of([A, B]).order)}}

    assert began_at(saved) == {"a": A, "b": B}


@pytest.mark.parametrize("memory", [{}, {"first": {}}, {"first": {"begins_at": None}}])
def test_a_log_whose_beginning_is_not_known_has_none(memory):
    assert began_at(memory) == {}


def test_rows_read_under_locks_hold_only_while_the_locks_do():
    held = True
    watermark = AtBeginning(lambda: held)
    watermark.seal()

    held = False
    with pytest.raises(SourceError, match="locks were lost"):
        watermark.seal()
