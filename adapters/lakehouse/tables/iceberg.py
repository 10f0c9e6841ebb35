"""Iceberg: its statements, and where a table keeps the turn that it has.

Every commit of the sink carries the turn as a property of its snapshot. It is looked for before a commit.
Other snapshots, as those of compaction, carry none, so the newest snapshot that does is never expired.

Each write goes to a branch, as `iceberg_branch` explains.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from adapters.lakehouse.files.iceberg import IcebergWrite, columns_of
from adapters.lakehouse.port import TableIdentity
from adapters.lakehouse.tables.iceberg_branch import Branches
from adapters.lakehouse.tables.java import configured, jvm_of
from adapters.lakehouse.tables.statements import column_definitions, literal, properties, quoted
from adapters.lakehouse.tables.widening import widens_simply, wider_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from adapters.lake.table_name import TableName
    from adapters.lakehouse.files.data_file import FileWrite
    from adapters.lakehouse.port import NewTable

PACKAGE: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
EXTENSION: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CATALOG: Final = "tidemark"
_NAMESPACE: Final = "default"
_PROPERTIES: Final = {
    "format-version": "2",
    **dict.fromkeys(("write.merge.mode", "write.update.mode", "write.delete.mode"), "merge-on-read"),
}
_SMALL: Final = re.compile(r"(?<![^:<,])smallint(?![^>,])")
"""Where it is a type: a field's name stands before a colon."""


def catalog_settings(warehouse: str) -> dict[str, str]:
    """The session's settings for a catalog of a warehouse, where the user has named none.

    A table that is cached would hide for a while what others commit, or that they have dropped it.
    """
    return {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    }


@dataclass(frozen=True, slots=True)
class Iceberg:
    """Iceberg tables in a catalog. `application` names the job, `conf` are settings of the session.

    `epoch` tells the process from others of the job: it is that of the lease on the journal.
    """

    application: str
    catalog: str = CATALOG
    conf: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0

    def target(self, name: TableName) -> str:
        """By its name."""
        return f"{quoted(self.catalog)}.{quoted(name.schema or _NAMESPACE)}.{quoted(name.name)}"

    def look(self, spark: SparkSession, name: TableName) -> TableIdentity | None:
        """Ask for the turn of the newest snapshot that has one."""
        target = self.target(name)
        if not spark.catalog.tableExists(target):
            return None
        table = self._loaded(spark, name)
        found, current = self._carrying(spark, table), table.currentSnapshot()
        version = None if current is None else int(current.snapshotId())
        return TableIdentity(str(table.uuid()), None if found is None else found[0], version)

    def state(self, spark: SparkSession, name: TableName) -> Any:
        """The table and its snapshot."""
        table = self._loaded(spark, name)
        current = table.currentSnapshot()
        return str(table.uuid()), None if current is None else current.snapshotId()

    def _loaded(self, spark: SparkSession, name: TableName) -> Any:
        """Iceberg's own table, as it is now."""
        jvm, session = jvm_of(spark)
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self.target(name))
        table.refresh()
        return table

    def _carrying(self, spark: SparkSession, table: Any) -> tuple[int, int] | None:
        """The turn of the newest snapshot that has one, and when that was committed, in milliseconds."""
        jvm, _session = jvm_of(spark)
        for snapshot in jvm.org.apache.iceberg.util.SnapshotUtil.currentAncestors(table).iterator():
            if (turn := snapshot.summary().get(self._property)) is not None:
                return int(turn), int(snapshot.timestampMillis())
        return None

    @property
    def _property(self) -> str:
        return f"tidemark.turn.{self.application}"

    def create(self, name: TableName, table: NewTable) -> Sequence[str]:
        """Create the table and its namespace."""
        partition = f" PARTITIONED BY ({table.partition})" if table.partition else ""
        target = self.target(name)
        statements = [
            f"CREATE NAMESPACE IF NOT EXISTS {quoted(self.catalog)}.{quoted(name.schema or _NAMESPACE)}",
            (
                f"CREATE TABLE IF NOT EXISTS {target} ({column_definitions(table)}) USING iceberg{partition}"
                f" COMMENT {literal(table.comment)} TBLPROPERTIES ({properties(table, _PROPERTIES)})"
            ),
        ]
        if table.cluster:
            statements.append(f"ALTER TABLE {target} WRITE ORDERED BY {table.cluster}")
        return statements

    def column_type(self, kind: str) -> str:
        """There are no integers of 16 bits."""
        return _SMALL.sub("int", kind)

    def widens(self, old: str, new: str) -> bool:
        """Integers and floats become wider ones, and decimals longer ones of the same scale."""
        return widens_simply(old, new) or wider_decimal(old, new, same_scale=True)

    @contextmanager
    def writing(self, spark: SparkSession, name: TableName, turn: int) -> Iterator[str | None]:
        """A branch. Leaving the block makes it the table's state, if nobody has changed that meanwhile."""
        table = self._loaded(spark, name)
        found = self._carrying(spark, table)
        if found is not None and found[0] >= turn:
            yield None
            return
        branches = self._branches
        first = branches.begin(table)
        marks = {f"spark.sql.iceberg.snapshot-property.{key}": it for key, it in self._marks(turn).items()}
        with configured(spark, marks):
            yield f"{self.target(name)}.{quoted(f'branch_{branches.name}')}"
        branches.publish(table, first)

    def _marks(self, turn: int) -> dict[str, str]:
        """The properties of a snapshot."""
        return {self._property: str(turn), **self._branches.marks()}

    @property
    def _branches(self) -> Branches:
        return Branches(self.application, self.epoch)

    def file_write(self, spark: SparkSession, name: TableName, turn: int) -> FileWrite | None:
        """To a branch."""
        table = self._loaded(spark, name)
        found = self._carrying(spark, table)
        if found is not None and found[0] >= turn:
            return None
        columns = columns_of(spark, table)
        if columns is None:
            return None

        @contextmanager
        def branched() -> Iterator[str | None]:
            with self.writing(spark, name, turn) as target:
                table.refresh()
                yield None if target is None else self._branches.name

        return IcebergWrite(spark, table, columns, branched, self._marks(turn))

    def upkeep(self, spark: SparkSession, name: TableName, retention_s: float) -> Sequence[str]:
        """Rewrite small files, and expire snapshots, but none from the newest turn's on."""
        catalog, table = quoted(self.catalog), f"{quoted(name.schema or _NAMESPACE)}.{quoted(name.name)}"
        call = f"CALL {catalog}.system."
        statements = [
            (
                f"{call}rewrite_data_files(table => {literal(table)},"
                " options => map('delete-file-threshold', '3', 'remove-dangling-deletes', 'true'))"
            )
        ]
        carrying = self._carrying(spark, self._loaded(spark, name))
        if retention_s and carrying is not None:
            now = int(spark.sql("SELECT unix_millis(current_timestamp())").collect()[0][0])
            before_ms = min(now - int(retention_s * 1000), carrying[1])
            statements.append(
                f"{call}expire_snapshots(table => {literal(table)},"
                f" older_than => TIMESTAMP_LTZ {literal(_moment(before_ms))})"
            )
        return statements


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ")
