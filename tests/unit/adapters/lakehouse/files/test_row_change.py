from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.lakehouse.files import kept_values
from adapters.lakehouse.files.data_file import FileColumn, TableFile, field_of
from adapters.lakehouse.files.key_matches import Bounds
from adapters.lakehouse.files.roaring import NONE
from adapters.lakehouse.files.row_change import row_change
from adapters.lakehouse.port import BASE, DELETED, KEEP, Batch
from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adapters.lakehouse.files.data_file import DataFile, DeadRows

FIELDS = (field_of("c1", pa.int64(), 1), field_of("c2", pa.string(), 2), field_of("c3", pa.int64(), 3))
COLUMNS = tuple(FileColumn(name, there) for name, there in zip(("id", "note", "n"), FIELDS, strict=True))
ALL = pa.schema([("id", pa.int64()), ("note", pa.string()), ("n", pa.int64())])


@dataclass
class Write:
    """A table of these files, which takes no commit."""

    there: Sequence[TableFile] | None
    columns: Sequence[FileColumn] = COLUMNS
    codec: str = "snappy"
    asked: list[Any] = field(default_factory=list)

    def files(self, column: str, bounds: Bounds | None) -> Iterator[TableFile] | None:
        self.asked.append((column, bounds))
        return None if self.there is None else iter(self.there)

    def commit(self, file: DataFile | None, gone: Sequence[DeadRows]) -> None:
        raise NotImplementedError


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Rows 0 to 4 in two files, the last of the first one being dead."""
    made = []
    for name, ids, dead in (("x", [0, 1, 2], [2]), ("y", [2, 3, 4], [])):
        rows = [pa.array(ids), pa.array([f"note {n}" for n in ids]), pa.array([10 * n for n in ids])]
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_arrays(rows, schema=pa.schema(FIELDS)), path, row_group_size=2)
        made.append(TableFile(name, str(path), np.array(dead, np.int64)))
    return Write(made)


def batch(*rows: tuple[int, str | None, int | None, bool], columns: pa.Schema = ALL, **more: Any) -> Batch:
    arrays = [
        pa.array(values, kind)
        for values, kind in zip(zip(*rows, strict=True), [*ALL.types, pa.bool_()], strict=True)
    ]
    made = pa.table(arrays, names=[*ALL.names, DELETED]).select([*columns.names, DELETED])
    for name, values in more.pop("flags", {}).items():
        made = made.append_column(name, values)
    return Batch(made, columns, ("id",), **more)


def changed(write: Write, given: Batch) -> tuple[list[tuple[Any, ...]], dict[str, list[int]]]:
    found = row_change(given, write)
    assert found is not None
    rows = [tuple(row[f"c{n}"] for n in (1, 2, 3)) for row in found.rows.to_pylist()]
    return rows, {file.name: positions.tolist() for file, positions in found.gone}


def test_new_versions_are_written_and_old_ones_go_wherever_they_are(table: Write):
    given = batch(
        (1, "a", 1, False),
        (2, "b", 2, False),
        (4, None, None, True),
        (9, "new", 9, False),
        (8, None, None, True),
    )

    rows, gone = changed(table, given)

    assert rows == [(1, "a", 1), (2, "b", 2), (9, "new", 9)]
    assert gone == {"x": [1], "y": [0, 2]}
    assert table.asked == [("c1", Bounds(1, 9))]


def test_rows_keep_values_of_their_own_and_of_others_and_of_columns_that_changes_lack(table: Write):
    base = pa.array([None, None, 3, None, 77], pa.int64())
    flags = {KEEP.format(0): pa.array([True, False, True, None, True]), BASE.format(0): base}
    given = batch(
        (1, None, 1, False),
        (2, "b", 2, False),
        (30, None, 3, False),
        (3, None, None, True),
        (5, None, 5, False),
        columns=pa.schema([ALL.field("id"), ALL.field("note")]),
        kept=("note",),
        moved=True,
        flags=flags,
    )

    rows, gone = changed(table, given)

    assert rows == [(1, "note 1", 10), (2, "b", 20), (30, "note 3", 30), (5, None, None)]
    assert gone == {"x": [1], "y": [0, 1]}
    assert table.asked == [("c1", None)]  # a base may be anywhere


def test_values_are_kept_from_files_that_give_columns_other_names_or_lack_them(table: Write, tmp_path: Path):
    """Iceberg's writers change names that Avro does not allow, as `full text` to `full_x20text`."""
    renamed = pa.schema([FIELDS[0], field_of("c_x32", pa.string(), 2), field_of("c2", pa.int64(), 9)])
    rows = [pa.array([5, 6]), pa.array(["note 5", "note 6"]), pa.array([0, 0])]
    bare = pa.schema([FIELDS[0]])
    files = {"z": pa.Table.from_arrays(rows, schema=renamed), "b": pa.table([pa.array([7])], schema=bare)}
    for name, content in files.items():
        pq.write_table(content, tmp_path / f"{name}.parquet")
    table.there = [TableFile(name, str(tmp_path / f"{name}.parquet"), NONE) for name in files]
    given = [(number, None, None, False) for number in (5, 6, 7)]

    kept, gone = changed(table, batch(*given, columns=pa.schema([ALL.field("id")])))

    assert kept == [(5, "note 5", None), (6, "note 6", None), (7, None, None)]
    assert gone == {"z": [0, 1], "b": [0]}


def test_a_missing_column_of_a_file_without_numbers_is_left_to_spark(table: Write, tmp_path: Path):
    path = tmp_path / "imported.parquet"
    pq.write_table(pa.table({"c1": pa.array([5]), "c2": pa.array(["note"])}), path)
    table.there = [TableFile("imported", str(path), NONE)]

    assert row_change(batch((5, "a", 1, False)), table) is not None
    assert row_change(batch((5, "a", 1, False), columns=pa.schema(list(ALL)[:2])), table) is None


def test_values_beyond_the_bound_are_left_to_spark(table: Write, monkeypatch: pytest.MonkeyPatch):
    given = batch(
        (1, None, 1, False),
        kept=("note",),
        flags={KEEP.format(0): pa.array([True]), BASE.format(0): pa.array([None], pa.int64())},
    )
    assert row_change(given, table) is not None
    monkeypatch.setattr(kept_values, "_MOST_BYTES", 8)

    assert row_change(given, table) is None


def test_a_damaged_file_is_told_and_not_merged_around(table: Write):
    assert table.there is not None
    Path(table.there[1].path).write_bytes(b"PAR1 no Parquet PAR1")

    with pytest.raises(SinkError, match="can't be read"):
        row_change(batch((1, "a", 1, False)), table)


@pytest.mark.parametrize("case", ["no marks", "another type", "a key of floats"])
def test_what_only_spark_can_do_is_left_to_it(case: str, table: Write):
    given = batch((1, "a", 1, False))
    if case == "no marks":
        table.there = None
    elif case == "another type":
        table.columns = (*COLUMNS[:2], FileColumn("n", field_of("c3", pa.int16(), 3)))
    else:
        table.columns = (FileColumn("id", field_of("c1", pa.float64(), 1)), *COLUMNS[1:])

    assert row_change(given, table) is None
