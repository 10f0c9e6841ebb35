"""Runs one case: a fresh database, the engine on it, the case's statements at their moments.

Owns the moments: the slot is active before change.sql runs, everything is drained before the
engine stops. The statements are psql's to split and send, as they were when the case was recorded.
"""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from tests.golden.case import Case
    from tests.golden.engine_under_test import Engine
    from tests.golden.event import Event
    from tests.servers.postgres import Database, PostgresServer

DATABASE = "inventory"
_POLL_S = 0.02
_HEARTBEATS = 3
_LONG_PAUSE = re.compile(r"^SELECT pg_sleep\([1-9][0-9.]*\);$", re.MULTILINE)


class CaseFailed(Exception):
    """A case that did not come to a comparison: its SQL, or the engine, or time, failed."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs cases on one server with one kind of engine; `timeout_s` bounds each wait."""

    server: PostgresServer
    start: Callable[[Mapping[str, str], Path], Engine[int]]
    timeout_s: float = 180.0
    report: Callable[[str], None] = lambda _text: None

    def run(self, case: Case) -> tuple[Event, ...]:
        """The events that the engine emits for the case. Raises CaseFailed, or what the engine died of.

        Nothing is left on the server: an old slot would make every later one look as old.
        """
        self.server.drop_database(DATABASE)
        database = self.server.create_database(DATABASE)
        try:
            self._prepare(case, database)
            with tempfile.TemporaryDirectory(prefix="tidemark-golden-") as directory:
                return self._run_engine(case, database, Path(directory) / "events")
        finally:
            self.server.drop_database(DATABASE)

    def _prepare(self, case: Case, database: Database) -> None:
        self._psql(database, case.script("setup.sql") or "", "setup.sql", must_work=True)
        if case.properties.get("publication.autocreate.mode", "all_tables") != "all_tables":
            return
        name = case.properties.get("publication.name", "dbz_publication")
        with database.connect() as connection:
            statement = sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES")
            connection.execute(statement.format(sql.Identifier(name)))

    def _run_engine(self, case: Case, database: Database, events_dir: Path) -> tuple[Event, ...]:
        events: tuple[Event, ...] = ()
        for change, before in (("change.sql", None), ("change2.sql", "between.sql")):
            if before is not None:
                self._psql(database, case.script(before) or "", before, must_work=False)
            if change == "change.sql" or case.script(change) is not None:
                events = self._stream(case, database, change, events_dir)
        return events

    def _stream(self, case: Case, database: Database, change: str, events_dir: Path) -> tuple[Event, ...]:
        engine = self.start(self._properties(case), events_dir)
        try:
            self._begun(case, database, engine)
            for part in _parts(case, change):
                self._psql(database, part, change, must_work=False)
                self._drain(database, engine, change)
            time.sleep(_HEARTBEATS * int(case.properties.get("heartbeat.interval.ms", "0")) / 1000)
        finally:
            engine.stop()
        return engine.events()

    def _begun(self, case: Case, database: Database, engine: Engine[int]) -> None:
        """Wait for the moment at which a case's changes began: the slot was active, or there was no slot."""
        if case.properties["snapshot.mode"] == "initial_only":
            self._wait(engine.ended, "the snapshot has not come to its end")
            return
        with database.connect() as connection:
            self._wait(lambda: _slot_active(connection, engine), "the slot is not active")

    def _drain(self, database: Database, engine: Engine[int], change: str) -> None:
        if engine.ended():
            return
        end = _end_of_log(database)
        self._wait(lambda: engine.drained(end), f"not everything that {change} did has been sent")

    def _properties(self, case: Case) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            **case.properties,
            **(_ONE_CHUNK_A_WINDOW if case.incremental else {}),
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": self.server.password,
        }

    def _psql(self, database: Database, script: str, name: str, *, must_work: bool) -> None:
        stop = ("--set", "ON_ERROR_STOP=1") if must_work else ()
        done = self.server.psql(database.name, "--quiet", *stop, input_text=script)
        if done.returncode != 0:
            raise CaseFailed(f"{name}: {done.stderr.strip()}")
        if done.stderr:
            self.report(f"{name}: {done.stderr.strip()}")

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self.timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise CaseFailed(f"{otherwise} within {self.timeout_s:g} s")
            time.sleep(_POLL_S)


_ONE_CHUNK_A_WINDOW = {
    "incremental.snapshot.watermarking.strategy": "insert_insert",
    "tidemark.window.max.chunks": "1",
}


def _parts(case: Case, change: str) -> list[str]:
    """The script, cut after each long pause of an incremental case.

    Such a pause is there for the snapshot to end before what follows; ours may take as long as it
    needs. Shorter ones, which let something happen in the midst of a snapshot, stay as they are.
    """
    script = case.script(change) or ""
    return _LONG_PAUSE.sub(r"\g<0>\0", script).split("\0") if case.incremental else [script]


def _slot_active(connection: psycopg.Connection[tuple[Any, ...]], engine: Engine[int]) -> bool:
    engine.drained(0)  # raises what it died of, instead of a wait for the time to run out
    query = "SELECT bool_or(active) FROM pg_replication_slots WHERE database = current_database()"
    return connection.execute(query).fetchone() == (True,)


def _end_of_log(database: Database) -> int:
    with database.connect() as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
    assert row is not None
    return int(row[0])
