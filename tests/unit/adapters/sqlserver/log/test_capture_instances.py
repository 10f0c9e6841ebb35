"""Tests for which tables lack changes because an older capture instance was dropped too early."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.sqlserver.log.capture_instances import Instances, check_dropped
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Capture, Column, Table
from engine.errors import PositionLost
from engine.model import CollectionId

T, U = (CollectionId(("db", "dbo", name)) for name in "tu")


def _lsn(number: int) -> str:
    return f"00000000:00000000:{number:04x}"


def _capture(table: CollectionId, start: int) -> Capture:
    return Capture(f"{table.parts[-1]}{start}", table, _lsn(start), ("id",), start)


_OLDER, _YOUNGER, _OTHER = _capture(T, 1), _capture(T, 9), _capture(U, 1)


@pytest.mark.parametrize(
    ("found", "position", "lacking"),
    [
        ((_YOUNGER, _OTHER), LogPosition(_lsn(4)), {T}),
        ((_YOUNGER, _OTHER), LogPosition(_lsn(8)), set()),
        ((_YOUNGER, _OTHER), LogPosition(_lsn(8), 1, _lsn(7), 2), {T}),
        ((_OLDER, _YOUNGER, _OTHER), LogPosition(_lsn(4)), set()),
        ((_OLDER, _OTHER), LogPosition(_lsn(4)), set()),
        ((_OTHER,), LogPosition(_lsn(4)), set()),
    ],
)
def test_a_table_lacks_changes_where_no_instance_has_them(found, position, lacking):
    known = Instances((_OLDER, _YOUNGER, _OTHER)).begins

    assert set(check_dropped(known, found, position)) == lacking


def test_a_table_that_was_not_captured_before_lacks_nothing():
    known = Instances((_OTHER,)).begins

    assert check_dropped(known, (_YOUNGER, _OTHER), LogPosition(_lsn(4))) == {}


def test_a_table_is_read_from_something_else_once_it_has_lost_a_column():
    table, after = Table(T, (Column("id", 1, "int"),)), LogPosition(_lsn(4))
    before = Instances((_OLDER,), {_OLDER.name: table}).tellers(after)
    lost = replace(table, lost=frozenset({"id"}))

    assert Instances((_OLDER,), {_OLDER.name: table}).tellers(after) == before
    assert Instances((_OLDER,), {_OLDER.name: lost}).tellers(after) != before


def test_a_signal_table_that_lacks_changes_ends_the_job():
    known = Instances((_OLDER, _OTHER)).begins

    with pytest.raises(PositionLost, match=r"db\.dbo\.t begins at"):
        check_dropped(known, (_YOUNGER, _OTHER), LogPosition(_lsn(4)), (T,))
