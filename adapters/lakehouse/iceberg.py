"""Iceberg: its statements, and where a table keeps the turn that it has.

Every commit of the sink carries the turn as a property of its snapshot. It is looked for before a commit.
Other snapshots, as those of compaction, carry none, so the newest snapshot that does is never expired.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from adapters.lakehouse.java import jvm_of
from adapters.lakehouse.statements import defined, literal, properties, quoted
from adapters.lakehouse.widening import widens_simply, wider_decimal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from adapters.lake.table_name import TableName
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
    """Iceberg tables in a catalog. `application` names the job, `conf` are settings of the session."""

    application: str
    catalog: str = CATALOG
    conf: Mapping[str, str] = field(default_factory=dict)

    def target(self, name: TableName) -> str:
        """By its name."""
        return f"{quoted(self.catalog)}.{quoted(name.schema or _NAMESPACE)}.{quoted(name.name)}"

    def look(self, spark: SparkSession, name: TableName) -> tuple[str, int | None] | None:
        """Ask for the turn of the newest snapshot that has one."""
        target = self.target(name)
        if not spark.catalog.tableExists(target):
            return None
        jvm, session = jvm_of(spark)
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, target)
        table.refresh()
        found = self._carrying(spark, target)
        return str(table.uuid()), None if found is None else found[0]

    def _carrying(self, spark: SparkSession, target: str) -> tuple[int, datetime] | None:
        """The newest turn, and when its snapshot was committed."""
        turn = f.col("summary")[self._property].cast("bigint")
        rows = (
            spark.table(f"{target}.snapshots")
            .select(turn.alias("turn"), "committed_at")
            .where("turn IS NOT NULL")
            .orderBy(f.desc("turn"), f.desc("committed_at"))
            .limit(1)
            .collect()
        )
        return (rows[0][0], rows[0][1]) if rows else None

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
                f"CREATE TABLE IF NOT EXISTS {target} ({defined(table)}) USING iceberg{partition}"
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

    def stamp(self, turn: int) -> Mapping[str, str]:
        """A property of the next snapshot."""
        return {f"spark.sql.iceberg.snapshot-property.{self._property}": str(turn)}

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
        carrying = self._carrying(spark, self.target(name))
        if retention_s and carrying is not None:
            old = f"timestamp_millis(unix_millis(current_timestamp()) - {int(retention_s * 1000)})"
            kept = f"TIMESTAMP_LTZ {literal(carrying[1].isoformat(sep=' '))}"
            before = spark.sql(f"SELECT least(CAST({old} AS TIMESTAMP_LTZ), {kept})").collect()[0][0]
            statements.append(
                f"{call}expire_snapshots(table => {literal(table)},"
                f" older_than => TIMESTAMP_LTZ {literal(before.isoformat(sep=' '))})"
            )
        return statements
