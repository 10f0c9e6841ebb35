"""Changes of replicas in Delta Lake and Iceberg that go by places of rows, without a MERGE. `make lake`.

They are compared with the same changes of tables in memory; others commit meanwhile; a process dies amid one.
"""

from __future__ import annotations

import random
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.lake.table_name import TableName
from adapters.lakehouse.files.data_file import write_file
from adapters.lakehouse.files.delta import DeltaWrite
from adapters.lakehouse.files.iceberg import IcebergWrite
from adapters.lakehouse.port import BASE, DELETED, KEEP, Batch, NewTable
from adapters.lakehouse.settings import LakeFormat
from adapters.lakehouse.tables import spark_tables, statements
from adapters.lakehouse.tables.iceberg import Iceberg
from engine.errors import SinkError
from tests.lake import CrashError, MemoryTables
from tests.lake_spark import FORMATS, Lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration
A = TableName("", "a")
# Iceberg's own writers have another name for `all tags` in files.
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("note", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us")),
        ("all tags", pa.list_(pa.string())),
    ]
)
KEY, KEPT = ("id", "part"), ("note", "all tags")
SHAPE = pa.schema(
    [
        *COLUMNS,
        (DELETED, pa.bool_()),
        *((KEEP.format(n), pa.bool_()) for n in range(len(KEPT))),
        (BASE.format(0), pa.int64()),
        (BASE.format(1), pa.string()),
    ]
)


@pytest.fixture(params=FORMATS)
def tables(request: pytest.FixtureRequest, lake_spark: SparkSession, tmp_path: Path) -> Lake:
    kind: LakeFormat = request.param
    return Lake(lake_spark, kind, tmp_path)


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The statements of merges that were made."""
    made, merging = [], statements.merging

    def counted(*given: Any, **more: Any) -> str:
        made.append(given)
        return merging(*given, **more)

    monkeypatch.setattr(spark_tables, "merging", counted)
    return made


def row(number: int, note: str = "n", *, deleted: bool = False, **more: Any) -> dict[str, Any]:
    """A row of a batch, or the key of one that is deleted."""
    made = dict.fromkeys(SHAPE.names) | {"id": number, "part": f"p{number}", DELETED: deleted}
    if not deleted:
        made |= {"note": note, "all tags": [note, None], "price": None}
    made |= {KEEP.format(n): False for n in range(len(KEPT))} | more
    return made | {name: None for n, name in enumerate(KEPT) if made[KEEP.format(n)]}


def batch_of(*rows: dict[str, Any], columns: pa.Schema = COLUMNS) -> Batch:
    made = pa.Table.from_pylist(list(rows), SHAPE)
    kept = KEPT if any(given[KEEP.format(n)] for given in rows for n in range(len(KEPT))) else ()
    moved = any(given[BASE.format(0)] is not None for given in rows)
    names = [*columns.names, DELETED, *(SHAPE.names[len(COLUMNS) + 1 :] if kept else [])]
    return Batch(made.select(names), columns, KEY, kept=kept, moved=moved)


def created(tables: Any, first: int = 40, partition: str = "") -> None:
    kinds = {field.name: tables.column_type(field.type) for field in COLUMNS}
    tables.create(A, NewTable(kinds, KEY, partition=partition))
    tables.write(A, batch_of(*(row(number) for number in range(first))), 1)


def model_of(first: int = 40) -> MemoryTables:
    model = MemoryTables()
    created(model, first)
    return model


def assert_same(tables: Lake, model: MemoryTables) -> None:
    expected = sorted(
        (tuple(found[name] for name in COLUMNS.names) for found in model.tables[A].rows), key=repr
    )
    assert tables.rows(A) == expected


def drawn(model: MemoryTables, seed: int) -> Batch:
    """Changes of a table: new rows, changed ones, deleted ones, and keys that move with values they keep."""
    chance = random.Random(seed)
    there = [found["id"] for found in model.tables[A].rows]
    some = chance.sample(there, 8)
    rows = [row(number, f"changed {seed}") for number in some[:2]]
    rows += [row(number, deleted=True) for number in (*some[2:4], 1000 + seed)]
    rows.append(row(some[4], "kept?", **{KEEP.format(0): True}))
    rows.append(row(some[5], deleted=True))
    base = {BASE.format(0): some[5], BASE.format(1): f"p{some[5]}"}
    rows.append(row(100 + seed, "kept?", **{KEEP.format(0): True, KEEP.format(1): True}, **base))
    rows.append(row(min(there) - 1, f"new {seed}"))
    rows.append(row(2000 + seed, "of no other row", **{KEEP.format(1): True}))
    return batch_of(*rows)


def test_changes_are_those_that_a_merge_makes_and_upkeep_leaves_no_marks(tables: Lake, merges: list[Any]):
    made, model = tables.tables(), model_of()
    created(made)
    for seed in range(12):
        changes = drawn(model, seed)
        model.write(A, changes, seed + 2)
        made.write(A, changes, seed + 2)
        if seed == 5:
            assert marks(tables) > 0
            made.tend(A, 0.0)
            made = tables.tables()
        assert_same(tables, model)
    made.tend(A, 0.0)

    assert merges == []
    assert_same(tables, model)
    # Iceberg keeps those of the newest merge until it compacts again.
    assert marks(tables) <= (7 if tables.kind is LakeFormat.ICEBERG else 0)
    found = tables.tables().look(A)
    assert found is not None
    assert found.turn == 13


def marks(tables: Lake) -> int:
    """How many rows a table's newest version has marked, as its format counts them."""
    if tables.kind is LakeFormat.ICEBERG:
        files = tables.reader.table(f"{tables.dialect.target(A)}.delete_files")
        return sum(found["record_count"] for found in files.collect())
    log = tables.dialect._snapshot(tables.reader, A)
    return sum(
        file.deletionVector().cardinality()
        for file in log.allFiles().collect()
        if file.deletionVector() is not None
    )


def test_columns_that_the_source_has_no_more_keep_their_values(tables: Lake, merges: list[Any]):
    made = tables.tables()
    created(made)
    fewer = pa.schema([field for field in COLUMNS if field.name not in {"all tags", "at"}])
    changes = batch_of(row(3, "changed"), row(4, deleted=True), row(99, "new"), columns=fewer)
    made.write(A, changes, 2)

    changed = {found[0]: found for found in tables.rows(A)}
    assert merges == []
    assert changed[3][2:6:3] == ("changed", ["n", None])
    assert changed[99][2:6:3] == ("new", None)
    assert 4 not in changed


def test_tables_with_partitions_are_merged_by_spark(tables: Lake, merges: list[Any]):
    made, model = tables.tables(), model_of()
    created(made, partition="part")
    changes = drawn(model, 1)
    made.write(A, changes, 2)
    model.write(A, changes, 2)

    assert len(merges) == 1
    assert_same(tables, model)


@pytest.mark.parametrize("other", ["compacts", "deletes", "inserts"])
def test_what_another_one_commits_meanwhile_is_not_lost(
    tables: Lake, other: str, merges: list[Any], monkeypatch: pytest.MonkeyPatch
):
    made, model = tables.tables(), model_of()
    created(made)
    changes = [batch_of(row(3, f"{turn}"), row(5, deleted=True), row(20 + turn, "x")) for turn in range(2, 8)]
    for turn, batch in enumerate(changes, 2):
        model.write(A, batch, turn)
        if turn < 7:
            made.write(A, batch, turn)

    def meanwhile(*given: Any) -> Any:
        monkeypatch.undo()
        act(tables, other, model)
        return write_file(*given)

    monkeypatch.setattr(spark_tables, "write_file", meanwhile)
    with pytest.raises(SinkError):
        made.write(A, changes[-1], 7)
    found = made.look(A)
    assert found is not None
    assert found.turn == 6
    made.write(A, changes[-1], 7)

    assert_same(tables, model)
    assert merges == []


def act(tables: Lake, other: str, model: MemoryTables) -> None:
    """What another one does to the table, which a merge of the turn from here on would not undo."""
    target, rows = tables.dialect.target(A), model.tables[A].rows
    if other == "deletes":
        tables.reader.sql(f"DELETE FROM {target} WHERE id = 3 OR id = 7").collect()
        rows[:] = [found for found in rows if found["id"] != 7]
    elif other == "inserts":
        tables.reader.sql(f"INSERT INTO {target} (id, part, note) VALUES (5, 'p5', 'other'), (-9, 'p', 'm')")
        rows.append(dict.fromkeys(COLUMNS.names) | {"id": -9, "part": "p", "note": "m"})
    else:
        for statement in tables.dialect.upkeep(tables.reader, A, 0.0):
            tables.reader.sql(statement).collect()


def test_a_process_that_stood_still_while_another_took_over_changes_nothing(
    tables: Lake, monkeypatch: pytest.MonkeyPatch
):
    old, new, model = tables.tables(1), tables.tables(2), model_of()
    created(old)
    changes = batch_of(row(3, "changed"), row(5, deleted=True), row(20, "x"))
    model.write(A, changes, 2)

    def written_late(*given: Any) -> Any:
        monkeypatch.undo()
        new.write(A, changes, 2)
        return write_file(*given)

    monkeypatch.setattr(spark_tables, "write_file", written_late)
    with suppress(SinkError):
        old.write(A, changes, 2)

    assert_same(tables, model)
    old.write(A, changes, 2)
    assert_same(tables, model)


@pytest.mark.parametrize("step", range(6))
def test_a_turn_is_made_once_whichever_step_of_its_commit_a_process_dies_at(
    tables: Lake, step: int, monkeypatch: pytest.MonkeyPatch
):
    made, model = tables.tables(1), model_of()
    created(made)
    for turn in (2, 3):
        changes = drawn(model_of(), turn)
        made.write(A, changes, turn)
        model.write(A, changes, turn)
    changes = drawn(model, 9)
    model.write(A, changes, 4)
    dies_at(step, monkeypatch)
    with suppress(CrashError):
        made.write(A, changes, 4)
        assert step == 5, "it died nowhere"
    monkeypatch.undo()
    again = tables.tables(2)
    found = again.look(A)
    assert found is not None
    if found.turn != 4:
        again.write(A, changes, 4)

    assert_same(tables, model)
    assert found.turn == (4 if step in {4, 5} else 3)
    changes = batch_of(row(3, "later"))
    again.write(A, changes, 5)
    model.write(A, changes, 5)
    assert_same(tables, model)


def dies_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the file, before the first or second copy, before the commit, behind it, nowhere."""
    copies = iter(range(2))

    def dying(behind: Any, *, before: bool) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            if before and next(copies if step == 2 else iter(()), 1) == 1:
                raise CrashError
            result = behind(*given, **named)
            if not before:
                raise CrashError
            return result

        return called

    if step == 0:
        monkeypatch.setattr(spark_tables, "write_file", dying(write_file, before=True))
    elif step in {1, 2}:
        monkeypatch.setattr(DeltaWrite, "_copy", dying(DeltaWrite._copy, before=True))
        monkeypatch.setattr(IcebergWrite, "_described", dying(IcebergWrite._described, before=True))
    elif step == 3:
        monkeypatch.setattr(DeltaWrite, "_commit", dying(DeltaWrite._commit, before=True))
        monkeypatch.setattr(Iceberg, "writing", dies_on_its_branch(Iceberg.writing))
    elif step == 4:
        monkeypatch.setattr(DeltaWrite, "commit", dying(DeltaWrite.commit, before=False))
        monkeypatch.setattr(IcebergWrite, "commit", dying(IcebergWrite.commit, before=False))


def dies_on_its_branch(writing: Any) -> Any:
    @contextmanager
    def dying(*given: Any) -> Iterator[Any]:
        with writing(*given) as target:
            yield target
            raise CrashError

    return dying
