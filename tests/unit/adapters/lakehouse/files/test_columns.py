"""The columns of the formats' files, as their schemas describe them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pytest

from adapters.lakehouse.files import delta, iceberg

FIELDS: list[dict[str, Any]] = [
    {
        "name": "id",
        "type": "long",
        "nullable": False,
        "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
    },
    {"name": "price", "type": "decimal(12,2)", "nullable": True, "metadata": {"comment": "in euros"}},
]


@dataclass
class Metadata:
    fields: list[dict[str, Any]] = field(default_factory=lambda: FIELDS)
    partitions: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def getSchemaString(self) -> str:  # noqa: N802  as Delta has it
        return orjson.dumps({"type": "struct", "fields": self.fields}).decode()

    def getPartitionColumns(self) -> list[str]:  # noqa: N802  likewise
        return self.partitions

    def getConfiguration(self) -> dict[str, str]:  # noqa: N802  likewise
        return self.settings


@dataclass
class Protocol:
    features: tuple[str, ...] | None = ("columnMapping", "deletionVectors")

    def supportsWriterFeatures(self) -> bool:  # noqa: N802  likewise
        return self.features is not None

    def getWriterFeatures(self) -> tuple[str, ...] | None:  # noqa: N802  likewise
        return self.features


def test_delta_s_columns_have_the_names_and_numbers_of_its_files():
    struct = {"type": "struct", "fields": FIELDS}
    array = {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}
    more = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("of", struct), ("times", array))
    ]

    columns = delta.columns_of(Metadata([*FIELDS, *more]), Protocol())

    assert columns is not None
    assert [column.name for column in columns] == ["id", "price", "of", "times"]
    assert [column.field.name for column in columns] == ["col-1", "price", "of", "times"]
    assert columns[0].field.metadata == {b"PARQUET:field_id": b"1"}
    assert not columns[0].field.nullable
    assert columns[1].field.type == pa.decimal128(12, 2)
    assert [member.name for member in columns[2].members] == ["id", "price"]
    assert columns[3].field.type.value_type == pa.timestamp("us")


@pytest.mark.parametrize(
    ("metadata", "protocol"),
    [
        (Metadata(), Protocol(None)),
        (Metadata(), Protocol(("columnMapping", "generatedColumns"))),
        (Metadata(partitions=["id"]), Protocol()),
        (Metadata(settings={"delta.constraints.positive": "id > 0"}), Protocol()),
        (Metadata([{**FIELDS[0], "metadata": {"delta.invariants": "{}"}}]), Protocol()),
        (Metadata([{**FIELDS[0], "type": "variant"}]), Protocol()),
        (
            Metadata(
                [{**FIELDS[0], "type": {"type": "array", "elementType": {"type": "struct", "fields": []}}}]
            ),
            Protocol(),
        ),
    ],
)
def test_a_delta_table_that_needs_more_than_rows_is_left_to_spark(metadata: Metadata, protocol: Protocol):
    assert delta.columns_of(metadata, protocol) is None


def test_iceberg_s_columns_have_the_numbers_of_its_files():
    price = {"id": 2, "name": "price", "required": False, "type": "decimal(12, 2)"}
    tags = {"type": "list", "element-id": 9, "element": "string", "element-required": False}
    pairs = {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "int"}

    columns = iceberg.columns_in(
        {
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                price,
                {"id": 3, "name": "tags", "required": False, "type": tags},
                {"id": 4, "name": "pairs", "required": False, "type": pairs},
                {"id": 5, "name": "of", "required": False, "type": {"type": "struct", "fields": [price]}},
                {"id": 6, "name": "at", "required": False, "type": "timestamptz"},
            ]
        }
    )

    assert columns is not None
    assert [column.name for column in columns] == ["id", "price", "tags", "pairs", "of", "at"]
    assert columns[0].field.metadata == {b"PARQUET:field_id": b"1"}
    assert columns[2].field.type.value_field.metadata == {b"PARQUET:field_id": b"9"}
    assert columns[3].field.type.item_field.metadata == {b"PARQUET:field_id": b"8"}
    assert columns[4].members[0].field.metadata == {b"PARQUET:field_id": b"2"}
    assert columns[5].field.type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("more", [{"type": "uuid"}, {"type": "int", "write-default": 7}])
def test_a_column_of_iceberg_whose_values_are_more_than_given_is_left_to_spark(more: dict[str, Any]):
    assert iceberg.columns_in({"fields": [{"id": 1, "name": "a", "required": False, **more}]}) is None
