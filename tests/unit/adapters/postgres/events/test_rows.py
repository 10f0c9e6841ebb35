"""Row texts are put together by expressions that any table fits in, with flags where they are needed."""

from __future__ import annotations

import pytest

from adapters.postgres.events.columns.builtin_types import BUILTIN
from adapters.postgres.events.rows import may_be_empty, row_expression, row_shape
from adapters.postgres.server.table import Column, PgType, Table, relation_of
from engine.errors import InvariantError
from engine.events.values.row_form import RowMode, RowShape
from engine.model import CollectionId

SHAPE = RowShape(("id", "a", "b"), (False, True, True), (False, True, False))


def test_expressions_quote_names_and_nest_what_is_too_much_for_a_function():
    assert row_expression(SHAPE, RowMode.FAST) == (
        """CASE WHEN "a" IS DISTINCT FROM NULL AND "b" IS DISTINCT FROM NULL"""
        """ THEN concat_ws(E'\\x1f', 'f', "id", "a", "b")"""
        """ ELSE concat("a" IS NOT DISTINCT FROM NULL, E'\\x1f', "id", E'\\x1f', "a", E'\\x1f', "b") END"""
    )
    never_null = RowShape(("id",), (False,), (False,))
    assert row_expression(never_null, RowMode.FAST) == """concat_ws(E'\\x1f', '', "id")"""
    assert row_expression(RowShape((), (), ()), RowMode.FAST) == "''"
    wide = RowShape(tuple(f'c"{at}' for at in range(1000)), (True,) * 1000, (True,) * 1000)
    for mode in (RowMode.FAST, RowMode.EXACT):
        assert deepest(row_expression(wide, mode)) <= 100
        assert row_expression(wide, mode, "t").count('"t"."c""999"') >= 1


def test_an_escaped_form_is_refused():
    with pytest.raises(InvariantError, match="no escaped form"):
        row_expression(SHAPE, RowMode.ESCAPED)


def deepest(expression: str) -> int:
    """The most arguments that one call of concat has; the names hold no parentheses or commas."""
    most, open_calls = 0, []
    for token in expression.replace("','", "").replace("';'", "").replace("'UTF8'", ""):
        if token == "(":
            open_calls.append(1)
        elif token == ",":
            open_calls[-1] += 1
        elif token == ")":
            most = max(most, open_calls.pop())
    return most


def test_only_columns_that_may_be_null_and_empty_are_flagged():
    names = {
        "text": 25,
        "int4": 23,
        "bpchar": 1042,
        "bit": 1560,
        "varbit": 1562,
        "jsonb": 3802,
        "bytea": 17,
        "_text": 1009,
    }
    columns = tuple(Column(name, oid) for name, oid in names.items())
    table = Table(
        1, CollectionId(("s", "t")), "r", (*columns, Column("nn", 25, nullable=False), Column("x", 99_999))
    )

    shape = row_shape(relation_of(table), table, {})

    assert [shape.columns[at] for at in shape.flagged] == ["text", "bpchar", "bit", "varbit", "x"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (PgType(1, "d", kind="d", base=25), True),
        (PgType(1, "d", kind="d", base=23), False),
        (PgType(1, "e", kind="e", labels=("a", "b")), True),
        (PgType(1, "hstore", "public"), True),
        (PgType(1, "int4", "mine"), True),
        (PgType(1, "row", "public", kind="c"), False),
        (None, True),
    ],
)
def test_types_that_may_be_empty(kind, expected):
    assert may_be_empty(kind, BUILTIN) is expected
