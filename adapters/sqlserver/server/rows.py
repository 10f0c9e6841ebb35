"""The shape of the texts that rows are read as, from the log and from tables alike. Pure.

`tsql.row_text` builds these texts, from the same columns and flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sqlserver.server.tsql import READABLE, may_be_empty
from engine.events.values.row_form import RowShape

if TYPE_CHECKING:
    from adapters.sqlserver.server.table import Column, Table


def readable(table: Table) -> tuple[Column, ...]:
    """The columns that rows are read with, in the table's order.

    Columns of unsupported types are left out.
    """
    return tuple(column for column in table.columns if column.type in READABLE)


def row_shape(table: Table) -> RowShape:
    """The shape of the texts of a table's rows."""
    columns = readable(table)
    return RowShape(
        tuple(column.name for column in columns),
        tuple(column.may_be_null for column in columns),
        tuple(may_be_empty(column) for column in columns),
    )
