"""The demo's tables in a lake: compared with their source, and as they were amid the snapshot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.lake.table_name import TableName
from adapters.lakehouse.formats import dialect_of, package_of, session_settings
from adapters.lakehouse.settings import LakeFormat, LakeSettings
from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests import replay
from tests.demo.roads import FilesRoad
from tests.demo.tidemark import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tests.demo.shop import Shop
    from tests.demo.tidemark import Folder

_ZONED = {"placed_at"}
"""Texts in the lake: they keep each digit and the zone."""


@dataclass(frozen=True, slots=True)
class LakeRoad(FilesRoad):
    """Tables of a format, in the demo's folder; the signal in the database."""

    kind: LakeFormat = LakeFormat.DELTA

    def properties(self, folder: Folder) -> dict[str, str]:
        """The sink and its warehouse. Truncates are to reach the tables, too."""
        return {
            "tidemark.sink": str(self.kind),
            "tidemark.sink.lake.warehouse": str(folder.events),
            "skipped.operations": "none",
        }

    def compared(
        self, shop: Shop, folder: Folder, say: Callable[[str], None]
    ) -> tuple[replay.Figures, list[replay.Compared], list[str]]:
        """Compare by Spark SQL, which reads both sides."""
        settings = LakeSettings(self.kind, warehouse=str(folder.events))
        conf = session_settings(settings, {"spark.sql.session.timeZone": "UTC"})
        spark = spark_session("local[2]", conf, (POSTGRES_JDBC, package_of(self.kind)))
        try:
            return self._laid_beside(spark, shop, settings, say)
        finally:
            spark.stop()

    def _laid_beside(
        self, spark: SparkSession, shop: Shop, settings: LakeSettings, say: Callable[[str], None]
    ) -> tuple[replay.Figures, list[replay.Compared], list[str]]:
        dialect: Any = dialect_of(self.kind, settings, "demo")
        figures, compared, wrong = replay.Figures(Counter()), [], list[str]()
        for name in shop.names:
            target = dialect.target(TableName("", f"{PREFIX}.{name}".replace(".", "_")))
            source, table = _source(spark, shop, name), spark.table(target)
            ours = _alike(table, source.columns)
            sums = [_checksum(frame) for frame in (source, ours)]
            schema, _dot, short = name.partition(".")
            compared.append(replay.Compared((schema, short), *sums))
            figures.rows[schema, short] = sums[1].rows
            if not compared[-1].equal:
                wrong += [f"{name}: only in the source {row}" for row in source.exceptAll(ours).take(3)]
                wrong += [f"{name}: only in the lake {row}" for row in ours.exceptAll(source).take(3)]
            say(_amid(spark, target, self.kind, name))
        return figures, compared, wrong


def _source(spark: SparkSession, shop: Any, name: str) -> DataFrame:
    server = shop.database.server
    return (
        spark.read.format("jdbc")
        .option("url", f"jdbc:postgresql://{server.host}:{server.port}/{shop.database.name}")
        .option("driver", "org.postgresql.Driver")
        .option("dbtable", name)
        .option("user", server.user)
        .option("password", server.password)
        .option("preferTimestampNTZ", "true")
        .load()
    )


def _alike(table: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The table's columns with the types that JDBC gives."""
    return table.selectExpr(
        *(f"to_timestamp({name}) AS {name}" if name in _ZONED else f"`{name}`" for name in columns)
    )


def _checksum(frame: DataFrame) -> replay.Checksum:
    """Rows, and a sum over the hashes of all rows, whatever their order."""
    hashed = ", ".join(f"`{name}`" for name in frame.columns)
    hashes = frame.selectExpr(f"CAST(xxhash64({hashed}) AS decimal(20, 0)) AS hash")
    row = hashes.selectExpr("count(*)", "sum(hash)").first()
    assert row is not None
    return replay.Checksum(row[0], f"{int(row[1] or 0) % 2**64:016x}")


def _amid(spark: SparkSession, target: str, kind: LakeFormat, name: str) -> str:
    """The table as it was in the middle of its versions."""
    if kind is LakeFormat.DELTA:
        found = spark.sql(f"DESCRIBE HISTORY {target}").select("version", "timestamp")
    else:
        found = spark.table(f"{target}.snapshots").selectExpr("snapshot_id", "committed_at")
    versions = sorted((tuple(row) for row in found.collect()), key=lambda row: row[1])
    version, at = versions[len(versions) // 2]
    rows = spark.sql(f"SELECT count(*) FROM {target} VERSION AS OF {version}").collect()[0][0]
    return f"  {name} has {len(versions)} versions; it had {rows:,} rows at {at:%H:%M:%S.%f}"
