"""A window's runs are read by statements of a bounded size, and a locked table is told from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from adapters.spark.windows.jdbc_job import RunRead
from adapters.sqlserver.server.connection import Jdbc
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.snapshot.chunk_reader import ChunkReader
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.config.settings import SnapshotSettings
from engine.errors import SourceError, TableBusy
from engine.model import CollectionId, Run, Target
from tests.staged import files_in
from tests.thrown import Thrown, failed_job, raised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

KEY = Keyset((Column("id", 1, "int", nullable=False),))
LOCKED = failed_job(Thrown("com.microsoft.sqlserver.jdbc.SQLServerException", number=1222))


class Session:
    """Spark as far as a job that fails: what each asked for, and whose statements name a locked table."""

    def __init__(self, locked: str, error: Exception = LOCKED) -> None:
        self.locked, self.error = locked, error
        self.asked: list[tuple[str, Sequence[str]]] = []
        self.conf = self.read = self.sparkContext = self

    def set(self, _name: str, _value: str) -> None:
        """A setting."""

    def setJobGroup(self, _group: str, _text: str, *, interruptOnCancel: bool) -> None:  # noqa: N802, N803
        assert interruptOnCancel

    def getLocalProperty(self, _name: str) -> None:  # noqa: N802  Spark's name
        """No pool."""

    def setLocalProperty(self, _name: str, _value: None) -> None:  # noqa: N802  Spark's name
        """The default pool."""

    def jdbc(self, _url: str, query: str, *, predicates: list[str], properties: dict[str, str]) -> Session:
        assert predicates
        self.asked.append((query, properties["set"].split("|")))
        if self.locked in query:
            raise self.error
        return self

    def select(self, *_columns: str) -> Session:
        return self

    def mapInArrow(self, *_task: Any) -> Session:  # noqa: N802  Spark's name
        return self

    def collect(self) -> list[Any]:
        return []


def read(spark: Session, runs: Sequence[RunRead[ReadTable]], **more: Any) -> None:
    def jdbc(database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        return Jdbc(database, "", query, {"set": "|".join(session)})

    settings = SnapshotSettings(lock_timeout_ms=700)
    ChunkReader(cast("SparkSession", spark), jdbc, files_in("/nowhere"), settings, slots=lambda: 2).read(
        "w", runs, **more
    )


def run(name: str) -> RunRead[ReadTable]:
    table = Table(CollectionId(("shop", "dbo", name)), KEY.columns, ("id",))
    one = Run(1, Target(table.id), after=None, upto=None, chunks=1)
    return RunRead(one, ReadTable(table, KEY, KEY), cast("Any", None), 100.0)


def test_many_runs_are_read_by_statements_of_a_bounded_size():
    spark = Session("[nothing]")

    read(spark, [run(f"t{at}") for at in range(120)])

    branches = [query.count(" AS [run],") for query, _session in spark.asked]
    assert sum(branches) == 120
    assert max(branches) <= 50


def test_what_is_set_for_a_window_comes_behind_the_bound_of_its_locks():
    spark = Session("[nothing]")

    read(spark, [run("a")], session=("SET TRANSACTION ISOLATION LEVEL SNAPSHOT",))

    ((_query, session),) = spark.asked
    assert session == ["SET LOCK_TIMEOUT 700", "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"]


def test_of_many_tables_the_locked_one_is_named():
    spark = Session("[dbo].[b]")

    with pytest.raises(TableBusy) as caught:
        read(spark, [run("a"), run("b"), run("c")])

    assert caught.value.where == "shop.dbo.b"
    assert [query.count(" AS [run],") for query, _session in spark.asked] == [3, 1, 1]


def test_another_failure_is_no_lock():
    with pytest.raises(SourceError) as caught:
        read(Session("[dbo].[b]", raised(Thrown("java.lang.Exception", "gone"))), [run("a"), run("b")])

    assert type(caught.value) is SourceError
