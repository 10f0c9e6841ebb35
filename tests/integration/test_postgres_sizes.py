"""How large PostgreSQL's rows are estimated to be, which decides how many of them a window reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.server.questions.probes import TableProbes
from tests.servers.postgres import Database

if TYPE_CHECKING:
    import psycopg

pytestmark = pytest.mark.integration


def estimated(database: Database, *sizes: int) -> float:
    """The estimate for a table whose rows, in the order of their keys, have values of these sizes."""
    with database.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS sized")
        connection.execute("CREATE TABLE sized (id int PRIMARY KEY, v text)")
        for key, size in enumerate(sizes):
            connection.execute("INSERT INTO sized VALUES (%s, repeat('x', %s))", [key, size])
        return TableProbes(connection).last_rows_bytes("public.sized", "id DESC")


def test_rows_that_compress_well_are_as_large_as_their_text(database):
    assert estimated(database, *[100_000] * 20) == pytest.approx(100_000, rel=0.01)


def test_one_huge_row_does_not_make_all_of_them_large(database):
    # It would be read in windows of a few rows, for hours.
    assert estimated(database, *[1_000] * 20, 20_000_000) == pytest.approx(1_000, rel=0.01)


@pytest.mark.parametrize(("sizes", "expected"), [((), 0), ((5_000,), 5_000)])
def test_a_table_with_hardly_a_row(database, sizes, expected):
    assert estimated(database, *sizes) == pytest.approx(expected, rel=0.01)


GROWS = "CREATE TABLE {} (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off)"


def rows_of(connection: psycopg.Connection, table: str) -> float:
    """How many rows a table is estimated to have; -1: that is left to the planner."""
    oid = value(connection, f"SELECT '{table}'::regclass::oid::bigint")
    return TableProbes(connection).sizes([oid])[oid][1]


def value(connection: psycopg.Connection, query: str) -> Any:
    (found,) = connection.execute(query.encode()).fetchone() or (None,)
    return found


def fill(connection: psycopg.Connection, table: str, first: int, last: int) -> None:
    rows = f"SELECT i, repeat('x', 100) FROM generate_series({first}, {last}) i"
    connection.execute(f"INSERT INTO {table} {rows}".encode())


def test_a_table_that_has_grown_since_it_was_analysed_has_more_rows(database):
    # With the rows noted then, each row would look as large as the growth, and windows would read a few rows.
    with database.connect() as connection:
        connection.execute(GROWS.format("grown").encode())
        fill(connection, "grown", 1, 100)
        connection.execute("ANALYZE grown")
        assert rows_of(connection, "grown") == 100
        fill(connection, "grown", 101, 20_000)

        assert rows_of(connection, "grown") == pytest.approx(20_000, rel=0.2)


def test_partitions_that_were_never_analysed_leave_the_estimate_to_the_planner(database):
    with database.connect() as connection:
        connection.execute("CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
        for part in range(2):
            connection.execute(
                f"CREATE TABLE parted{part} PARTITION OF parted FOR VALUES FROM ({part * 10_000})"
                f" TO ({(part + 1) * 10_000}) WITH (autovacuum_enabled = off)".encode()
            )
        fill(connection, "parted", 1, 100)
        connection.execute("ANALYZE parted0")
        assert rows_of(connection, "parted") == 100
        fill(connection, "parted", 10_000, 19_999)

        assert rows_of(connection, "parted") == -1
