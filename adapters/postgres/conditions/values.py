"""How literals, arrays and rows are written in conditions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from adapters.postgres.server.sql import quote_literal
from adapters.source.conditions import nodes

if TYPE_CHECKING:
    from adapters.source.conditions.writer import Writer, Writing

_UNITS: Final = frozenset(
    {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "DECADE"}
)


def literal(_writer: Writer, node: exp.Expr) -> str:
    """A string or a number."""
    return quote_literal(str(node.this)) if nodes.is_text(node) else nodes.digits(node)


def raw(_writer: Writer, node: exp.Expr) -> str:
    """A string without escapes."""
    return quote_literal(str(node.this))


def boolean(_writer: Writer, node: exp.Expr) -> str:
    """TRUE or FALSE."""
    return "TRUE" if node.this else "FALSE"


def array(writer: Writer, node: exp.Expr) -> str:
    """An array."""
    return f"ARRAY[{', '.join(writer.within(expression) for expression in node.expressions)}]"


def row(writer: Writer, node: exp.Expr) -> str:
    """A row."""
    return f"ROW({', '.join(writer.within(expression) for expression in node.expressions)})"


def interval(writer: Writer, node: exp.Expr) -> str:
    """An interval, perhaps with a unit from the list."""
    value, unit = node.this, node.args.get("unit")
    if not isinstance(value, exp.Literal):
        writer.refuse(node)
    text = str(value.this)
    if unit is not None:
        word = str(unit.name).upper()
        if not isinstance(unit, exp.Var) or word.removesuffix("S") not in _UNITS:
            writer.refuse(node)
        text = f"{text} {word}"
    return f"CAST({quote_literal(text)} AS pg_catalog.interval)"


def keyword(word: str) -> Writing:
    """A word that stands for a value."""

    def write(_writer: Writer, _node: exp.Expr) -> str:
        return word

    return write
