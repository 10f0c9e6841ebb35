"""What is sent is made of parts that the vendor documents, put together as recorded."""

from __future__ import annotations

from pathlib import Path

from adapters.sqlserver.server import table_statements
from adapters.sqlserver.server.table_probes import unlocked
from tests.unit.adapters.sqlserver.server.test_change_statements import ALL, read_tables
from tests.unit.adapters.sqlserver.t_sql import PAGES, PREFIX, shape

SHAPES = Path(__file__).with_name("t_sql_shapes.txt")
SENT = [
    *ALL,
    *(
        table_statements.edge(unlocked(read), read.keyset.order)
        for read in read_tables()
        if read.statement is None
    ),
    *("SET LOCK_TIMEOUT 2000", "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"),
    *("BEGIN TRANSACTION", "ROLLBACK TRANSACTION"),
]


def test_every_part_of_a_statement_has_a_page_and_every_page_a_statement():
    parts = frozenset[str]().union(*map(shape, SENT))

    assert parts == PAGES.keys()
    assert all(not page.startswith(("/", PREFIX)) for page in PAGES.values())


def test_every_statement_has_a_shape_that_is_recorded():
    shapes = {", ".join(sorted(shape(text))) for text in SENT}

    assert shapes == set(SHAPES.read_text().splitlines())


def test_a_shape_is_of_what_a_server_must_know():
    text = "SELECT TOP (1) CONVERT(int, [a]) AS [b] FROM [dbo].[t] WITH (TABLOCKX, HOLDLOCK) WHERE [a] = 0x00"

    assert shape(text) == {"SELECT", "TOP", "CONVERT", "TABLOCKX", "HOLDLOCK", "binary constant"}
    assert shape("SELECT @@TRANCOUNT AS [open]") == {"SELECT", "@@TRANCOUNT"}
    assert shape("SELECT sys.fn_x(1) AS [a] FROM [cdc].[dbo_t_CT] AS c") == {
        *("SELECT", "sys.fn_x", "cdc.<instance>_CT")
    }
    assert "SUBSTRING" in shape("SELECT SUBSTRING([a], 1, 2) AS [b] FROM [dbo].[t]")
