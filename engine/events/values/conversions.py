"""Conversions that the types of several databases share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engine.events.record.field import Conversion
from engine.events.record.schema import Schema
from engine.events.values import numbers
from engine.events.values.json_strings import escape
from engine.events.values.text import unchanged

if TYPE_CHECKING:
    from engine.events.record.field import Encode


def quoted(schema: Schema, encode: Encode, filler: str = '""') -> Conversion:
    """A conversion whose values are JSON strings."""
    plain = (unchanged if encode is escape else encode) if schema.type == "string" else None
    return Conversion(schema, encode, quoted=True, filler=filler, plain=plain)


def bare(schema: Schema, encode: Encode = unchanged, filler: str = "0") -> Conversion:
    """A conversion whose values are JSON as they are."""
    return Conversion(schema, encode, quoted=False, filler=filler)


def decimal(scale: int, precision: int | None) -> Conversion:
    """Connect's Decimal of a fixed scale; `precision` is part of the schema if known."""
    parameters: tuple[tuple[str, str], ...] = (("scale", str(scale)),)
    if precision is not None:
        parameters += (("connect.decimal.precision", str(precision)),)
    schema = Schema("bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=parameters)
    return quoted(schema, partial(numbers.decimal_base64, scale=scale), '"AA=="')
