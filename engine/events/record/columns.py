"""Turns described columns into the fields of an event and the wraps of a table's codec.

An adapter describes each column: name, type, whether it may be NULL, default. This module then applies masks,
propagated types, defaults in schemas and field names, which are the same for every relational database.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

from engine.events.batch import EventForm
from engine.events.codec import TableCodec
from engine.events.names import field_name, schema_name, topic_of
from engine.events.record import shaping
from engine.events.record.envelope import envelope_schema
from engine.events.record.field import Field, struct_of
from engine.events.record.schema import RecordSchemas, Schema, with_schema
from engine.events.record.typed import constant
from engine.events.settings import HeaderConverter
from engine.events.values.text import join
from engine.expressions import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.events.record.field import Conversion
    from engine.events.settings import ColumnMask, EventSettings
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class DescribedColumn:
    """A column with everything known about it.

    `index` is that of the input column. `type` is the type's name as used in lists and messages. `conversion`
    None leaves the column out. `default` is the default as the type's own text, ready for the conversion.
    `length` is the column's declared length, None for no limit. `parameters` are what
    `column.propagate.source.type` adds to the schema.
    """

    name: str
    index: int
    type: str
    conversion: Conversion | None
    nullable: bool = True
    default: str | None = None
    length: int | None = None
    parameters: tuple[tuple[str, str], ...] = ()


def key_field(described: DescribedColumn, settings: EventSettings) -> Field | None:
    """The column as a member of a key, never masked; None if it is left out."""
    conversion = described.conversion
    if conversion is None:
        return None
    default = _default(described, conversion)
    schema = replace(conversion.schema, optional=described.nullable, default=default)
    missing = "null" if described.nullable else conversion.filler
    if default is not None and (not described.nullable or settings.replace_null_with_default):
        missing = default
    return Field(field_name(described.name, settings), described.index, conversion, schema, missing)


def value_field(described: DescribedColumn, named: CollectionId, settings: EventSettings) -> Field | None:
    """The column as a member of the row: masked, or with the propagated type if that is asked for.

    `named` is the table as used in lists. Only one of the two applies, as in Debezium. There, however, a
    propagated type disables a hash.
    """
    made = key_field(described, settings)
    mask = shaping.mask_of(named, described.name, settings)
    if made is None:
        return None
    if mask is None:
        return replace(made, schema=_with_parameters(made.schema, _propagated(described, named, settings)))
    if mask.truncate and described.length is not None and described.length <= mask.length:
        return made
    made = replace(made, schema=_with_parameters(made.schema, shaping.mask_parameters(mask)))
    return _shaped(made, mask, described.length)


def _shaped(made: Field, mask: ColumnMask, length: int | None) -> Field:
    conversion = made.conversion
    if not (conversion.plain if mask.truncate else conversion.text):
        return made
    return replace(
        made,
        shape=shaping.shape_of(mask, length),
        raw_missing=None if made.schema.optional else orjson.loads(made.missing),
        raw_placeholder=orjson.loads(conversion.placeholder) if conversion.placeholder else None,
    )


def unmasked(
    columns: Iterable[DescribedColumn], named: CollectionId, settings: EventSettings
) -> tuple[str, ...]:
    """Warnings about columns that should be masked but hold no text."""
    found = []
    for column in columns:
        mask = shaping.mask_of(named, column.name, settings)
        if (
            mask is not None
            and not mask.truncate
            and column.conversion is not None
            and not column.conversion.text
        ):
            found.append(f"column {column.name!r} is not masked: a {column.type} is no text")
    return tuple(found)


def collisions(fields: Sequence[Field]) -> tuple[str, ...]:
    """Warnings about columns that become the same field."""
    names = [field.name for field in fields]
    return tuple(
        f"several columns become the field {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1
    )


def record_schemas(
    topic: str, key: Sequence[Field], fields: Sequence[Field], source: Schema, settings: EventSettings
) -> RecordSchemas | None:
    """The schemas of a table's typed events; None where the sink takes rendered ones."""
    if settings.form is EventForm.RECORDS:
        return None
    keys = struct_of(schema_name(topic, "Key", settings), key) if key else None
    return RecordSchemas(keys, _envelope(topic, fields, source, settings))


def key_affixes(topic: str, key: Sequence[Field], settings: EventSettings) -> tuple[str, str]:
    """The text before and after the key's payload."""
    schema = struct_of(schema_name(topic, "Key", settings), key)
    return with_schema(schema, enabled=settings.key_schemas)


def header_affixes(topic: str, key: Sequence[Field], settings: EventSettings) -> tuple[str, str] | None:
    """The text before and after the key's payload in a header; None if headers are not JSON."""
    if settings.header_converter is HeaderConverter.SIMPLE:
        return None
    return key_affixes(topic, key, replace(settings, key_schemas=settings.header_schemas))


def value_affixes(
    topic: str, fields: Sequence[Field], source: Schema, settings: EventSettings
) -> tuple[str, str]:
    """The text before and after a value's payload; `source` is the source block's schema."""
    schema = _envelope(topic, fields, source, settings)
    return with_schema(schema, enabled=settings.value_schemas)


def _envelope(topic: str, fields: Sequence[Field], source: Schema, settings: EventSettings) -> Schema:
    row = struct_of(schema_name(topic, "Value", settings), fields)
    return envelope_schema(schema_name(topic, "Envelope", settings), row, source)


def _default(described: DescribedColumn, conversion: Conversion) -> str | None:
    """The default as JSON, as the conversion writes it; None for a value that the type can't hold."""
    if described.default is None or conversion.schema.type in {"struct", "array", "map"}:
        return None
    try:
        pieces = Field("", 0, conversion, conversion.schema, "null").pieces(
            pa.array([described.default], pa.large_string())
        )
        shown: str = join(pieces, 1)[0].as_py()
        constant(shown, conversion.schema)
    except (ValueError, OverflowError):
        # A word that only the server understands, such as 'now', or a number that no row can get.
        return None
    return None if shown == "null" else shown


def _propagated(
    described: DescribedColumn, named: CollectionId, settings: EventSettings
) -> tuple[tuple[str, str], ...]:
    by_name = matches(settings.propagate_columns, f"{named}.{described.name}")
    by_type = matches(settings.propagate_types, f"{named}.{described.type}")
    return described.parameters if by_name or by_type else ()


def _with_parameters(schema: Schema, more: tuple[tuple[str, str], ...]) -> Schema:
    return replace(schema, parameters=schema.parameters + more)


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table with its input columns.

    `shown` names it in topics, `listed` in lists of tables and columns. `key` are the columns of its key, as
    far as it has them. `source` is the schema of its source block, `block` the part of that block that all
    its rows share.
    """

    id: CollectionId
    shown: CollectionId
    listed: CollectionId
    columns: tuple[DescribedColumn, ...]
    key: tuple[str, ...]
    source: Schema
    block: tuple[str, str]


def codec_of(table: DescribedTable, settings: EventSettings) -> TableCodec:
    """The codec of the table's rows, without a merge key."""
    included = [
        column for column in table.columns if shaping.is_included(table.listed, column.name, settings)
    ]
    by_name = {column.name: column for column in table.columns}
    wanted = [by_name[name] for name in table.key if name in by_name]
    topic = topic_of(table.shown, settings)
    fields = tuple(field for column in included if (field := value_field(column, table.listed, settings)))
    key = tuple(field for column in wanted if (field := key_field(column, settings)))
    return TableCodec(
        table.id,
        topic,
        tuple(column.name for column in table.columns),
        fields,
        key,
        key_affixes(topic, key, settings),
        value_affixes(topic, fields, table.source, settings),
        table.block,
        warnings=(*collisions(fields), *unmasked(included, table.listed, settings)),
        header_affixes=header_affixes(topic, key, settings),
        schemas=record_schemas(topic, key, fields, table.source, settings),
    )
