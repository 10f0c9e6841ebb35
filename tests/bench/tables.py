"""The tables that are measured, how they are filled and how they change. Nothing here is timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

SIGNALS = "debezium_signal"
CHANGES_A_TRANSACTION = 100


@dataclass(frozen=True, slots=True)
class BenchTable:
    """A table: its DDL, a SELECT list over `g` (the number of a row), and what an update sets.

    `before` is SQL that the table needs to stand.
    """

    name: str
    columns: str
    row: str
    update: str
    before: str = ""

    def create(self, connection: psycopg.Connection[Any], rows: int, *, name: str | None = None) -> None:
        """Make the table, under another name if asked, with `rows` rows."""
        name = name or self.name
        if self.before:
            connection.execute(self.before)
        connection.execute(f"CREATE TABLE {name} ({self.columns})")
        self.insert(connection, 1, rows, name=name)

    def insert(
        self, connection: psycopg.Connection[Any], first: int, last: int, *, name: str | None = None
    ) -> None:
        """Add rows with these numbers, in one transaction, as a table that lives has them: analysed."""
        name = name or self.name
        connection.execute(self.insertion(first, last, name=name).encode())
        connection.execute(f"VACUUM (ANALYZE, FREEZE) {name}")

    def insertion(self, first: int | str, last: int | str, *, name: str | None = None) -> str:
        """The statement that adds rows with these numbers."""
        return f"INSERT INTO {name or self.name} SELECT {self.row} FROM generate_series({first}, {last}) g"

    def change(
        self, connection: psycopg.Connection[Any], rows: int, at_once: int = CHANGES_A_TRANSACTION
    ) -> None:
        """Insert `rows` rows, then update each, from the server itself.

        `at_once` rows make a transaction; 0: all of it is one.
        """
        if at_once == 0:
            with connection.transaction():
                for sql in self._changes(1, rows):
                    connection.execute(sql.encode())
            return
        for sql in self._changes("start", "stop"):
            connection.execute(
                "DO $$ DECLARE start int; stop int; BEGIN"
                f" FOR start IN SELECT generate_series(1, {rows}, {at_once}) LOOP"
                f" stop := least(start + {at_once - 1}, {rows}); {sql}; COMMIT;"
                " END LOOP; END $$".encode()
            )

    def _changes(self, first: int | str, last: int | str) -> tuple[str, str]:
        return (
            self.insertion(first, last),
            f"UPDATE {self.name} SET {self.update} WHERE id BETWEEN {first} AND {last}",
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
TYPES = BenchTable(
    "types",
    "id bigint PRIMARY KEY, i2 smallint, i4 int, f4 real, f8 double precision, n numeric(12,2), nu numeric,"
    " m money, o boolean, c char(10), v varchar(64), t text, b bytea, d date, ti time, tz timetz,"
    " ts timestamp, ts3 timestamp(3), tsz timestamptz, iv interval, u uuid, j json, jb jsonb,"
    " ip inet, b1 bit(1), b8 bit(8), e shade, dn amount, ai int[], at text[], r int4range, p point",
    "g, g % 30000, g, g / 4.0, g / 7.0, (g % 1000000) / 100.0, g / 8.0, (g % 1000000) / 100.0, g % 3 = 0,"
    " 'code' || g % 1000, 'product-' || g % 5000, 'order line ' || g || ' said \"ok\"',"
    " decode(md5(g::text), 'hex'), date '2020-01-01' + g % 2000,"
    " time '00:00' + g * interval '1.000123 second',"
    " (time '00:00' + g * interval '1.000123 second') AT TIME ZONE '+02',"
    " timestamp '2026-01-01' + g * interval '1.000123 second',"
    " timestamp '2026-01-01' + g * interval '1.007 second',"
    " timestamptz '2026-01-01' + g * interval '1.000123 second', g * interval '1.000123 second',"
    " gen_random_uuid(), json_build_object('id', g), jsonb_build_object('id', g, 'note', 'n' || g),"
    " inet '10.0.0.0' + g % 65536, (g % 2)::bit(1), (g % 256)::bit(8),"
    " (ARRAY['light', 'dark'])[1 + g % 2]::shade, g / 100.0, ARRAY[g, g + 1, g + 2],"
    " ARRAY['a b', 'c' || g, 'd'], int4range(g, g + 5), point(g, g / 3.0)",
    "i4 = i4 + 1, t = t || ' again'",
    before="CREATE TYPE shade AS ENUM ('light', 'dark'); CREATE DOMAIN amount AS numeric(10,2)",
)
"""A column of every common type, values that repeat as little as they may."""
TABLES = {table.name: table for table in (WIDE, CUSTOMERS, TYPES)}
