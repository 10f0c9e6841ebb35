"""Tables of Delta Lake and Iceberg by themselves: crashes at every step, columns, upkeep. `make lake`."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse.files.data_file import write_file
from adapters.lakehouse.files.delta import DeltaWrite
from adapters.lakehouse.files.iceberg import IcebergWrite
from adapters.lakehouse.port import NewTable
from adapters.lakehouse.settings import LakeFormat, TableMode
from adapters.lakehouse.tables import spark_tables, statements
from adapters.lakehouse.tables.spark_tables import SparkTables
from engine.errors import SinkError
from engine.events.record.schema import INT32, INT64, STRING, struct
from tests.lake import CrashError, Dying, lake, send
from tests.lake_spark import FORMATS, Lake
from tests.turns import Turns
from tests.typed_batches import MISSING, change, typed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration
A = TableName("", "a")
FIRST_STEP, STRIDE = int(os.environ.get("FIRST_STEP", "0")), int(os.environ.get("STRIDE", "1"))
"""A round with Delta takes half a minute on a busy machine, so some of the steps can be chosen."""
TOPICS = ("a", "b", "c")
FIRST = tuple(typed(*(change("c", n) for n in range(1, 6)), topic=topic) for topic in TOPICS)
SECOND = tuple(
    typed(
        *(change("u", 1, "b", MISSING), change("d", 2), change("d", 3), change("c", 30, "moved", MISSING)),
        change("c", 6, f"of {topic}"),
        headers=[None, None, "new", "old", None],
        topic=topic,
    )
    for topic in TOPICS
)


def then(topic: str) -> list[tuple[Any, ...]]:
    rows = [(1, "b", "t"), (4, "n", "t"), (5, "n", "t"), (6, f"of {topic}", "t"), (30, "moved", "t")]
    return sorted(rows, key=repr)


@pytest.fixture(params=FORMATS)
def tables(request: pytest.FixtureRequest, lake_spark: SparkSession, tmp_path: Path) -> Lake:
    kind: LakeFormat = request.param
    return Lake(lake_spark, kind, tmp_path)


def test_a_turn_is_in_all_tables_once_though_a_process_dies_between_two_of_them(tables: Lake, tmp_path: Path):
    send(lake(tmp_path / "journal", tables.tables(), 1), 1, *FIRST)
    dying = Dying(tables.tables(), iter(range(3)), frozenset({"write"}))
    sink = Turns(lake(tmp_path / "journal", dying, 2))
    writer = sink.writer(2)
    for number, batch in enumerate(SECOND):
        writer.write(number, [batch])
    sink.commit(2)
    with pytest.raises(CrashError):
        sink.drain()
    again = lake(tmp_path / "journal", tables.tables(), 3)

    assert again.resolve_commit(2)
    again.drain()
    assert [tables.rows(TableName("", topic)) for topic in TOPICS] == [then(topic) for topic in TOPICS]
    assert [tables.tables().look(TableName("", topic)).turn for topic in TOPICS] == [2, 2, 2]  # type: ignore[union-attr]


def test_a_turn_is_in_all_tables_once_whichever_step_a_process_dies_before(tables: Lake, tmp_path: Path):
    """Each round has a turn that empties the tables and one of changes, and dies a step later."""
    process, turn = 1, 0
    for last in itertools.count(FIRST_STEP, STRIDE):
        turn += 1
        send(
            lake(tmp_path / "journal", tables.tables(), process), turn, *(emptied(t) for t in TOPICS), *FIRST
        )
        process += 1
        turn += 1
        dying = Dying(tables.tables(), iter(range(last)))
        died = True
        with suppress(CrashError):
            sink = Turns(lake(tmp_path / "journal", dying, process))
            writer = sink.writer(turn)
            for number, batch in enumerate(SECOND):
                writer.write(number, [batch])
            sink.commit(turn)
            sink.drain()
            died = False
        process += 1
        again = lake(tmp_path / "journal", tables.tables(), process)
        if again.resolve_commit(turn):
            again.drain()
        else:
            send(again, turn, *SECOND)
        assert [tables.rows(TableName("", topic)) for topic in TOPICS] == [then(topic) for topic in TOPICS]
        process += 1
        if not died:
            break
    assert last > 20


def emptied(topic: str) -> Any:
    return typed(change("t", 0), topic=topic)


def test_a_history_has_each_event_once_though_a_process_dies_behind_its_write(tables: Lake, tmp_path: Path):
    settings = replace(tables.settings, mode=TableMode.APPEND)
    dying = Dying(tables.tables(), iter(range(1)), frozenset({"append"}))
    with suppress(CrashError):
        send(lake(tmp_path / "journal", dying, 1, settings), 1, *FIRST)
    lake(tmp_path / "journal", tables.tables(), 2, settings).drain()

    assert [tables.read(TableName("", topic)).count() for topic in TOPICS] == [5, 5, 5]


@pytest.mark.parametrize("when", ["before", "after", "file"])
def test_a_process_that_stood_still_while_another_took_over_adds_nothing(
    tables: Lake, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
):
    send(lake(tmp_path / "journal", tables.tables(), 1), 1, FIRST[0])
    old, new = tables.tables(1), tables.tables(2)
    insert = old._insert
    rows = pa.table({"id": pa.array([7], pa.int32()), "note": ["n"], "text": ["t"]})

    def overtaken(*given: Any) -> None:
        if when == "before":
            new.append(A, rows, 2)
        insert(*given)
        if when == "after":
            new.append(A, rows, 2)

    def written_late(*given: Any) -> Any:
        monkeypatch.undo()
        new.append(A, rows, 2)
        return write_file(*given)

    if when == "file":
        monkeypatch.setattr(spark_tables, "write_file", written_late)
    else:
        monkeypatch.setattr(old, "_append_file", lambda *_given: False)
        monkeypatch.setattr(old, "_insert", overtaken)
    with suppress(SinkError):
        old.append(A, rows, 2)

    assert [row[0] for row in tables.rows(A)] == [1, 2, 3, 4, 5, 7]
    found = new.look(A)
    assert found is not None
    assert found.turn == 2
    # What others have left is removed with the next write.
    new.append(A, rows, 3)
    if tables.kind is LakeFormat.ICEBERG:
        refs = tables.reader.table(f"{tables.dialect.target(A)}.refs").collect()
        assert [row["name"] for row in refs] == ["main"]


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "filled"])
@pytest.mark.parametrize("how", ["file", "insert"])
def test_a_process_that_was_overtaken_between_its_branch_and_its_commit_adds_nothing(
    tables: Lake, how: str, monkeypatch: pytest.MonkeyPatch, *, empty: bool
):
    rows = pa.table({"id": pa.array([7, 8], pa.int32()), "note": ["n", "m"]})
    old, new = tables.tables(1), tables.tables(2)
    old.create(A, NewTable({"id": "int", "note": "string"}, ("id",)))
    if not empty:
        old.append(A, pa.table({"id": pa.array([1], pa.int32()), "note": ["n"]}), 1)

    def late(behind: Any) -> Any:
        def called(*given: Any) -> Any:
            monkeypatch.undo()
            new.append(A, rows, 2)
            return behind(*given)

        return called

    monkeypatch.setattr(DeltaWrite, "_copy", late(DeltaWrite._copy))
    monkeypatch.setattr(IcebergWrite, "_described", late(IcebergWrite._described))
    if how == "insert":
        monkeypatch.setattr(SparkTables, "_append_file", lambda *_given: False)
        monkeypatch.setattr(SparkTables, "_insert", late(SparkTables._insert))
    with suppress(SinkError):
        old.append(A, rows, 2)

    ids = [row[0] for row in tables.rows(A)]
    assert ids == ([7, 8] if empty else [1, 7, 8])
    old.append(A, rows, 2)
    assert [row[0] for row in tables.rows(A)] == ids
    new.append(A, pa.table({"id": pa.array([9], pa.int32()), "note": ["n"]}), 3)
    assert [row[0] for row in tables.rows(A)] == [*ids, 9]


def test_new_rows_are_appended_as_files_and_changed_by_later_turns(
    tables: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    merges, merging = [], statements.merging

    def counted(*given: Any, **more: Any) -> str:
        merges.append(given)
        return merging(*given, **more)

    monkeypatch.setattr(spark_tables, "merging", counted)
    monkeypatch.setattr(SparkTables, "_insert", None)
    journal = tmp_path / "journal"
    first, again = lake(journal, tables.tables(), 1), tables.tables()
    send(first, 1, typed(*(change("r", n) for n in range(1, 100)), topic="a"))
    send(first, 2, typed(*(change("r", n) for n in range(200, 300)), topic="a"))
    send(first, 3, typed(change("r", 100), change("r", 199, "n"), topic="a"))
    send(lake(journal, again, 2), 4, typed(change("c", 300), change("c", 301), change("d", 301), topic="a"))
    changed = typed(change("u", 100, "b"), change("d", 2), change("c", 301, "late"), topic="a")
    send(lake(journal, again, 3), 5, changed)
    again.tend(A, 0.0)
    send(lake(journal, again, 4), 6, typed(change("c", 302), topic="a"))

    assert merges == []
    assert {row[0] for row in tables.rows(A)} == {1, *range(3, 101), *range(199, 303)}
    found = tables.read(A).where("id BETWEEN 90 AND 110 OR id > 300").collect()
    notes = {**dict.fromkeys(range(90, 100), "n"), 100: "b", 301: "late", 302: "n"}
    assert {row[0]: row[1] for row in found} == notes


def test_columns_are_added_and_widened_and_odd_names_kept(tables: Lake, tmp_path: Path):
    first = struct("Value", ("id", INT32), ("odd name, `;", INT32.nullable()), optional=True)
    second = struct(
        "Value", ("id", INT32), ("odd name, `;", INT64.nullable()), ("more", STRING.nullable()), optional=True
    )
    one = typed(("c", {"id": 1}, {"id": 1, "odd name, `;": 7}), row=first, topic="a")
    two = typed(("c", {"id": 2}, {"id": 2, "odd name, `;": 1 << 40, "more": "'\\"}), row=second, topic="a")
    send(lake(tmp_path / "journal", tables.tables(), 1), 1, one)
    send(lake(tmp_path / "journal", tables.tables(), 2), 2, two)

    assert tables.rows(A) == [(1, 7, None), (2, 1 << 40, "'\\")]


def test_a_table_says_what_it_is_kept_from_and_its_key(tables: Lake, tmp_path: Path):
    send(lake(tmp_path / "journal", tables.tables(), 1), 1, FIRST[0])
    target = tables.dialect.target(A)
    properties = {row[0]: row[1] for row in tables.reader.sql(f"SHOW TBLPROPERTIES {target}").collect()}
    described = [tuple(row) for row in tables.reader.sql(f"DESCRIBE EXTENDED {target}").collect()]

    assert properties["tidemark.key"] == "id"
    assert any("kept by Tidemark from a" in str(row) for row in described)


def test_upkeep_compacts_expires_and_keeps_the_newest_turn_known(tables: Lake, tmp_path: Path):
    # Iceberg compacts five files or more.
    for turn in range(1, 7):
        send(lake(tmp_path / "journal", tables.tables(), turn), turn, typed(change("c", turn), topic="a"))
    before = files(tables)
    again = tables.tables()
    if tables.kind is LakeFormat.DELTA:
        again.tend(A, 0.0)
    else:
        again.tend(A, 0.001)
        again.tend(A, 0.001)

    assert files(tables) < before
    found = tables.tables().look(A)
    assert found is not None
    assert found.turn == 6
    assert [row[0] for row in tables.rows(A)] == [1, 2, 3, 4, 5, 6]
    if tables.kind is LakeFormat.ICEBERG:
        snapshots = tables.reader.table(f"{tables.dialect.target(A)}.snapshots")
        assert 1 < snapshots.count() < 7
    send(lake(tmp_path / "journal", again, 9), 7, typed(change("d", 1), topic="a"))
    assert [row[0] for row in tables.rows(A)] == [2, 3, 4, 5, 6]


def files(tables: Lake) -> int:
    """How many files the table's newest version has."""
    if tables.kind is LakeFormat.DELTA:
        return len(tables.read(A).inputFiles())
    return tables.reader.table(f"{tables.dialect.target(A)}.data_files").count()
