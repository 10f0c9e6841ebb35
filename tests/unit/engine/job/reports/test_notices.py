"""Which notifications a job makes, field by field, and in which turn they go out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine.errors import NoUsableKey, SignalError, SinkError, SourceError, UnknownCollection
from engine.events.record.notification import Notification, notification_records
from engine.events.settings import EventSettings
from engine.job.reports.notices import Notices
from engine.job.reports.open_requests import MOST_NAMED
from engine.job.reports.outbox import Outlet
from engine.model import CollectionId, ExecuteSnapshot, Target
from engine.ports.source import SourceNotice
from engine.snapshot.changes.commands import begin_initial
from engine.snapshot.extent import Extent
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.job_bench import BOTH, Bench, T, U

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPIC = "notices"
INITIAL, INCREMENTAL = "Initial Snapshot", "Incremental Snapshot"
PAYLOADS = EventSettings("tm", "d", key_schemas=False, value_schemas=False)


class Received(list[Notification]):
    """The channel besides the sink."""

    def take(self, notifications: Sequence[Notification]) -> None:
        self.extend(notifications)


def outlet(told: Received, numbers: Any) -> Outlet:
    record = partial(notification_records, PAYLOADS, TOPIC)
    return Outlet("tm", lambda: 1000.5, lambda: f"id-{next(numbers)}", record, told.take)


@pytest.fixture
def told() -> Received:
    return Received()


@pytest.fixture
def bench(tmp_path: Path, told: Received) -> Bench:
    bench = Bench(tmp_path, window_rows=2, slice_s=0.0, slice_bytes=1)
    bench.outlet = outlet(told, count(1))
    bench.new_job().settle()
    bench.job.start()
    return bench


def sent(bench: Bench) -> list[dict[str, Any]]:
    """The values of the notifications in the sink."""
    return [orjson.loads(event["value"]) for event in bench.sink.events() if event["topic"] == TOPIC]


def of_signals(bench: Bench) -> list[dict[str, Any]]:
    return [event for event in sent(bench) if event["aggregate_type"] == INCREMENTAL]


def made(type_: str, **data: str) -> dict[str, Any]:
    """A notification of signal `s`."""
    return {
        "id": "s",
        "type": type_,
        "aggregate_type": INCREMENTAL,
        "additional_data": {"connector_name": "tm", **data},
        "timestamp": 1_000_500,
    }


def test_an_incremental_snapshot_from_its_start_to_its_end(bench):
    bench.execute()
    bench.turns(40)

    def read(last: str) -> dict[str, str]:
        names = {"data_collections": "public.t", "current_collection_in_progress": "public.t"}
        return {**names, "maximum_key": "5", "last_processed_key": last}

    scanned = {"data_collections": "public.t", "scanned_collection": "public.t"}
    assert of_signals(bench) == [
        made("STARTED", data_collections="public.t"),
        made("IN_PROGRESS", **read("2")),
        made("IN_PROGRESS", **read("4")),
        made("TABLE_SCAN_COMPLETED", **scanned, total_rows_scanned="5", status="SUCCEEDED"),
        made("COMPLETED"),
    ]


def test_a_snapshot_of_two_collections_completes_once(bench):
    bench.execute(BOTH)
    bench.turns(40)

    found = of_signals(bench)
    assert found[0] == made("STARTED", data_collections="public.t,public.u")
    scans = [
        notification["additional_data"]
        for notification in found
        if notification["type"] == "TABLE_SCAN_COMPLETED"
    ]
    assert [(scan["data_collections"], scan["scanned_collection"]) for scan in scans] == [
        ("public.t,public.u", "public.t"),
        ("public.u", "public.u"),
    ]
    assert [notification["type"] for notification in found].count("COMPLETED") == 1
    assert found[-1] == made("COMPLETED")


def test_the_key_of_a_record_is_the_signals_id(bench):
    bench.execute()
    bench.turns(40)

    keys = [orjson.loads(event["key"]) for event in bench.sink.events() if event["topic"] == TOPIC]
    assert keys[1:] == [{"id": "s"}] * 5


def test_pause_resume_and_stop(bench):
    bench.execute(BOTH)
    bench.turns(1)
    bench.database.signal("p", "pause-snapshot", '{"data-collections": ["public.u"]}')
    bench.turns(1)
    bench.database.signal("r", "resume-snapshot", "{}")
    bench.turns(1)
    bench.database.signal("one", "stop-snapshot", '{"type": "incremental", "data-collections": ["public.u"]}')
    bench.turns(1)
    bench.database.signal("all", "stop-snapshot", '{"type": "incremental"}')
    bench.turns(10)

    found = [
        of_signal
        for of_signal in of_signals(bench)
        if of_signal["type"] in {"PAUSED", "RESUMED", "ABORTED", "COMPLETED"}
    ]
    assert found == [
        made("PAUSED", data_collections="public.u"),
        made("RESUMED", data_collections="public.u"),
        made("ABORTED", data_collections="public.u"),
        made("ABORTED"),
    ]


def test_signals_that_share_an_entry_are_each_told(bench):
    bench.database.signal("a", "execute-snapshot", '{"data-collections": ["public.t"]}')
    bench.database.signal("b", "execute-snapshot", '{"data-collections": ["public.t"]}')
    bench.turns(40)

    for name in "ab":
        types = [of_signal["type"] for of_signal in of_signals(bench) if of_signal["id"] == name]
        assert types == ["STARTED", "IN_PROGRESS", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]


def test_a_dry_run_and_a_refused_signal_are_no_snapshots(bench):
    bench.execute('{"data-collections": ["public.t"], "dry-run": true}')
    bench.execute('{"data-collections": "public.t"}')
    bench.turns(5)

    assert of_signals(bench) == []


def test_a_job_that_reads_nothing_first_says_so_once(bench):
    bench.turns(3)
    bench.job.close()
    bench.turns(3)

    skipped = {"id": "id-1", "type": "SKIPPED", "aggregate_type": INITIAL}
    data = {"additional_data": {"connector_name": "tm"}, "timestamp": 1_000_500}
    assert sent(bench) == [{**skipped, **data}]


def test_other_channels_hear_what_was_sent_after_it_is_saved(bench):
    heard: list[tuple[int, int, int]] = []

    def tell(told: Sequence[Notification]) -> None:
        promoted = bench.store.load().promoted
        heard.append((len(told), len(sent(bench)), promoted.turn if promoted else 0))

    bench.outlet = replace(bench.outlet, tell=tell)
    bench.job.close()
    bench.new_job().settle()
    bench.job.start()
    bench.turns(2)

    assert heard == [(1, 1, 1)]


@pytest.mark.parametrize("step", ["save_pending", "commit"])
def test_a_turn_done_again_doubles_nothing(bench, step, monkeypatch):
    bench.execute()
    port = bench.sink if step == "commit" else bench.store
    behind, failures = getattr(port, step), iter(range(1000))

    def every_second(*args: Any) -> Any:
        if next(failures) % 2 == 0:
            raise SinkError("not now")
        return behind(*args)

    monkeypatch.setattr(port, step, every_second)
    for _ in range(80):
        try:
            bench.job.turn()
        except SinkError:
            bench.job.close()
            bench.job.settle()
            bench.job.start()
    types = [of_signal["type"] for of_signal in of_signals(bench)]

    assert types == ["STARTED", "IN_PROGRESS", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]


def test_a_restart_between_turns_goes_on_where_the_last_one_was(bench):
    bench.execute(BOTH)
    for _ in range(20):
        bench.turns(4)
        bench.job.close()
        bench.new_job().settle()
        bench.job.start()

    types = [of_signal["type"] for of_signal in of_signals(bench)]
    assert types.count("STARTED") == types.count("COMPLETED") == 1


def test_without_an_outlet_nothing_is_kept(tmp_path):
    bench = Bench(tmp_path)
    bench.execute(BOTH)
    bench.turns(20)

    notices = bench.job._parts.notices
    assert not notices.outbox.waiting
    assert notices._requests._targets == {}


# Without a job.


def noted(notices: Notices) -> list[tuple[str, str, dict[str, str]]]:
    """What waits, and no longer waits then."""
    found = [
        (notification.aggregate_type, notification.type, dict(notification.additional_data))
        for notification in notices.outbox._waiting
    ]
    notices.outbox._waiting.clear()
    return found


@pytest.fixture
def notices() -> Notices:
    return Notices(outlet(Received(), count(1)))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoUsableKey("no key"), "NO_PRIMARY_KEY"),
        (UnknownCollection("there is no such table"), "UNKNOWN_SCHEMA"),
        (SignalError("the condition is refused"), "SKIPPED"),
        (SourceError("gone"), "SQL_EXCEPTION"),
    ],
)
def test_the_status_says_why_a_collection_was_not_read(notices, error, status):
    notices.queued(ExecuteSnapshot("1", (Target(T), Target(U)), "s"))
    noted(notices)
    notices.collections.failed(Table(1, "1", Target(T), id="s"), error)

    data = {
        "connector_name": "tm",
        "data_collections": "public.t,public.u",
        "scanned_collection": "public.t",
        "total_rows_scanned": "0",
        "status": status,
    }
    assert noted(notices) == [(INCREMENTAL, "TABLE_SCAN_COMPLETED", data)]


def test_an_empty_collection_is_told_to_be_empty(notices):
    table = Table(1, "1", Target(T), Extent(0, 0, whole=True).begun(0))
    notices.queued(ExecuteSnapshot("1", (Target(T),)))
    notices.collections.finished(table)

    (started, scanned, completed) = noted(notices)
    assert started[1] == "STARTED"
    assert (scanned[2]["status"], scanned[2]["total_rows_scanned"]) == ("EMPTY", "0")
    assert completed[1] == "COMPLETED"


def test_an_initial_snapshot(notices):
    queue = begin_initial(Snapshot(), [T, U], "snapshot.mode")
    first, second = (
        replace(table, progress=replace(Extent(5, 100).begun(0), rows=5)) for table in queue.tables
    )
    notices.opened(Snapshot(), queue)
    notices.opened(queue, queue)
    notices.collections.started(first)
    notices.collections.progress(first, 50)
    notices.collections.finished(first)
    notices.collections.failed(second, SourceError("gone"))

    both = {"connector_name": "tm", "data_collections": "public.t,public.u"}
    rows = {"total_rows_scanned": "5", "status": "SUCCEEDED"}
    lost = {"scanned_collection": "public.u", "status": "SQL_EXCEPTION"}
    assert noted(notices) == [
        (INITIAL, "STARTED", {"connector_name": "tm"}),
        (INITIAL, "IN_PROGRESS", {**both, "current_collection_in_progress": "public.t"}),
        (INITIAL, "TABLE_SCAN_COMPLETED", {**both, "scanned_collection": "public.t", **rows}),
        (INITIAL, "TABLE_SCAN_COMPLETED", {"connector_name": "tm", **lost}),
        (INITIAL, "COMPLETED", {"connector_name": "tm"}),
    ]


def test_an_initial_snapshot_that_begins_anew_aborts_the_one_before(notices):
    old = begin_initial(Snapshot(), [T, U], "snapshot.mode")
    notices.resume(old)
    notices.opened(old, begin_initial(old, [U], "snapshot.mode"))
    notices.collections.finished(begin_initial(old, [U], "snapshot.mode").tables[0])

    assert [type_ for _aggregate, type_, _data in noted(notices)] == [
        *("ABORTED", "STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"),
    ]


def test_a_collection_that_appears_is_a_snapshot_of_its_own(notices):
    table = Table(1, "tidemark-new-public.t", Target(T), id="tidemark-new-public.t")
    notices.collections.appeared(table, "tidemark-new-public.t", "is captured from now on")
    notices.collections.excluded(table)

    found = noted(notices)
    assert [type_ for _aggregate, type_, _data in found] == ["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"]
    assert found[1][2]["status"] == "SKIPPED"


def test_a_notification_names_a_limited_number_of_collections(notices):
    targets = tuple(Target(CollectionId(("public", f"t{number}"))) for number in range(MOST_NAMED + 5))
    notices.queued(ExecuteSnapshot("1", targets))

    (started,) = noted(notices)
    assert started[2]["data_collections"].count(",") == MOST_NAMED - 1


def test_what_a_source_tells_goes_out_with_the_turn_of_its_span(bench: Bench, told: Received):
    notice = SourceNotice("Capture Instance", "COMPLETED", {"capture_instance": "dbo_t"})
    bench.turns(1)
    told.clear()
    bench.job._parts.notices.note_from_source([notice])
    assert not told
    bench.turns(1)

    data = {"connector_name": "tm", "capture_instance": "dbo_t"}
    told_now = [
        (notification.aggregate_type, notification.type, notification.additional_data)
        for notification in told
    ]
    assert told_now == [("Capture Instance", "COMPLETED", data)]
    assert sent(bench)[-1]["additional_data"] == data
