"""Drawn histories of a table, sent to the sink `jdbc` in turns that crash: the target follows exactly.

The model writes the events as a source would: an update leaves out a large value that it did not change, a
key that changes is a delete and a create. A turn that was not committed is done again, and ends elsewhere.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from adapters.jdbc.settings import JdbcSettings
from adapters.jdbc.sink import Holder, JdbcSink
from engine.config.sinks.postgres_target import PostgresTarget
from tests.typed_batches import MISSING, PLACEHOLDERS, typed

if TYPE_CHECKING:
    from pathlib import Path

    from engine.model import Part
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

KEYS = 12
TURNS = 8


class CrashError(BaseException):
    """The process dies here."""


@dataclass
class Log:
    """A table and its log: each entry is an event with its header, and the table after it."""

    random: Random
    rows: dict[int, tuple[str, str]] = field(default_factory=dict)
    entries: list[tuple[Any, str | None]] = field(default_factory=list)
    tables: list[dict[int, tuple[str, str]]] = field(default_factory=list)
    number: int = 0

    def change(self) -> None:
        """One change of the table."""
        self.number += 1
        key, new = self.random.randrange(KEYS), f"v{self.number}\t\\"
        if self.random.random() < 0.03:
            self.rows.clear()
            self._say("t", None, None)
        elif key not in self.rows:
            self.rows[key] = (new, f"large {self.number}")
            self._say("c", key, self.rows[key])
        elif self.random.random() < 0.2:
            del self.rows[key]
            self._say("d", key, None)
        else:
            self._update(key, new)

    def _update(self, key: int, new: str) -> None:
        keeps = self.random.random() < 0.7
        note, text = self.rows.pop(key)
        row = (new, text if keeps else f"large {self.number}")
        shown = (new, MISSING if keeps else row[1])
        other = self.random.randrange(KEYS)
        if other in self.rows or other == key or self.random.random() < 0.4:
            self.rows[key] = row
            self._say("u", key, shown)
            return
        self.rows[key] = (note, text)
        before = dict(self.rows)
        del self.rows[key]
        self._say("d", key, None, "to")
        self.tables[-1] = before  # both events belong to one entry
        self.rows[other] = row
        self._say("c", other, shown, "from")

    def read(self) -> pa.RecordBatch:
        """Rows of a snapshot, as of now."""
        keys = [key for key in self.rows if self.random.random() < 0.5]
        return typed(*(self._event("r", key, self.rows[key]) for key in keys), orders=[None] * len(keys))

    def _say(self, op: str, key: int | None, row: tuple[str, str] | None, header: str | None = None) -> None:
        self.entries.append((self._event(op, key, row), header))
        self.tables.append(dict(self.rows))

    @staticmethod
    def _event(op: str, key: int | None, row: tuple[str, str] | None) -> Any:
        after = None if row is None else {"id": key, "note": row[0], "text": row[1]}
        return op, None if key is None else {"id": key}, after

    def ends_within_an_entry(self, end: int) -> bool:
        """Whether an entry's second event is the one at `end`."""
        return end < len(self.entries) and self.entries[end][1] == "from"


@dataclass
class Job:
    """Takes turns from a log, with a new sink after each crash."""

    database: Database
    directory: Path
    log: Log
    position: int = 0
    processes: int = 0

    def sink(self) -> JdbcSink:
        self.processes += 1
        given = conninfo_to_dict(self.database.server.dsn(self.database.name))
        settings = JdbcSettings(PostgresTarget({name: str(value) for name, value in given.items()}, "copy"))
        holder = Holder("job", f"process {self.processes}", "c", self.processes)
        return JdbcSink(settings, self.directory / str(self.processes), holder, PLACEHOLDERS)

    def parts(self, sink: JdbcSink, turn: int, end: int) -> list[Part]:
        """The turn's parts: of the log, in batches of any size, and rows read behind them."""
        writer, random = sink.writer(turn), self.log.random
        parts: list[Part] = []
        begin = self.position
        while begin < end:
            until = min(end, begin + random.randint(1, 12))
            some = self.log.entries[begin:until]
            batch = typed(
                *(event for event, _header in some),
                headers=[header for _event, header in some],
                orders=range(begin, until),
            )
            # A part's batches are of different schemas, so they may overlap: here every second event.
            pieces = [batch.take(pa.array(range(first, len(some), 2), pa.int64())) for first in (0, 1)]
            shown = [batch] if random.random() < 0.5 else [piece for piece in pieces if piece.num_rows]
            parts.append(writer.write(len(parts), shown))
            begin = until
        if end == len(self.log.entries) and self.log.rows:
            parts.append(writer.write(len(parts), [self.log.read()]))
        return parts

    def rows(self) -> dict[int, tuple[str, str]]:
        with self.database.connect() as connection:
            if connection.execute("SELECT to_regclass('copy')").fetchone() == (None,):
                return {}
            return {key: (note, text) for key, note, text in connection.execute("SELECT * FROM copy")}


def dying(behind: Any, left: list[int]) -> Any:
    def counted(*given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise CrashError
        return behind(*given, **named)

    return counted


@pytest.mark.parametrize("seed", range(6))
def test_the_target_is_the_table_after_every_turn(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
):
    random = Random(seed)
    log = Log(random)
    job = Job(database, tmp_path, log)
    sink, crashes = job.sink(), 0
    for turn in range(1, TURNS + 1):
        for _ in range(random.randint(1, 60)):
            log.change()
        while True:
            end = random.randint(job.position, len(log.entries))
            end += log.ends_within_an_entry(end)
            left = [random.randint(0, 16)]
            with monkeypatch.context() as patch, suppress(CrashError):
                for kind, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "copy")):
                    patch.setattr(kind, name, dying(getattr(kind, name), left))
                sink.commit(turn, job.parts(sink, turn, end))
                break
            crashes += 1
            sink.close()
            sink = job.sink()
            assert not sink.resolve_commit(turn)
        if random.random() < 0.3:
            # The process dies before it notes that the turn is committed.
            sink.close()
            sink = job.sink()
            assert sink.resolve_commit(turn)
        job.position = end
        assert job.rows() == (log.tables[end - 1] if end else {})
    sink.close()
    assert crashes
