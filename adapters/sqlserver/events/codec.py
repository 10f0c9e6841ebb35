"""Builds a table's codec from the catalog or the schema history.

Rows of the log and rows read by queries have the same columns in the same order (`rows.readable`), so one
codec serves both. Lists and masks name a table as `schema.table`, without its database, as Debezium 2.1.4
matches them. Topic and schema names include the database.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.sqlserver.events.defaults import default_text
from adapters.sqlserver.events.jdbc_types import jdbc_column
from adapters.sqlserver.events.source_block import SOURCE, source_table
from adapters.sqlserver.events.types import conversion
from adapters.sqlserver.server.rows import readable
from engine.events.record import shaping
from engine.events.record.columns import DescribedColumn, DescribedTable, codec_of
from engine.model import CollectionId

if TYPE_CHECKING:
    from adapters.sqlserver.server.table import Column, Table
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings


def codec_for(
    table: Table,
    settings: EventSettings,
    *,
    merge_key: tuple[str, ...] = (),
    emit: bool = True,
    signal: bool | None = None,
) -> TableCodec:
    """The codec of a table's rows. Its `columns` are those of `rows.readable`.

    `merge_key` defaults to the table's key; it is empty where the rows lack one of its columns. `signal` says
    whether rows are read as signals; by default they are if the table is `signal.data.collection`.
    """
    columns = readable(table)
    names = tuple(column.name for column in columns)
    listed = listed_name(table.id)
    described = tuple(_described(column, index, settings) for index, column in enumerate(columns))
    key = shaping.message_key(listed, names, settings) or table.key
    block = (source_table(table.id), "")
    made = codec_of(DescribedTable(table.id, table.id, listed, described, key, SOURCE, block), settings)
    merged = merge_key or table.key
    return replace(
        made,
        merge_key=tuple(map(names.index, merged)) if set(merged) <= set(names) else (),
        emit=emit,
        signal=str(table.id) == settings.signal_collection if signal is None else signal,
        warnings=(*_left_out(table), *made.warnings),
    )


def listed_name(collection: CollectionId) -> CollectionId:
    """A table's name as lists of tables and columns give it: without its database."""
    return CollectionId(collection.parts[-2:])


def _described(column: Column, index: int, settings: EventSettings) -> DescribedColumn:
    seen = jdbc_column(column)
    parameters = [
        ("__debezium.source.column.type", seen.name.upper()),
        ("__debezium.source.column.length", str(seen.length)),
    ]
    if seen.scale is not None:
        parameters.append(("__debezium.source.column.scale", str(seen.scale)))
    return DescribedColumn(
        column.name,
        index,
        seen.name,
        conversion(column, settings),
        nullable=column.nullable or column.computed,
        default=None if column.computed else default_text(column),
        length=seen.length,
        parameters=tuple(parameters),
    )


def _left_out(table: Table) -> tuple[str, ...]:
    shown = {column.name for column in readable(table)}
    return tuple(
        f"column {column.name!r} is left out: nothing can be made of its type {column.type}"
        for column in table.columns
        if column.name not in shown
    )
