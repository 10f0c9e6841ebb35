"""Which new columns have values in rows that were there before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.sqlserver.schema.table_schemas import filled_columns
from adapters.sqlserver.server.table import Column
from tests.unit.adapters.sqlserver.changed import CUSTOMERS


@pytest.mark.parametrize(
    ("column", "has_values"),
    [
        (Column("more", 4, "int"), False),
        (Column("more", 4, "int", default="((7))"), True),
        (Column("more", 4, "int", nullable=False, default="((7))"), True),
        (Column("more", 4, "int", nullable=False), True),
        (Column("more", 4, "int", nullable=False, identity=True), True),
        (Column("more", 4, "int", nullable=False, computed=True), False),
    ],
)
def test_a_new_column_has_values_if_it_has_a_default_or_is_never_null(column: Column, has_values: bool):  # noqa: FBT001
    wider = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, column))

    assert filled_columns(CUSTOMERS, wider) == (["more"] if has_values else [])


def test_a_column_that_gets_a_default_later_is_not_new():
    first, *others = CUSTOMERS.columns
    changed = replace(CUSTOMERS, columns=(replace(first, default="((7))"), *others))

    assert filled_columns(CUSTOMERS, changed) == []
