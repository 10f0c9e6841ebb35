"""The schema beside a record, as readers that don't know Connect are told of it, and what values mean by it.

Such readers have decimals as bytes. `meant` gives them the text that Connect's own consumers give.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.consumers.records import Record

Schema = dict[str, Any]
_FLINK = {
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
    "bytes": "BYTES",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"


def row_schema(records: Iterable[Record]) -> dict[str, Schema]:
    """The fields of a row by name, as the first record with a value describes them."""
    value = next(record.value for record in records if record.value)
    envelope = orjson.loads(value)["schema"]
    after = next(field for field in envelope["fields"] if field["field"] == "after")
    return {field["field"]: field for field in after["fields"]}


def flink_type(schema: Schema) -> str:
    """The type of a column of Flink's."""
    if schema["type"] == "array":
        return f"ARRAY<{flink_type(schema['items'])}>"
    if schema["type"] == "struct":
        fields = ", ".join(f"`{field['field']}` {flink_type(field)}" for field in schema["fields"])
        return f"ROW<{fields}>"
    return _FLINK[schema["type"]]


def meant(schema: Schema, value: Any) -> Any:
    """A value with its decimals as text."""
    if value is None:
        return None
    if schema.get("name") == _DECIMAL:
        return _decimal(value, int(schema["parameters"]["scale"]))
    if schema.get("name") == _VARIABLE:
        return _decimal(value["value"], int(value["scale"]))
    if schema["type"] == "array":
        return [meant(schema["items"], item) for item in value]
    return value


def _decimal(octets: str, scale: int) -> str:
    unscaled = int.from_bytes(bytes.fromhex(octets), "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((unscaled < 0, digits, -scale)):f}"


def meant_row(fields: Mapping[str, Schema], row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, value by value."""
    return {name: meant(fields[name], value) for name, value in row.items()}
