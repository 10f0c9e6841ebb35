"""Appends to tables of Delta Lake by files, and marks rows as gone, as transactions of Delta's own.

Only tables whose rows Delta takes as they are: no partitions, no constraints, no generated columns, and no
feature that the sink does not know.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa

from adapters.lakehouse.files.data_file import FileColumn, TableFile, field_of, members_of, named_type, typed
from adapters.lakehouse.files.deletion_vectors import read_vector, write_vectors
from adapters.lakehouse.files.key_matches import local_path
from adapters.lakehouse.files.roaring import NONE, Positions
from adapters.lakehouse.tables.java import jvm_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.lakehouse.files.data_file import DataFile, DeadRows
    from adapters.lakehouse.files.key_matches import Bounds

_FEATURES: Final = frozenset(
    {"appendOnly", "columnMapping", "deletionVectors", "invariants", "timestampNtz", "typeWidening"}
)
"""The writer features of tables that the sink creates."""
_OPERATIONS: Final = "org.apache.spark.sql.delta.DeltaOperations"
_VECTORS, _APPEND_ONLY = "delta.enableDeletionVectors", "delta.appendOnly"
_OF_REMOVED: Final = ("path", "partitionValues", "size", "stats", "tags", "deletionVector")
_MAPPED: Final = "delta.columnMapping."
_NUMBER, _NAME = f"{_MAPPED}id", f"{_MAPPED}physicalName"
_KNOWN: Final = frozenset({"comment", "delta.typeChanges"})
"""What a column's metadata may have beside its name and number in files."""
_TIMES: Final = {"timestamp_ntz": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC")}


def newest_turn(snapshot: Any, application: str) -> int | None:
    """The version of an application in a table's state.

    As a rule the newest commit's checksum has those of all applications. Else Delta reads its whole log.
    """
    checksum = snapshot.checksumOpt()
    known = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not known.isDefined():
        turn = snapshot.transactions().get(application)
        return int(turn.get()) if turn.isDefined() else None
    for at in range(known.get().size()):
        if (transaction := known.get().apply(at)).appId() == application:
            return int(transaction.version())
    return None


def _all_files(snapshot: Any) -> Iterator[dict[str, Any]]:
    """What the log says of each file of a table's state.

    As a rule the newest commit's checksum has it. Else Delta reads its whole log.
    """
    checksum = snapshot.checksumOpt()
    known = checksum.get().allFiles() if checksum.isDefined() else checksum
    if known.isDefined():
        files = map(known.get().apply, range(known.get().size()))
    else:
        files = iter(snapshot.allFiles().collect())
    return (orjson.loads(file.json())["add"] for file in files)


def begin_write(spark: SparkSession, log: Any, application: str, turn: int) -> DeltaWrite | None:
    """Begin a transaction that appends or marks; None if the table has more than rows, or has the turn."""
    jvm, _session = jvm_of(spark)
    none = jvm.scala.Option.empty()
    transaction = log.startTransaction(none, none)
    columns = columns_of(transaction.metadata(), transaction.protocol())
    # Delta refuses the commit if another one has written a version of an application that was read.
    getattr(transaction.readTxn(), "$plus$eq")(application)
    newest = newest_turn(transaction.snapshot(), application)
    if columns is None or (newest is not None and newest >= turn):
        return None
    return DeltaWrite(spark, log, transaction, columns, {"appId": application, "version": turn})


@dataclass(frozen=True, slots=True)
class DeltaWrite:
    """A transaction that has begun. `added` has what the log says of files that were asked for."""

    spark: SparkSession
    log: Any
    transaction: Any
    columns: Sequence[FileColumn]
    version: Mapping[str, Any]
    codec: str = "snappy"
    added: dict[str, dict[str, Any]] = field(default_factory=dict)

    def files(self, column: str, bounds: Bounds | None) -> Iterator[TableFile] | None:
        """Those whose statistics allow the values, if the table has deletion vectors."""
        settings = self.transaction.metadata().getConfiguration()
        table = local_path(self.log.dataPath().toUri().toString())
        if table is None or settings.get(_VECTORS) != "true" or settings.get(_APPEND_ONLY) == "true":
            return None
        # Delta refuses the commit if another one has added or removed files.
        self.transaction.readWholeTable()
        for described in _all_files(self.transaction.snapshot()):
            self.added[described["path"]] = described
        found = [
            _table_file(Path(table), described)
            for described in self.added.values()
            if _may_have(described, column, bounds)
        ]
        whole = [file for file in found if file is not None]
        return iter(whole) if len(whole) == len(found) else None

    def commit(self, file: DataFile | None, gone: Sequence[DeadRows]) -> None:
        """Copy the file into the table's directory, and commit it with the turn."""
        now_ms = time.time_ns() // 10**6
        actions: list[Mapping[str, Any]] = [{"txn": {**self.version, "lastUpdated": now_ms}}]
        actions += self._marked(gone, now_ms)
        if file is not None:
            self._copy(file.path)
            added = {
                "path": file.path.name,
                "partitionValues": {},
                "size": file.bytes,
                "modificationTime": file.written_ms,
                "dataChange": True,
                "stats": _statistics(file),
            }
            actions.append({"add": added})
        self._commit(actions)

    def _copy(self, path: Path) -> None:
        jvm, session = jvm_of(self.spark)
        target = jvm.org.apache.hadoop.fs.Path(self.log.dataPath(), path.name)
        system = target.getFileSystem(session.sessionState().newHadoopConf())
        source = jvm.org.apache.hadoop.fs.Path(path.as_uri())
        system.copyFromLocalFile(True, False, source, target)  # noqa: FBT003  moved, and nothing is overwritten

    def _marked(self, gone: Sequence[DeadRows], now_ms: int) -> Iterator[dict[str, Any]]:
        """Each file anew, with a vector of all rows that are dead then; none if that are all rows."""
        dead, stats = dict[str, Positions](), dict[str, dict[str, Any]]()
        for file, positions in gone:
            yield {"remove": _removed(self.added[file.name], now_ms)}
            found, there = orjson.loads(self.added[file.name]["stats"]), np.union1d(file.dead, positions)
            if len(there) < found["numRecords"]:
                dead[file.name], stats[file.name] = there, {**found, "tightBounds": False}
        with TemporaryDirectory(prefix="tidemark-lake-") as directory:
            path, vectors = write_vectors(Path(directory), list(dead.values()))
            if dead:
                self._copy(path)
        for name, vector in zip(dead, vectors, strict=True):
            marked = {
                "deletionVector": vector,
                "dataChange": True,
                "stats": orjson.dumps(stats[name]).decode(),
            }
            yield {"add": {**self.added[name], **marked}}

    def _commit(self, actions: Sequence[Mapping[str, Any]]) -> None:
        jvm, _session = jvm_of(self.spark)
        made = jvm.java.util.ArrayList()
        for action in actions:
            made.add(jvm.org.apache.spark.sql.delta.actions.Action.fromJson(orjson.dumps(action).decode()))
        none = jvm.scala.Option.empty()
        if self.added:
            operation = getattr(jvm, f"{_OPERATIONS}$Update")(none)
        else:
            write = getattr(jvm, f"{_OPERATIONS}$Write")
            operation = write(jvm.org.apache.spark.sql.SaveMode.Append, *[none] * 8)
        self.transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq(), operation)


def _table_file(table: Path, described: Mapping[str, Any]) -> TableFile | None:
    """A file of the log; None if it has no count of rows, or its vector or itself is elsewhere."""
    place = described["path"]
    path = (
        local_path(place)
        if "://" in place or place.startswith(("/", "file:"))
        else f"{table}/{unquote(place)}"
    )
    vector = described.get("deletionVector")
    dead = NONE if vector is None else read_vector(table, vector)
    if path is None or dead is None or "numRecords" not in orjson.loads(described.get("stats") or "{}"):
        return None
    return TableFile(place, path, dead)


def _may_have(described: Mapping[str, Any], column: str, bounds: Bounds | None) -> bool:
    """Whether a file may have such values, as far as its statistics tell."""
    stats = orjson.loads(described.get("stats") or "{}")
    low, high = stats.get("minValues", {}).get(column), stats.get("maxValues", {}).get(column)
    if bounds is None or not type(low) is type(high) is type(bounds.low):
        return True
    return bounds.meets(low, high)


def _removed(described: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """What takes a file out of the log, with the vector that it had."""
    kept = {name: described[name] for name in _OF_REMOVED if name in described}
    return {**kept, "deletionTimestamp": now_ms, "dataChange": True, "extendedFileMetadata": True}


def _statistics(file: DataFile) -> str:
    bounds = file.bounds.items()
    found = {
        "numRecords": file.rows,
        "minValues": {name: low for name, (low, _high) in bounds},
        "maxValues": {name: high for name, (_low, high) in bounds},
        "nullCount": dict(file.nulls),
        "tightBounds": True,
    }
    return orjson.dumps(found).decode()


def columns_of(metadata: Any, protocol: Any) -> Sequence[FileColumn] | None:
    """The columns of the table's files; None if rows alone are not all that it needs."""
    features = protocol.getWriterFeatures() if protocol.supportsWriterFeatures() else None
    settings = dict(metadata.getConfiguration())
    if (
        features is None
        or not set(features) <= _FEATURES
        or list(metadata.getPartitionColumns())
        or any(name.startswith("delta.constraints.") for name in settings)
    ):
        return None
    return members_of(orjson.loads(metadata.getSchemaString()), _column)


def _column(described: Mapping[str, Any]) -> FileColumn | None:
    """A column of a table's schema; None for a type that rows can't be given as they are."""
    more, found = described["metadata"], typed(described["type"], _column, _type)
    if found is None or any(not name.startswith(_MAPPED) and name not in _KNOWN for name in more):
        return None
    name, (kind, members) = described["name"], found
    there = field_of(more.get(_NAME, name), kind, more.get(_NUMBER), nullable=described["nullable"])
    return FileColumn(name, there, members)


def _type(kind: str | Mapping[str, Any]) -> pa.DataType | None:
    if isinstance(kind, str):
        return named_type(kind, _TIMES)
    if kind["type"] == "array":
        element = _type(kind["elementType"])
        return None if element is None else pa.list_(pa.field("element", element))
    if kind["type"] == "map":
        key, value = _type(kind["keyType"]), _type(kind["valueType"])
        return None if key is None or value is None else pa.map_(key, value)
    return None
