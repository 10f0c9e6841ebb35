"""Appends to tables of Iceberg by files. Only tables without partitions and without an order of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from adapters.lakehouse.files.data_file import FileColumn, field_of, members_of, named_type, typed
from adapters.lakehouse.java import jvm_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from adapters.lakehouse.files.data_file import DataFile

_TIMES: Final = {"timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}


@dataclass(frozen=True, slots=True)
class IcebergAppend:
    """An append that is about to be made.

    `branched` gives Iceberg's append to a branch, which becomes the table's state behind the block; None if
    the table has the turn. `properties` are the snapshot's.
    """

    spark: SparkSession
    table: Any
    columns: Sequence[FileColumn]
    branched: Callable[[], AbstractContextManager[Any]]
    properties: Mapping[str, str]
    codec: str = "zstd"

    def commit(self, file: DataFile) -> None:
        """Copy the file to where the table has its files, and commit it with the turn."""
        with self.branched() as append:
            if append is None:
                return
            for name, value in self.properties.items():
                append.set(name, value)
            append.appendFile(self._added(file)).commit()

    def _added(self, file: DataFile) -> Any:
        jvm, _session = jvm_of(self.spark)
        iceberg = jvm.org.apache.iceberg
        place = self.table.locationProvider().newDataLocation(file.path.name)
        output = self.table.io().newOutputFile(place)
        stream = output.create()
        try:
            jvm.java.nio.file.Files.copy(jvm.java.io.File(str(file.path)).toPath(), stream)
        finally:
            stream.close()
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(
            output.toInputFile(), iceberg.MetricsConfig.forTable(self.table)
        )
        described = iceberg.DataFiles.builder(self.table.spec()).withPath(place).withFormat("parquet")
        return described.withFileSizeInBytes(file.bytes).withMetrics(metrics).build()


def columns_of(spark: SparkSession, table: Any) -> Sequence[FileColumn] | None:
    """The columns of a table's files; None if rows alone are not all that it needs."""
    if not table.spec().isUnpartitioned() or not table.sortOrder().isUnsorted():
        return None
    jvm, _session = jvm_of(spark)
    return columns_in(orjson.loads(jvm.org.apache.iceberg.SchemaParser.toJson(table.schema())))


def columns_in(schema: Mapping[str, Any]) -> tuple[FileColumn, ...] | None:
    """The columns of a schema in Iceberg's JSON; None if one can't be given as it is."""
    return members_of(schema, _column)


def _column(described: Mapping[str, Any]) -> FileColumn | None:
    """A column of a table's schema; None for a type that rows can't be given as they are."""
    found = typed(described["type"], _column, _type)
    if found is None or "write-default" in described:
        return None
    name, (kind, members) = described["name"], found
    field = field_of(name, kind, described["id"], nullable=not described["required"])
    return FileColumn(name, field, members)


def _type(kind: str | Mapping[str, Any]) -> pa.DataType | None:
    if isinstance(kind, str):
        return named_type(kind, _TIMES)
    if kind["type"] == "list":
        element = _type(kind["element"])
        return None if element is None else pa.list_(field_of("element", element, kind["element-id"]))
    if kind["type"] == "map":
        key, value = _type(kind["key"]), _type(kind["value"])
        if key is None or value is None:
            return None
        return pa.map_(
            field_of("key", key, kind["key-id"], nullable=False), field_of("value", value, kind["value-id"])
        )
    return None
