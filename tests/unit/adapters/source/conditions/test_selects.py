"""Whole SELECTs of signals: what is taken of them, and that nothing else reaches the server."""

from __future__ import annotations

import pytest

from adapters.postgres.conditions.grammar import GRAMMAR
from adapters.source.conditions.selects import is_query, select_condition
from adapters.source.conditions.writer import Reference, ResolvedColumn
from engine.errors import SignalError
from engine.model import CollectionId

TABLE = CollectionId(("public", "orders"))
COLUMNS = {"id": ResolvedColumn('"id"', "int4"), "v": ResolvedColumn('"v"', "text")}


def find(reference: Reference) -> ResolvedColumn | None:
    return COLUMNS.get(reference.name.lower())


def taken(text: str) -> str | None:
    return select_condition(text, GRAMMAR, find, TABLE, [found.name for found in COLUMNS.values()])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM public.orders WHERE id > 3",
        "select * from orders where id > 3",
        'SELECT "v", orders.id FROM "public"."orders" WHERE (id > 3)',
        "SELECT * FROM orders -- all of it\n WHERE id > 3",
    ],
)
def test_the_condition_is_written_anew_and_nothing_else_is_kept(text):
    written = taken(text)

    assert written is not None
    assert written.strip("()").startswith('"id"') or '"id"' in written
    assert "orders" not in written
    assert "--" not in written


def test_a_select_without_a_condition_takes_all_rows():
    assert taken("SELECT * FROM public.orders") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id > 3", "a whole SELECT"),
        ("SELECT 1", "selects from no table"),
        ("SELECT * FROM public.customers", "selects from 'public.customers'"),
        ("SELECT * FROM other.orders", "selects from 'other.orders'"),
        ("SELECT * FROM orders AS o WHERE o.id = 1", "without an alias"),
        ("SELECT * FROM (SELECT * FROM orders) AS orders", "something else than one table"),
        ("SELECT * FROM orders, customers", "'joins' is not taken"),
        ("SELECT DISTINCT * FROM orders", "'distinct' is not taken"),
        ("SELECT * FROM orders ORDER BY id", "'order' is not taken"),
        ("SELECT * FROM orders LIMIT 3", "'limit' is not taken"),
        ("SELECT * FROM orders FOR UPDATE", "'locks' is not taken"),
        ("WITH orders AS (SELECT 1) SELECT * FROM orders", "is not taken"),
        ("SELECT * FROM orders UNION SELECT * FROM orders", "a whole SELECT"),
        ("SELECT id FROM orders", "lacks the column"),
        ("SELECT id, upper(v) FROM orders", "is not taken in its list"),
        ("SELECT * FROM orders WHERE pg_sleep(1) IS NULL", "'pg_sleep' is not in the list"),
        ("SELECT * FROM orders WHERE nothing = 1", "no column 'nothing'"),
        ("SELECT * FROM orders WHERE id IN (SELECT 1)", "not in the list"),
        ("SELECT * FROM orders; DROP TABLE orders", "a semicolon"),
        ("DELETE FROM orders", "a whole SELECT"),
        ("SELECT * FROM orders WHERE \0", "NUL"),
        ("SELECT * FROM orders WHERE " + "(" * 30 + "id" + ")" * 30, "brackets"),
        ("", ""),
    ],
)
def test_any_other_query_is_refused(text, said):
    with pytest.raises(SignalError, match="refused") as caught:
        taken(text)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" select 1", True),
        ("WITH a AS (SELECT 1) SELECT 1", True),
        ("DELETE FROM t", False),
        ("selection", False),
    ],
)
def test_a_query_is_known_by_its_first_word(text, expected):
    assert is_query(text) == expected
