"""A writer that aims: it changes rows that open windows are reading, and ends the sessions that hold them.

Random writers seldom hit a window, which is open only briefly and on few rows. This one reads in the job's
journal which rows a window has, and changes some before they are emitted.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from tests.torture.postgres_writers import Session
from tests.torture.statements import statements

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from tests.servers.postgres import Database
    from tests.torture.journal import JournalReader
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

_FIRST_S, _LONGEST_S, _IDLE_S = 30.0, 10.0, 2.0
"""How long to wait for the first window, and how long to aim after that while windows open."""
_AWAY = 20_000
_BEHIND = 0.3
"""How often to aim at rows that no window has read yet."""
_ORDINAL = (("n", "int"),)
EXPORTERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'tidemark' AND state = 'idle in transaction'"
)


@dataclass(slots=True)
class Aimer:
    """Makes `aims` changes for each window that opens, as long as windows open.

    `expects` says whether something was requested that opens windows; a busy machine takes its time. `done`
    counts actions by kind. `altered` has the tables whose columns it changed.
    """

    database: Database
    tables: Sequence[TableShape]
    journal: JournalReader
    aims: int
    random: Random
    stop: threading.Event
    expects: bool = True
    committed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Aim until no more windows open."""
        session = Session(self.database, self.stop)
        seen = len(self.journal.of("window"))
        last: float | None = None
        until = time.monotonic() + (_FIRST_S if self.expects else _IDLE_S)
        try:
            while not self.stop.is_set():
                now = time.monotonic()
                windows = self.journal.of("window")
                if len(windows) > seen:
                    seen, until = len(windows), min(now + _IDLE_S, last or now + _LONGEST_S)
                    last = last or now + _LONGEST_S
                    self._aim(session, windows[-1]["runs"])
                elif now > until:
                    return
                self.stop.wait(0.01)
        finally:
            session.close()

    def _aim(self, session: Session, runs: Sequence[Any]) -> None:
        for _ in range(self.aims):
            run = self.random.choice(runs)
            with contextlib.suppress(psycopg.Error):
                self._hit(session.get(), *run)
            self.stop.wait(self.random.choice([0.0, 0.0, 0.01, 0.05]))

    def _hit(
        self, connection: psycopg.Connection[Any], name: str, after: Any, upto: Any, surrogate: str | None
    ) -> None:
        table = name.partition(".")[2]
        known = {leaf: at for at, shape in enumerate(self.tables) for leaf in (shape.name, *shape.leaves)}
        if table not in known:
            return  # signals
        place = known[table]
        shape = self.tables[place]
        if self.random.random() < 0.05:
            self._end_exporter(connection, shape)
            return
        key = _key(shape) if surrogate is None else _ORDINAL
        if any(bound is not None and len(bound) != len(key) for bound in (after, upto)):
            return  # the name belongs to another table now
        behind = upto is not None and self.random.random() < _BEHIND
        rows = connection.execute(
            sql.SQL("SELECT n FROM {} WHERE n IS NOT NULL AND {} ORDER BY random() LIMIT 3").format(
                sql.Identifier(table), _within(key, upto, None) if behind else _within(key, after, upto)
            )
        ).fetchall()
        if shape.appends_only or not rows:
            return
        ordinals = [n for (n,) in rows]
        step = self._past(place, shape, surrogate, ordinals[0]) if behind else self._step(place, ordinals)
        with connection.transaction():
            for statement in statements(step, self.tables):
                connection.execute(statement.encode())
        self.committed += 1
        self.done[f"aimed {step[0]}"] += 1

    def _step(self, place: int, ordinals: list[int]) -> Step:
        draw = self.random
        fresh = _AWAY + draw.randrange(1_000)
        steps: list[Step] = [
            ["touch", place, ordinals],
            ["touch", place, ordinals],
            ["fatten", place, ordinals[:1]],
            ["renew", place, ordinals[:2]],
            ["remove", place, ordinals[:1]],
            ["move", place, ordinals[0], fresh],
            ["move", place, ordinals[0], ordinals[0] + draw.choice([1, 2, 5])],
            ["swap", place, ordinals[0], ordinals[-1]],
        ]
        return draw.choice(steps)

    def _past(self, place: int, shape: TableShape, surrogate: str | None, ordinal: int) -> Step:
        """Move a row that is still unread to before the point reached, where one key alone allows it."""
        fresh = -1 - self.random.randrange(_AWAY)
        if surrogate is not None:
            return ["slide", place, ordinal, fresh]
        return ["rekey" if shape.identity == "i" else "move", place, ordinal, fresh]

    def _end_exporter(self, connection: psycopg.Connection[Any], shape: TableShape) -> None:
        """End the sessions that hold snapshot and locks, and immediately run DDL that the locks blocked."""
        ended = connection.execute(EXPORTERS.encode()).fetchall()
        if not ended:
            return
        self.done["exporter killed"] += 1
        if self.random.random() < 0.7:
            type_ = self.random.choice(["bigint", "numeric", "int"])
            connection.execute(f"ALTER TABLE {shape.name} ALTER x TYPE {type_} USING x::{type_}".encode())
            self.altered.add(shape.name)


def _key(shape: TableShape) -> Sequence[tuple[str, str]]:
    """The columns of the key by which a table is cut into chunks, with their types."""
    return shape.kind.columns if shape.kind.primary else _ORDINAL


def _within(columns: Sequence[tuple[str, str]], after: Any, upto: Any) -> sql.Composable:
    """A condition for the keys within the engine's bounds."""
    names = sql.SQL(", ").join(sql.Identifier(name) for name, _type in columns)

    def values(bound: Any) -> sql.Composable:
        literals = (
            sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(type_))
            for text, (_name, type_) in zip(bound, columns, strict=True)
        )
        return sql.SQL(", ").join(literals)

    conditions: list[sql.Composable] = [sql.SQL("true")]
    if after is not None:
        conditions.append(sql.SQL("({}) > ({})").format(names, values(after)))
    if upto is not None:
        conditions.append(sql.SQL("({}) <= ({})").format(names, values(upto)))
    return sql.SQL(" AND ").join(conditions)
