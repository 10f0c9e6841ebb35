"""Appends to tables of Delta Lake by files, as transactions of Delta's own.

Only tables whose rows Delta takes as they are: no partitions, no constraints, no generated columns, and no
feature that the sink does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from adapters.lakehouse.files.data_file import FileColumn, field_of, members_of, named_type, typed
from adapters.lakehouse.java import jvm_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.lakehouse.files.data_file import DataFile

_FEATURES: Final = frozenset(
    {"appendOnly", "columnMapping", "deletionVectors", "invariants", "timestampNtz", "typeWidening"}
)
"""The writer features of tables that the sink creates."""
_ACTIONS: Final = "org.apache.spark.sql.delta.actions"
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


def begun(spark: SparkSession, log: Any, application: str, turn: int) -> DeltaAppend | None:
    """A transaction that appends; None if the table has more than rows, or has the turn."""
    jvm, _session = jvm_of(spark)
    none = jvm.scala.Option.empty()
    transaction = log.startTransaction(none, none)
    columns = columns_of(transaction.metadata(), transaction.protocol())
    # Delta refuses the commit if another one has written a version of an application that was read.
    getattr(transaction.readTxn(), "$plus$eq")(application)
    newest = newest_turn(transaction.snapshot(), application)
    if columns is None or (newest is not None and newest >= turn):
        return None
    return DeltaAppend(spark, log, transaction, columns, {"appId": application, "version": turn})


@dataclass(frozen=True, slots=True)
class DeltaAppend:
    """A transaction that has begun."""

    spark: SparkSession
    log: Any
    transaction: Any
    columns: Sequence[FileColumn]
    version: Mapping[str, Any]
    codec: str = "snappy"

    def commit(self, file: DataFile) -> None:
        """Copy the file into the table's directory, and commit it with the turn."""
        jvm, session = jvm_of(self.spark)
        directory, name = self.log.dataPath(), file.path.name
        target = jvm.org.apache.hadoop.fs.Path(directory, name)
        system = target.getFileSystem(session.sessionState().newHadoopConf())
        source = jvm.org.apache.hadoop.fs.Path(file.path.as_uri())
        system.copyFromLocalFile(True, False, source, target)  # noqa: FBT003  moved, and nothing is overwritten
        added = {
            "path": name,
            "partitionValues": {},
            "size": file.bytes,
            "modificationTime": file.written_ms,
            "dataChange": True,
            "stats": _statistics(file),
        }
        self._commit({"txn": {**self.version, "lastUpdated": file.written_ms}}, {"add": added})

    def _commit(self, *actions: Mapping[str, Any]) -> None:
        jvm, _session = jvm_of(self.spark)
        made = jvm.java.util.ArrayList()
        for action in actions:
            made.add(jvm.org.apache.spark.sql.delta.actions.Action.fromJson(orjson.dumps(action).decode()))
        none = jvm.scala.Option.empty()
        write = getattr(jvm, "org.apache.spark.sql.delta.DeltaOperations$Write")
        operation = write(jvm.org.apache.spark.sql.SaveMode.Append, *[none] * 8)
        self.transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq(), operation)


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
    field = field_of(more.get(_NAME, name), kind, more.get(_NUMBER), nullable=described["nullable"])
    return FileColumn(name, field, members)


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
