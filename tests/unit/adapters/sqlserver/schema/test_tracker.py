"""What is told of tables' shapes: once, when an instance comes, takes over, or goes with its table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn, cast

from adapters.sqlserver.events.codecs import Codecs
from adapters.sqlserver.log.capture_instances import Instances
from adapters.sqlserver.log.reader import LogSlice
from adapters.sqlserver.log.span_reader import ReadSpan
from adapters.sqlserver.schema.tracker import SchemaTracker
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Capture, Column
from adapters.system import system_clock
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, PLAIN, lsn

if TYPE_CHECKING:
    import pytest

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.server.table import Table
    from engine.model import CollectionId

WIDER = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("more", 4, "int")))
OLD = Capture("old", CUSTOMERS.id, lsn(1), (), 1, 1, lsn(1))
YOUNG = Capture("young", CUSTOMERS.id, lsn(50), (), 2, 1, lsn(50))
BOTH = Instances((OLD, YOUNG), {"old": CUSTOMERS, "young": WIDER})
ONE = Instances((OLD,), {"old": CUSTOMERS})


@dataclass
class Tables:
    """A database's tables, and how often they were asked for."""

    there: list[CollectionId]
    asked: list[str] = field(default_factory=list)

    def listed(self, database: str) -> list[CollectionId]:
        self.asked.append(database)
        return self.there


class NoCodecs(Codecs):
    """Codecs of tables that nothing can be decoded of."""

    def codec(self, table: Table, merge_key: tuple[str, ...] = ()) -> NoReturn:  # noqa: ARG002  the base's
        raise OverflowError("out of range")


def tracker_of(tables: Tables, codecs: Codecs | None = None) -> SchemaTracker:
    return SchemaTracker(cast("Databases", tables), codecs or Codecs(PLAIN), None, system_clock())


def told(of: SchemaTracker, before: int, end: int, instances: Instances, *, look: bool = False) -> list[str]:
    taken = LogSlice(LogPosition(lsn(end)), ReadSpan(), instances, 0.0, changed=look)
    made = of.record_changes(CUSTOMERS.id.parts[0], LogPosition(lsn(before)), taken, "false")
    return [f"{change.type} {len(change.table.columns)}" for change in made]


def test_a_shape_is_told_once():
    tracker = tracker_of(Tables([CUSTOMERS.id]))

    assert told(tracker, 10, 10, ONE, look=True) == ["CREATE 3"]
    assert told(tracker, 10, 20, ONE) == told(tracker, 20, 20, ONE, look=True) == []


def test_a_younger_instance_is_told_of_when_the_stream_comes_to_its_start():
    tracker = tracker_of(Tables([CUSTOMERS.id]))

    assert told(tracker, 10, 10, BOTH, look=True) == ["CREATE 3"]
    assert told(tracker, 10, 48, BOTH) == []
    assert told(tracker, 48, 60, BOTH) == ["ALTER 4"]
    assert told(tracker, 60, 70, BOTH) == []


def test_it_is_told_of_though_the_stream_ends_right_before_its_start():
    instances = replace(BOTH, captures=(OLD, replace(YOUNG, start="00000027:00000032:0002")))
    tracker = tracker_of(Tables([CUSTOMERS.id]))
    told(tracker, 10, 10, instances, look=True)

    assert told(tracker, 10, 50, instances) == ["ALTER 4"]


def test_a_table_that_went_with_its_instance_is_dropped_and_one_that_stays_is_not():
    tables = Tables([CUSTOMERS.id])
    tracker = tracker_of(tables)
    told(tracker, 10, 10, ONE, look=True)

    assert told(tracker, 10, 20, Instances(), look=True) == []
    tables.there.clear()
    assert told(tracker, 20, 30, Instances(), look=True) == ["DROP 3"]


def test_a_span_without_changed_instances_asks_for_nothing():
    tables = Tables([CUSTOMERS.id])
    tracker = tracker_of(tables)
    told(tracker, 10, 10, ONE, look=True)
    told(tracker, 10, 20, Instances(), look=True)
    asked = list(tables.asked)

    told(tracker, 20, 30, Instances())

    assert tables.asked == asked


def test_a_table_without_a_codec_is_told_of_and_warned_of_by_name(caplog: pytest.LogCaptureFixture):
    tracker = tracker_of(Tables([CUSTOMERS.id]), NoCodecs(PLAIN))

    assert told(tracker, 10, 10, ONE, look=True) == ["CREATE 3"]
    (message,) = caplog.messages
    assert message.startswith("testDB.dbo.customers: its entries can't be decoded: OverflowError")


def test_what_was_told_is_remembered_and_taken_up():
    first, second = tracker_of(Tables([])), tracker_of(Tables([]))
    told(first, 10, 10, ONE, look=True)

    second.recover(first.memory(), {})

    assert told(second, 10, 10, ONE, look=True) == []
