"""How T-SQL's own literals, operators, functions and types are written in conditions. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from adapters.source.conditions.nodes import digits
from adapters.source.conditions.writer import Unwritable
from adapters.sqlserver.server.tsql import quote_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.source.conditions.writer import Writer

_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_COLLATION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,100}")
_DATED: Final = frozenset({"dateadd", "datediff", "datediff_big", "datename", "datepart"})
_DATE_PARTS: Final = frozenset(
    (
        *(
            "year",
            "yy",
            "yyyy",
            "quarter",
            "qq",
            "q",
            "month",
            "mm",
            "m",
            "dayofyear",
            "dy",
            "y",
            "day",
            "dd",
        ),
        *("d", "week", "wk", "ww", "weekday", "dw", "w", "hour", "hh", "minute", "mi", "n", "second", "ss"),
        *("s", "millisecond", "ms", "microsecond", "mcs", "nanosecond", "ns", "iso_week", "isowk", "isoww"),
    )
)
_TYPES: Final = {
    "BIT": "bit",
    "UTINYINT": "tinyint",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "DECIMAL": "decimal",
    "MONEY": "money",
    "SMALLMONEY": "smallmoney",
    "FLOAT": "float",
    "DATE": "date",
    "TIME": "time",
    "DATETIME": "datetime",
    "DATETIME2": "datetime2",
    "SMALLDATETIME": "smalldatetime",
    "TIMESTAMPTZ": "datetimeoffset",
    "CHAR": "char",
    "VARCHAR": "varchar",
    "NCHAR": "nchar",
    "NVARCHAR": "nvarchar",
    "UUID": "uniqueidentifier",
    "BINARY": "binary",
    "VARBINARY": "varbinary",
}
"""sqlglot's names of types, and the server's."""
_WITH_LENGTH: Final = frozenset(
    (
        *("DECIMAL", "FLOAT", "TIME", "DATETIME2", "TIMESTAMPTZ", "CHAR", "VARCHAR", "NCHAR", "NVARCHAR"),
        *("BINARY", "VARBINARY"),
    )
)


def literal(_writer: Writer, node: exp.Expr) -> str:
    """A string or a number."""
    return quote_literal(str(node.this))[1:] if node.args["is_string"] else digits(node)


def national(_writer: Writer, node: exp.Expr) -> str:
    """A string of national characters."""
    return quote_literal(str(node.this))


def binary(_writer: Writer, node: exp.Expr) -> str:
    """Bytes in hexadecimal digits."""
    text = str(node.this)
    if not _HEX.fullmatch(text):
        raise Unwritable("it has bytes that are no hexadecimal digits")
    return f"0x{text}"


def between(writer: Writer, node: exp.Expr) -> str:
    """BETWEEN."""
    low, high = (writer.operand(node.args.get(name), node, left=False) for name in ("low", "high"))
    return f"({writer.operand(node.this, node)} BETWEEN {low} AND {high})"


def among(writer: Writer, node: exp.Expr) -> str:
    """IN."""
    values = ", ".join(writer.within(expression) for expression in node.expressions)
    return f"({writer.operand(node.this, node)} IN ({values}))"


def like(writer: Writer, node: exp.Expr) -> str:
    """LIKE."""
    word = "NOT LIKE" if node.args.get("negate") else "LIKE"
    pattern = writer.operand(node.args.get("expression"), node, left=False)
    return f"({writer.operand(node.this, node)} {word} {pattern})"


def escape(writer: Writer, node: exp.Expr) -> str:
    """LIKE with an ESCAPE character."""
    inner = node.this
    if not isinstance(inner, exp.Like):
        writer.refuse(node)
    writer.known(inner)
    return f"({like(writer, inner)[1:-1]} ESCAPE {writer.within(node.args.get('expression'))})"


def minus(writer: Writer, node: exp.Expr) -> str:
    """The negation of an operand."""
    return f"(- {writer.operand(node.this, node)})"


def bitwise_not(writer: Writer, node: exp.Expr) -> str:
    """The inversion of bits."""
    return f"(~ {writer.operand(node.this, node)})"


def collate(writer: Writer, node: exp.Expr) -> str:
    """COLLATE."""
    name = str(getattr(node.args.get("expression"), "name", ""))
    if not _COLLATION.fullmatch(name):
        raise Unwritable("it names a collation that can't be one")
    return f"({writer.operand(node.this, node)} COLLATE {name})"


def now(_writer: Writer, _node: exp.Expr) -> str:
    """The current time."""
    return "CURRENT_TIMESTAMP"


def call(writer: Writer, name: str, arguments: Sequence[exp.Expr]) -> str:
    """A function from the list; the part of a date must be one."""
    written = []
    if name in _DATED and arguments:
        first, *arguments = arguments
        part = str(first.name).lower() if isinstance(first, (exp.Column, exp.Var)) else ""
        if part not in _DATE_PARTS:
            raise Unwritable(f"{part[:40]!r} is no part of a date")
        written = [part.upper()]
    written += [writer.within(argument) for argument in arguments]
    return f"{name.upper()}({', '.join(written)})"


def trim(writer: Writer, node: exp.Expr) -> str:
    """TRIM."""
    return f"TRIM({writer.within(node.this)})"


def cast(writer: Writer, node: exp.Expr) -> str:
    """CAST or TRY_CAST to a type from the list."""
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return f"{word}({writer.within(node.this)} AS {_type(node.args['to'])})"


def convert(writer: Writer, node: exp.Expr) -> str:
    """CONVERT or TRY_CONVERT to a type from the list."""
    style = node.args.get("style")
    words = [_type(node.this), writer.within(node.args.get("expression"))]
    words += [] if style is None else [digits(style)]
    return f"{'TRY_' if node.args.get('safe') else ''}CONVERT({', '.join(words)})"


def _type(node: exp.Expr) -> str:
    """A type of the server's own. Raises Unwritable for any other."""
    name = getattr(node.this, "name", "")
    others = {key for key, value in node.args.items() if value} - {"this", "expressions", "nested"}
    lengths = [
        _length(parameter.this) for parameter in node.expressions if isinstance(parameter, exp.DataTypeParam)
    ]
    plain = len(lengths) == len(node.expressions) and name in _TYPES
    if not plain or others or (lengths and name not in _WITH_LENGTH):
        raise Unwritable(f"a conversion to {node.sql('tsql')[:60]!r} is not in the list")
    return _TYPES[name] + (f"({', '.join(lengths)})" if lengths else "")


def _length(node: exp.Expr) -> str:
    return "MAX" if isinstance(node, exp.Var) and node.name.upper() == "MAX" else digits(node)
