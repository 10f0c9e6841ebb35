"""A history's PostgreSQL: its database and publication, the log through another decoder, its rows."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from tests.servers.proxy import Proxy
from tests.torture.aim import Aimer
from tests.torture.bags import Bag, create_bag
from tests.torture.emitted import emitted
from tests.torture.journal import JournalReader
from tests.torture.losses import recovers
from tests.torture.oracle import Table, Violation
from tests.torture.postgres_oracle import PostgresOracle, Untold
from tests.torture.postgres_writers import Session, Writer, settle_all_prepared
from tests.torture.publication import create as published
from tests.torture.publication import publish_all
from tests.torture.row_filters import FILTERS, where
from tests.torture.script import collections
from tests.torture.slot_losses import SLOT_LOSSES, lose_slot
from tests.torture.stall import Staller
from tests.torture.statements import statements
from tests.torture.tables import COLLATIONS, MOOD, WITHOUT_ICU, create, disguised
from tests.torture.truth import PREFIX, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.servers.postgres import Database, PostgresServer
    from tests.torture.emitted import Emitted
    from tests.torture.play import Play
    from tests.torture.script import Blow, Round, Script, Sent, Strike
    from tests.torture.site import Actor
    from tests.torture.statements import Step
    from tests.torture.truth import Entry, Row

SIGNALS = "public.signals"
_SOON_S = 10.0
ROLE, PASSWORD = "tidemark", "tidemark"
UNDECODABLE = "could not map filenumber"
"""What PostgreSQL 18 says of a transaction of its own log that no slot can decode any more."""
PLAIN = (
    "-c DateStyle=ISO -c TimeZone=UTC -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
)
_SESSIONS = """
SELECT concat_ws(' ', pid, backend_type, application_name, state, wait_event_type, wait_event, backend_xid,
  backend_xmin, now() - xact_start, left(query, 200)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
UNION ALL SELECT concat_ws(' ', 'prepared', gid, transaction, prepared) FROM pg_prepared_xacts
UNION ALL SELECT concat_ws(' ', 'slot', slot_name, active_pid, restart_lsn, confirmed_flush_lsn)
  FROM pg_replication_slots
UNION ALL SELECT concat_ws(' ', 'waits', pid, locktype, relation::regclass, transactionid, mode)
  FROM pg_locks WHERE NOT granted
"""
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(slots=True)
class PostgresSite:
    """A database for one script. Where logs are lost only its tables count, and nobody decodes its log."""

    script: Script
    server: PostgresServer
    database: Database
    oracle: PostgresOracle = field(default_factory=PostgresOracle)
    signals: str = SIGNALS
    begins_late: bool = False
    proxy: Proxy | None = None
    _truth: Truth | None = None

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that prints values in the form that the oracle reads."""
        return self.database.connect(options=PLAIN)

    def connect_again(self) -> psycopg.Connection[Any]:
        """A connection, waiting while the server starts."""
        return Session(self.database, threading.Event()).get()

    # Before.

    def prepare(self) -> None:
        """Create tables, publication, grants and slots, and a proxy if the job is to use one."""
        if self.script.proxied:
            self.proxy = Proxy(self.server.host, self.server.port).__enter__()
        with self.connect() as connection:
            run = connection.execute
            run("CREATE SEQUENCE versions")
            icu = run("SELECT FROM pg_collation WHERE collprovider = 'i'").fetchone()
            for statement in COLLATIONS if icu else WITHOUT_ICU:
                run(statement.encode())
            run("CREATE TABLE signals (id text, type text, data text)")
            run("ALTER TABLE signals REPLICA IDENTITY FULL")
            run(MOOD)
            for shape in self.script.tables:
                for statement in create_bag(shape) if shape.kind.alike else create(shape):
                    run(statement.encode())
            run("ANALYZE")
            run(published(self.script).encode())
            # The job may only read, except for watermark rows in the signal table if it writes them.
            run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}".encode())
            if self.script.marks_windows:
                run(f"GRANT INSERT, DELETE ON signals TO {ROLE}".encode())
            for name, value in self.script.database.items():
                run(f"ALTER DATABASE {self.database.name} SET {name} = '{value}'".encode())
            more = ", failover => true" if self.script.moves == "standby" else ""
            if not recovers(self.script):
                self._truth = Truth(connection, more)
            if not self.script.initial:
                run(f"SELECT pg_create_logical_replication_slot('job', 'pgoutput'{more})".encode())
            self._tell_oracle(connection)

    def _tell_oracle(self, connection: psycopg.Connection[Any]) -> None:
        tables, via_root = self.oracle.tables, self.script.via_root
        tables[SIGNALS] = self._table(connection, SIGNALS, ("id",))
        for shape in self.script.tables:
            for name in collections(shape, via_root=via_root):
                made = Bag if shape.kind.alike else Untold if via_root and shape.untold else Table
                key = shape.identifies if via_root else shape.key_of(name)
                tables[name] = self._table(connection, name, key, made, where(shape))
                if shape.filter:
                    self.oracle.filters[name] = FILTERS[shape.filter]
                if shape.leaf and via_root:
                    self.oracle.odd.add(name)
            self.oracle.published |= {
                f"public.{leaf}": f"public.{shape.name}" for leaf in shape.leaves if via_root
            }

    def close(self) -> None:
        """Close the proxy."""
        if self.proxy is not None:
            self.proxy.__exit__()

    @staticmethod
    def _table(
        connection: psycopg.Connection[Any],
        name: str,
        key: tuple[str, ...],
        made: type[Table] = Table,
        where: str = "",
    ) -> Table:
        types = dict(connection.execute(_COLUMNS, [name]).fetchall())
        table = made(name, key or tuple(types), types)
        table.start(rows_of(connection, name, where))
        return table

    def properties(self) -> dict[str, str]:
        """The job's source."""
        return {
            "database.hostname": self.server.host,
            "database.port": str(self.proxy.port if self.proxy else self.server.port),
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

    def writers(self, number: int, one: Round, stop: threading.Event, journal: JournalReader) -> list[Actor]:
        """A writer per list of transactions, one that aims, and one that stalls the sink."""
        tables = self.script.tables
        writers: list[Actor] = [
            Writer(f"r{number}w{place}", self.database, tables, transactions, stop)
            for place, transactions in enumerate(one.writers)
        ]
        if one.aims:
            chance = Random(f"{self.script.seed}/{number}/aims")
            asked = self.script.initial or any(sent.kind == "execute" for sent in one.signals)
            writers.append(Aimer(self.database, tables, journal, one.aims, chance, stop, asked))
        if one.stalls:
            chance = Random(f"{self.script.seed}/{number}/stalls")
            reader = JournalReader(journal.path)
            writers.append(
                Staller(self.database, tables, journal.path.parent, reader, ROLE, one.stalls, chance, stop)
            )
        return writers

    def hit(self, strike: Strike, label: str, stop: threading.Event) -> bool:
        """There are no strikes on PostgreSQL."""
        raise NotImplementedError(strike)

    def deal(self, blow: Blow, play: Play, journal: JournalReader) -> str:
        """Deal a blow to the network or to a table."""
        if blow.kind in SLOT_LOSSES:
            with self.connect_again() as connection:
                return lose_slot(blow, play, journal, connection)
        if blow.kind == "disguise":
            return self._disguise(int(blow.amount), play, journal)
        assert self.proxy is not None
        play.figures.kinds["silent network"] += 1
        if blow.kind == "lose":
            self.proxy.lose()
            return "network lost"
        self.proxy.freeze()
        time.sleep(blow.amount)
        if blow.kind == "cut":
            self.proxy.cut()
        self.proxy.thaw()
        return "network frozen"

    def fill(self, place: int, number: int) -> None:
        """Write one more row into a table."""
        with contextlib.suppress(psycopg.Error), self.connect_again() as connection:
            connection.execute("SET lock_timeout = 1500")
            self._run(connection, ["fill", place, number, 1])

    def _disguise(self, place: int, play: Play, journal: JournalReader) -> str:
        """Change a table's key while no job runs, amid changes whose key can't be decoded then."""
        shape = self.script.tables[place]
        with self.connect_again() as connection:
            connection.execute("SET lock_timeout = 1500")
            try:
                self._run(connection, ["fill", place, 40_000, 1])
                if not self._streamed_soon(connection, play, journal):
                    return ""
                self.oracle.disguised |= set(collections(shape, via_root=self.script.via_root))
                with play.gate("take"):
                    self._run(connection, ["fill", place, 40_001, 1])
                    for statement in disguised(shape):
                        connection.execute(statement.encode())
                    play.altered.add(shape.name)
                    self._run(connection, ["fill", place, 40_002, 1])
                    started = len(journal.of("started"))
                    play.child.order(do="drop")
                    if not _soon(lambda: len(journal.of("started")) > started, play, journal):
                        return ""
            except psycopg.Error:
                return ""
        return "table disguised"

    def _run(self, connection: psycopg.Connection[Any], step: Step) -> None:
        for statement in statements(step, self.script.tables):
            connection.execute(statement.encode())

    @staticmethod
    def _streamed_soon(connection: psycopg.Connection[Any], play: Play, journal: JournalReader) -> bool:
        """Whether the job reaches the log's end within seconds, by its journal."""
        row = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        end = row[0] if row else 0
        return _soon(lambda: any(t["position"][0] >= end for t in journal.of("turn")[-1:]), play, journal)

    def may_end(self, error: str) -> bool:
        """Only a log that the server can't decode may end a job while its server stays the same."""
        return UNDECODABLE in error

    def judge_end(self, error: str, emitted: list[Emitted], journal: JournalReader) -> None:  # noqa: ARG002
        """The server can't decode its log for anybody: the oracle's own slot fails in the same way."""
        try:
            self.entries()
        except psycopg.Error as refused:
            if UNDECODABLE not in str(refused):
                raise
            self.oracle.happened["log that the server can't decode"] += 1
            return
        raise Violation(f"the server decodes its log, and the job says: {error}")

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

    def sessions(self) -> str:
        """Sessions, prepared transactions, slots, and locks that are waited for."""
        with self.connect_again() as connection:
            return "\n".join(row[0] for row in connection.execute(_SESSIONS))

    @property
    def transactions(self) -> int:
        """From the log."""
        return self._truth.transactions if self._truth else 0

    def settle(self) -> None:
        """End prepared transactions, and restore the publication."""
        with self.connect_again() as connection:
            settle_all_prepared(connection)
            publish_all(connection, self.script)

    def mark(self) -> int:
        """The end of the log after a new signal."""
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
        """From `test_decoding`."""
        if self._truth is None:
            return []
        with self.connect() as connection:
            return list(self._truth.read(connection))

    def begin(self, journal: JournalReader) -> int | None:
        """Where an initial snapshot created the slot; None if the slot existed before."""
        opened = journal.of("opened")
        return int(opened[0]["position"][0]) if self.script.initial and opened else None

    def is_before(self, entry: Entry, begin: int) -> bool:
        """By the end of its transaction."""
        return entry.end <= begin

    def signal_id(self, row: Row) -> str | None:
        """The signal's id."""
        return row.get("id")

    def marks_window(self, entry: Entry) -> bool:
        """Whether the entry is a watermark row or its removal."""
        return entry.op == "d" or (entry.new.get("type") or "").startswith("snapshot-window-")

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:  # noqa: ARG002
        """Read an event from its value. Heartbeats are only counted."""
        if topic.startswith("__debezium-heartbeat"):
            self.oracle.happened["heartbeats"] += 1
            return None
        return emitted(turn, value)

    def rows(self, name: str) -> list[Row]:
        """A table's rows, as the database prints them."""
        published = (
            where(shape) for shape in self.script.tables if shape.filter and f"public.{shape.name}" == name
        )
        with self.connect() as connection:
            return rows_of(connection, name, next(published, ""))


def _soon(condition: Callable[[], bool], play: Play, journal: JournalReader) -> bool:
    until = time.monotonic() + _SOON_S
    while not condition():
        play.watch(journal)
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def rows_of(connection: psycopg.Connection[Any], name: str, where: str = "") -> list[Row]:
    """A table's rows, as the database prints them."""
    columns = [column for column, _type in connection.execute(_COLUMNS, [name]).fetchall()]
    texts = ", ".join(f'"{column}"::text' for column in columns)
    found = connection.execute(f"SELECT {texts} FROM {name}{where}".encode()).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]
