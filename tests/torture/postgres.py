"""A history's PostgreSQL: its database and publication, the log told by another decoder, its rows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from tests.torture.aim import Aimer
from tests.torture.emitted import emitted
from tests.torture.oracle import Table
from tests.torture.postgres_oracle import PostgresOracle
from tests.torture.publication import create as published
from tests.torture.publication import publish_all
from tests.torture.script import collections
from tests.torture.tables import COLLATIONS, WITHOUT_ICU, create
from tests.torture.truth import PREFIX, Truth
from tests.torture.writers import Session, Writer, settle_all_prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.postgres import Database, PostgresServer
    from tests.torture.emitted import Emitted
    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Round, Script, Sent, Strike
    from tests.torture.truth import Entry, Row

SIGNALS = "public.signals"
ROLE, PASSWORD = "tidemark", "tidemark"
_PLAIN = (
    "-c DateStyle=ISO -c TimeZone=UTC -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
)
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(slots=True)
class PostgresSite:
    """A database for one script."""

    script: Script
    server: PostgresServer
    database: Database
    oracle: PostgresOracle = field(default_factory=PostgresOracle)
    signals: str = SIGNALS
    begins_late: bool = False
    _truth: Truth = field(init=False)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that prints values as the oracle reads them."""
        return self.database.connect(options=_PLAIN)

    def connect_again(self) -> psycopg.Connection[Any]:
        """A connection, waited for while the server starts."""
        return Session(self.database, threading.Event()).get()

    # Before.

    def prepare(self) -> None:
        """Make tables, publication, grants, slots."""
        with self.connect() as connection:
            run = connection.execute
            run("CREATE SEQUENCE versions")
            icu = run("SELECT FROM pg_collation WHERE collprovider = 'i'").fetchone()
            for statement in COLLATIONS if icu else WITHOUT_ICU:
                run(statement.encode())
            run("CREATE TABLE signals (id text, type text, data text)")
            run("ALTER TABLE signals REPLICA IDENTITY FULL")
            for shape in self.script.tables:
                for statement in create(shape):
                    run(statement.encode())
            run("ANALYZE")
            run(published(self.script).encode())
            # The job may read and no more, but for rows that mark windows where these are asked for.
            run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}".encode())
            if self.script.marks_windows:
                run(f"GRANT INSERT, DELETE ON signals TO {ROLE}".encode())
            for name, value in self.script.database.items():
                run(f"ALTER DATABASE {self.database.name} SET {name} = '{value}'".encode())
            self._truth = Truth(connection)
            if not self.script.initial:
                run("SELECT pg_create_logical_replication_slot('job', 'pgoutput')")
            self._tell_oracle(connection)

    def _tell_oracle(self, connection: psycopg.Connection[Any]) -> None:
        tables, via_root = self.oracle.tables, self.script.via_root
        tables[SIGNALS] = self._table(connection, SIGNALS, ("id",))
        for shape in self.script.tables:
            for name in collections(shape, via_root=via_root):
                tables[name] = self._table(connection, name, shape.identifies)
            self.oracle.published |= {
                f"public.{leaf}": f"public.{shape.name}" for leaf in shape.leaves if via_root
            }

    @staticmethod
    def _table(connection: psycopg.Connection[Any], name: str, key: tuple[str, ...]) -> Table:
        types = dict(connection.execute(_COLUMNS, [name]).fetchall())
        table = Table(name, key, types)
        table.start(_rows(connection, name))
        return table

    def properties(self) -> dict[str, str]:
        """The job's source."""
        return {
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": ROLE,
            "database.password": PASSWORD,
            "database.dbname": self.database.name,
            "plugin.name": "pgoutput",
            "slot.name": "job",
            "slot.max.retries": "100",
            "publication.name": "tidemark",
            "publication.autocreate.mode": "disabled",
            "message.prefix.exclude.list": PREFIX,
            "decimal.handling.mode": "string",
        }

    # Meanwhile.

    def act(self, scene: str, play: Play, journal: JournalReader) -> None:
        """Play a scene."""
        # it plays on this site
        from tests.torture.scenes import play_scene  # noqa: PLC0415

        play_scene(scene, play, self, journal)

    def writers(
        self, number: int, one: Round, stop: threading.Event, journal: JournalReader
    ) -> list[Writer | Aimer]:
        """A session for each list of transactions, and one that aims."""
        tables = self.script.tables
        writers: list[Writer | Aimer] = [
            Writer(f"r{number}w{place}", self.database, tables, transactions, stop)
            for place, transactions in enumerate(one.writers)
        ]
        if one.aims:
            chance = Random(f"{self.script.seed}/{number}/aims")
            writers.append(Aimer(self.database, tables, journal, one.aims, chance, stop))
        return writers

    def hit(self, strike: Strike, label: str, stop: threading.Event) -> bool:
        """There are none."""
        raise NotImplementedError(strike)

    def send(self, sent: Sent, stop: threading.Event) -> None:
        """Insert the signal's row."""
        session = Session(self.database, stop)
        self.send_on(session, sent)
        session.close()

    def send_on(self, session: Session, sent: Sent) -> None:
        """Insert the signal's row in this session."""
        values = [sent.id, sent.type, sent.data]
        while True:
            try:
                session.get().execute("INSERT INTO signals VALUES (%s, %s, %s)", values)
            except psycopg.OperationalError:
                with self.connect_again() as connection:
                    found = connection.execute("SELECT FROM signals WHERE id = %s", [sent.id]).fetchone()
                if found is None:
                    continue
            return

    def restart(self, how: str) -> None:
        """Stop and start the server."""
        self.server.restart("fast" if how == "fast" else "immediate")

    # At rest.

    @property
    def transactions(self) -> int:
        """By the log."""
        return self._truth.transactions

    def settle(self) -> None:
        """End prepared transactions, and publish what should be."""
        with self.connect_again() as connection:
            settle_all_prepared(connection)
            publish_all(connection, self.script)

    def mark(self) -> int:
        """Where the log ends with a signal."""
        with self.connect_again() as connection:
            connection.execute("INSERT INTO signals VALUES ('mark', 'log', '{\"message\": \"mark\"}')")
            row = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def passed(self, position: Sequence[Any], end: int) -> bool:
        """By the place in the log."""
        return bool(position[0] >= end)

    def place_of(self, position: Sequence[Any]) -> int:
        """The place in the log."""
        return int(position[0])

    def entries(self) -> list[Entry]:
        """By `test_decoding`."""
        with self.connect() as connection:
            return list(self._truth.read(connection))

    def begin(self, journal: JournalReader) -> int | None:
        """Where an initial snapshot has made the slot; else it was there before."""
        opened = journal.of("opened")
        return int(opened[0]["position"][0]) if self.script.initial and opened else None

    def is_before(self, entry: Entry, begin: int) -> bool:
        """By the end of its transaction."""
        return entry.end <= begin

    def signal_id(self, row: Row) -> str | None:
        """Its column."""
        return row.get("id")

    def marks_window(self, entry: Entry) -> bool:
        """A window's mark, or its removal."""
        return entry.op == "d" or (entry.new.get("type") or "").startswith("snapshot-window-")

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:  # noqa: ARG002
        """All is in the value."""
        return emitted(turn, value)

    def rows(self, name: str) -> list[Row]:
        """A table's rows, as the database prints them."""
        with self.connect() as connection:
            return _rows(connection, name)


def _rows(connection: psycopg.Connection[Any], name: str) -> list[Row]:
    columns = [column for column, _type in connection.execute(_COLUMNS, [name]).fetchall()]
    texts = ", ".join(f'"{column}"::text' for column in columns)
    found = connection.execute(f"SELECT {texts} FROM {name}".encode()).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]
