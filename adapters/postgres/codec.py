"""A table's codec from what the log and the catalog say of it.

The log gives names and types of columns, the catalog (by name) whether they may be NULL, their
defaults and the key, or the log's marks where its columns have gone. A column that the catalog no longer
has counts as one that may be NULL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

from adapters.postgres.defaults import default_text
from adapters.postgres.faults import garbled, never_filled, with_faults
from adapters.postgres.source import SOURCE, source_snapshot, source_table
from adapters.postgres.source_types import source_length, source_parameters
from adapters.postgres.table import Column, PgType, Relation, RelationColumn, Table
from adapters.postgres.types import conversion, type_of
from engine.events import shaping
from engine.events.codec import TableCodec
from engine.events.connect import Schema, struct, with_schema
from engine.events.envelope import envelope_schema
from engine.events.field import Conversion, Field
from engine.events.names import field_name, schema_name, topic_of
from engine.events.settings import Fault
from engine.events.text import join
from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.events.settings import ColumnMask, EventSettings


def codec_for(
    relation: Relation,
    table: Table | None,
    settings: EventSettings,
    types: Mapping[int, PgType],
    *,
    merge_key: tuple[str, ...] = (),
    emit: bool = True,
) -> TableCodec:
    """The codec of rows that have the relation's shape.

    `table` may be None (dropped meanwhile) or of another name or shape by now. `merge_key` defaults
    to the table's key. The codec's `columns` are the relation's, in its order.
    """
    shown = garbled(relation, settings)
    seen = table if shown.id == relation.id else None
    described = [_Described(shown, seen, index, settings, types) for index in range(len(shown.columns))]
    topic = topic_of(shown.id, settings)
    key_names = _key_names(shown, seen, settings)
    by_name = {one.column.name: one for one in described}
    fields = tuple(field for one in described if one.included and (field := one.value_field()))
    key = tuple(field for name in key_names if name in by_name and (field := by_name[name].key_field()))
    names = tuple(column.name for column in relation.columns)
    return TableCodec(
        relation.id,
        topic,
        names,
        fields,
        key,
        with_schema(_key_schema(topic, key, settings), enabled=settings.key_schemas),
        with_schema(_value_schema(topic, fields, settings), enabled=settings.value_schemas),
        (source_snapshot(settings), source_table(shown.namespace, shown.name)),
        tuple(names.index(name) for name in merge_key or _table_key(relation, table) if name in names),
        never_filled=never_filled(relation, types, settings),
        emit=emit,
        signal=str(relation.id) == settings.signal_collection,
        warnings=(*_collisions(fields), *(warning for one in described for warning in one.warnings())),
    )


def _table_key(relation: Relation, table: Table | None) -> tuple[str, ...]:
    """The table's key so far as the relation has its columns, else the primary key that the log marks.

    The catalog tells the present, which may be long after the rows: the table may be gone, or its key
    renamed. Debezium's events have no key then. The log's marks have no order but the table's.
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


def _key_schema(topic: str, key: tuple[Field, ...], settings: EventSettings) -> Schema:
    return struct(schema_name(topic, "Key", settings), *((one.name, one.schema) for one in key))


def _value_schema(topic: str, fields: tuple[Field, ...], settings: EventSettings) -> Schema:
    row = struct(schema_name(topic, "Value", settings), *((one.name, one.schema) for one in fields))
    return envelope_schema(schema_name(topic, "Envelope", settings), row, SOURCE)


def _collisions(fields: tuple[Field, ...]) -> tuple[str, ...]:
    names = [one.name for one in fields]
    return tuple(
        f"several columns become the field {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1
    )


class _Described:
    """A column of the relation with all that is known of it."""

    def __init__(
        self,
        relation: Relation,
        table: Table | None,
        index: int,
        settings: EventSettings,
        types: Mapping[int, PgType],
    ) -> None:
        self.column: RelationColumn = relation.columns[index]
        self._index = index
        self._settings = settings
        self._types = types
        self._relation = relation
        self.included = shaping.is_included(relation.id, self.column.name, settings)
        self._catalog: Column | None = table.column(self.column.name) if table and self.included else None
        self._type = type_of(self.column.type, types) or PgType(self.column.type, f"type {self.column.type}")
        made = conversion(self._type, self.column.typmod, types, settings)
        self._conversion = (
            with_faults(made, self._type, self.column.typmod, types, settings) if made else None
        )
        self._mask = shaping.mask_of(relation.id, self.column.name, settings)

    def value_field(self) -> Field | None:
        """The member of the row: masked, or with what the source says of it where that is asked for.

        Only one of these applies, as in Debezium; there, though, a propagated type lifts a hash.
        """
        made = self._field()
        if made is None:
            return None
        if self._mask is None:
            return replace(made, schema=_with_parameters(made.schema, self._source_parameters()))
        length = source_length(self._type, self.column.typmod, self._types)
        if self._mask.truncate and length <= self._mask.length:
            return made
        made = replace(made, schema=_with_parameters(made.schema, shaping.mask_parameters(self._mask)))
        return self._shaped(made, self._mask, length)

    def _shaped(self, made: Field, mask: ColumnMask, length: int) -> Field:
        conversion = made.conversion
        if not (conversion.plain if mask.truncate else conversion.text):
            return made
        return replace(
            made,
            shape=shaping.shape_of(mask, length),
            raw_missing=None if made.schema.optional else orjson.loads(made.missing),
            raw_placeholder=orjson.loads(conversion.placeholder) if conversion.placeholder else None,
        )

    def warnings(self) -> tuple[str, ...]:
        """What was asked for and can't be done."""
        mask, conversion = self._mask, self._conversion
        if mask is None or mask.truncate or conversion is None or conversion.text or not self.included:
            return ()
        return (f"column {self.column.name!r} is not masked: a {self._type.name} is no text",)

    def key_field(self) -> Field | None:
        """The member of the key, never masked."""
        return self._field()

    def _field(self) -> Field | None:
        if self._conversion is None:
            return None
        nullable = self._catalog is None or self._catalog.nullable
        default = self._default(self._conversion)
        schema = replace(self._conversion.schema, optional=nullable, default=default)
        missing = "null" if nullable else self._conversion.filler
        if default is not None and (not nullable or self._settings.replace_null_with_default):
            missing = default
        return Field(
            field_name(self.column.name, self._settings), self._index, self._conversion, schema, missing
        )

    def _default(self, conversion: Conversion) -> str | None:
        if self._catalog is None or self._catalog.default is None or self._catalog.generated:
            return None
        faulty = Fault.DEFAULTS in self._settings.kept_faults
        text = default_text(self._type, self._catalog.default, self.column.typmod, faulty=faulty)
        if text is None or conversion.schema.type in {"struct", "array", "map"}:
            return None
        try:
            pieces = Field("", 0, conversion, conversion.schema, "null").pieces(
                pa.array([text], pa.large_string())
            )
        except ValueError:  # a word that only the server understands, such as 'now' or 'today'
            return None
        shown: str = join(pieces, 1)[0].as_py()
        return None if shown == "null" else shown

    def _source_parameters(self) -> tuple[tuple[str, str], ...]:
        name = f"{self._relation.id}.{self.column.name}"
        by_type = f"{self._relation.id}.{self._type.name}"
        if matches(self._settings.propagate_columns, name) or matches(
            self._settings.propagate_types, by_type
        ):
            return source_parameters(self._type, self.column.typmod, self._types)
        return ()


def _with_parameters(schema: Schema, more: tuple[tuple[str, str], ...]) -> Schema:
    return replace(schema, parameters=schema.parameters + more)
