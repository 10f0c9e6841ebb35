"""Change rows as the reader stages them, from values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

from adapters.sqlserver.log.changes import RAW
from adapters.sqlserver.server.rows import row_shape
from adapters.sqlserver.server.table import Column, Table
from engine.events.settings import EventSettings
from engine.events.values.row_form import ESCAPES, SEPARATOR, RowMode
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
COMMITTED = "2019-06-05 10:11:08.470"
COMMITTED_MS = 1559729468470
PLAIN = EventSettings("server1", "testDB", key_schemas=False, value_schemas=False)
CUSTOMERS = Table(
    CollectionId(("testDB", "dbo", "customers")),
    (
        Column("id", 1, "int", nullable=False, identity=True),
        Column("name", 2, "nvarchar", 50),
        Column("note", 3, "varchar", -1, nullable=False),
    ),
    ("id",),
)


@dataclass(frozen=True, slots=True)
class Changed:
    """One change row; `commit` and `change` are numbers that LSNs are made of.

    A command of None is the change's number.
    """

    commit: int
    change: int
    operation: int
    values: tuple[str | None, ...]
    instance: int = 0
    committed: str | None = COMMITTED
    command: int | None = None


def lsn(number: int) -> str:
    """An LSN that sorts as its number does."""
    return f"00000027:{number:08x}:0001"


def row_text(table: Table, values: Sequence[str | None], mode: RowMode = RowMode.FAST) -> str:
    """The row's text, as the server puts it together."""
    flags = "".join("t" if values[at] is None else "f" for at in row_shape(table).flagged)
    written = (_written(value or "", mode) for value in values)
    return flags + "".join(SEPARATOR + value for value in written)


def _written(value: str, mode: RowMode) -> str:
    for plain, escaped in ESCAPES if mode is RowMode.ESCAPED else ():
        value = value.replace(plain, escaped)
    return value


def raw(
    rows: Iterable[Changed], tables: Sequence[Table] = (CUSTOMERS,), mode: RowMode = RowMode.FAST
) -> pa.RecordBatch:
    """The batch of RAW that has these rows."""
    columns = [
        (
            row.instance,
            lsn(row.commit),
            row.change if row.command is None else row.command,
            lsn(row.change),
            row.operation,
            row.committed,
            row_text(tables[row.instance], row.values, mode),
        )
        for row in rows
    ]
    made = zip(*columns, strict=True) if columns else [[] for _field in RAW]
    return pa.RecordBatch.from_arrays(
        [pa.array(list(values), field.type) for values, field in zip(made, RAW, strict=True)], schema=RAW
    )


def shown(events: pa.RecordBatch) -> list[dict[str, Any]]:
    """Events with their JSON parsed."""
    return [
        {
            name: text if name == "topic" or text is None else orjson.loads(text)
            for name, text in event.items()
        }
        for event in events.to_pylist()
    ]
