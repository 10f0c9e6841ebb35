"""Changes tables while the sink is stalled: the job must let the DDL through all the same.

The job's own thread is blocked in the sink meanwhile. A violation is written to the job's journal, where the
play looks.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from tests.torture.journal import Journal
from tests.torture.postgres_writers import Session
from tests.torture.statements import statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from random import Random

    from tests.servers.postgres import Database
    from tests.torture.journal import JournalReader
    from tests.torture.tables import TableShape

_WINDOW_S, _STALLED_S, _PATIENCE_S = 10.0, 8.0, 12.0
_LET_THROUGH_S = 5.0
"""The job takes about a second; busy machines take longer."""
_BLOCKED = (
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids(%s)) AND usename = %s)"
)


@dataclass(slots=True)
class Staller:
    """Holds the sink back `stalls` times while a window is open, and alters one of its tables.

    `role` is the job's. Locks of others do not count.
    """

    database: Database
    tables: Sequence[TableShape]
    folder: Path
    journal: JournalReader
    role: str
    stalls: int
    random: Random
    stop: threading.Event
    committed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Stall and alter, each time at the next window."""
        session = Session(self.database, self.stop)
        try:
            for _ in range(self.stalls):
                self.stop.wait(self.random.uniform(0.0, 0.5))
                seen = len(self.journal.of("window"))
                if not self._comes("window", seen, _WINDOW_S):
                    return
                place = self._table_of(self.journal.of("window")[-1])
                if place is not None:
                    with contextlib.suppress(psycopg.Error), self._stalled(session, place) as stalled:
                        if stalled:
                            self._change(session.get(), self.tables[place])
        finally:
            session.close()

    def _comes(self, what: str, seen: int, within_s: float) -> bool:
        """Whether the job's journal gets another such note in time."""
        until = time.monotonic() + within_s
        while len(self.journal.of(what)) <= seen:
            if self.stop.wait(0.02) or time.monotonic() > until:
                return False
        return True

    def _table_of(self, window: dict[str, Any]) -> int | None:
        """A table that the window reads; None if it reads only signals."""
        known = {leaf: at for at, shape in enumerate(self.tables) for leaf in (shape.name, *shape.leaves)}
        names = [name.partition(".")[2] for name, *_bounds in window["runs"]]
        places = [known[name] for name in names if name in known]
        return self.random.choice(places) if places else None

    @contextlib.contextmanager
    def _stalled(self, session: Session, place: int) -> Iterator[bool]:
        """Hold back the sink's commits meanwhile; whether a turn is waiting in it."""
        gate, seen = self.folder / "hold-commit", len(self.journal.of("waits"))
        gate.touch()
        try:
            for statement in statements(
                ["fill", place, 50_000 + self.random.randrange(9_000), 1], self.tables
            ):
                session.get().execute(statement.encode())
            yield self._comes("waits", seen, _STALLED_S)
        finally:
            gate.unlink(missing_ok=True)

    def _change(self, beside: psycopg.Connection[Any], shape: TableShape) -> None:
        """Change a column's type, and measure how long the job blocks that."""
        with self.database.connect(options=f"-c lock_timeout={_PATIENCE_S:.0f}s") as connection:
            type_ = self.random.choice(["bigint", "numeric", "int"])
            alter = threading.Thread(
                target=_attempt,
                args=(connection, f"ALTER TABLE {shape.name} ALTER x TYPE {type_} USING x::{type_}"),
                daemon=True,
            )
            self.altered.add(shape.name)
            alter.start()
            blocked_since: float | None = None
            met = False
            while alter.is_alive():
                now = time.monotonic()
                row = beside.execute(_BLOCKED.encode(), [connection.info.backend_pid, self.role]).fetchone()
                blocked_since = (blocked_since or now) if row and row[0] else None
                met = met or blocked_since is not None
                if blocked_since is not None and now - blocked_since > _LET_THROUGH_S:
                    self._tell(f"{shape.name} is kept from being changed for {now - blocked_since:.1f} s")
                    connection.cancel()
                alter.join(0.1)
        self.done["DDL beside a stalled sink"] += 1
        self.done["DDL let through beside a stalled sink"] += met

    def _tell(self, text: str) -> None:
        own = Journal(self.folder / "journal")
        own.note("wrong", text=f"{text} by a job whose sink stands still")
        own.close()


def _attempt(connection: psycopg.Connection[Any], statement: str) -> None:
    with contextlib.suppress(psycopg.Error):
        connection.execute(statement.encode())
