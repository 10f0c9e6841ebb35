"""The judge of the tables that a sink keeps: at rest each equals its source, row by row.

The tables are read as anyone reads them: those of the sink `jdbc` by a query, those of a lake by Spark SQL in
a session that knows nothing of the job. Their values are compared as the source prints them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from adapters.lake.table_name import TableName
from adapters.lakehouse.formats import dialect_of
from adapters.lakehouse.settings import LakeFormat, LakeSettings
from adapters.spark.session import spark_session
from tests.lake_spark import LAKE_PACKAGES, LAKE_SESSION
from tests.torture.emitted import printed_row
from tests.torture.oracle import Violation
from tests.torture.postgres import rows_of
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database, PostgresServer
    from tests.torture.oracle import Key, Oracle, Table
    from tests.torture.site import Site
    from tests.torture.truth import Row

SINKS: Final = ("jdbc", "delta", "iceberg")
_ADDED: Final = re.compile(r"c\d+")
"""The names of columns that histories add. Rows that nobody changed since have no value of theirs."""


class Tables(Protocol):
    """The tables of one history."""

    def properties(self) -> dict[str, str]:
        """The job's sink."""

    def behind(self) -> bool:
        """Whether turns are committed that do not show yet."""

    def rows(self, name: str, types: Mapping[str, str]) -> list[Row] | None:
        """A table's rows as the source would print them; None if there is no table."""


@dataclass(slots=True)
class JdbcTables:
    """Tables in a database on the source's own server."""

    database: Database

    def properties(self) -> dict[str, str]:
        """The target."""
        server = self.database.server
        return {
            "tidemark.sink": "jdbc",
            "tidemark.sink.jdbc.connection.url": (
                f"jdbc:postgresql://{server.host}:{server.port}/{self.database.name}"
            ),
            "tidemark.sink.jdbc.connection.username": server.user,
            "tidemark.sink.jdbc.connection.password": server.password,
        }

    def behind(self) -> bool:
        """Never: a turn that is committed shows."""
        return False

    def rows(self, name: str, types: Mapping[str, str]) -> list[Row] | None:  # noqa: ARG002  the target prints them
        """By a query."""
        with self.database.connect(options="-c TimeZone=UTC -c bytea_output=hex") as connection:
            table = _flat(name)
            if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
                return None
            return rows_of(connection, f"public.{table}")


@dataclass(slots=True)
class LakeTables:
    """Tables of Delta Lake or Iceberg in a history's folder."""

    kind: LakeFormat
    folder: Path
    spark: SparkSession
    _dialect: Any = None

    def properties(self) -> dict[str, str]:
        """The warehouse."""
        return {"tidemark.sink": str(self.kind), "tidemark.sink.lake.warehouse": str(self._warehouse)}

    @property
    def _warehouse(self) -> Path:
        return self.folder / "lake"

    def behind(self) -> bool:
        """Whether turns wait in the journal."""
        return any((self.folder / "state" / "lake").glob("turn-*"))

    def rows(self, name: str, types: Mapping[str, str]) -> list[Row] | None:
        """By Spark SQL."""
        if self._dialect is None:
            self._dialect = dialect_of(self.kind, LakeSettings(warehouse=str(self._warehouse)), "reader")
            self.spark = self.spark.newSession()
            for option, value in self._dialect.conf.items():
                self.spark.conf.set(option, value)
        table = TableName("", _flat(name))
        if self._dialect.look(self.spark, table) is None:
            return None
        frame = self.spark.table(self._dialect.target(table))
        found = frame.selectExpr(
            *(_shown(column, types.get(column, "")) for column in frame.columns if "__" not in column)
        )
        return [row.asDict() for row in found.collect()]


def _shown(column: str, kind: str) -> str:
    value = f"concat('\\\\x', lower(hex(`{column}`)))" if kind == "bytea" else f"CAST(`{column}` AS STRING)"
    return f"{value} AS `{column}`"


def _flat(name: str) -> str:
    return f"tm.{name}".replace(".", "_")


@dataclass(slots=True)
class Replicas:
    """Judges the tables of histories that have a sink of tables. Makes those of each history."""

    kind: str
    _spark: SparkSession | None = field(default=None)

    def of(self, number: int, folder: Path, server: PostgresServer) -> Tables:
        """The tables of a history."""
        if self.kind == "jdbc":
            return JdbcTables(server.create_database(f"replica{number}"))
        if self._spark is None:
            conf = {**LAKE_SESSION, "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1"}
            self._spark = spark_session("local[1]", conf, LAKE_PACKAGES)
        return LakeTables(LakeFormat(self.kind), folder, self._spark)


def judge(tables: Tables, site: Site, names: Sequence[str], happened: Counter[str]) -> None:
    """Compare every table with its source, but those that the job reports as incomplete."""
    oracle: Oracle = site.oracle
    for name in names:
        if name in oracle.incomplete:
            happened["tables incomplete"] += 1
            continue
        table = oracle.tables[name]
        there = _by_key(table, site.rows(name))
        found = tables.rows(name, table.types)
        if found is None and there:
            raise Violation(f"there is no table for {name}, which has {len(there)} rows")
        _equal(name, _by_key(table, found or []), there)
        happened["tables compared"] += 1
        happened["rows compared"] += len(there)


def _by_key(table: Table, rows: list[Row]) -> dict[Key, Row]:
    shown = [printed_row(row, table.types) for row in rows]
    found = {table.key_of(row): row for row in shown}
    if len(found) != len(shown):
        raise Violation(f"{table.name} has {len(shown)} rows with {len(found)} keys")
    return found


def _equal(name: str, found: Mapping[Key, Row], there: Mapping[Key, Row]) -> None:
    if extra := found.keys() - there.keys():
        raise Violation(
            f"the sink's {name} has {len(extra)} rows that are gone, one is {min(extra, key=str)!r}"
        )
    if lost := there.keys() - found.keys():
        raise Violation(f"the sink's {name} lacks {len(lost)} rows, one is {min(lost, key=str)!r}")
    for key, row in there.items():
        for column, value in row.items():
            has = found[key].get(column)
            if has not in {value, UNCHANGED} and not (has is None and _ADDED.fullmatch(column)):
                what = f"{column!r} of row {key!r} of the sink's {name}"
                raise Violation(f"{what} is {has!r:.160}, the source has {value!r:.160}")
