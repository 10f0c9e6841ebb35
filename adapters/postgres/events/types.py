"""What each PostgreSQL type becomes: its Connect schema, and how its text becomes JSON.

Owns the types built from other types: domains, enumerations, arrays. `scalars` has the rest.

Differs from Debezium 2.1.4 on purpose where that loses or garbles values (in a stream unless noted):

| type | there | here |
|---|---|---|
| name, ltree | null, or "" in a NOT NULL column | the value |
| time[], timetz[] | microseconds dropped | kept |
| an enum[] or ltree[] with a NULL inside | null | the array, null at its place |
| the schema of arrays of enums, domains and unknown types | no item may be null | items may be null |
| arrays of more than one dimension | wrong items | the items in order, flat |
| bit(n)[] | null, as Bits | an array of Bits |
| interval under `interval.handling.mode=string` | noise of floating point | exact |
| numeric infinity; NaN in a NOT NULL column | the connector dies | null (precise), else by name, as NaN |
| date, timestamp before 1582 in a snapshot | Julian, other days | proleptic Gregorian, as in the stream |
| timestamp after the year 294246, in microseconds | wraps around 64 bits | the greatest 64-bit number |
| date infinity in a snapshot | another number than in the stream | as in the stream |
| money beyond 2**53 in a snapshot | rounded as a double | exact |
| timetz whose zone has seconds, in a snapshot | null | the value |
| numeric(p,-s) under `decimal.handling.mode=string` | 2046 zeros after the point | the number |
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from adapters.postgres.events.columns.arrays import arrays, delimited_arrays
from adapters.postgres.events.columns.builtin_types import type_of
from adapters.postgres.events.columns.scalars import (
    MICRO_TIME,
    STRINGS,
    scalar,
    unknown,
    with_text_placeholder,
)
from engine.events.record.schema import Schema, array
from engine.events.values.conversions import bare, quoted
from engine.events.values.json_strings import escape
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.server.table import PgType
    from engine.events.record.field import Conversion
    from engine.events.settings import EventSettings

_NO_ARRAYS = frozenset(("bytea", "interval", "money", "xml", "point", "varbit", "name", "refcursor"))
"""Element types whose arrays Debezium leaves out of the event."""
_DELIMITERS = {"box": ";", "geometry": ":", "geography": ":"}
"""What separates items, if not a comma."""


def conversion(
    kind: PgType, typmod: int, types: Mapping[int, PgType], settings: EventSettings
) -> Conversion | None:
    """The conversion of a column of this type; None if the column is left out of the events."""
    if kind.kind == "d":
        base = type_of(kind.base, types)
        typmod = kind.base_typmod if kind.base_typmod != -1 else typmod
        return conversion(base, typmod, types, settings) if base else unknown(settings)
    if kind.element:
        return _array(kind, typmod, types, settings)
    if kind.kind == "e":
        schema = Schema(
            "string",
            name="io.debezium.data.Enum",
            version=1,
            parameters=(("allowed", ",".join(kind.labels)),),
        )
        return replace(with_text_placeholder(quoted(schema, escape), settings), text=True)
    return scalar(kind.name, typmod, settings) or unknown(settings, kind.name)


def _array(
    kind: PgType, typmod: int, types: Mapping[int, PgType], settings: EventSettings
) -> Conversion | None:
    element = type_of(kind.element, types)
    if element is None or element.name in _NO_ARRAYS:
        return None
    item = conversion(element, typmod, types, settings) if element.kind != "d" else unknown(settings)
    if element.name == "time":
        item = MICRO_TIME
    if item is None:
        return None
    encode = partial(arrays, encode=item.encode, quoted=item.quoted)
    if element.name in _DELIMITERS:
        delimiter = _DELIMITERS[element.name]
        encode = partial(delimited_arrays, encode=item.encode, delimiter=delimiter, quoted=item.quoted)
    made = bare(array(item.schema.nullable()), encode, "[]")
    return replace(made, placeholder=_array_placeholder(element, settings))


def _array_placeholder(element: PgType, settings: EventSettings) -> str | None:
    if element.name in STRINGS or element.name in {"json", "jsonb"}:
        return f"[{quote(settings.unavailable_text)}]"
    if element.name in {"int2", "int4", "int8"}:
        letters = np.frombuffer(settings.unavailable_value, np.int8)
        return f"[{','.join(map(str, letters))}]"
    return None
