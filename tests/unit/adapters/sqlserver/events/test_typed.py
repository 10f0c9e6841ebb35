"""Typed change rows hold what the records hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange
from adapters.sqlserver.events.source_block import ReadPosition
from engine.events.batch import EventForm
from tests.typed_records import parsed, records
from tests.unit.adapters.sqlserver.changed import AFTER, BEFORE, CUSTOMERS, DELETE, INSERT, PLAIN, Changed
from tests.unit.adapters.sqlserver.events.test_decode import ANN, BOB, decoded

ROWS = (
    Changed(7, 3, INSERT, ANN),
    Changed(7, 4, INSERT, ("1",), instance=1),
    Changed(7, 5, BEFORE, ANN),
    Changed(7, 5, AFTER, BOB),
    Changed(8, 6, BEFORE, BOB),
    Changed(8, 6, AFTER, ("2", "bob", None)),
    Changed(8, 7, DELETE, ("2", "bob", None)),
)


@pytest.mark.parametrize("metadata", [False, True])
def test_columns_are_the_records(metadata):
    settings = replace(PLAIN, transaction_metadata=metadata)
    wanted = parsed(decoded(*ROWS, settings=settings).events)
    found = decoded(*ROWS, settings=replace(settings, form=EventForm.COLUMNS))
    tables = {"server1.testDB.dbo.customers", "server1.testDB.dbo.orders"}

    assert records(found.columns) == [collection for collection in wanted if collection["topic"] in tables]
    assert parsed(found.events) == [collection for collection in wanted if collection["topic"] not in tables]
    assert len(found.columns) == 2


def test_schema_changes_stay_records():
    change = SchemaChange(ChangeType.CREATE, CUSTOMERS, ReadPosition(5), 6)
    found = decoded(*ROWS, settings=replace(PLAIN, form=EventForm.COLUMNS), changes=(change,))

    assert [record["topic"] for record in parsed(found.events)] == ["server1"]
    assert sum(batch.num_rows for batch in found.columns) == 8
