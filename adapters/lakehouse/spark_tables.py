"""The tables of a lake, written by Spark: what Delta Lake and Iceberg have in common.

A session of the sink's own, beside the job's in the same Spark: what is set here concerns nobody else. A
batch comes as an Arrow table. Each write is one commit of the format:

- rows of a snapshot whose keys the table lacks are appended;
- behind a truncate the table's content is replaced;
- all else is a MERGE.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from adapters.lakehouse.port import BASE, DELETED, KEEP, Found
from adapters.lakehouse.statements import SOURCE, altering, literal, merging, quoted
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.failures import telling_line
from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from adapters.lake.table_name import TableName
    from adapters.lakehouse.port import Batch, NewTable

_CONF: Final = {
    # A time without a zone is one.
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


class Dialect(Protocol):
    """What differs between the formats."""

    @property
    def conf(self) -> Mapping[str, str]:
        """What the session needs."""

    def target(self, name: TableName) -> str:
        """The table in a statement."""

    def look(self, spark: SparkSession, name: TableName) -> tuple[str, int | None] | None:
        """What tells the table from others, and its newest turn; None if it is missing."""

    def create(self, name: TableName, table: NewTable) -> Sequence[str]:
        """The statements that create a table."""

    def column_type(self, kind: str) -> str:
        """The format's type for one of Spark's."""

    def widens(self, old: str, new: str) -> bool:
        """Whether a column's type can become another one."""

    def writing(self, spark: SparkSession, name: TableName, turn: int) -> AbstractContextManager[str | None]:
        """What the one commit within the block writes to, so that it carries a turn; None: it is there.

        What was committed takes effect at the end of the block at the latest, and not at all if another
        process has written this turn or a newer one.
        """

    def upkeep(self, spark: SparkSession, name: TableName, retention_s: float) -> Sequence[str]:
        """The statements that compact small files and expire what is older than `retention_s`, if not 0."""


class SparkTables:
    """Tables of one format."""

    def __init__(self, spark: SparkSession, dialect: Dialect) -> None:
        self._spark, self._dialect = spark.newSession(), dialect
        tasks = max(1, spark.sparkContext.defaultParallelism)
        self._began = False
        self._conf = {**_CONF, "spark.sql.shuffle.partitions": str(tasks), **dialect.conf}
        self.widens = dialect.widens

    def look(self, name: TableName) -> Found | None:
        """Ask the format, and Spark for the columns."""
        with self._session(name) as spark:
            known = self._dialect.look(spark, name)
            if known is None:
                return None
            fields = spark.table(self._dialect.target(name)).schema.fields
            return Found(*known, {field.name: field.dataType.simpleString() for field in fields})

    def create(self, name: TableName, table: NewTable) -> None:
        """Run the format's statements."""
        self._run(name, self._dialect.create(name, table))

    def alter(self, name: TableName, added: Mapping[str, str], widened: Mapping[str, str]) -> None:
        """Add columns at once, and widen the others."""
        self._run(name, altering(self._dialect.target(name), added, widened))

    def column_type(self, kind: pa.DataType) -> str:
        """Spark's type for Arrow's, as the format has it."""
        return self._dialect.column_type(from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString())

    def append(self, name: TableName, rows: pa.Table, turn: int) -> None:
        """One append, however many rows."""
        with self._session(name) as spark, self._dialect.writing(spark, name, turn) as target:
            if target is not None:
                self._insert(spark, target, self._frame(rows))

    def write(self, name: TableName, batch: Batch, turn: int) -> None:
        """Append, replace or merge."""
        with self._session(name) as spark, self._dialect.writing(spark, name, turn) as target:
            if target is not None:
                self._write(spark, target, self._dialect.target(name), batch)

    def _write(self, spark: SparkSession, target: str, table: str, batch: Batch) -> None:
        """Write to `target`, which shows what `table` does."""
        columns = batch.columns.names
        if batch.truncated:
            there = pc.invert(batch.rows.column(DELETED))
            rows = batch.rows.filter(there).select(columns)
            self._insert(spark, target, self._frame(rows), "OVERWRITE")
        elif batch.only_reads and not _overlaps(spark, table, batch):
            self._insert(spark, target, self._frame(batch.rows.select(columns)))
        else:
            self._merge(spark, target, table, batch)

    def tend(self, name: TableName, retention_s: float) -> None:
        """Run the format's statements."""
        with self._session(name) as spark:
            statements = self._dialect.upkeep(spark, name, retention_s)
        self._run(name, statements)

    def _insert(self, spark: SparkSession, target: str, rows: DataFrame, how: str = "INTO") -> None:
        rows.createOrReplaceTempView(SOURCE)
        listed = ", ".join(map(quoted, rows.columns))
        spark.sql(f"INSERT {how} {target} ({listed}) SELECT {listed} FROM {SOURCE}").collect()

    def _merge(self, spark: SparkSession, target: str, table: str, batch: Batch) -> None:
        columns = batch.columns.names
        changes = self._frame(batch.rows)
        if batch.moved:
            changes = self._with_moved(spark, changes, table, batch)
        changes.createOrReplaceTempView(SOURCE)
        spark.sql(merging(target, columns, batch.key, batch.kept)).collect()

    def _with_moved(self, spark: SparkSession, changes: DataFrame, target: str, batch: Batch) -> DataFrame:
        """The changes, with the values that rows keep from other rows of the table."""
        base = [BASE.format(number) for number in range(len(batch.key))]
        there = spark.table(target).select(
            *(f.col(quoted(name)).alias(f"{SOURCE}_key_{n}") for n, name in enumerate(batch.key)),
            *(f.col(quoted(name)).alias(f"{SOURCE}_kept_{n}") for n, name in enumerate(batch.kept)),
        )
        own = f.col(base[0]).isNull()
        condition = f.col(base[0]).isNotNull()
        for n, column in enumerate(base):
            condition &= f.col(column).eqNullSafe(f.col(f"{SOURCE}_key_{n}"))
        joined = changes.join(there, condition, "left")
        for n, name in enumerate(batch.kept):
            flag = KEEP.format(n)
            taken = f.when(f.col(flag) & ~own, f.col(f"{SOURCE}_kept_{n}")).otherwise(f.col(quoted(name)))
            joined = joined.withColumn(name, taken).withColumn(flag, f.col(flag) & own)
        return joined.select(*(f.col(quoted(name)) for name in changes.columns))

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows)

    def _run(self, name: TableName, statements: Sequence[str]) -> None:
        with self._session(name) as spark:
            for statement in statements:
                spark.sql(statement).collect()

    @contextmanager
    def _session(self, name: TableName) -> Iterator[SparkSession]:
        """The session. Raises SinkError for Spark's errors."""
        try:
            if not self._began:
                for option, value in self._conf.items():
                    self._spark.conf.set(option, value)
                self._began = True
            yield self._spark
        except SPARK_ERRORS as error:
            raise SinkError(telling_line(error), place=str(name)) from error


def _overlaps(spark: SparkSession, table: str, batch: Batch) -> bool:
    """Whether the table has rows between the least and the greatest key of a batch.

    The bounds are compared as Spark orders keys, and most files are skipped by what is known of theirs.
    """
    bounds = [_between(column, batch.rows.column(column)) for column in batch.key[:1]]
    if None in bounds:
        return True
    target = spark.table(table).where(" AND ".join(filter(None, bounds)))
    return bool(target.limit(1).collect())


def _between(name: str, values: pa.ChunkedArray) -> str | None:
    """A condition that all these values meet; None if there is none for their type."""
    found: dict[str, Any] = pc.min_max(values).as_py()
    low, high = found["min"], found["max"]
    if pa.types.is_integer(values.type) and low is not None:
        return f"{quoted(name)} BETWEEN {low} AND {high}"
    if pa.types.is_string(values.type) and low is not None:
        return f"{quoted(name)} BETWEEN {literal(low)} AND {literal(high)}"
    return None
