"""Flink's and Spark's own readers of change events, over files of them: the rows that these leave."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import types

from tests.consumers.libraries import flink
from tests.consumers.schemas import Schema, flink_type, meant_row, row_schema
from tests.servers.java import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from tests.consumers.records import Record

_FLINK = Path(__file__).with_name("FlinkReader.java")
_OPENED = (
    "java.base/java.util=ALL-UNNAMED",
    "java.base/java.lang=ALL-UNNAMED",
    "java.base/java.net=ALL-UNNAMED",
)


def flink_rows(records: Sequence[Record], directory: Path) -> dict[str, dict[str, Any]]:
    """The rows of one table by their key `id`, as Flink's format debezium-json reads the changelog."""
    (directory / "events.json").write_bytes(b"\n".join(record.value for record in records if record.value))
    fields = row_schema(records)
    columns = ", ".join(f"`{name}` {flink_type(field)}" for name, field in fields.items())
    table = (
        f"CREATE TABLE changes ({columns}) WITH ('connector' = 'filesystem', 'format' = 'debezium-json',"
        f" 'path' = '{directory / 'events.json'}', 'debezium-json.schema-include' = 'true')"
    )
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [word for opened in _OPENED for word in ("--add-opens", opened)]
    command += [
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        compiled(_FLINK, flink()),
        "FlinkReader",
    ]
    done = subprocess.run([*command, table, "SELECT * FROM changes"], capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Flink fails: {done.stderr.decode(errors='replace')[-3000:]}")
    rows: dict[str, dict[str, Any]] = {}
    for kind, *values in map(orjson.loads, done.stdout.splitlines()):
        row = meant_row(fields, dict(zip(fields, values, strict=True)))
        if kind in {"+I", "+U"}:
            rows[row["id"]] = row
        else:
            rows.pop(row["id"], None)
    return rows


def spark_rows(records: Sequence[Record], spark: SparkSession, directory: Path) -> dict[str, dict[str, Any]]:
    """The same, as Spark's JSON reader reads the events one by one, by the types that their schema says."""
    (directory / "events.json").write_bytes(b"\n".join(record.value for record in records if record.value))
    fields = row_schema(records)
    row = types.StructType([types.StructField(name, _spark_type(field)) for name, field in fields.items()])
    payload = types.StructType(
        [
            types.StructField("op", types.StringType()),
            types.StructField("before", row),
            types.StructField("after", row),
        ]
    )
    read = spark.read.json(
        str(directory / "events.json"),
        schema=types.StructType([types.StructField("payload", payload)]),
        mode="FAILFAST",
    )
    rows: dict[str, dict[str, Any]] = {}
    for event in (row["payload"].asDict(recursive=True) for row in read.collect()):
        found = event["after"] or event["before"]
        shown = {name: _text(fields[name], value) for name, value in found.items()}
        if event["op"] == "d":
            rows.pop(shown["id"], None)
        else:
            rows[shown["id"]] = meant_row(fields, shown)
    return rows


_SPARK: dict[str, type[types.DataType]] = {
    "int8": types.ShortType,
    "int16": types.ShortType,
    "int32": types.IntegerType,
    "int64": types.LongType,
    "float": types.FloatType,
    "double": types.DoubleType,
    "boolean": types.BooleanType,
    "string": types.StringType,
    "bytes": types.BinaryType,
}


def _spark_type(schema: Schema) -> types.DataType:
    if schema["type"] == "array":
        return types.ArrayType(_spark_type(schema["items"]))
    if schema["type"] == "struct":
        return types.StructType(
            [types.StructField(field["field"], _spark_type(field)) for field in schema["fields"]]
        )
    return _SPARK[schema["type"]]()


def _text(schema: Schema, value: Any) -> Any:  # noqa: PLR0911  a type a line
    """A value as `Consumer.java` writes it."""
    match schema["type"]:
        case _ if value is None:
            return None
        case "float":
            return struct.pack(">f", value).hex()
        case "double":
            return struct.pack(">d", value).hex()
        case "bytes":
            return bytes(value).hex()
        case "boolean":
            return "true" if value else "false"
        case "array":
            return [_text(schema["items"], item) for item in value]
        case "struct":
            return {field["field"]: _text(field, value[field["field"]]) for field in schema["fields"]}
        case _:
            return str(value)


def of_table(records: Iterable[Record], table: str) -> list[Record]:
    """The records of one table."""
    return [record for record in records if record.topic.endswith(f".{table}")]
