"""Delta Lake: its statements, and where a table keeps the turn that it has.

Every commit of the sink is a transaction of an application in Delta's sense, with the turn as its version.
Delta itself skips a version that a table has already, and lets one of two that write the same at once fail.
It keeps the newest version for ever, whatever is compacted, vacuumed or cleaned of its log.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adapters.lakehouse.files.delta import begin_write, newest_turn
from adapters.lakehouse.port import TableIdentity
from adapters.lakehouse.tables.java import configured, jvm_of
from adapters.lakehouse.tables.statements import column_definitions, literal, properties, quoted
from adapters.lakehouse.tables.widening import widens_simply, wider_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.lake.table_name import TableName
    from adapters.lakehouse.files.data_file import FileWrite
    from adapters.lakehouse.port import NewTable

PACKAGE: Final = "io.delta:delta-spark_4.1_2.13:4.4.0"
SESSION: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_WRITE: Final = "spark.databricks.delta.write.txn"
_PROPERTIES: Final = {
    # Changed rows are marked in their files instead of writing the files anew.
    "delta.enableDeletionVectors": "true",
    # Columns may have any name.
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    # A checkpoint of the log costs seconds of a processor; by default each tenth commit makes one.
    "delta.checkpointInterval": "50",
}
_NAMESPACE: Final = "default"
_CONF: Final = {
    "spark.databricks.delta.snapshotPartitions": "1",
    # Up to so many files are listed in each commit's checksum, and need no job of Spark.
    "spark.databricks.delta.allFilesInCrc.thresholdNumFiles": "200",
}


@dataclass(frozen=True, slots=True)
class Delta:
    """Delta tables in directories of a warehouse, or in a catalog. `application` names the job."""

    application: str
    warehouse: str
    catalog: str = ""
    conf: Mapping[str, str] = field(default_factory=lambda: dict(_CONF))

    def target(self, name: TableName) -> str:
        """By its directory, or by its name in the catalog."""
        if self.catalog:
            return f"{quoted(self.catalog)}.{quoted(name.schema or _NAMESPACE)}.{quoted(name.name)}"
        return f"delta.{quoted(self._path(name))}"

    def _path(self, name: TableName) -> str:
        return "/".join(filter(None, (self.warehouse, name.schema, name.name)))

    def look(self, spark: SparkSession, name: TableName) -> TableIdentity | None:
        """Ask the table's log: no statement shows the versions of applications."""
        if self.catalog and not spark.catalog.tableExists(self.target(name)):
            return None
        snapshot = self._snapshot(spark, name)
        if snapshot.version() < 0:
            return None
        turn, version = newest_turn(snapshot, self.application), int(snapshot.version())
        return TableIdentity(snapshot.metadata().id(), turn, version)

    def _snapshot(self, spark: SparkSession, name: TableName) -> Any:
        """The table as it is now."""
        none = jvm_of(spark)[0].scala.Option.empty()
        return self._log(spark, name).update(False, none, none)  # noqa: FBT003  it is Scala's

    def state(self, spark: SparkSession, name: TableName) -> Any:
        """The table and its version."""
        snapshot = self._snapshot(spark, name)
        return snapshot.metadata().id(), snapshot.version()

    def _log(self, spark: SparkSession, name: TableName) -> Any:
        """Delta's own table."""
        jvm, session = jvm_of(spark)
        logs = jvm.org.apache.spark.sql.delta.DeltaLog
        if not self.catalog:
            return logs.forTable(session, self._path(name))
        identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier
        schema = jvm.scala.Option.apply(name.schema or _NAMESPACE)
        return logs.forTable(session, identifier(name.name, schema, jvm.scala.Option.empty()))

    def file_write(self, spark: SparkSession, name: TableName, turn: int) -> FileWrite | None:
        """A transaction, of a table in a directory."""
        return None if self.catalog else begin_write(spark, self._log(spark, name), self.application, turn)

    def create(self, name: TableName, table: NewTable) -> Sequence[str]:
        """Create the table, and its namespace in a catalog."""
        more = f" PARTITIONED BY ({table.partition})" if table.partition else ""
        more += f" CLUSTER BY ({table.cluster})" if table.cluster else ""
        statements = []
        if self.catalog:
            space = f"{quoted(self.catalog)}.{quoted(name.schema or _NAMESPACE)}"
            statements.append(f"CREATE NAMESPACE IF NOT EXISTS {space}")
        location = f" LOCATION {literal(self._path(name))}" if self.catalog and self.warehouse else ""
        statements.append(
            f"CREATE TABLE IF NOT EXISTS {self.target(name)} ({column_definitions(table)}) USING delta"
            f"{more}{location}"
            f" COMMENT {literal(table.comment)} TBLPROPERTIES ({properties(table, _PROPERTIES)})"
        )
        return statements

    def column_type(self, kind: str) -> str:
        """Spark's own."""
        return kind

    def widens(self, old: str, new: str) -> bool:
        """Integers, floats and decimals become wider ones, and dates times."""
        return widens_simply(old, new) or wider_decimal(old, new) or (old, new) == ("date", "timestamp_ntz")

    @contextmanager
    def writing(self, spark: SparkSession, name: TableName, turn: int) -> Iterator[str | None]:
        """The table itself: Delta skips a version that it has, and refuses one of two at once."""
        with configured(spark, {f"{_WRITE}AppId": self.application, f"{_WRITE}Version": str(turn)}):
            yield self.target(name)

    def upkeep(self, spark: SparkSession, name: TableName, retention_s: float) -> Sequence[str]:  # noqa: ARG002  it needs to ask nothing
        """OPTIMIZE, and VACUUM of files that no kept version needs."""
        target = self.target(name)
        statements = [f"OPTIMIZE {target}"]
        if retention_s:
            hours = max(1, round(retention_s / 3600))
            statements += [
                (
                    f"ALTER TABLE {target} SET TBLPROPERTIES"
                    f" ('delta.deletedFileRetentionDuration' = 'interval {hours} hours',"
                    f" 'delta.logRetentionDuration' = 'interval {hours} hours')"
                ),
                f"VACUUM {target}",
            ]
        return statements
