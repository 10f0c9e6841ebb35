"""A history as it happens: a database, the job, the writers, signals and blows of a script, and the judges.

Owns the order of things. Between two rounds everything is let come to rest, and the oracle looks.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from tests.torture.answers import Answers, Asked
from tests.torture.emitted import Events
from tests.torture.figures import Figures
from tests.torture.initial import Initial
from tests.torture.journal import Journal, JournalReader
from tests.torture.oracle import Oracle, Table, Violation
from tests.torture.scenes import Scene
from tests.torture.script import Sent, collections
from tests.torture.tables import COLLATIONS, WITHOUT_ICU, create
from tests.torture.topics import TopicEvents, Topics
from tests.torture.truth import Truth, UnexpectedWrite
from tests.torture.writers import Session, Writer, settle_all_prepared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database, PostgresServer
    from tests.torture.process import Child
    from tests.torture.script import Round, Script
    from tests.torture.truth import Entry, Row

SIGNALS = "public.signals"
ROLE, PASSWORD = "tidemark", "tidemark"
_REST_S, _MOST_S = 180.0, 600.0
_MISSING_S = 40.0
"""Without a guard the job may never come to rest; that much patience is enough to say so."""
_STILLBORN = 4
_PLAIN = (
    "-c DateStyle=ISO -c TimeZone=UTC -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
)
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(slots=True)
class Play:
    """One script, played once; `figures` are its counts, `database` is dropped by the caller.

    With a `broker` the job's sink is Kafka, else files.
    """

    script: Script
    server: PostgresServer
    database: Database
    child: Child
    folder: Path
    mutant: str | None = None
    broker: KafkaBroker | None = None
    figures: Figures = field(default_factory=Figures)
    oracle: Oracle = field(default_factory=Oracle)
    answers: Answers = field(default_factory=Answers)
    topics: Topics = field(init=False)

    def run(self) -> None:
        """Play it; raises Violation."""
        self.folder.mkdir(parents=True)
        self.topics = Topics(self.oracle)
        truth, journal = self._prepare(), JournalReader(self.folder / "journal")
        events = TopicEvents(self.broker, self.prefix, journal) if self.broker else Events(self._events)
        heard = 0
        self.figures.histories = 1
        try:
            if not (self.script.initial and self.script.rounds):
                self._order()
            if self.script.scene:
                Scene(self, journal).play(self.script.scene)
            if not self.script.rounds:
                self.come_to_rest(journal)
                heard = self._judge(truth, events, journal, heard)
            for number, one in enumerate(self.script.rounds):
                self._round(number, one, journal)
                self.come_to_rest(journal)
                heard = self._judge(truth, events, journal, heard)
        except UnexpectedWrite as error:
            raise Violation(str(error)) from error
        finally:
            self._stop(journal)
            self._count(truth, journal)

    # Before.

    @property
    def prefix(self) -> str:
        """What the topics' names begin with."""
        return self.database.name if self.broker else "tm"

    @property
    def _events(self) -> Path:
        return self.folder / "events"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that prints values as the oracle reads them."""
        return self.database.connect(options=_PLAIN)

    def _prepare(self) -> Truth:
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
            root = "publish_via_partition_root = " + ("true" if self.script.via_root else "false")
            run(f"CREATE PUBLICATION tidemark FOR ALL TABLES WITH ({root})".encode())
            # The job may read and no more, but for rows that mark windows where these are asked for.
            run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}".encode())
            if self._marks_windows:
                run(f"GRANT INSERT, DELETE ON signals TO {ROLE}".encode())
            for name, value in self.script.database.items():
                run(f"ALTER DATABASE {self.database.name} SET {name} = '{value}'".encode())
            truth = Truth(connection)
            if not self.script.initial:
                run("SELECT pg_create_logical_replication_slot('job', 'pgoutput')")
            self.oracle.tables[SIGNALS] = self._table(connection, SIGNALS, ("id",))
            for shape in self.script.tables:
                for name in collections(shape, via_root=self.script.via_root):
                    self.oracle.tables[name] = self._table(connection, name, shape.identifies)
                self.oracle.published |= {
                    f"public.{leaf}": f"public.{shape.name}" for leaf in shape.leaves if self.script.via_root
                }
        return truth

    @property
    def _marks_windows(self) -> bool:
        strategy = self.script.properties.get("incremental.snapshot.watermarking.strategy")
        return strategy not in {None, "visibility"}

    def _table(self, connection: psycopg.Connection[Any], name: str, key: tuple[str, ...]) -> Table:
        types = dict(connection.execute(_COLUMNS, [name]).fetchall())
        table = Table(name, key, types)
        table.start(_rows(connection, name))
        return table

    def _properties(self) -> dict[str, str]:
        return {
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": ROLE,
            "database.password": PASSWORD,
            "database.dbname": self.database.name,
            "topic.prefix": self.prefix,
            "plugin.name": "pgoutput",
            "slot.name": "job",
            "slot.max.retries": "100",
            "publication.name": "tidemark",
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "initial" if self.script.initial else "never",
            "signal.data.collection": SIGNALS,
            "skipped.operations": "none",
            "decimal.handling.mode": "string",
            # A slow machine is no reason to wait with a window.
            "tidemark.max.lag.ms": "60000",
            "retriable.restart.connector.wait.ms": "500",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "tidemark.checkpoint": str(self.folder / "state"),
            # A partitioned table that is published as one would be read as its partitions, too.
            "snapshot.include.collection.list": ",".join(self.oracle.tables),
            **self._sink(),
            **self.script.properties,
        }

    def _sink(self) -> dict[str, str]:
        if self.broker is None:
            return {"tidemark.sink": "files", "tidemark.sink.files.dir": str(self._events)}
        return {
            "tidemark.sink": "kafka",
            "producer.bootstrap.servers": self.broker.bootstrap,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        }

    def _order(self, burnt: int = 0) -> None:
        self.child.order(
            do="play",
            properties=self._properties(),
            journal=str(self.folder / "journal"),
            fuses=[asdict(fuse) for fuse in self.script.fuses[burnt:]],
            lulls=self.script.lulls,
            seed=self.script.seed,
            mutant=self.mutant,
        )

    # Meanwhile.

    def _round(self, number: int, one: Round, journal: JournalReader) -> None:
        stop = threading.Event()
        writers = [
            Writer(f"r{number}w{place}", self.database, self.script.tables, transactions, stop)
            for place, transactions in enumerate(one.writers)
        ]
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        threads.append(threading.Thread(target=self._signal, args=(one.signals, stop), daemon=True))
        for thread in threads:
            thread.start()
        if number == 0 and self.script.initial:
            time.sleep(Random(self.script.seed).uniform(0.0, 0.3))
            self._order()
        begun = time.monotonic()
        kills = [(at, "kill") for at in one.kills]
        blows = sorted([*kills, *one.restarts, *((at, "break") for at in one.breaks)])
        while blows or any(thread.is_alive() for thread in threads):
            self.watch(journal)
            if blows and time.monotonic() - begun >= blows[0][0]:
                self._blow(blows.pop(0)[1])
            time.sleep(0.02)
            if time.monotonic() - begun > _REST_S:
                stop.set()
                raise Violation(f"the writers did not end in {_REST_S} s")
        self.figures.transactions += sum(writer.committed for writer in writers)

    def _blow(self, what: str) -> None:
        if what == "kill":
            self.child.kill()
            return
        if what == "break" and self.broker is not None:
            self.figures.broker_kills += 1
            self.broker.kill()
            time.sleep(Random(f"{self.script.seed}/down").uniform(0.1, 2.0))
            self.broker.start()
            return
        self.figures.restarts += 1
        self.server.restart("fast" if what == "fast" else "immediate")

    def watch(self, journal: JournalReader) -> None:
        """Start the job again after a kill; a job that has died by itself is a violation."""
        for note in journal.of("died"):
            raise Violation(f"the job died: {note['error']}")
        if not self.child.alive:
            notes = journal.read()
            if [note["what"] for note in notes[-_STILLBORN:]] == ["killed"] * _STILLBORN:
                raise RuntimeError(f"the job's process does not start:\n{self.child.last_lines()}")
            if not (notes and notes[-1]["what"] == "crash"):
                own = Journal(self.folder / "journal")
                own.note("killed")
                own.close()
            self._order(burnt=len(journal.of("fuse")))

    def _signal(self, sent: list[Sent], stop: threading.Event) -> None:
        session = Session(self.database, stop)
        for one in sent:
            stop.wait(one.pause_s)
            self.send(session, one)
        session.close()

    def send(self, session: Session, one: Sent) -> None:
        """Insert a signal; again, should the server go away, with another id if need be."""
        while True:
            try:
                session.get().execute("INSERT INTO signals VALUES (%s, %s, %s)", [one.id, one.type, one.data])
            except psycopg.OperationalError:
                with self.connect_again() as connection:
                    found = connection.execute("SELECT FROM signals WHERE id = %s", [one.id]).fetchone()
                if found is None:
                    continue
            self.answers.asked[one.id] = Asked(one)
            return

    def connect_again(self) -> psycopg.Connection[Any]:
        """A connection, waited for while the server starts."""
        return Session(self.database, threading.Event()).get()

    # At rest.

    def come_to_rest(self, journal: JournalReader) -> None:
        """Wait until the job has streamed all there is and has nothing queued."""
        with self.connect_again() as connection:
            settle_all_prepared(connection)
        begun, marked_s, end, seen, seen_s = time.monotonic(), 0.0, 1 << 62, 0, time.monotonic()
        while not self._rests(journal, end):
            self.watch(journal)
            now = time.monotonic()
            if len(journal.of("window", "crash", "killed", "started")) > seen:
                seen, seen_s = len(journal.of("window", "crash", "killed", "started")), now
            if now - seen_s > (_MISSING_S if self.mutant else _REST_S) or now - begun > _MOST_S:
                raise Violation(
                    f"the job does not come to rest in {now - begun:.0f} s: {journal.of('turn')[-1:]}"
                )
            if now - marked_s > 1.0:
                marked_s = now
                end = min(end, self._mark())
            time.sleep(0.02)

    def _rests(self, journal: JournalReader, end: int) -> bool:
        turns = journal.of("turn", "crash", "killed")
        if not turns or turns[-1]["what"] != "turn":
            return False
        return bool(turns[-1]["queued"] == 0 and turns[-1]["position"][0] >= end)

    def _mark(self) -> int:
        """Commit something, and tell where the log ends with it."""
        with self.connect_again() as connection:
            connection.execute("INSERT INTO signals VALUES ('mark', 'log', '{\"message\": \"mark\"}')")
            row = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def _judge(self, truth: Truth, events: Events | TopicEvents, journal: JournalReader, heard: int) -> int:
        emitted = list(events.read())
        with self.connect() as connection:
            entries = self._since_begin(list(self._ours(list(truth.read(connection)))), journal)
            if self.broker:
                ahead = self.topics.follow(entries, self._streamed(emitted), journal)
            else:
                self.oracle.follow(entries, self._streamed(emitted))
                ahead = self.oracle.ahead
            if left := [entry for entry in ahead if entry.tables != (SIGNALS,)]:
                raise Violation(f"{len(left)} entries of the log were not emitted, the first is {left[0]}")
            notes = journal.read()
            self.answers.hear(notes[heard:])
            tables = {n: t for n, t in self.oracle.tables.items() if n != SIGNALS}
            Initial(self.script, self.oracle, exact=self.broker is None).settle(tables, journal)
            self.answers.settle(tables)
            for name in tables:
                self.oracle.settle(name, _rows(connection, name))
                self.topics.settle(name)
        return len(notes)

    def _since_begin(self, entries: list[Entry], journal: JournalReader) -> list[Entry]:
        """The entries of the job's log; the others, and signals among them, were there before."""
        opened = journal.of("opened")
        if not (self.script.initial and opened):
            return entries
        begin = opened[0]["position"][0]
        before = [entry for entry in entries if entry.end <= begin]
        self.oracle.precede(before)
        for entry in before:
            if entry.tables == (SIGNALS,):
                self.answers.asked.pop(entry.new.get("id") or "", None)
        return [entry for entry in entries if entry.end > begin]

    def _ours(self, entries: list[Entry]) -> Iterator[Entry]:
        """The entries; one that no writer writes, into the signal table, is none of ours."""
        for entry in entries:
            marks = self._marks_windows and _marks_window(entry)
            sent = entry.new.get("id") in {"mark", *self.answers.asked}
            if entry.tables == (SIGNALS,) and not sent and not marks:
                raise Violation(f"somebody wrote to the signal table: {entry}")
            yield entry

    def _streamed(self, emitted: list[Any]) -> Iterator[Any]:
        """The events; notes the turns in which signals came."""
        for event in emitted:
            row = event.after if (event.table, event.op) == (SIGNALS, "c") else None
            if row and (asked := self.answers.asked.get(row["id"])) and asked.turn is None:
                asked.turn = event.turn
            yield event

    # After.

    def _stop(self, journal: JournalReader) -> None:
        self.child.order(do="stop")
        until = time.monotonic() + 20
        while self.child.alive and not journal.of("stopped"):
            if time.monotonic() > until:
                self.child.kill()
            time.sleep(0.02)

    def _count(self, truth: Truth, journal: JournalReader) -> None:
        figures = self.figures
        figures.transactions = truth.transactions
        figures.events, figures.reads = self.oracle.events, self.oracle.reads
        figures.windows = len(journal.of("window"))
        figures.signals = len(self.answers.asked)
        figures.answers.update(self.answers.outcomes)
        figures.repeated_answers = self.answers.repeated
        figures.superseded = self.answers.superseded
        figures.sent_again = self.topics.goings_back
        figures.initial_snapshots = int(self.script.initial)
        for note in journal.of("crash", "killed"):
            side = "after" if note.get("after") else "before"
            step = f"{side} {note['step']}" if "step" in note else "at any moment"
            figures.kills[f"{step}{' (SIGKILL)' if note.get('hard', True) else ''}"] += 1


def _marks_window(entry: Entry) -> bool:
    return entry.op == "d" or (entry.new.get("type") or "").startswith("snapshot-window-")


def _rows(connection: psycopg.Connection[Any], name: str) -> list[Row]:
    """A table's rows, as the database prints them."""
    columns = [column for column, _type in connection.execute(_COLUMNS, [name]).fetchall()]
    texts = ", ".join(f'"{column}"::text' for column in columns)
    found = connection.execute(f"SELECT {texts} FROM {name}".encode()).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]
