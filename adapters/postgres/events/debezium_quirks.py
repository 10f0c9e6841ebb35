"""Faults of Debezium 2.1.4's stream, repeated for consumers that depend on them.

Implements what `tidemark.keep.debezium.faults` changes in names and columns. `defaults` cuts the texts of
defaults, and `entries` leaves arrays unfilled. Without the property nothing here has any effect.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_DOWN, Decimal
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adapters.postgres.events.columns import values
from adapters.postgres.events.columns.arrays import array_items, arrays
from adapters.postgres.events.columns.builtin_types import type_of
from adapters.postgres.events.columns.scalars import decimal_scale, scalar
from engine.events.record.schema import BOOLEAN, Schema
from engine.events.settings import DecimalMode, Fault, IntervalMode, TimeMode
from engine.events.values import times
from engine.events.values.text import Text, join, unchanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.server.table import PgType, Relation
    from engine.events.record.field import Conversion
    from engine.events.settings import EventSettings

_FAR_TOO_MANY_DIGITS = 1000
_NULL = pa.scalar(None, pa.large_string())
_NEVER_FILLED = frozenset(("_text", "_varchar", "_json", "_jsonb", "_int4", "_int8"))


def garbled(relation: Relation, settings: EventSettings) -> Relation:
    """The relation with the names that a reader sees who takes each byte for a character."""
    if Fault.NAMES not in settings.kept_faults:
        return relation
    namespace, name = _garbled(relation.namespace), _garbled(relation.name)
    found = (namespace, name) == (relation.namespace, relation.name)
    columns = tuple(
        replace(column, name=_garbled(column.name), key=column.key and found and column.name.isascii())
        for column in relation.columns
    )
    return replace(relation, namespace=namespace, name=name, columns=columns)


def _garbled(name: str) -> str:
    """Java's bytes are signed: those above 127 come out as characters from U+FF80 on."""
    return "".join(chr(0xFF00 | byte) if byte > 0x7F else chr(byte) for byte in name.encode())


def never_filled(relation: Relation, types: Mapping[int, PgType], settings: EventSettings) -> frozenset[int]:
    """The columns, by index, whose unchanged values are not taken from old rows."""
    if Fault.ARRAYS not in settings.kept_faults:
        return frozenset()
    names = (type_of(column.type, types) for column in relation.columns)
    return frozenset(at for at, kind in enumerate(names) if kind and kind.name in _NEVER_FILLED)


def with_faults(
    made: Conversion, kind: PgType, typmod: int, types: Mapping[int, PgType], settings: EventSettings
) -> Conversion:
    """The conversion of a column of this type, with the faults to keep."""
    while kind.kind == "d" and (base := type_of(kind.base, types)):
        kind, typmod = base, typmod if kind.base_typmod == -1 else kind.base_typmod
    element = type_of(kind.element, types) if kind.element else None
    for fault in settings.kept_faults:
        if fault is Fault.ARRAYS and element is not None:
            return _array(made, element, typmod, settings)
        if fault is Fault.TEXTS and kind.name in {"name", "ltree"} and not settings.include_unknown_types:
            return replace(made, lost=True)
        if fault is Fault.INTERVALS and kind.name == "interval" and settings.intervals is IntervalMode.STRING:
            return replace(made, encode=partial(values.distinct, convert=_noisy_interval))
        if fault is Fault.SCALES and kind.name == "numeric" and settings.decimals is DecimalMode.STRING:
            return _with_zeros(made, decimal_scale(typmod))
    return made


def _array(made: Conversion, element: PgType, typmod: int, settings: EventSettings) -> Conversion:
    """Arrays as Debezium 2.1.4 encodes them.

    Times are truncated, or lost under `time.precision.mode=connect`. Arrays of an enumeration or ltree with a
    NULL become null, as do arrays of bits. The schema of arrays of enumerations, domains and unknown types
    says that items are never null.
    """
    if element.name == "bit":
        bits = Schema("bytes", name="io.debezium.data.Bits", version=1, parameters=(("length", str(typmod)),))
        return replace(made, schema=BOOLEAN if typmod == 1 else bits, lost=True)
    if element.name == "time":
        lost = settings.times is TimeMode.CONNECT
        return replace(
            made, encode=_empty_only if lost else partial(arrays, encode=_whole_millis, quoted=False)
        )
    if element.name == "timetz":
        return replace(made, encode=partial(arrays, encode=_whole_seconds, quoted=True))
    known = element.kind not in {"d", "e"} and scalar(element.name, typmod, settings) is not None
    if not known and made.schema.items is not None:
        schema = replace(made.schema, items=made.schema.items.nullable(optional=False))
        return replace(made, schema=schema, encode=partial(_without_null_items, made=made))
    if element.name == "ltree":
        return replace(made, encode=partial(_without_null_items, made=made))
    return made


def _empty_only(texts: Text) -> Text:
    """Only arrays without items or with nothing but NULL; others become null."""
    kept = pc.if_else(pc.match_substring_regex(texts, r"^\{(?:NULL,?)*\}$"), texts, _NULL)
    return arrays(kept, unchanged, quoted=False)


def _whole_millis(texts: Text) -> Text:
    return join([times.clock_millis(texts), "000"], len(texts))


def _whole_seconds(texts: Text) -> Text:
    return times.utc_clock(pc.replace_substring_regex(texts, r"\.[0-9]+", ""))


def _without_null_items(texts: Text, made: Conversion) -> Text:
    holed = pa.array([text is not None and None in array_items(text) for text in texts.to_pylist()])
    return pc.if_else(holed, _NULL, made.encode(texts))


def _noisy_interval(text: str) -> str:
    """An interval with its seconds as a binary fraction, of which nine digits are kept."""
    if text.endswith("infinity"):
        return text
    exact = values.interval_iso(text)
    head, seconds = exact[: exact.rindex("M") + 1], exact[exact.rindex("M") + 1 : -1]
    noisy = Decimal(float(seconds)).quantize(Decimal("1e-9"), ROUND_DOWN)
    return f"{head}{noisy.normalize():f}S"


def _with_zeros(made: Conversion, scale: int) -> Conversion:
    """Append zeros for a negative scale, which is read as a scale of about two thousand digits."""
    if scale <= _FAR_TOO_MANY_DIGITS:
        return made
    return replace(made, encode=partial(_zeros_after, zeros=f".{'0' * scale}"))


def _zeros_after(texts: Text, zeros: str) -> Text:
    return join([texts, zeros], len(texts))
