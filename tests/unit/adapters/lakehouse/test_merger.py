from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse import sink as lake_sink
from adapters.lakehouse.digests import digests
from adapters.lakehouse.journal import Journal
from adapters.lakehouse.merger import Admission, Merger
from adapters.lakehouse.port import NewTable
from adapters.lakehouse.removal import Removal
from adapters.lakehouse.settings import LakeSettings, TableMode, TypeChange
from adapters.lakehouse.sink import LakeSink, MergeThread, Pace
from adapters.system import start_thread, system_clock
from engine.config.sinks.settings import SchemaEvolution, TopicRecreated
from engine.errors import LeaseLost, SinkError, SinkRefused, TopicRemade, TopicsRefused
from engine.events.record.schema import INT64, STRING, struct
from tests.hand_clock import HandClock
from tests.lake import NAMING, SETTINGS, CrashError, Dying, MemoryTables, lake, send
from tests.turns import Turns
from tests.typed_batches import MISSING, PLACEHOLDERS, change, typed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T, OTHER = TableName("", "tm_public_t"), TableName("", "other")
FIRST = typed(change("c", 1), change("c", 2))
TEXT_NOTE = struct("Value", ("id", INT64), ("note", STRING.nullable()), ("text", STRING), optional=True)
NUMBER_NOTE = struct("Value", ("id", INT64), ("note", INT64.nullable()), ("text", STRING), optional=True)


def note(number: int, content: Any, row: Any) -> pa.RecordBatch:
    return typed(("c", {"id": number}, {"id": number, "note": content, "text": "t"}), row=row)


def rows(tables: MemoryTables, name: TableName = T) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in tables.tables[name].rows)


def test_turns_that_wait_are_one_write(tmp_path: Path):
    tables = MemoryTables()
    sink = Turns(lake(tmp_path, tables, 1))
    for turn, batch in enumerate((FIRST, typed(change("u", 1, "b")), typed(change("d", 2))), 1):
        sink.writer(turn).write(0, [batch])
        sink.commit(turn)
    assert tables.tables == {}

    sink.drain()

    assert rows(tables) == [(1, "b", "t")]
    assert tables.writes == [("write", "tm_public_t", 3)]


def test_a_group_is_the_same_for_whoever_continues(tmp_path: Path):
    commit(lake(tmp_path, MemoryTables(), 1), 1, FIRST)
    old = Journal(tmp_path, 2)
    assert old.group(1 << 20) == 1
    commit(lake(tmp_path, MemoryTables(), 3), 2, FIRST)

    assert Journal(tmp_path, 4).group(1 << 20) == 1


def commit(sink: LakeSink, turn: int, *batches: pa.RecordBatch) -> None:
    turns = Turns(sink)
    writer = turns.writer(turn)
    for number, batch in enumerate(batches):
        writer.write(number, [batch])
    turns.commit(turn)


@pytest.mark.parametrize("recreated", TopicRecreated)
@pytest.mark.parametrize("replaced", [False, True])
def test_a_table_that_was_dropped_or_replaced_is_told(
    tmp_path: Path, recreated: TopicRecreated, *, replaced: bool
):
    tables, settings = MemoryTables(), replace(SETTINGS, recreated=recreated)
    send(lake(tmp_path, tables, 1, settings), 1, FIRST)
    del tables.tables[T]
    if replaced:
        tables.create(T, NewTable({"id": "int", "note": "string", "text": "string"}, ("id",)))
    sink = lake(tmp_path, tables, 2, settings)
    commit(sink, 2, typed(change("c", 3)))

    if recreated is TopicRecreated.STOP:
        with pytest.raises(SinkRefused, match="was replaced" if replaced else "was dropped"):
            sink.drain()
        return
    sink.drain()
    assert rows(tables) == [(3, "n", "t")]
    with pytest.raises(TopicsRefused) as caught:
        commit(sink, 3, typed(change("c", 4)))
    remade = caught.value.reasons["tm.public.t"]
    assert isinstance(remade, TopicRemade)
    assert remade.snapshot == (recreated is TopicRecreated.SNAPSHOT)
    commit(sink, 3, typed(change("c", 4)))  # told once


def test_a_dropped_table_is_told_after_a_restart_if_the_job_did_not_hear_of_it(tmp_path: Path):
    tables, settings = MemoryTables(), replace(SETTINGS, recreated=TopicRecreated.SNAPSHOT)
    send(lake(tmp_path, tables, 1, settings), 1, FIRST)
    del tables.tables[T]
    send(lake(tmp_path, tables, 2, settings), 2, typed(change("c", 3)))
    again = lake(tmp_path, tables, 3, settings)
    send(again, 3, typed(change("c", 4)))

    with pytest.raises(TopicsRefused):
        commit(again, 4, typed(change("c", 5)))
    send(again, 4, typed(change("c", 5)))
    last = lake(tmp_path, tables, 4, settings)
    send(last, 5, typed(change("c", 6)))
    assert rows(tables) == [(n, "n", "t") for n in (3, 4, 5, 6)]
    assert last._merger.remade == {}


@pytest.mark.parametrize("drops", [True, False])
def test_what_a_table_lacks_is_told_again_if_the_job_dies_before_it_has_saved_it(
    tmp_path: Path, *, drops: bool
):
    tables = MemoryTables()
    send(lake(tmp_path, tables, 1), 1, note(1, "text", TEXT_NOTE))
    sink = lake(tmp_path, tables, 2)
    commit(sink, 2, note(2, "text", TEXT_NOTE))
    if drops:
        del tables.tables[T]
    else:
        tables.tables[T].columns["note"] = "date"  # which takes no text
    sink._journal.group(1 << 20)
    commit(sink, 3, note(3, "text", TEXT_NOTE))
    sink._merger.step()
    if not drops:
        del tables.tables[T]
    with pytest.raises(TopicsRefused):
        commit(sink, 4, note(4, "text", TEXT_NOTE))
    sink.drain()  # turn 3, before turn 4 is repeated
    again = lake(tmp_path, tables, 3)
    send(again, 4, note(4, "text", TEXT_NOTE))

    with pytest.raises(TopicsRefused) as caught:
        commit(again, 5, note(5, "text", TEXT_NOTE))
    assert isinstance(caught.value.reasons["tm.public.t"], TopicRemade)
    send(again, 5, note(5, "text", TEXT_NOTE))
    last = lake(tmp_path, tables, 4)
    send(last, 6, note(6, "text", TEXT_NOTE))
    assert last._merger.remade == {}


def test_a_table_that_is_ahead_of_the_checkpoint_is_refused(tmp_path: Path):
    tables = MemoryTables()
    for turn in (1, 2, 3):
        send(lake(tmp_path / "one", tables, turn), turn, FIRST)
    restored = lake(tmp_path / "two", tables, 1)
    commit(restored, 1, FIRST)

    with pytest.raises(SinkRefused, match="turns up to 3, and the job merges turns up to 1 behind 0"):
        restored.drain()


def test_a_restored_checkpoint_is_told_however_far_the_job_has_come(tmp_path: Path):
    tables = MemoryTables()
    for turn in (1, 2, 3):
        send(lake(tmp_path / "one", tables, turn), turn, FIRST)
    restored = lake(tmp_path / "two", tables, 1)
    for turn in (1, 2, 3, 4):
        commit(restored, turn, typed(change("c", 10 + turn)))

    with pytest.raises(SinkRefused, match="turns up to 3, and the job merges turns up to 4 behind 0"):
        restored.drain()


@pytest.mark.parametrize("recreated", [TopicRecreated.STOP, TopicRecreated.SNAPSHOT])
def test_a_table_that_was_replaced_under_a_running_job_is_told_once(
    tmp_path: Path, recreated: TopicRecreated
):
    tables = MemoryTables()
    sink = lake(tmp_path, tables, 1, replace(SETTINGS, recreated=recreated))
    send(sink, 1, FIRST)
    del tables.tables[T]
    tables.create(T, NewTable({"id": "int", "note": "string", "text": "string"}, ("id",)))

    if recreated is TopicRecreated.STOP:
        with pytest.raises(SinkRefused, match="was replaced"):
            send(sink, 2, typed(change("c", 3)))
        return
    send(sink, 2, typed(change("c", 3)))
    with pytest.raises(TopicsRefused):
        commit(sink, 3, typed(change("c", 4)))
    send(sink, 3, typed(change("c", 4)))
    send(sink, 4, typed(change("c", 5)))
    assert rows(tables) == [(n, "n", "t") for n in (3, 4, 5)]


def test_a_table_can_t_take_a_type_and_is_refused_alone_before_the_commit(tmp_path: Path):
    tables = MemoryTables()
    send(lake(tmp_path, tables, 1), 1, FIRST, typed(change("c", 1), topic="other"))
    other = struct(
        "Value", ("id", INT64), ("note", INT64.nullable()), ("text", STRING.nullable()), optional=True
    )
    changed = typed(("c", {"id": 5}, {"id": 5, "note": 7, "text": "t"}), row=other)
    sink = lake(tmp_path, tables, 2, replace(SETTINGS, type_change=TypeChange.REFUSE))
    turns = Turns(sink)
    writer = turns.writer(2)
    writer.write(0, [changed])
    writer.write(1, [typed(change("c", 2), topic="other")])

    # Text takes numbers; a number takes no text.
    turns.commit(2)
    sink.drain()
    tables.tables[T].columns["note"] = "date"
    again = lake(tmp_path, tables, 3)
    turns = Turns(again)
    writer = turns.writer(3)
    writer.write(0, [changed])
    writer.write(1, [typed(change("c", 3), topic="other")])
    with pytest.raises(TopicsRefused) as caught:
        turns.commit(3)
    assert caught.value.reasons.keys() == {"tm.public.t"}
    assert not again.resolve_commit(3)

    kept = list(turns.withhold(list(turns._writer.parts.values()), "tm.public.t"))
    turns.commit(3)
    again.drain()
    assert sum(batch.num_rows for batch in kept) == 1
    assert [row["id"] for row in tables.tables[TableName("", "other")].rows] == [1, 2, 3]
    assert 5 in {row["id"] for row in tables.tables[T].rows}  # from turn 2


def test_missing_columns_are_added_or_their_table_is_refused(tmp_path: Path):
    tables = MemoryTables()
    send(lake(tmp_path, tables, 1), 1, FIRST)
    more = struct("Value", ("id", INT64), ("note", STRING), ("more", STRING.nullable()), optional=True)
    batch = typed(("c", {"id": 3}, {"id": 3, "note": "n", "more": "m"}), row=more)
    fixed = lake(tmp_path, tables, 2, replace(SETTINGS, evolution=SchemaEvolution.NONE))
    with pytest.raises(TopicsRefused):
        commit(fixed, 2, batch)

    send(lake(tmp_path, tables, 3), 2, batch)

    assert tables.tables[T].columns["more"] == "string"
    assert tables.tables[T].rows[-1] == {"id": 3, "note": "n", "more": "m"}


def test_a_history_has_every_event_in_order(tmp_path: Path):
    tables, settings = MemoryTables(), replace(SETTINGS, mode=TableMode.APPEND)
    sink = Turns(lake(tmp_path, tables, 1, settings))
    for turn, batch in enumerate((FIRST, typed(change("u", 1, "b"), change("d", 2), change("t", 0))), 1):
        sink.writer(turn).write(0, [batch])
        sink.commit(turn)
    sink.drain()

    found = sorted(tables.tables[T].rows, key=lambda row: tuple(row["_sequence"].values()))
    assert [(row["_operation"], row["id"], row["note"], row["_sequence"]["turn"]) for row in found] == [
        ("c", 1, "n", 1),
        ("c", 2, "n", 1),
        ("u", 1, "b", 2),
        ("d", 2, None, 2),
        ("t", None, None, 2),
    ]


def test_a_history_has_each_event_once_though_a_process_dies_behind_its_write(tmp_path: Path):
    tables, settings = MemoryTables(), replace(SETTINGS, mode=TableMode.APPEND)
    commit(lake(tmp_path, tables, 1, settings), 1, FIRST)
    dying: Any = Dying(tables, iter(range(1)), frozenset({"append"}))
    with pytest.raises(CrashError):
        Merger(Journal(tmp_path, 2), dying, settings, NAMING, PLACEHOLDERS).step()
    assert [write[0] for write in tables.writes] == ["append"]

    lake(tmp_path, tables, 3, settings).drain()

    assert [row["id"] for row in tables.tables[T].rows] == [1, 2]


def test_a_history_needs_no_key_and_a_replica_does(tmp_path: Path):
    keyless = typed(("c", None, {"id": 1, "note": "n", "text": "t"}), key=None)
    tables = MemoryTables()
    with pytest.raises(TopicsRefused):
        commit(lake(tmp_path / "a", tables, 1), 1, keyless)

    send(lake(tmp_path / "b", tables, 1, replace(SETTINGS, mode=TableMode.APPEND)), 1, keyless)

    assert [row["id"] for row in tables.tables[T].rows] == [1]


def test_a_value_that_the_log_left_out_is_the_table_s(tmp_path: Path):
    tables = MemoryTables()
    send(lake(tmp_path, tables, 1), 1, FIRST)
    send(lake(tmp_path, tables, 2), 2, typed(change("u", 1, "b", MISSING)))

    assert rows(tables) == [(1, "b", "t"), (2, "n", "t")]


class Failing(MemoryTables):
    """Tables that can't be written for a while."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    def write(self, *given: Any) -> None:
        if self.error is not None:
            raise self.error
        super().write(*given)


def threaded(directory: Path, tables: Any, settings: LakeSettings = SETTINGS) -> LakeSink:
    journal = Journal(directory, 1)
    merger, admission = Merger(journal, tables, settings, NAMING, PLACEHOLDERS), Admission(tables, settings)
    return LakeSink(journal, merger, admission, NAMING, MergeThread(merger, start_thread, system_clock()))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_thread_merges_and_goes_on_after_failures_that_pass(tmp_path: Path):
    tables = Failing(SinkError("no room"))
    sink = threaded(tmp_path, tables)
    commit(sink, 1, FIRST)
    until(lambda: sink._merging is not None and sink._merging._failures > 0)
    tables.error = None

    until(lambda: bool(tables.writes))
    sink.close()
    assert rows(tables) == [(1, "n", "t"), (2, "n", "t")]


@pytest.mark.parametrize("error", [SinkRefused("no right to write"), LeaseLost("another job has taken over")])
def test_the_job_hears_of_a_merge_that_can_t_succeed(tmp_path: Path, error: Exception):
    sink = threaded(tmp_path, Failing(error))
    commit(sink, 1, FIRST)

    with pytest.raises(type(error)):
        until(lambda: sink.memory() != {})
    sink.close()


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be waiting when a turn begins, and merges are tried again at once."""
    monkeypatch.setattr(lake_sink, "_MOST_WAITING", 0)
    monkeypatch.setattr(lake_sink, "_LONGEST_PAUSE_S", 0.0)


def paced(directory: Path, tables: MemoryTables, sleep: Callable[[MergeThread], object]) -> LakeSink:
    """A sink whose merges are made by what `sleep` does in the job's pauses, and by the test."""
    journal = Journal(directory, 1)
    merger, admission = Merger(journal, tables, SETTINGS, NAMING, PLACEHOLDERS), Admission(tables, SETTINGS)
    clock = replace(HandClock().clock, sleep=lambda _seconds: sleep(merging))
    merging = MergeThread(merger, not_run, clock)
    return LakeSink(journal, merger, admission, NAMING, merging)


@pytest.mark.usefixtures("bounded")
def test_the_stream_waits_for_room_while_merges_fail_and_the_job_hears_of_it(tmp_path: Path):
    tried = list[bool]()
    tables = Failing(SinkError("no room"))
    sink = paced(tmp_path, tables, lambda merging: tried.append(merging._one()))
    assert sink._merging is not None
    commit(sink, 1, FIRST)
    sink._merging._one()

    for told in (1, 2):
        with pytest.raises(SinkError, match="no room"):
            commit(sink, 2, typed(change("u", 1, "b")))
        assert len(tried) == 3 * told - 1  # the first attempt was the test's
        assert [waiting.turn for waiting in sink._journal.waiting()] == [1]
    tables.error = None
    commit(sink, 2, typed(change("u", 1, "b")))

    assert [waiting.turn for waiting in sink._journal.waiting()] == [2]


@pytest.mark.usefixtures("bounded")
def test_a_job_that_is_to_stop_does_not_wait_for_room(tmp_path: Path):
    sink = paced(tmp_path, MemoryTables(), lambda _merging: True)
    commit(sink, 1, FIRST)
    commit(sink, 2, typed(change("u", 1, "b")))

    assert [waiting.turn for waiting in sink._journal.waiting()] == [1, 2]


def test_what_waits_is_merged_when_the_job_ends(tmp_path: Path):
    gate, tables = threading.Event(), MemoryTables()
    journal = Journal(tmp_path, 1)
    merger, admission = Merger(journal, tables, SETTINGS, NAMING, PLACEHOLDERS), Admission(tables, SETTINGS)

    def later(run: Callable[[], None], name: str) -> Any:
        def waiting() -> None:
            gate.wait()
            run()

        return start_thread(waiting, name)

    sink = LakeSink(journal, merger, admission, NAMING, MergeThread(merger, later, system_clock()))
    commit(sink, 1, FIRST)
    gate.set()
    sink.close()

    assert rows(tables) == [(1, "n", "t"), (2, "n", "t")]
    assert list(tmp_path.glob("turn-*")) == []


def test_a_merge_that_takes_long_does_not_keep_a_job_from_ending(tmp_path: Path):
    entered, gate = threading.Event(), threading.Event()

    class Slow(MemoryTables):
        def write(self, *given: Any) -> None:
            entered.set()
            gate.wait()
            super().write(*given)

    tables, journal = Slow(), Journal(tmp_path, 1)
    merger, admission = Merger(journal, tables, SETTINGS, NAMING, PLACEHOLDERS), Admission(tables, SETTINGS)
    merging = MergeThread(merger, start_thread, system_clock(), Pace(ending_s=0.01))
    sink = LakeSink(journal, merger, admission, NAMING, merging)
    commit(sink, 1, FIRST)
    assert entered.wait(20)
    begun_s = time.monotonic()
    assert not sink.await_shown()
    assert time.monotonic() - begun_s > 0.1  # a job that waits for merges is not to keep a processor busy
    commit(sink, 2, typed(change("d", 1)))
    closing = threading.Thread(target=sink.close, daemon=True)
    closing.start()
    closing.join(5)

    assert not closing.is_alive()
    time.sleep(0.02)
    gate.set()  # the process would end here: what is begun ends, nothing more is begun
    merging._thread.join(20)
    assert [write[2] for write in tables.writes] == [1]
    again = lake(tmp_path, tables, 2)
    assert not again.await_shown()
    again.drain()
    assert (rows(tables), again.await_shown()) == ([(2, "n", "t")], True)


def test_small_turns_gather_and_large_ones_don_t_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tables, journal = MemoryTables(), Journal(tmp_path, 1)
    monkeypatch.setattr(Merger, "waiting_bytes", lambda _merger: 1 << 24 if len(journal.waiting()) > 2 else 1)
    merger, admission = Merger(journal, tables, SETTINGS, NAMING, PLACEHOLDERS), Admission(tables, SETTINGS)
    merging = MergeThread(merger, start_thread, system_clock(), Pace(gathers_s=3600.0))
    sink = LakeSink(journal, merger, admission, NAMING, merging)
    commit(sink, 1, FIRST)
    until(lambda: not journal.waiting())
    for turn in (2, 3):
        commit(sink, turn, typed(change("u", 1, f"of {turn}")))
    time.sleep(0.05)
    assert [write[2] for write in tables.writes] == [1]

    commit(sink, 4, typed(change("u", 1, "of 4")))
    until(lambda: not journal.waiting())
    commit(sink, 5, typed(change("d", 1)))
    sink.close()

    assert [write[2] for write in tables.writes] == [1, 4, 5]


def test_tables_are_tended_between_merges_that_never_pause_and_for_a_tenth_of_the_time(tmp_path: Path):
    hands = HandClock()

    class Slow(MemoryTables):
        def write(self, *given: Any) -> None:
            super().write(*given)
            hands.time_s += 5

        def tend(self, *given: Any) -> None:
            super().tend(*given)
            hands.time_s += 3

    tables, journal = Slow(), Journal(tmp_path, 1)
    merger, admission = Merger(journal, tables, SETTINGS, NAMING, PLACEHOLDERS), Admission(tables, SETTINGS)
    merging = MergeThread(merger, not_run, hands.clock, Pace(tends_s=8.0))
    sink = LakeSink(journal, merger, admission, NAMING, merging)
    for turn in range(1, 14):
        commit(sink, turn, typed(change("u", turn)))
        merging._one()

    # One is due each 8 s, and after it 30 s later.
    assert [number for number, write in enumerate(tables.writes) if write[0] == "tend"] == [2, 9]


def not_run(run: Any, name: str) -> Any:
    return run, name


@pytest.mark.parametrize("recreated", TopicRecreated)
@pytest.mark.parametrize("dies", [False, True])
def test_what_turns_out_to_fit_into_no_table_while_it_waits_stops_that_table_alone(
    tmp_path: Path, recreated: TopicRecreated, *, dies: bool
):
    tables, settings = MemoryTables(), replace(SETTINGS, recreated=recreated)
    sink = lake(tmp_path, tables, 1, settings)
    # Of one group, whose newest type can't take the text of before.
    commit(sink, 1, note(1, "no number", TEXT_NOTE), typed(change("c", 1), topic="other"))
    commit(sink, 2, note(2, 7, NUMBER_NOTE), typed(change("c", 2), topic="other"))
    if recreated is TopicRecreated.STOP:
        with pytest.raises(SinkRefused, match="tm_public_t: the table can't take some changes"):
            sink.drain()
        return
    sink.drain()
    assert (T in tables.tables, rows(tables, OTHER)) == (False, [(1, "n", "t"), (2, "n", "t")])
    if dies:
        sink = lake(tmp_path, tables, 2, settings)
        send(sink, 3, note(3, 8, NUMBER_NOTE))  # it meets the table, and hears of it again
    with pytest.raises(TopicsRefused, match="can't take some changes") as caught:
        commit(sink, 4, note(4, 9, NUMBER_NOTE))
    (remade,) = caught.value.reasons.values()
    assert isinstance(remade, TopicRemade)
    assert remade.snapshot == (recreated is TopicRecreated.SNAPSHOT)
    send(sink, 4, note(4, 9, NUMBER_NOTE))
    last = lake(tmp_path, tables, 5, settings)
    send(last, 5, note(5, 10, NUMBER_NOTE))
    assert [row[0] for row in rows(tables)] == ([3, 4, 5] if dies else [4, 5])
    assert last._merger.remade == {}


def test_a_key_that_changes_while_turns_wait_stops_that_table_alone(tmp_path: Path):
    tables = MemoryTables()
    sink = lake(tmp_path, tables, 1)
    by_note = typed(
        ("c", {"note": "n"}, {"id": 2, "note": "n", "text": "t"}), key=struct("Key", ("note", STRING))
    )
    commit(sink, 1, typed(change("c", 1)), typed(change("c", 1), topic="other"))
    commit(sink, 2, by_note)
    sink.drain()

    assert rows(tables, OTHER) == [(1, "n", "t")]
    with pytest.raises(TopicsRefused, match="key has changed"):
        commit(sink, 3, by_note)


def test_a_column_that_may_have_been_renamed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    tables = MemoryTables()
    send(lake(tmp_path, tables, 1), 1, FIRST)
    more = struct("Value", ("id", INT64), ("remark", STRING.nullable()), ("text", STRING), optional=True)
    send(
        lake(tmp_path, tables, 2), 2, typed(("c", {"id": 3}, {"id": 3, "remark": "n", "text": "t"}), row=more)
    )

    assert "remark came, and nothing writes note" in caplog.text
    assert tables.tables[T].rows[-1] == {"id": 3, "remark": "n", "text": "t"}


def removal(*ids: int) -> pa.RecordBatch:
    return Removal(T, pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})).batch


def test_a_repair_deletes_rows_that_only_the_table_has(tmp_path: Path):
    tables = MemoryTables()
    sink = lake(tmp_path, tables, 1)
    send(sink, 1, FIRST)
    tables.tables[T].rows.append({"id": 7, "note": "x", "text": None})
    send(sink, 2, removal(7, 2))

    assert rows(tables) == [(1, "n", "t")]
    assert tables.tables[T].turn == 2


def test_a_row_that_came_back_behind_its_delete_stays(tmp_path: Path):
    """All in one group, with other changes of the table; the keys are of a wider type there."""
    tables = MemoryTables()
    sink = lake(tmp_path, tables, 1)
    send(sink, 1, FIRST)
    commit(sink, 2, removal(1, 2))
    commit(sink, 3, typed(change("c", 2, "again"), change("c", 3)))
    sink.drain()

    assert rows(tables) == [(2, "again", "t"), (3, "n", "t")]


def test_nothing_is_deleted_from_a_table_that_is_missing(tmp_path: Path):
    tables = MemoryTables()
    sink = lake(tmp_path, tables, 1)
    send(sink, 1, removal(1))

    assert tables.tables == {}
    assert sink.merged(1)


def test_keys_are_noted_while_a_table_is_compared(tmp_path: Path):
    sink = lake(tmp_path / "journal", MemoryTables(), 1)
    send(sink, 1, FIRST)
    sink.touched.follow(["tm.public.t"])
    send(sink, 2, typed(change("u", 1, "b", MISSING), change("c", 5)))
    batches = list(sink.touched.since("tm.public.t", -1, 2))

    assert [row["lacks"] for batch in batches for row in batch.to_pylist()] == [True, False]
    assert [batch.column("key") for batch in batches] == [digests([pa.array([1, 5])])]
    assert sink.touched.newest == 2
    sink.close()
    assert not list(tmp_path.glob("*-touched"))
