"""How functions and casts are written in conditions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from adapters.postgres.conditions.operators import equal
from adapters.source.conditions import nodes
from adapters.source.conditions.writer import Unwritable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.source.conditions.writer import Writer

CONSTRUCTS: Final = frozenset({"coalesce", "greatest", "least"})
"""Keywords that look like functions and have no schema."""

QUANTIFIERS: Final = frozenset({"all", "some"})
"""Keywords that sqlglot parses as functions."""
_KINDS: Final = {
    **dict.fromkeys(("SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE", "TEXT", "UUID", "JSON", "JSONB"), ""),
    **dict.fromkeys(("INET", "MONEY", "NAME", "INTERVAL", "TIMESTAMPTZ", "TIMETZ", "VARBINARY"), ""),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "CHAR", "TIME", "TIMESTAMP"), ""),
} | {
    "SMALLINT": "int2",
    "INT": "int4",
    "BIGINT": "int8",
    "BOOLEAN": "bool",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "numeric",
    "CHAR": "bpchar",
    "VARBINARY": "bytea",
}
"""sqlglot's type names, with pg_catalog's name where it differs."""
_WITH_LENGTH: Final = frozenset({"DECIMAL", "VARCHAR", "CHAR", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMETZ"})
_FIELDS: Final = frozenset(
    (
        *("CENTURY", "DAY", "DECADE", "DOW", "DOY", "EPOCH", "HOUR", "ISODOW", "ISOYEAR", "JULIAN"),
        *("MICROSECONDS", "MILLENNIUM", "MILLISECONDS", "MINUTE", "MONTH", "QUARTER", "SECOND", "TIMEZONE"),
        *("TIMEZONE_HOUR", "TIMEZONE_MINUTE", "WEEK", "YEAR"),
    )
)


def _function(writer: Writer, name: str, arguments: Sequence[exp.Expr]) -> str:
    written = ", ".join(writer.within(argument) for argument in arguments)
    return f"{name.upper()}({written})" if name in CONSTRUCTS else f"pg_catalog.{name}({written})"


def _null_if(writer: Writer, arguments: Sequence[exp.Expr]) -> str:
    """NULLIF; the server would look for any operator named `=`."""
    one, other = (writer.within(argument) for argument in arguments)
    return f"(CASE WHEN {equal(one, other)} THEN NULL ELSE {one} END)"


def call(writer: Writer, name: str, arguments: Sequence[exp.Expr]) -> str:
    """A function from the list, NULLIF, or a quantifier."""
    if name == "nullif" and len(arguments) == 2:
        return _null_if(writer, arguments)
    if name in QUANTIFIERS and len(arguments) == 1:
        return f"{name.upper()} ({writer.within(arguments[0])})"
    return _function(writer, name, arguments)


def extract(writer: Writer, node: exp.Expr) -> str:
    """EXTRACT with a field from the list."""
    field = str(node.this.name).upper()
    if field not in _FIELDS:
        raise Unwritable(f"{field[:40]!r} is no field that can be extracted")
    return f"EXTRACT({field} FROM {writer.within(node.args.get('expression'))})"


def substring(writer: Writer, node: exp.Expr) -> str:
    """SUBSTRING."""
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return f"pg_catalog.substring({', '.join(writer.within(part) for part in parts if part is not None)})"


def trim(writer: Writer, node: exp.Expr) -> str:
    """TRIM."""
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "btrim")
    parts = [node.this, node.args.get("expression")]
    return f"pg_catalog.{function}({', '.join(writer.within(part) for part in parts if part is not None)})"


def position(writer: Writer, node: exp.Expr) -> str:
    """POSITION."""
    text, part = writer.within(node.this), writer.within(node.args.get("substr"))
    return f"pg_catalog.strpos({text}, {part})"


def time_zone(writer: Writer, node: exp.Expr) -> str:
    """AT TIME ZONE."""
    moment, zone = writer.operand(node.this, node), writer.operand(node.args.get("zone"), node, left=False)
    return f"pg_catalog.timezone({zone}, {moment})"


def cast(writer: Writer, node: exp.Expr) -> str:
    """CAST to a type from the list."""
    return f"CAST({writer.within(node.this)} AS {_type(node.args['to'])})"


def _type(node: exp.Expr) -> str:
    """A type of pg_catalog, or an array of one. Raises Unwritable for any other."""
    kind = node.this
    if isinstance(kind, exp.Interval) and not any(kind.args.values()):
        return "pg_catalog.interval"
    name = getattr(kind, "name", "")
    others = {key for key, value in node.args.items() if value} - {"this", "expressions", "nested"}
    if name == "ARRAY" and not others and len(node.expressions) == 1:
        return f"{_type(node.expressions[0])}[]"
    if name not in _KINDS or others or (node.expressions and name not in _WITH_LENGTH):
        raise Unwritable(f"a cast to {node.sql('postgres')[:60]!r} is not in the list")
    lengths = [
        nodes.digits(parameter.this)
        for parameter in node.expressions
        if isinstance(parameter, exp.DataTypeParam) and isinstance(parameter.this, exp.Literal)
    ]
    if len(lengths) < len(node.expressions):
        raise Unwritable(f"a cast to {node.sql('postgres')[:60]!r} is not in the list")
    if name == "CHAR" and not lengths:
        lengths = ["1"]
    plain = _KINDS[name] or name.lower()
    return f"pg_catalog.{plain}" + (f"({', '.join(lengths)})" if lengths else "")
