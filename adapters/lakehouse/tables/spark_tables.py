"""The tables of a lake, written by Spark: what Delta Lake and Iceberg have in common.

A session of the sink's own, beside the job's in the same Spark: what is set here concerns nobody else. A
batch comes as an Arrow table. Each write is one commit of the format:

- rows whose keys the table lacks are appended, as a file where the table takes one;
- behind a truncate the table's content is replaced;
- changes mark old rows as gone and append new ones, where the table takes a file;
- all else is a MERGE.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from adapters.lakehouse.files.data_file import fit_rows, write_file
from adapters.lakehouse.files.row_change import row_change
from adapters.lakehouse.key_ranges import KeyRange, KeyRanges, range_of
from adapters.lakehouse.port import BASE, DELETED, KEEP, TableDescription
from adapters.lakehouse.tables.java import activate
from adapters.lakehouse.tables.statements import KEY_PROPERTY, SOURCE, altering, literal, merging, quoted
from adapters.spark.cluster import slots
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.failures import telling_line
from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from adapters.lake.table_name import TableName
    from adapters.lakehouse.files.data_file import DeadRows, FileWrite
    from adapters.lakehouse.port import Batch, NewTable, TableIdentity

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

    def look(self, spark: SparkSession, name: TableName) -> TableIdentity | None:
        """The table as it is now; None if it is missing."""

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

    def file_write(self, spark: SparkSession, name: TableName, turn: int) -> FileWrite | None:
        """Begin to write a file; None if the table takes only rows, or has the turn."""

    def state(self, spark: SparkSession, name: TableName) -> Any:
        """What differs after each commit to the table."""

    def upkeep(self, spark: SparkSession, name: TableName, retention_s: float) -> Sequence[str]:
        """The statements that compact small files and expire what is older than `retention_s`, if not 0."""


class SparkTables:
    """Tables of one format."""

    def __init__(self, spark: SparkSession, dialect: Dialect) -> None:
        self._spark, self._dialect = spark.newSession(), dialect
        tasks = slots.now(spark.sparkContext)
        self._began = False
        self._keys: dict[TableName, _Keys] = {}
        self._conf = {**_CONF, "spark.sql.shuffle.partitions": str(tasks), **dialect.conf}
        self.widens = dialect.widens

    def look(self, name: TableName) -> TableDescription | None:
        """Ask the format, and Spark for the columns."""
        with self._session(name) as spark:
            known = self._dialect.look(spark, name)
            if known is None:
                return None
            fields = spark.table(self._dialect.target(name)).schema.fields
            columns = {field.name: field.dataType.simpleString() for field in fields}
            return TableDescription(known.id, known.turn, columns)

    def pinned(self, name: TableName) -> PinnedTable | None:
        """The rows of the table as they are now, whatever is written later; None if it is missing."""
        with self._session(name) as spark:
            known = self._dialect.look(spark, name)
            if known is None:
                return None
            target = self._dialect.target(name)
            if known.version is None:
                frame = spark.table(target).limit(0)
            else:
                frame = spark.sql(f"SELECT * FROM {target} VERSION AS OF {known.version}")
            settings = {
                row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {target}").collect()
            }
            return PinnedTable(known.turn, frame, settings.get(KEY_PROPERTY, ""))

    def collect(self, name: TableName, frame: DataFrame) -> pa.Table:
        """Collect the rows of a frame of this session, which is made of the table."""
        with self._session(name):
            return frame.toArrow()

    def create(self, name: TableName, table: NewTable) -> None:
        """Run the format's statements."""
        self._run(name, self._dialect.create(name, table))
        with self._session(name) as spark:
            self._keys[name] = _Keys(self._dialect.state(spark, name), KeyRanges())

    def alter(self, name: TableName, added: Mapping[str, str], widened: Mapping[str, str]) -> None:
        """Add columns at once, and widen the others."""
        self._run(name, altering(self._dialect.target(name), added, widened))

    def column_type(self, kind: pa.DataType) -> str:
        """Spark's type for Arrow's, as the format has it."""
        return self._dialect.column_type(from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString())

    def append(self, name: TableName, rows: pa.Table, turn: int) -> None:
        """One append, however many rows."""
        with self._session(name) as spark:
            if self._append_file(spark, name, rows, turn):
                return
            with self._dialect.writing(spark, name, turn) as target:
                if target is not None:
                    self._insert(spark, target, spark.createDataFrame(rows))

    def write(self, name: TableName, batch: Batch, turn: int) -> None:
        """Append, replace or merge."""
        keys, known = range_of(batch), self._keys.pop(name, None)
        with self._session(name) as spark:
            state = self._dialect.state(spark, name)
            if known is None or known.state != state:
                known = _Keys(state, self._key_ranges(spark, name, batch))
            self._write(spark, name, batch, turn, _NewKeys(keys, known.ranges))
            if known.ranges is not None and keys is not None:
                known.ranges.add(keys)
                self._keys[name] = _Keys(self._dialect.state(spark, name), known.ranges)

    def _key_ranges(self, spark: SparkSession, name: TableName, batch: Batch) -> KeyRanges | None:
        """What keys a table has that others have written; None if their order is not sure."""
        column = batch.columns.field(batch.key[0])
        if not pa.types.is_integer(column.type):
            return None
        least, greatest = f.min(quoted(column.name)), f.max(quoted(column.name))
        low, high = spark.table(self._dialect.target(name)).agg(least, greatest).collect()[0]
        ranges = KeyRanges()
        if low is not None:
            ranges.add(KeyRange(low, high))
        return ranges

    def _write(self, spark: SparkSession, name: TableName, batch: Batch, turn: int, new: _NewKeys) -> None:
        columns, table = batch.columns.names, self._dialect.target(name)
        there = batch.rows.filter(pc.invert(batch.rows.column(DELETED))).select(columns)
        appends = new.is_all_new(spark, table, batch)
        if appends and self._append_file(spark, name, there, turn):
            return
        if not appends and not batch.truncated and self._mark_and_append(spark, name, batch, turn):
            return
        with self._dialect.writing(spark, name, turn) as target:
            if target is None:
                return
            if appends:
                self._insert(spark, target, spark.createDataFrame(there))
            elif batch.truncated:
                self._insert(spark, target, spark.createDataFrame(there), "OVERWRITE")
            else:
                self._merge(spark, target, table, batch)

    def _append_file(self, spark: SparkSession, name: TableName, rows: pa.Table, turn: int) -> bool:
        """Append rows as a file; returns whether the table takes one."""
        write = self._dialect.file_write(spark, name, turn) if rows.num_rows else None
        fitting = None if write is None else fit_rows(rows, write.columns)
        if write is None or fitting is None:
            return False
        _commit(write, fitting, [], spark.version)
        return True

    def _mark_and_append(self, spark: SparkSession, name: TableName, batch: Batch, turn: int) -> bool:
        """Mark the old rows as gone, and append the new ones; returns whether the table takes that."""
        write = self._dialect.file_write(spark, name, turn)
        change = None if write is None else row_change(batch, write)
        if write is None or change is None:
            return False
        _commit(write, change.rows, change.gone, spark.version)
        return True

    def tend(self, name: TableName, retention_s: float) -> None:
        """Run the format's statements."""
        with self._session(name) as spark:
            known, state = self._keys.pop(name, None), self._dialect.state(spark, name)
            statements = self._dialect.upkeep(spark, name, retention_s)
        self._run(name, statements)
        if known is not None and known.state == state:
            with self._session(name) as spark:
                self._keys[name] = _Keys(self._dialect.state(spark, name), known.ranges)

    def _insert(self, spark: SparkSession, target: str, rows: DataFrame, how: str = "INTO") -> None:
        rows.createOrReplaceTempView(SOURCE)
        listed = ", ".join(map(quoted, rows.columns))
        spark.sql(f"INSERT {how} {target} ({listed}) SELECT {listed} FROM {SOURCE}").collect()

    def _merge(self, spark: SparkSession, target: str, table: str, batch: Batch) -> None:
        columns = batch.columns.names
        changes = spark.createDataFrame(batch.rows)
        if batch.moved:
            changes = _with_moved(spark, changes, table, batch)
        changes.createOrReplaceTempView(SOURCE)
        deletes = pc.all(batch.rows.column(DELETED)).as_py() is not False
        spark.sql(merging(target, columns, batch.key, batch.kept, deletes=deletes)).collect()

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
            activate(self._spark)
            yield self._spark
        except SPARK_ERRORS as error:
            raise SinkError(telling_line(error), where=str(name)) from error


def _commit(write: FileWrite, rows: pa.Table, gone: Sequence[DeadRows], spark: str) -> None:
    with TemporaryDirectory(prefix="tidemark-lake-") as directory:
        file = write_file(rows, Path(directory), write.codec, spark) if rows.num_rows else None
        write.commit(file, gone)


def _with_moved(spark: SparkSession, changes: DataFrame, target: str, batch: Batch) -> DataFrame:
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


class PinnedTable(NamedTuple):
    """A table at one moment: its newest turn, its rows, and the key that a property has."""

    turn: int | None
    rows: DataFrame
    key: str


@dataclass(frozen=True, slots=True)
class _Keys:
    """What is known of a table's keys, at a state of the table. None: their order is not sure."""

    state: Any
    ranges: KeyRanges | None


@dataclass(frozen=True, slots=True)
class _NewKeys:
    """The range of a batch's keys, and what is known of those that its table has."""

    keys: KeyRange | None
    known: KeyRanges | None

    def is_all_new(self, spark: SparkSession, table: str, batch: Batch) -> bool:
        """Whether the table has no row between the least and the greatest key of the batch.

        If that is not known, Spark is asked about rows of a snapshot, which as a rule are new. Most files are
        skipped by what is known of theirs.
        """
        if self.keys is None or batch.truncated or batch.kept:
            return False
        if self.known is not None and not self.known.meets(self.keys):
            return True
        low, high = (literal(key) if isinstance(key, str) else key for key in self.keys)
        target = spark.table(table).where(f"{quoted(batch.key[0])} BETWEEN {low} AND {high}")
        return batch.only_reads and not target.limit(1).collect()
