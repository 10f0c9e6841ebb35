"""Appends to tables of Iceberg by files, and marks rows as gone. Only tables without partitions and order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import orjson
import pyarrow as pa

from adapters.lakehouse.files.data_file import FileColumn, TableFile, field_of, members_of, named_type, typed
from adapters.lakehouse.files.key_matches import local_path
from adapters.lakehouse.files.position_deletes import read_deletes, write_deletes
from adapters.lakehouse.files.roaring import NONE
from adapters.lakehouse.tables.java import jvm_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from adapters.lakehouse.files.data_file import DataFile, DeadRows
    from adapters.lakehouse.files.key_matches import Bounds

_Builder: TypeAlias = tuple[Any, Any]
"""Iceberg's builder of a file, and which metrics it has."""

_VERSION: Final = 2
_MODE: Final = "write.merge.mode"
_BY_POSITION: Final = "position-deletes"
_TIMES: Final = {"timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC")}


@dataclass(frozen=True, slots=True)
class IcebergWrite:
    """A write that is about to be made.

    `branched` gives the branch to write to, which becomes the table's state behind the block; None if the
    table has the turn. `properties` are the snapshot's. `asked` has the snapshot whose files were asked for.
    """

    spark: SparkSession
    table: Any
    columns: Sequence[FileColumn]
    branched: Callable[[], AbstractContextManager[str | None]]
    properties: Mapping[str, str]
    codec: str = "zstd"
    asked: list[int] = field(default_factory=list)

    def files(self, column: str, bounds: Bounds | None) -> Iterator[TableFile] | None:
        """Those whose metrics allow the values. Rows are marked by position deletes, of version 2."""
        current, version = self.table.currentSnapshot(), self.table.operations().current().formatVersion()
        if current is None or version != _VERSION or self.table.properties().get(_MODE) != "merge-on-read":
            return None
        self.asked.append(current.snapshotId())
        tasks = [_Task.of(task) for task in self._tasks(column, bounds)]
        whole = [task for task in tasks if task is not None]
        if len(whole) < len(tasks):
            return None
        deletes = {path for task in whole for path in task.deletes}
        dead = read_deletes(sorted(deletes))
        return iter([TableFile(task.name, task.path, dead.get(task.name, NONE)) for task in whole])

    def _tasks(self, column: str, bounds: Bounds | None) -> list[dict[str, Any]]:
        """What is to be read for these values."""
        jvm, _session = jvm_of(self.spark)
        scan = self.table.newScan().useSnapshot(self.asked[-1])
        if bounds is not None:
            expressions = jvm.org.apache.iceberg.expressions.Expressions
            low = expressions.greaterThanOrEqual(column, bounds.low)
            scan = scan.filter(
                getattr(expressions, "and")(low, expressions.lessThanOrEqual(column, bounds.high))
            )
        planned = scan.planFiles()
        try:
            parser = jvm.org.apache.iceberg.ScanTaskParser
            return [orjson.loads(parser.toJson(task)) for task in planned.iterator()]
        finally:
            planned.close()

    def commit(self, file: DataFile | None, gone: Sequence[DeadRows]) -> None:
        """Copy the files to where the table has its own, and commit them with the turn."""
        with self.branched() as branch:
            if branch is None:
                return
            made = self._changes(gone) if self.asked else self.table.newAppend()
            if file is not None:
                add = made.addRows if self.asked else made.appendFile
                add(self._described(file.path, self._data_file()))
            for name, value in self.properties.items():
                made.set(name, value)
            made.toBranch(branch).commit()

    def _changes(self, gone: Sequence[DeadRows]) -> Any:
        """What marks rows. It fails if another commit has changed rows or files since they were asked for."""
        jvm, _session = jvm_of(self.spark)
        names = jvm.java.util.ArrayList()
        for file, _positions in gone:
            names.add(file.name)
        made = self.table.newRowDelta().validateFromSnapshot(self.asked[-1])
        made = made.conflictDetectionFilter(jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
        made = made.validateNoConflictingDataFiles().validateNoConflictingDeleteFiles()
        made = made.validateDeletedFiles().validateDataFilesExist(names)
        if not gone:
            return made
        with TemporaryDirectory(prefix="tidemark-lake-") as directory:
            deletes = write_deletes(Path(directory), gone, self.codec)
            return made.addDeletes(self._described(deletes, self._delete_file()))

    def _data_file(self) -> _Builder:
        jvm, _session = jvm_of(self.spark)
        iceberg = jvm.org.apache.iceberg
        return iceberg.DataFiles.builder(self.table.spec()), iceberg.MetricsConfig.forTable(self.table)

    def _delete_file(self) -> _Builder:
        jvm, _session = jvm_of(self.spark)
        iceberg = jvm.org.apache.iceberg
        builder = iceberg.FileMetadata.deleteFileBuilder(self.table.spec()).ofPositionDeletes()
        return builder, iceberg.MetricsConfig.forPositionDelete()

    def _described(self, path: Path, builder: _Builder) -> Any:
        """A file of the table, which is a copy of this one."""
        jvm, _session = jvm_of(self.spark)
        described, metrics = builder
        place = self.table.locationProvider().newDataLocation(path.name)
        output = self.table.io().newOutputFile(place)
        stream = output.create()
        try:
            jvm.java.nio.file.Files.copy(jvm.java.io.File(str(path)).toPath(), stream)
        finally:
            stream.close()
        found = jvm.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(output.toInputFile(), metrics)
        described = described.withPath(place).withFormat("parquet")
        return described.withFileSizeInBytes(path.stat().st_size).withMetrics(found).build()


class _Task(NamedTuple):
    """A data file to be read, and its files of deletes, by their paths."""

    name: str
    path: str
    deletes: Sequence[str]

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self | None:
        """Of Iceberg's JSON; None if they are not to be read from here."""
        data, deletes = described["data-file"], described.get("delete-files", [])
        paths = [local_path(file["file-path"]) for file in (data, *deletes)]
        whole = [path for path in paths if path is not None]
        known = all(file["content"] == _BY_POSITION for file in deletes)
        parquet = all(file["file-format"].lower() == "parquet" for file in (data, *deletes))
        return (
            cls(data["file-path"], whole[0], whole[1:])
            if known and parquet and len(whole) == len(paths)
            else None
        )


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
    there = field_of(name, kind, described["id"], nullable=not described["required"])
    return FileColumn(name, there, members)


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
