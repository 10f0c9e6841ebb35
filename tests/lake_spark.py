"""Real tables of a lake: what a Spark session needs for them, the two formats, and what their tables hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from adapters.lakehouse.formats import dialect_of
from adapters.lakehouse.settings import LakeFormat, LakeSettings
from adapters.lakehouse.tables import delta, iceberg
from adapters.lakehouse.tables.spark_tables import SparkTables
from tests.lake import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from adapters.lake.table_name import TableName

LAKE_PACKAGES: Final = (delta.PACKAGE, iceberg.PACKAGE)
LAKE_SESSION: Final = {
    **delta.SESSION,
    "spark.sql.extensions": ",".join((delta.SESSION["spark.sql.extensions"], iceberg.EXTENSION)),
}
FORMATS: Final = (LakeFormat.DELTA, LakeFormat.ICEBERG)


class Lake:
    """The tables of a format in a directory."""

    def __init__(self, spark: SparkSession, kind: LakeFormat, directory: Path) -> None:
        self.settings: LakeSettings = replace(SETTINGS, warehouse=str(directory / "lake"))
        self.dialect: Any = dialect_of(kind, self.settings, "job")
        self._spark, self.kind = spark, kind
        self.reader = spark.newSession()
        for option, value in self.dialect.conf.items():
            self.reader.conf.set(option, value)

    def tables(self, epoch: int = 0) -> SparkTables:
        """The tables, for another process."""
        return SparkTables(self._spark, dialect_of(self.kind, self.settings, "job", epoch))

    def read(self, name: TableName) -> DataFrame:
        """A table as its readers see it."""
        return self.reader.table(self.dialect.target(name))

    def rows(self, name: TableName) -> list[tuple[Any, ...]]:
        """The rows in order."""
        return sorted((tuple(row) for row in self.read(name).collect()), key=repr)
