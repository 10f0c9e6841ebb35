"""Ours and Debezium's on the same PostgreSQL, one right after the other: both snapshots, and streaming.

Debezium's seconds of an incremental snapshot count from the signal's commit to the last event; those of an
initial one and of a backlog from its first event to its last, so that its start costs it nothing. It is
warmed by a snapshot, or a backlog, of another table, as ours is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson

from tests.bench.limits import PUBLICATION
from tests.bench.peers.engine import engine
from tests.bench.throughput import Variant, drained, initial_seconds, made, signalled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.bench.bench import Bench
    from tests.bench.peers.engine import Counted, Peer
    from tests.bench.tables import BenchTable

SIGNALS = "peer_signal"
_NULL = Variant()
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Setting:
    """A size of Debezium's chunks, and what goes with it."""

    chunk: int
    more: Mapping[str, str]


SETTINGS = (
    Setting(1_024, {}),
    Setting(20_000, {"max.batch.size": "20480", "max.queue.size": "81920"}),
)


@dataclass(frozen=True, slots=True)
class Contest:
    """Who is measured on what: versions of Debezium, tables, and how often.

    `rows` are those of each table, an even number; `warm_rows` those of the table `warm`.
    """

    bench: Bench
    versions: Sequence[str]
    tables: Sequence[BenchTable]
    rows: int
    runs: int
    warm_rows: int

    def measure(self) -> Iterator[dict[str, Any]]:
        """A line for each pair of ours and theirs."""
        with self.bench.database.connect() as connection:
            connection.execute(
                f"CREATE TABLE {SIGNALS} (id varchar(64), type varchar(32), data text)".encode()
            )
            connection.execute(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE {SIGNALS}".encode())
        for table in self.tables:
            made(self.bench, table, self.rows)
        for version in self.versions:
            for setting in SETTINGS:
                yield from self._incremental(version, setting)
            for table in self.tables:
                yield from self._initial(version, table)
        for table in self.tables:
            yield from self._stream(table)

    def _incremental(self, version: str, setting: Setting) -> Iterator[dict[str, Any]]:
        names = [table.name for table in self.tables]
        options = {"incremental.snapshot.chunk.size": str(setting.chunk), **setting.more}
        options |= {"snapshot.mode": _never(version), "signal.data.collection": f"public.{SIGNALS}"}
        with self.bench.slot("peer") as slot, self._engine(version, slot, ["warm", *names], options) as peer:
            self._asked(peer, "warm")
            for _ in range(self.runs):
                for table in self.tables:
                    ours = self.rows / signalled(self.bench, table, self.rows, _NULL).clock_s
                    theirs = self.rows / self._asked(peer, table.name)
                    yield self._line("snapshot", table, version, (ours, theirs)) | {"chunk": setting.chunk}

    def _asked(self, peer: Peer, table: str) -> float:
        """Seconds from a signal's commit to the last event of a snapshot of the table."""
        data = orjson.dumps({"type": "incremental", "data-collections": [f"public.{table}"]}).decode()
        with self.bench.database.connect() as connection:
            connection.execute(
                f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)".encode(),
                [f"peer-{next(_numbers)}", data],
            )
        asked_ms = time.time() * 1000
        return (peer.counted(_topic(table)).last_ms - asked_ms) / 1000

    def _initial(self, version: str, table: BenchTable) -> Iterator[dict[str, Any]]:
        for _ in range(self.runs):
            ours = self.rows / initial_seconds(self.bench, table, self.rows, "null")
            options = {"snapshot.mode": "initial_only"}
            with (
                self.bench.slot("peer") as slot,
                self._engine(version, slot, ["warm", table.name], options) as peer,
            ):
                theirs = self.rows / _between(peer.counted(_topic(table.name)))
            yield self._line("initial", table, version, (ours, theirs))

    def _stream(self, table: BenchTable) -> Iterator[dict[str, Any]]:
        """One backlog for all: theirs begins with changes of another table, ours behind them.

        Half the rows are inserted, then updated, so that there are as many events as in a snapshot.
        """
        rows = self.rows // 2
        made(self.bench, table, 0)
        with self.bench.slot("warm_first") as warm_first:
            with self.bench.database.connect() as connection:
                connection.execute("UPDATE warm SET email = 'new-' || email")
            with self.bench.slot("backlog") as backlog:
                with self.bench.database.connect() as connection:
                    table.change(connection, rows)
                    connection.execute("CHECKPOINT")
                end = self.bench.end_of_log()
                for version in self.versions:
                    for _ in range(self.runs):
                        ours = drained(self.bench, table, backlog, end, "null", 2 * rows)
                        theirs = self._streamed(version, table, warm_first)
                        rates = (2 * rows / ours, 2 * rows / theirs)
                        yield peer_line("stream", table.name, rows, version, rates)

    def _streamed(self, version: str, table: BenchTable, like: str) -> float:
        options = {"snapshot.mode": _never(version)}
        with (
            self.bench.slot("peer", like=like) as slot,
            self._engine(version, slot, ["warm", table.name], options) as peer,
        ):
            return _between(peer.counted(_topic(table.name)))

    def _engine(self, version: str, slot: str, tables: Sequence[str], options: Mapping[str, str]) -> Any:
        server = self.bench.database.server
        properties = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.dbname": self.bench.database.name,
            "topic.prefix": "peer",
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "table.include.list": ",".join(f"public.{table}" for table in tables),
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "poll.interval.ms": "50",
            **options,
        }
        counts = {_topic(table): self.rows for table in tables}
        counts[_topic("warm")] = self.warm_rows
        return engine(version, properties, counts, self.bench.directory / f"peer-{next(_numbers)}")

    def _line(self, case: str, table: BenchTable, version: str, rates: tuple[float, float]) -> dict[str, Any]:
        return peer_line(case, table.name, self.rows, version, rates)


def peer_line(case: str, table: str, rows: int, version: str, rates: tuple[float, float]) -> dict[str, Any]:
    """Ours and theirs, in events/s, and how many times theirs ours is."""
    ours, theirs = rates
    return {
        "bench": "peers",
        "case": case,
        "table": table,
        "rows": rows,
        "sink": "null",
        "peer": version,
        "per_s": round(ours),
        "peer_per_s": round(theirs),
        "ratio": round(ours / theirs, 2),
    }


def _topic(table: str) -> str:
    return f"peer.public.{table}"


def _never(version: str) -> str:
    """What the mode without a snapshot is called."""
    return "never" if version.startswith("2.") else "no_data"


def _between(counted: Counted) -> float:
    return max(counted.last_ms - counted.first_ms, 1) / 1000
