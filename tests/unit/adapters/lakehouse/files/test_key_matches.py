from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.lakehouse.files.data_file import FileColumn, field_of
from adapters.lakehouse.files.key_matches import BatchKeys, Bounds, local_path
from adapters.lakehouse.files.roaring import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ID = FileColumn("id", field_of("id", pa.int64(), 1))
NAME = FileColumn("name", field_of("name", pa.string(), 2))
KEYS = st.tuples(st.sampled_from([None, 1, 2, 1 << 40]), st.sampled_from([None, "", "a", "ä"]))


def keys_of(rows: pa.Table, *columns: FileColumn) -> BatchKeys:
    found = BatchKeys.of(rows, rows.column_names, columns)
    assert found is not None
    return found


def file_of(directory: Path, rows: pa.Table, *columns: FileColumn, group: int = 3) -> str:
    path = str(directory / "file.parquet")
    made = rows.cast(pa.schema([column.field for column in columns])) if columns else rows
    pq.write_table(made, path, row_group_size=group, store_schema=False)
    return path


def pairs(keys: BatchKeys, path: str, dead: Sequence[int] = ()) -> list[tuple[int, int]]:
    found = keys.matches(path, np.array(dead, np.int64))
    assert found is not None
    return sorted(zip(found.positions.tolist(), found.rows.tolist(), strict=True))


@given(st.lists(KEYS, min_size=1, unique=True), st.lists(KEYS, min_size=1, max_size=12))
def test_keys_of_several_columns_are_found_as_spark_compares_them(
    tmp_path_factory: pytest.TempPathFactory, batch: list[Any], there: list[Any]
):
    keys = keys_of(table(batch), ID, NAME)
    path = file_of(tmp_path_factory.mktemp("places"), table(there), ID, NAME)

    expected = [(at, batch.index(key)) for at, key in enumerate(there) if key in batch]
    assert pairs(keys, path) == expected


def table(keys: Sequence[Any]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([key[0] for key in keys], pa.int64()),
            "name": pa.array([key[1] for key in keys], pa.string()),
        }
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, 5], pa.int16()),
        (["b", "d"], pa.string()),
        ([b"b", b"d"], pa.binary()),
        ([True, False], pa.bool_()),
        ([dt.date(2024, 1, 1), dt.date(1, 1, 1)], pa.date32()),
        ([Decimal("1.50"), Decimal(-3)], pa.decimal128(9, 2)),
    ],
)
def test_keys_are_found_whatever_their_type(values: list[Any], kind: pa.DataType, tmp_path: Path):
    column = FileColumn("id", field_of("id", kind, 1))
    path = file_of(tmp_path, pa.table({"id": pa.array([None, *values, values[0]], kind)}), column)

    assert pairs(keys_of(pa.table({"id": pa.array(values, kind)}), column), path) == [(1, 0), (2, 1), (3, 0)]


def test_dead_rows_are_left_out(tmp_path: Path):
    path = file_of(tmp_path, pa.table({"id": pa.array([1, 2, 1, 2, 1], pa.int64())}), ID, group=2)

    assert pairs(keys_of(pa.table({"id": pa.array([1], pa.int64())}), ID), path, [0, 2, 3]) == [(4, 0)]


def test_row_groups_that_have_no_such_key_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = file_of(tmp_path, pa.table({"id": pa.array(range(100), pa.int64())}), ID, group=10)
    read, reading = [], pq.ParquetFile.read_row_group

    def counted(self: pq.ParquetFile, number: int, columns: list[str]) -> pa.Table:
        read.append(number)
        return reading(self, number, columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    keys = keys_of(pa.table({"id": pa.array([35, 42], pa.int64())}), ID)

    assert pairs(keys, path) == [(35, 0), (42, 1)]
    assert read == [3, 4]
    assert keys.first == ("id", Bounds(35, 42))


def test_integers_that_were_narrower_when_a_file_was_written_are_found(tmp_path: Path):
    narrow = FileColumn("id", field_of("id", pa.int32(), 1))
    path = file_of(tmp_path, pa.table({"id": pa.array([7, 8], pa.int32())}), narrow)

    assert pairs(keys_of(pa.table({"id": pa.array([8, 1 << 40], pa.int64())}), ID), path) == [(1, 0)]


def test_a_key_column_is_found_by_its_number_in_a_file_that_gives_it_another_name(tmp_path: Path):
    written = FileColumn("the id", field_of("the_x20id", pa.int64(), 1))
    other = FileColumn("name", field_of("the id", pa.int64(), 2))
    rows = pa.table({"the id": pa.array([5, 6, 7], pa.int64()), "the_x20id": pa.array([7, 8, 9], pa.int64())})
    path = file_of(tmp_path, rows, other, written)
    keys = keys_of(
        pa.table({"the id": pa.array([8], pa.int64())}),
        FileColumn("the id", field_of("the id", pa.int64(), 1)),
    )

    assert pairs(keys, path) == [(1, 0)]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"other": pa.array([1], pa.int64())}),
        pa.table({"id": pa.array(["1"])}),
        pa.table(
            [pa.array([1], pa.int64())],
            schema=pa.schema([field_of("id", pa.int64(), 9)]),
        ),
    ],
    ids=["none", "another type", "another column of the name"],
)
def test_a_file_without_the_key_column_is_left_to_spark(rows: pa.Table, tmp_path: Path):
    path = file_of(tmp_path, rows)

    assert keys_of(pa.table({"id": pa.array([1], pa.int64())}), ID).matches(path, NONE) is None


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1.5], pa.float64()), ([0], pa.timestamp("us")), ([[1]], pa.list_(pa.int64())), ([1, 1], pa.int64())],
    ids=["floats", "times", "lists", "a key twice"],
)
def test_keys_that_spark_alone_compares_are_left_to_it(values: list[Any], kind: pa.DataType):
    column = FileColumn("id", field_of("id", kind, 1))

    assert BatchKeys.of(pa.table({"id": pa.array(values, kind)}), ["id"], [column]) is None


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("file:/a/b%20c", "/a/b c"),
        ("file:///a", "/a"),
        ("/a/b%20c", "/a/b%20c"),
        ("s3a://lake/a", None),
        ("hdfs:/a", None),
        ("a", None),
    ],
)
def test_only_files_on_local_disks_have_a_path(place: str, path: str | None):
    assert local_path(place) == path
