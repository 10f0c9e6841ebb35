"""How large PostgreSQL's rows are estimated to be, which decides how many of them a window reads."""

from __future__ import annotations

import pytest

from adapters.postgres.server.questions.probes import TableProbes
from tests.servers.postgres import Database

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
