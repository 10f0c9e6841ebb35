r"""Writes BSON as MongoDB extended JSON, exactly as Java's driver does for Debezium 2.1.4.

Two modes: *strict* (version 1, for documents) and *relaxed* (version 2, for keys and updated fields). Both
write a space after a colon. After a comma, documents have none and updated fields have one. Strings keep
ASCII letters, punctuation and other characters that Java calls printable; everything else becomes `\uXXXX`.

A document is first read into a *tree*: a dict of its fields, lists for arrays, and finished JSON text for
every other value. So fields can be removed or renamed before it is written.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from math import isfinite, isnan
from typing import TYPE_CHECKING, TypeAlias

from bson.decimal128 import Decimal128

from adapters.mongodb.documents.bson_walk import Kind, double, elements, int32, int64, string
from engine.events.values.floats.java_exact import java_text

if TYPE_CHECKING:
    from collections.abc import Callable

Tree: TypeAlias = "str | dict[str, Tree] | list[Tree]"


@dataclass(frozen=True, slots=True)
class Mode:
    """How values are written, and the separator between them.

    With `equals`, values that the server treats as equal get the same text: 1, 1.0 and a decimal 1; a symbol
    and a string.
    """

    strict: bool
    comma: str = ","
    equals: bool = False


STRICT = Mode(strict=True)
RELAXED = Mode(strict=False)
UPDATED = Mode(strict=False, comma=", ")
KEY = Mode(strict=False, equals=True)

_COEFFICIENT, _EXPONENT_BIAS = (1 << 49) - 1, 6176
"""In the upper half of a decimal: the bits of its coefficient, and the bias of its exponent."""
_TOO_MANY = 10**34
"""A coefficient of more than 34 digits is invalid; such a decimal counts as zero."""

# Strings.

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_HIDDEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Lm", "Mc", "Me", "Mn", "Zl", "Zp"))
_YOUNGER = (
    (0x061D, 0x061D), (0x0870, 0x088E), (0x08B5, 0x08B5), (0x08C8, 0x08C8), (0x0C5D, 0x0C5D),
    (0x0CDD, 0x0CDD), (0x170D, 0x170D), (0x171F, 0x171F), (0x1B4C, 0x1B4C), (0x1B7D, 0x1B7E),
    (0x1C89, 0x1C8A), (0x20C0, 0x20C0), (0x2427, 0x2429), (0x2C2F, 0x2C2F), (0x2C5F, 0x2C5F),
    (0x2E53, 0x2E5D), (0x2FFC, 0x2FFF), (0x31E4, 0x31E5), (0x31EF, 0x31EF), (0x9FFD, 0x9FFF),
    (0xA7C0, 0xA7C1), (0xA7CB, 0xA7CD), (0xA7D0, 0xA7DC), (0xFBC2, 0xFBC2), (0xFD40, 0xFD4F),
    (0xFDCF, 0xFDCF), (0xFDFE, 0xFDFF),
)  # fmt: skip
"""Characters that Java 17 (Unicode 13) treats as unassigned."""


def _is_hidden(code: int) -> bool:
    younger = any(first <= code <= last for first, last in _YOUNGER)
    return younger or chr(code) in _SHORT or unicodedata.category(chr(code)) in _HIDDEN


def _ranges(codes: list[int]) -> str:
    found: list[list[int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in found)


_ESCAPED = re.compile(
    f"[{_ranges([code for code in range(0x10000) if _is_hidden(code)])}\U00010000-\U0010ffff]"
)


def escaped(text: str) -> str:
    """The text escaped for the inside of a JSON string."""
    return _ESCAPED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def quoted(text: str) -> str:
    """The text as a JSON string, with quotes."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


# Values.

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000_MS = 253_402_300_800_000


def _double(raw: bytes, start: int, _end: int, mode: Mode) -> str:
    value: float = double(raw, start)[0]
    if isfinite(value):
        return _number(Decimal(value), value) if mode.equals else java_text(value)
    name = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return name if mode.strict else f'{{"$numberDouble": "{name}"}}'


def _string(raw: bytes, start: int, _end: int, _mode: Mode) -> str:
    return quoted(string(raw, start))


def _binary(raw: bytes, start: int, end: int, mode: Mode) -> str:
    kind = raw[start + 4]
    data = raw[start + 5 : end]
    if kind == 2:  # the old generic type repeats its length
        data = data[4:]
    text = b64encode(data).decode()
    if mode.strict:
        return f'{{"$binary": "{text}"{mode.comma}"$type": "{kind:02X}"}}'
    return f'{{"$binary": {{"base64": "{text}"{mode.comma}"subType": "{kind:02X}"}}}}'


def _object_id(raw: bytes, start: int, end: int, _mode: Mode) -> str:
    return f'{{"$oid": "{raw[start:end].hex()}"}}'


def _boolean(raw: bytes, start: int, _end: int, _mode: Mode) -> str:
    return "true" if raw[start] else "false"


def _date(raw: bytes, start: int, _end: int, mode: Mode) -> str:
    ms: int = int64(raw, start)[0]
    if mode.strict:
        return f'{{"$date": {ms}}}'
    if not 0 <= ms < _YEAR_10000_MS:
        return f'{{"$date": {{"$numberLong": "{ms}"}}}}'
    moment = _EPOCH + timedelta(milliseconds=ms)
    fraction = f".{ms % 1000:03d}".rstrip("0") if ms % 1000 else ""
    return f'{{"$date": "{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"}}'


def _regex(raw: bytes, start: int, end: int, mode: Mode) -> str:
    stop = raw.index(0, start)
    pattern = quoted(raw[start:stop].decode(errors="replace"))
    options = quoted(raw[stop + 1 : end - 1].decode(errors="replace"))
    if mode.strict:
        return f'{{"$regex": {pattern}{mode.comma}"$options": {options}}}'
    return f'{{"$regularExpression": {{"pattern": {pattern}{mode.comma}"options": {options}}}}}'


def _db_pointer(raw: bytes, start: int, end: int, mode: Mode) -> str:
    return (
        f'{{"$ref": {quoted(string(raw, start))}{mode.comma}"$id": {_object_id(raw, end - 12, end, mode)}}}'
    )


def _code(raw: bytes, start: int, _end: int, _mode: Mode) -> str:
    return f'{{"$code": {quoted(string(raw, start))}}}'


def _symbol(raw: bytes, start: int, _end: int, mode: Mode) -> str:
    text = quoted(string(raw, start))
    return text if mode.equals else f'{{"$symbol": {text}}}'


def _code_with_scope(raw: bytes, start: int, _end: int, mode: Mode) -> str:
    length: int = int32(raw, start + 4)[0]
    scope = document_text(raw, start + 8 + length, mode)
    return f'{{"$code": {quoted(string(raw, start + 4))}{mode.comma}"$scope": {scope}}}'


def _int32(raw: bytes, start: int, _end: int, _mode: Mode) -> str:
    return str(int32(raw, start)[0])


def _int64(raw: bytes, start: int, _end: int, mode: Mode) -> str:
    return f'{{"$numberLong": "{int64(raw, start)[0]}"}}' if mode.strict else str(int64(raw, start)[0])


def _timestamp(raw: bytes, start: int, _end: int, mode: Mode) -> str:
    seconds = int.from_bytes(raw[start + 4 : start + 8], "little")
    ordinal = int.from_bytes(raw[start : start + 4], "little")
    return f'{{"$timestamp": {{"t": {seconds}{mode.comma}"i": {ordinal}}}}}'


def _decimal(raw: bytes, start: int, end: int, mode: Mode) -> str:
    value = _decimal_value(raw[start:end])
    if mode.equals:
        return _number(value) if value.is_finite() else f'{{"$numberDouble": "{_special(value)}"}}'
    return f'{{"$numberDecimal": "{value if value.is_finite() else Decimal128(value)}"}}'


def _decimal_value(bid: bytes) -> Decimal:
    """The decimal's value.

    The driver's own conversion takes forty times as long, so it handles only rare forms.
    """
    high = int.from_bytes(bid[8:], "little")
    number = (high & _COEFFICIENT) << 64 | int.from_bytes(bid[:8], "little")
    if high >> 61 & 3 == 3 or number >= _TOO_MANY:
        return Decimal128.from_bid(bid).to_decimal()
    sign = "-" if high >> 63 else ""
    return Decimal(f"{sign}{number}E{(high >> 49 & 0x3FFF) - _EXPONENT_BIAS}")


def _special(value: Decimal) -> str:
    return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"


def _number(value: Decimal, approximate: float = 0.0) -> str:
    """The same text for equal numbers. A double with more digits than a decimal holds equals no decimal."""
    if value == value.to_integral_value(context=_EXACT) and -(2**63) <= value < 2**63:
        return str(int(value))
    shortest = value.normalize(_EXACT)
    if len(shortest.as_tuple().digits) > 34:
        return f'{{"$numberDouble": "{approximate!r}"}}'
    return f'{{"$numberDecimal": "{shortest}"}}'


def _constant(text: str) -> Callable[[bytes, int, int, Mode], str]:
    return lambda _raw, _start, _end, _mode: text


_WRITERS: list[Callable[[bytes, int, int, Mode], str] | None] = [None] * 256
for _kind, _writer in {
    Kind.DOUBLE: _double,
    Kind.STRING: _string,
    Kind.BINARY: _binary,
    Kind.UNDEFINED: _constant('{"$undefined": true}'),
    Kind.OBJECT_ID: _object_id,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.NULL: _constant("null"),
    Kind.REGEX: _regex,
    Kind.DB_POINTER: _db_pointer,
    Kind.CODE: _code,
    Kind.SYMBOL: _symbol,
    Kind.CODE_WITH_SCOPE: _code_with_scope,
    Kind.INT32: _int32,
    Kind.TIMESTAMP: _timestamp,
    Kind.INT64: _int64,
    Kind.DECIMAL128: _decimal,
    Kind.MAX_KEY: _constant('{"$maxKey": 1}'),
    Kind.MIN_KEY: _constant('{"$minKey": 1}'),
}.items():
    _WRITERS[_kind] = _writer


def tree(raw: bytes, start: int, mode: Mode) -> dict[str, Tree]:
    """The document at `start` as a tree. A repeated name keeps its first place and its last value."""
    return {
        name.decode(errors="replace"): _node(raw, kind, begin, end, mode)
        for name, kind, begin, end in elements(raw, start)
    }


def _node(raw: bytes, kind: int, start: int, end: int, mode: Mode) -> Tree:
    writer = _WRITERS[kind]
    if writer is not None:
        return writer(raw, start, end, mode)
    if kind == Kind.DOCUMENT:
        return tree(raw, start, mode)
    return [_node(raw, inner, begin, stop, mode) for _name, inner, begin, stop in elements(raw, start)]


def text(node: Tree, mode: Mode) -> str:
    """The JSON of a tree."""
    if isinstance(node, str):
        return node
    if isinstance(node, dict):
        return (
            "{"
            + mode.comma.join([f"{quoted(name)}: {text(value, mode)}" for name, value in node.items()])
            + "}"
        )
    return "[" + mode.comma.join([text(value, mode) for value in node]) + "]"


def document_text(raw: bytes, start: int, mode: Mode) -> str:
    """The JSON of the document at `start`."""
    return text(tree(raw, start, mode), mode)


def value_text(raw: bytes, kind: int, start: int, end: int, mode: Mode = RELAXED) -> str:
    """The JSON of one value."""
    return text(_node(raw, kind, start, end, mode), mode)


def embedded(json_text: str) -> str:
    """JSON text as a JSON string. Control characters are escaped in it already."""
    escaped = json_text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
