"""T-SQL as text: quoting, literals, and each type's conversion to and from text. Pure.

The server makes the text of every value that the adapter reads, so that no driver's type mapping matters.
Every value that the adapter sends is a literal converted to its column's own type, so that an index can serve
the comparison. Statements stand where they are used; those on the catalog in `metadata`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.errors import InvariantError
from engine.events.values.row_form import ESCAPES, RowMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.server.table import Column

_ARGUMENTS = 250
"""Less than the 254 arguments that CONCAT takes."""
_SEPARATOR = "NCHAR(31)"
_BINARY_ORDER = "COLLATE Latin1_General_BIN2"
"""Other collations ignore control characters, so REPLACE would not find them.

One such part makes the whole expression binary; otherwise columns of two collations could not be combined.
"""

_WITH_LENGTH = frozenset({"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"})
_WITH_SCALE = frozenset({"time", "datetime2", "datetimeoffset"})
_EXACT = frozenset({"decimal", "numeric"})
TEXTS = frozenset({"char", "varchar", "nchar", "nvarchar", "text", "ntext"})
_STYLES = {
    **dict.fromkeys(("bit", "tinyint", "smallint", "int", "bigint"), "CONVERT(varchar(20), {})"),
    **dict.fromkeys(("decimal", "numeric"), "CONVERT(varchar(41), {})"),
    **dict.fromkeys(("money", "smallmoney"), "CONVERT(varchar(30), {}, 2)"),
    **dict.fromkeys(("real", "float"), "CONVERT(varchar(30), {}, 3)"),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), "CONVERT(nvarchar(max), {})"),
    "text": "CONVERT(nvarchar(max), CONVERT(varchar(max), {}))",
    "ntext": "CONVERT(nvarchar(max), {})",
    "xml": "CONVERT(nvarchar(max), {})",
    **dict.fromkeys(("binary", "varbinary"), "CONVERT(varchar(max), {}, 2)"),
    "image": "CONVERT(varchar(max), CONVERT(varbinary(max), {}), 2)",
    "timestamp": "CONVERT(varchar(16), CONVERT(binary(8), {}), 2)",
    **dict.fromkeys(
        ("geometry", "geography", "hierarchyid"), "CONVERT(varchar(max), CONVERT(varbinary(max), {}), 2)"
    ),
    "uniqueidentifier": "CONVERT(varchar(36), {})",
    "date": "CONVERT(varchar(10), {}, 23)",
    "time": "CONVERT(varchar(16), {}, 121)",
    **dict.fromkeys(("datetime", "smalldatetime", "datetime2"), "CONVERT(varchar(27), {}, 121)"),
    "datetimeoffset": "CONVERT(varchar(34), {}, 121)",
}
READABLE = frozenset(_STYLES)
"""The base types whose values have a text. Columns of other types are left out of rows."""
_DATES = {
    "date": 23,
    **dict.fromkeys(("time", "datetime", "smalldatetime", "datetime2", "datetimeoffset"), 121),
}
_WIDE = frozenset({"nchar", "nvarchar"})
_UNITS = re.compile("\0((?:[0-9a-f]{4})+)")
"""Stands in for a key's text that UTF-8 can't hold: NUL, and its UTF-16 bytes as hexadecimal digits."""
_NEVER_KEYS = frozenset({"text", "ntext", "image", "xml", "geometry", "geography"})


def quote_ident(name: str) -> str:
    """A name in brackets."""
    return "[" + name.replace("]", "]]") + "]"


def quote_name(*parts: str) -> str:
    """A name of several parts, as `[schema].[table]`."""
    return ".".join(map(quote_ident, parts))


def quote_literal(text: str) -> str:
    """An nvarchar literal. Raises InvariantError for a NUL character, which no literal can hold."""
    if "\0" in text:
        raise InvariantError("a T-SQL literal can't hold NUL characters")
    return "N'" + text.replace("'", "''") + "'"


def declared(column: Column) -> str:
    """The column's type as CREATE TABLE declares it."""
    if column.type in _WITH_LENGTH:
        return f"{column.type}({'max' if column.length == -1 else column.length})"
    if column.type in _EXACT:
        return f"{column.type}({column.precision}, {column.scale})"
    return f"{column.type}({column.scale})" if column.type in _WITH_SCALE else column.type


def value_text(column: Column, operand: str = "") -> str:
    """An expression for a column's value as text, NULL for NULL.

    `operand` replaces the column's quoted name. Raises InvariantError for a type that is not `READABLE`.
    """
    if column.type not in _STYLES:
        raise InvariantError(f"values of type {column.type!r} have no text")
    return _STYLES[column.type].format(operand or quote_ident(column.name))


def may_be_empty(column: Column) -> bool:
    """Whether a value that is not NULL can have an empty text."""
    return column.type in TEXTS or column.type in {"xml", "binary", "varbinary", "image", "hierarchyid"}


def row_text(columns: Sequence[Column], mode: RowMode = RowMode.FAST, alias: str = "") -> str:
    """The columns of a row as one nvarchar(max), in one of the forms of `engine.events.values.row_form`.

    Flags of columns that may be both NULL and empty come first. `alias` is the table's, without a dot.
    """
    if mode is RowMode.EXACT:
        raise InvariantError("the server does not count bytes of UTF-8; rows are read in escaped form")
    prefix = f"{alias}." if alias else ""
    return joined([(column, prefix + quote_ident(column.name)) for column in columns], mode)


def joined(pairs: Sequence[tuple[Column, str]], mode: RowMode) -> str:
    """Like `row_text`, of expressions with values of the columns' types."""
    flags = [
        f"CASE WHEN {operand} IS NULL THEN N't' ELSE N'f' END"
        for column, operand in pairs
        if column.may_be_null and may_be_empty(column)
    ]
    values = [word for pair in pairs for word in (_SEPARATOR, _value(*pair, mode))]
    return _concat([*flags, *values])


def _value(column: Column, operand: str, mode: RowMode) -> str:
    text = value_text(column, operand)
    if mode is RowMode.FAST or not (column.type in TEXTS or column.type == "xml"):
        return text
    escaped = f"{text} {_BINARY_ORDER}"
    for plain, written in ESCAPES:
        found = quote_literal(plain) if plain.isprintable() else f"NCHAR({ord(plain)})"
        escaped = f"REPLACE({escaped}, {found}, {quote_literal(written)})"
    return escaped


def _concat(words: Sequence[str]) -> str:
    """The words as one text.

    The first is nvarchar(max), since CONCAT would cut at 4,000 characters otherwise.
    """
    whole = f"CONVERT(nvarchar(max), N'') {_BINARY_ORDER}"
    if len(words) <= _ARGUMENTS:
        return f"CONCAT({', '.join((whole, *words, *(['NULL'] if not words else [])))})"
    groups = [words[at : at + _ARGUMENTS] for at in range(0, len(words), _ARGUMENTS)]
    return _concat([_concat(group) for group in groups])


def key_text(column: Column, operand: str = "") -> str:
    """What `key_of` makes a bound from: the value's text, or for nchar and nvarchar its bytes.

    A driver's text has `?` for half a surrogate pair. Such a bound would be another key, and rows would be
    missed.
    """
    if column.type not in _WIDE:
        return value_text(column, operand)
    return f"CONVERT(varchar(max), CONVERT(varbinary(max), {operand or quote_ident(column.name)}), 2)"


def key_of(column: Column, told: str | None) -> str | None:
    """The value's text as `key_literal` takes it and a saved state keeps it."""
    if told is None or column.type not in _WIDE:
        return told
    raw = bytes.fromhex(told)
    try:
        text = raw.decode("utf-16-le")
    except UnicodeDecodeError:
        return f"\0{raw.hex()}"
    return f"\0{raw.hex()}" if text.startswith("\0") else text


def key_literal(column: Column, text: str) -> str:
    """A value's text as a literal of the column's own type, collation and code page.

    An nvarchar's text may come from `key_of`. Raises InvariantError for types that can't be indexed.
    """
    kind = column.type
    if kind in _NEVER_KEYS or kind not in _STYLES:
        raise InvariantError(f"a column of type {kind!r} can't be part of a key")
    if kind in _WIDE and (units := _UNITS.fullmatch(text)):
        text = bytes.fromhex(units[1]).decode("utf-16-le", "surrogatepass")
    if kind in TEXTS:
        return f"CONVERT({declared(column)}, {_collated(text, column.collation)})"
    if kind in {"binary", "varbinary", "timestamp", "hierarchyid"}:
        return f"CONVERT({'binary(8)' if kind == 'timestamp' else declared(column)}, 0x{_hex(text)})"
    style = f", {_DATES[kind]}" if kind in _DATES else ""
    return f"CONVERT({declared(column)}, {_ascii(text)}{style})"


def typed(column: Column, text: str | None) -> str:
    """A literal as `key_literal` writes it, or a NULL of the column's type."""
    return f"CONVERT({declared(column)}, NULL)" if text is None else key_literal(column, text)


def _collated(text: str, collation: str) -> str:
    """A literal with the column's collation, so that a varchar is written in the column's code page.

    No literal can hold NUL or half a surrogate pair; such texts are converted from binary.
    """
    plain = "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
    written = quote_literal(text) if plain else f"CONVERT(nvarchar(4000), 0x{_utf16(text)})"
    return written + (f" COLLATE {collation}" if collation else "")


def _utf16(text: str) -> str:
    """The text as nvarchar stores it, in hexadecimal digits."""
    return text.encode("utf-16-le", "surrogatepass").hex()


def _ascii(text: str) -> str:
    return quote_literal(text)[1:]


def _hex(text: str) -> str:
    return bytes.fromhex(text).hex()
