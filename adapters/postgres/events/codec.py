"""Builds a table's codec from what the log and the catalog say of the table.

The log gives the columns' names and types. The catalog, looked up by name, says whether they may be NULL,
their defaults and the key; where its columns are gone, the log's key marks are used. A column that the
catalog no longer has counts as nullable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.postgres.events.columns.builtin_types import type_of
from adapters.postgres.events.columns.source_types import source_length, source_parameters
from adapters.postgres.events.debezium_quirks import garbled, never_filled, with_faults
from adapters.postgres.events.defaults import default_text
from adapters.postgres.events.source_block import SOURCE, source_snapshot, source_table
from adapters.postgres.events.types import conversion
from adapters.postgres.server.table import Column, Leaves, PgType, Relation, Table
from engine.events.record import shaping
from engine.events.record.columns import DescribedColumn, DescribedTable, codec_of
from engine.events.settings import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings


def codec_for(
    relation: Relation,
    table: Table | None,
    settings: EventSettings,
    types: Mapping[int, PgType],
    *,
    merge_key: tuple[str, ...] = (),
    emit: bool = True,
) -> TableCodec:
    """The codec of rows with the relation's columns.

    `table` may be None (dropped meanwhile) or have another name or other columns by now. `merge_key` defaults
    to the table's key. The codec's `columns` are the relation's, in its order.
    """
    shown = garbled(relation, settings)
    seen = table if shown.id == relation.id else None
    columns = tuple(_described(shown, seen, index, settings, types) for index in range(len(shown.columns)))
    block = (source_snapshot(settings), source_table(shown.namespace, shown.name))
    key = _key_names(shown, seen, settings)
    names = tuple(column.name for column in relation.columns)
    codec = codec_of(DescribedTable(relation.id, shown.id, shown.id, columns, key, SOURCE, block), settings)
    return replace(
        codec,
        schemas=codec.schemas and replace(codec.schemas, tells_key=_tells(shown, seen, key)),
        columns=names,
        merge_key=tuple(
            names.index(name) for name in merge_key or _table_key(relation, table) if name in names
        ),
        never_filled=never_filled(relation, types, settings),
        emit=emit,
        signal=str(relation.id) == settings.signal_collection,
    )


def _tells(relation: Relation, table: Table | None, key: tuple[str, ...]) -> bool:
    """Whether the log has the event key's columns of each old row whose key is changed, or that is deleted.

    Old rows of a partitioned table have what the identity of their partition says.
    """
    marked = tuple(column.name for column in relation.columns if column.key)
    leaves = (table.leaves if table else ()) or (Leaves(relation.id, relation.identity, marked),)
    return all(leaf.tells(key) for leaf in leaves)


def _table_key(relation: Relation, table: Table | None) -> tuple[str, ...]:
    """The table's key as far as the relation has its columns, else the primary key that the log marks.

    The catalog shows the present, which may be long after the rows were written: the table may be gone, or
    its key renamed. Debezium's events have no key then. The log's marks are in the table's order, not the
    key's.
    """
    names = tuple(column.name for column in relation.columns)
    known = tuple(
        name for name in ((table.primary_key or table.unique_key) if table else ()) if name in names
    )
    if known or relation.identity != "d":
        return known
    return tuple(column.name for column in relation.columns if column.key)


def _key_names(relation: Relation, table: Table | None, settings: EventSettings) -> tuple[str, ...]:
    names = tuple(column.name for column in relation.columns)
    return shaping.message_key(relation.id, names, settings) or _table_key(relation, table)


def _described(
    relation: Relation,
    table: Table | None,
    index: int,
    settings: EventSettings,
    types: Mapping[int, PgType],
) -> DescribedColumn:
    """A column of the relation with what the catalog says of it; nothing if the column is not included."""
    column = relation.columns[index]
    kind = type_of(column.type, types) or PgType(column.type, f"type {column.type}")
    included = table is not None and shaping.is_included(relation.id, column.name, settings)
    known = table.column(column.name) if table and included else None
    made = conversion(kind, column.typmod, types, settings)
    return DescribedColumn(
        column.name,
        index,
        kind.name,
        with_faults(made, kind, column.typmod, types, settings) if made else None,
        nullable=known is None or known.optional,
        default=_default(kind, known, column.typmod, settings),
        length=source_length(kind, column.typmod, types),
        parameters=source_parameters(kind, column.typmod, types),
    )


def _default(kind: PgType, column: Column | None, typmod: int, settings: EventSettings) -> str | None:
    if column is None or column.default is None or column.generated:
        return None
    return default_text(kind, column.default, typmod, faulty=Fault.DEFAULTS in settings.kept_faults)
