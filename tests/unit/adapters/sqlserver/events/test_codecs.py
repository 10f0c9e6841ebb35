"""The codecs and row shapes that the job decodes a span with."""

from __future__ import annotations

import pytest

from adapters.sqlserver.events.codecs import Codecs
from adapters.sqlserver.events.decode import Rules, Watch, decode
from adapters.sqlserver.log.capture_instances import Instances
from adapters.sqlserver.server.table import Capture, Column, Table
from engine.events.values.row_form import RowMode
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import AFTER, BEFORE, PLAIN, Changed, lsn, raw, shown

ID = CollectionId(("testDB", "dbo", "t"))


def before(kind: str, length: int) -> object:
    """What an update that leaves a large NOT NULL value alone says of it, as it was."""
    columns = (Column("id", 1, "int", nullable=False), Column("v", 2, kind, length, nullable=False))
    table = Table(ID, columns, ("id",))
    capture = Capture("dbo_t", ID, lsn(1), ("id", "v"), 7, 8)
    made, _faults = Codecs(PLAIN).instances(Instances((capture,), {"dbo_t": table}), {0: RowMode.FAST}, {})
    batch = raw([Changed(7, 1, BEFORE, ("1", None)), Changed(7, 1, AFTER, ("1", "61"))], (table,))
    (event,) = shown(decode([batch], Rules(PLAIN, made), Watch(), 0).events)
    found: object = event["value"]["before"]["v"]
    return found


@pytest.mark.parametrize("kind", ["varchar", "nvarchar"])
def test_a_large_value_that_was_left_alone_is_what_it_is(kind: str):
    assert before(kind, -1) == "61"


@pytest.mark.parametrize("kind", ["text", "ntext", "image"])
def test_the_old_value_of_a_type_that_never_has_one_is_not_invented(kind: str):
    assert before(kind, 16) != before("varbinary" if kind == "image" else "varchar", -1)
