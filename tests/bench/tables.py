"""The tables that are measured, how they are filled and how they change. Nothing here is timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

SIGNALS = "debezium_signal"
_CHANGES_A_TRANSACTION = 100


@dataclass(frozen=True, slots=True)
class BenchTable:
    """A table: its DDL, a SELECT list over `g` (the number of a row), and what an update sets."""

    name: str
    columns: str
    row: str
    update: str

    def create(self, connection: psycopg.Connection[Any], rows: int, *, name: str | None = None) -> None:
        """Make the table, under another name if asked, with `rows` rows."""
        name = name or self.name
        connection.execute(f"CREATE TABLE {name} ({self.columns})")
        self.insert(connection, 1, rows, name=name)

    def insert(
        self, connection: psycopg.Connection[Any], first: int, last: int, *, name: str | None = None
    ) -> None:
        """Add rows with these numbers, in one transaction, as a table that lives has them: analysed."""
        name = name or self.name
        connection.execute(f"INSERT INTO {name} SELECT {self.row} FROM generate_series({first}, {last}) g")
        connection.execute(f"VACUUM (ANALYZE, FREEZE) {name}")

    def change(self, connection: psycopg.Connection[Any], changes: int) -> None:
        """Half inserts, half updates of what was inserted, in transactions of 100, from the server itself."""
        for sql in (
            f"INSERT INTO {self.name} SELECT {self.row} FROM generate_series(start, stop) g",
            f"UPDATE {self.name} SET {self.update} WHERE id BETWEEN start AND stop",
        ):
            connection.execute(
                "DO $$ DECLARE start int; stop int; BEGIN"
                f" FOR start IN SELECT generate_series(1, {changes // 2}, {_CHANGES_A_TRANSACTION}) LOOP"
                f" stop := least(start + {_CHANGES_A_TRANSACTION - 1}, {changes // 2}); {sql}; COMMIT;"
                " END LOOP; END $$"
            )


WIDE = BenchTable(
    "wide",
    "id bigint PRIMARY KEY, i int, b bigint, n numeric(12,2), d double precision, o boolean, t text,"
    " v varchar(64), ts timestamptz, dt date, u uuid, j jsonb",
    "g, g % 10000, g::bigint * 7919, (g % 1000000) / 100.0, g / 7.0, g % 3 = 0,"
    " 'order line ' || g || ' said \"ok\"', 'product-' || g % 5000,"
    " timestamptz '2026-01-01' + g * interval '1.000123 second', date '2020-01-01' + g % 2000,"
    " gen_random_uuid(), jsonb_build_object('id', g, 'tags', jsonb_build_array('a', 'b'), 'note', 'n' || g)",
    "i = i + 1, t = t || ' again'",
)
CUSTOMERS = BenchTable(
    "customers",
    "id serial PRIMARY KEY, first_name varchar(255) NOT NULL, last_name varchar(255) NOT NULL,"
    " email varchar(255) NOT NULL",
    "g, 'First' || g % 1000, 'Last' || g % 5000, 'user' || g || '@example.org'",
    "email = 'new-' || email",
)
TABLES = {table.name: table for table in (WIDE, CUSTOMERS)}
