from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapters.lakehouse.files.data_file import FileColumn, field_of, fit_rows, write_file

if TYPE_CHECKING:
    from pathlib import Path

ID = FileColumn("Id", field_of("col-1", pa.int64(), 1, nullable=False))


def column(kind: pa.DataType, *, nullable: bool = True) -> FileColumn:
    return FileColumn("v", field_of("col-2", kind, 2, nullable=nullable))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, None], pa.int16()), pa.int64()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([b"a", None], pa.large_binary()), pa.binary()),
        (pa.array([0.5, None], pa.float32()), pa.float64()),
        (pa.array([Decimal("1.5"), None], pa.decimal128(3, 1)), pa.decimal128(5, 2)),
        (pa.array([[1], None, [None]], pa.list_(pa.int16())), pa.list_(field_of("element", pa.int32(), 3))),
        (
            pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
            pa.map_(pa.string(), pa.string()),
        ),
        (pa.array([dt.date(1, 1, 1), None]), pa.date32()),
    ],
)
def test_values_that_a_type_has_are_written_as_they_are(values: pa.Array, kind: pa.DataType, tmp_path: Path):
    rows = pa.table({"id": pa.array(range(len(values)), pa.int32()), "v": values})

    found = fit_rows(rows, [ID, column(kind)])

    assert found is not None
    read = pq.read_table(write_file(found, tmp_path, "snappy", "4.1.0").path)
    assert read.column("col-1").to_pylist() == list(range(len(values)))
    assert read.column("col-2").to_pylist() == values.to_pylist()
    assert read.schema.field("col-2").metadata == {b"PARQUET:field_id": b"2"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1], pa.int64()), pa.int32()),
        (pa.array([1], pa.int64()), pa.string()),
        (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), pa.decimal128(3, 2)),
        (pa.array([Decimal("1.55")], pa.decimal128(3, 2)), pa.decimal128(9, 1)),
        (pa.array([0], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([[1]], pa.list_(pa.int64())), pa.list_(pa.string())),
        (pa.array([{"a": 1}]), pa.int64()),
    ],
)
def test_values_that_would_have_to_be_changed_are_left_to_spark(values: pa.Array, kind: pa.DataType):
    rows = pa.table({"id": pa.array([1]), "v": values})

    assert fit_rows(rows, [ID, column(kind)]) is None


def test_columns_that_are_missing_on_either_side():
    rows = pa.table({"id": [1], "v": [2]})

    assert fit_rows(rows, [ID]) is None
    assert fit_rows(rows.select(["v"]), [ID, column(pa.int64())]) is None
    lacking = fit_rows(rows.select(["id"]), [ID, column(pa.int64())])
    assert lacking is not None
    assert lacking.column_names == ["col-1"]
    nulls = pa.table({"id": [1], "v": pa.array([None], pa.int64())})
    assert fit_rows(nulls, [ID, column(pa.int64(), nullable=False)]) is None


def test_members_of_a_struct_have_names_of_their_own_in_files(tmp_path: Path):
    members = (
        FileColumn("a", field_of("col-3", pa.int64(), 3)),
        FileColumn("b", field_of("col-4", pa.string(), 4)),
    )
    struct = FileColumn("v", field_of("col-2", pa.struct([member.field for member in members]), 2), members)
    values: list[Any] = [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    rows = pa.table({"id": [1, 2, 3], "v": pa.array(values, kind)})

    found = fit_rows(rows, [ID, struct])

    assert found is not None
    read = pq.read_table(write_file(found, tmp_path, "zstd", "4.1.0").path).column("col-2")
    assert read.to_pylist() == [{"col-3": 1, "col-4": "x"}, None, {"col-3": None, "col-4": "y"}]
    other = pa.table({"id": [1], "v": pa.array([{"b": "x", "a": 1}])})
    assert fit_rows(other, [ID, struct]) is None


def test_a_file_knows_the_bounds_of_integers_dates_and_short_texts(tmp_path: Path):
    day = dt.date(2026, 5, 1)
    rows = pa.table(
        {"n": [3, None, 1], "day": [day, None, day], "t": ["b", "a", "c"], "long": ["x" * 40, "y", "z"]}
    ).append_column("nothing", pa.nulls(3, pa.int64()))

    file = write_file(rows, tmp_path, "snappy", "4.1.0")

    assert file.bounds == {"n": (1, 3), "day": (day, day), "t": ("a", "c")}
    assert file.nulls == {"n": 1, "day": 1, "t": 0, "long": 0, "nothing": 3}
    assert (file.rows, file.bytes) == (3, file.path.stat().st_size)
    assert pq.read_metadata(file.path).metadata[b"org.apache.spark.version"] == b"4.1.0"
