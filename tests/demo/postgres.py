"""The demo on PostgreSQL: its slot, its signal table, and the comparison in SQL."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests import replay
from tests.demo.load import Lag
from tests.demo.postgres_users import postgres_users
from tests.demo.source import SIGNALS, SLOT, TABLES, Login, fill, grant
from tests.demo.tidemark import PREFIX, postgres_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.job.saved.state import State
    from tests.demo.load import Load
    from tests.demo.users import Users
    from tests.servers.postgres import Database

_ENDS = "SELECT pg_current_wal_insert_lsn() - '0/0', confirmed_flush_lsn - '0/0'"
_LOG_ROW = (
    f"INSERT INTO {SIGNALS} VALUES ('demo-end', 'log', '{{\"message\": \"the writers have stopped\"}}')"
)


@dataclass(slots=True)
class PostgresShop:
    """A database of its own for one demo."""

    database: Database
    tables: tuple[tuple[str, str], ...] = TABLES
    names: tuple[str, ...] = field(init=False)
    units: str = "rows"
    login: Login = field(init=False)

    def __post_init__(self) -> None:
        """Name the tables."""
        self.names = tuple(".".join(table) for table in self.tables)

    def prepare(self, load: Load) -> str:
        """Make tables, rows, publication and role."""
        fill(self.database, orders=load.orders, stock=load.stock)
        self.login = grant(self.database)
        return "as a role with LOGIN, REPLICATION, SELECT on the tables, INSERT on the signal table"

    def properties(self) -> dict[str, str]:
        """The job's source."""
        return postgres_properties(self.database, self.login) | {"table.include.list": ",".join(self.names)}

    def streams(self, state: State | None) -> bool:  # noqa: ARG002  the server knows
        """Whether somebody reads the slot."""
        return self._value("SELECT active FROM pg_replication_slots WHERE slot_name = %s", SLOT) is True

    def users(self, load: Load) -> Users:
        """Threads that write."""
        return postgres_users(self.database, orders=load.orders, stock=load.stock, per_s=load.writes_per_s)

    def signal(self, data: dict[str, Any]) -> str:
        """Insert the signal's row."""
        statement = f"INSERT INTO {SIGNALS} VALUES ('demo', 'execute-snapshot', '{json.dumps(data)}')"
        with self.database.connect() as connection:
            connection.execute(statement.encode())
        return f"{statement};"

    @contextmanager
    def lag(self) -> Iterator[Callable[[State | None], float]]:
        """As the server sees it: by what the slot has confirmed."""
        lag, query = Lag(), f"{_ENDS} FROM pg_replication_slots WHERE slot_name = %s"
        with self.database.connect() as connection:

            def seconds(_state: State | None) -> float:
                row = connection.execute(query.encode(), [SLOT]).fetchone()
                return lag.seconds(int(row[0]), int(row[1] or 0)) if row else 0.0

            yield seconds

    def end(self) -> tuple[str, Callable[[State | None], bool]]:
        """The log's end; a row behind it ends the stream visibly."""
        end = self._value("SELECT pg_current_wal_insert_lsn()::text")
        with self.database.connect() as connection:
            connection.execute(_LOG_ROW.encode())
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        return str(end), lambda _state: self._value(query, end, SLOT) is True

    def compared(self, events: Path) -> tuple[replay.Figures, list[replay.Compared], list[str]]:
        """Compare in SQL."""
        with self.database.connect(options="-c timezone=UTC -c work_mem=256MB") as connection:
            shapes = {
                f"{PREFIX}.{'.'.join(table)}": replay.shape_of(connection, table) for table in self.tables
            }
            figures = replay.replay(connection, events, shapes)
            compared = [replay.compare(connection, table) for table in self.tables]
            wrong = [
                f"{'.'.join(result.table)}: {line}"
                for result in compared
                if not result.equal
                for line in replay.differences(connection, result.table)
            ]
        return figures, compared, wrong

    def _value(self, query: str, *values: object) -> object:
        with self.database.connect() as connection:
            row = connection.execute(query.encode(), values).fetchone()
        return row[0] if row else None
