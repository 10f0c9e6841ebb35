"""The three sources as cases of Debezium's tests see them: tables of a number under a key, and signals."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.mongodb.job import building
from engine.config import parse
from tests.driven import Driven, DrivenThroughFaults, driven, driving, files_sink, replayed_rows
from tests.driven_sqlserver import SIGNALS, DrivenSqlServer, driven_sqlserver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.mongodb import MongoServer
    from tests.servers.postgres import Database
    from tests.servers.sqlserver import SqlServer, StandInDatabase

ROWS = 1_000
EXPECTED = {number + 1: number for number in range(ROWS)}
_BATCH = 100
SMALL = {"incremental__snapshot__chunk__size": "50", "tidemark__window__max__chunks": "2"}


@dataclass
class Subject:
    """A source with a signal table. `prefix` qualifies names in signals, `schema` in SQL."""

    directory: Path
    spark: SparkSession
    prefix: str
    schema: str = ""

    def execute(self, *statements: str) -> None:
        """Run SQL, each statement in a transaction of its own."""
        raise NotImplementedError

    def capture(self, table: str) -> None:
        """Have a table's changes captured."""

    def job(self, **more: str) -> Any:
        """A job on the source, as a context."""
        raise NotImplementedError

    def drain(self, job: Any) -> None:
        """Turn until everything committed by now has been streamed."""
        raise NotImplementedError

    def table(self, name: str, columns: str = "pk int PRIMARY KEY, aa int", *, rows: int = ROWS) -> None:
        """A table with the values 0 to `rows` - 1 under the keys from 1 on."""
        self.execute(f"CREATE TABLE {self.schema}.{name} ({columns})")
        self.capture(name)
        self.insert(name, [(number + 1, number) for number in range(rows)])

    def insert(self, name: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert rows in one transaction."""
        if rows:
            values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
            self.execute(f"INSERT INTO {self.schema}.{name} VALUES {values}")

    def add(self, name: str, amount: int, first: int | None = None) -> None:
        """Add to the value of every row, or of the 100 rows behind the key `first`, in one transaction."""
        rows = "" if first is None else f" WHERE pk > {first} AND pk <= {first + _BATCH}"
        self.execute(f"UPDATE {self.schema}.{name} SET aa = aa + {amount}{rows}")

    def condition(self, operator: str, value: int) -> str:
        """A signal's condition on the value; `operator` is = or >=."""
        return f"aa {operator} {value}"

    def select(self, table: str, most: int) -> str:
        """What a blocking snapshot's filter is for the rows with a value below `most`."""
        return f"SELECT * FROM {self.schema}.{table} WHERE aa < {most}"

    def quoted(self, table: str) -> str:
        """A table's name with each part in double quotes."""
        return ".".join(f'"{part}"' for part in f"{self.prefix}{table}".split("."))

    def send(self, kind: str, *tables: str, **data: Any) -> None:
        """Commit a signal that names these tables of the schema."""
        self.raw(kind, [f"{self.prefix}{name}" for name in tables], **data)

    def raw(self, kind: str, names: Sequence[str], **data: Any) -> None:
        """Commit a signal that names collections as they are given here."""
        fields = {"type": "incremental", **({"data-collections": list(names)} if names else {}), **data}
        text = orjson.dumps({name.replace("_", "-"): value for name, value in fields.items()}).decode()
        self.signal(kind, text)

    def signal(self, kind: str, text: str) -> None:
        """Commit a signal with this data."""
        quoted = text.replace("'", "''")
        self.execute(f"INSERT INTO {self.schema}.signals VALUES ('ad-hoc', '{kind}', '{quoted}')")

    def signals(self, kind: str) -> int:
        """How many rows of this kind the signal table has."""
        raise NotImplementedError

    def log_whole_signals(self) -> None:
        """Have deletes in the signal table logged with all columns, where that is a choice."""

    def only(self, *tables: str) -> dict[str, str]:
        """The properties that leave other tables out."""
        return {"table__include__list": ",".join(f"{self.schema}.{name}" for name in tables)}

    def events(self, job: Driven, table: str) -> list[tuple[str, int, int]]:
        """A table's events, but for deletes: operation, key, value."""
        found = [event["value"] for event in job.events(table) if event["value"]]
        return [(event["op"], event["after"]["pk"], event["after"]["aa"]) for event in found]

    def values(self, job: Driven, table: str = "a") -> dict[int, int]:
        """What a consumer has of a table: values by key."""
        return {key: row["aa"] for key, row in replayed_rows(job.events(table), "pk").items()}

    def reads(self, job: Driven, table: str = "a") -> list[int]:
        """The keys of the READ events, in order."""
        return [key for operation, key, _value in self.events(job, table) if operation == "r"]

    def read(self, table: str = "a", **more: str) -> dict[int, int]:
        """What a snapshot that a signal asks for gives, on a job with these properties."""
        with self.job(**more) as job:
            self.send("execute-snapshot", table)
            job.until_answered("finished")
            return self.values(job, table)

    @contextmanager
    def begun(self, *tables: str) -> Iterator[Driven]:
        """A job that has sent some rows of a snapshot of these tables, and not all."""
        with self.job() as job:
            self.send("execute-snapshot", *tables)
            job.until(lambda: self.reads(job, tables[0]))
            assert len(self.reads(job, tables[0])) < ROWS
            yield job

    def topics(self, job: Driven) -> set[str]:
        """The topics that have events, without the signal table's."""
        return {event["topic"] for event in job.events()} - {f"tm.{self.prefix}signals"}


class OnPostgres(Subject):
    """On PostgreSQL."""

    def __init__(self, database: Database, directory: Path, spark: SparkSession) -> None:
        super().__init__(directory, spark, "public.", "public")
        self.database = database
        self.execute("CREATE TABLE signals (id text, type text, data text)")

    def execute(self, *statements: str) -> None:
        with self.database.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def signals(self, kind: str) -> int:
        with self.database.connect() as connection:
            return connection.execute("SELECT 1 FROM signals WHERE type = %s", (kind,)).rowcount

    def log_whole_signals(self) -> None:
        self.execute("ALTER TABLE signals REPLICA IDENTITY FULL")

    def job(self, **more: str) -> Any:
        return driven(self.database, self.directory, self.spark, **(SMALL | more))

    def drain(self, job: Driven) -> None:
        job.until_drained(self.database)


class OnSqlServer(Subject):
    """On the stand-in for SQL Server."""

    def __init__(
        self, server: SqlServer, shop: StandInDatabase, directory: Path, spark: SparkSession
    ) -> None:
        super().__init__(directory, spark, "shop.dbo.", "dbo")
        self.server, self.shop = server, shop
        self.execute(SIGNALS.replace("PRIMARY KEY", "NOT NULL"))
        self.capture("signals")
        server.start_capture(0.02)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.shop.execute(statement)

    def capture(self, table: str) -> None:
        self.shop.enable_cdc(f"dbo.{table}")

    def signals(self, kind: str) -> int:
        return len(self.shop.query(f"SELECT id FROM dbo.signals WHERE type = '{kind}'"))

    def job(self, **more: str) -> Any:
        settings = {"signal__data__collection": "shop.dbo.signals"} | SMALL | more
        return driven_sqlserver(self.server, self.directory, self.spark, **settings)

    def drain(self, job: DrivenSqlServer) -> None:
        self.server.stop_capture()
        self.shop.capture()
        job.until_streamed(self.shop)
        self.server.start_capture(0.02)


class OnMongo(Subject):
    """On MongoDB: documents `{"_id", "aa"}`. A value of the key may be of any type."""

    def __init__(self, server: MongoServer, directory: Path, spark: SparkSession) -> None:
        super().__init__(directory, spark, "shop.")
        self.server, self.marks = server, 0
        with server.connect() as client:
            client["shop"].create_collection("signals")

    def job(self, **more: str) -> Any:
        properties = {
            "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
            "mongodb.connection.string": self.server.uri,
            "topic.prefix": "tm",
            "snapshot.mode": "never",
            "signal.data.collection": "shop.signals",
            "tombstones.on.delete": "false",
            **files_sink(self.directory),
            **{name.replace("__", "."): value for name, value in (SMALL | more).items()},
        }
        return driving(DrivenThroughFaults, self.directory, partial(building, parse(properties), self.spark))

    def signals(self, kind: str) -> int:
        with self.server.connect() as client:
            return client["shop"]["signals"].count_documents({"type": kind})

    def only(self, *tables: str) -> dict[str, str]:
        return {"collection__include__list": ",".join(f"shop.{name}" for name in (*tables, "marks"))}

    def drain(self, job: Driven) -> None:
        self.marks += 1
        with self.server.connect() as client:
            client["shop"]["marks"].insert_one({"_id": self.marks})
        job.until(lambda: any(event["key"] == {"id": str(self.marks)} for event in job.events("marks")))

    def table(self, name: str, columns: str = "", *, rows: int = ROWS) -> None:
        assert not columns, "documents have no columns"
        with self.server.connect() as client:
            client["shop"].create_collection(name)
        self.insert(name, [(number + 1, number) for number in range(rows)])

    def insert(self, name: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self.server.connect() as client, client.start_session() as session, session.start_transaction():
            documents = [{"_id": key, "aa": value} for key, value in rows]
            if documents:
                client["shop"][name].insert_many(documents, session=session)

    def add(self, name: str, amount: int, first: int | None = None) -> None:
        rows = {} if first is None else {"_id": {"$gt": first, "$lte": first + _BATCH}}
        with self.server.connect() as client, client.start_session() as session, session.start_transaction():
            client["shop"][name].update_many(rows, {"$inc": {"aa": amount}}, session=session)

    def condition(self, operator: str, value: int) -> str:
        return orjson.dumps({"aa": {{"=": "$eq", ">=": "$gte"}[operator]: value}}).decode()

    def select(self, table: str, most: int) -> str:  # noqa: ARG002  a filter document names no collection
        return orjson.dumps({"aa": {"$lt": most}}).decode()

    def signal(self, kind: str, text: str) -> None:
        with self.server.connect() as client:
            client["shop"]["signals"].insert_one({"type": kind, "payload": text})

    def events(self, job: Driven, table: str) -> list[tuple[str, int, int]]:
        found = [event["value"] for event in job.events(table) if event["value"]]
        rows = [orjson.loads(event["after"] or "{}") for event in found]
        return [(event["op"], row["_id"], row["aa"]) for event, row in zip(found, rows, strict=True) if row]

    def values(self, job: Driven, table: str = "a") -> dict[int, int]:
        return {key: value for _operation, key, value in self.events(job, table)}


def subject_of(request: pytest.FixtureRequest, source: str) -> Subject:
    """The source of this name, for one test."""
    directory, spark = request.getfixturevalue("tmp_path"), request.getfixturevalue("spark")
    match source:
        case "postgres":
            return OnPostgres(request.getfixturevalue("database"), directory, spark)
        case "sqlserver":
            server = request.getfixturevalue("sqlserver")
            return OnSqlServer(server, request.getfixturevalue("shop"), directory, spark)
        case _:
            return OnMongo(request.getfixturevalue("mongodb"), directory, spark)


@pytest.fixture(params=["postgres", "sqlserver", "mongodb"])
def subject(request: pytest.FixtureRequest) -> Subject:
    """Each source in turn."""
    return subject_of(request, request.param)


@pytest.fixture(params=["postgres", "sqlserver"])
def relational(request: pytest.FixtureRequest) -> Subject:
    """Each source with tables."""
    return subject_of(request, request.param)
