"""Conditions of signals in T-SQL: what they may contain. Pure.

User-defined functions need a schema name before them, which no condition may contain; so functions without
one are the server's. `writings` says how nodes are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.parsers.tsql import TSQLParser

from adapters.source.conditions import nodes
from adapters.source.conditions.writer import Grammar, ResolvedColumn
from adapters.sqlserver.conditions import writings
from adapters.sqlserver.server.tsql import quote_ident

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.source.conditions.writer import Reference, Writing
    from adapters.sqlserver.server.table import Column

_SYNTAX: Final = ("CAST", "CONVERT", "TRIM", "TRY_CAST", "TRY_CONVERT")
"""Functions whose arguments contain keywords or types."""
_ALIAS: Final = "t"
"""The table's alias where rows are read."""

FUNCTIONS: Final = frozenset(
    (
        *("abs", "acos", "asin", "atan", "atn2", "ceiling", "cos", "cot", "degrees", "exp", "floor", "log"),
        *(
            "log10",
            "pi",
            "power",
            "radians",
            "round",
            "sign",
            "sin",
            "sqrt",
            "square",
            "tan",
            "ascii",
            "char",
        ),
        *("charindex", "concat", "concat_ws", "datalength", "difference", "left", "len", "lower", "ltrim"),
        *(
            "nchar",
            "patindex",
            "quotename",
            "replace",
            "reverse",
            "right",
            "rtrim",
            "soundex",
            "str",
            "stuff",
        ),
        *(
            "substring",
            "translate",
            "unicode",
            "upper",
            "dateadd",
            "datediff",
            "datediff_big",
            "datefromparts",
        ),
        *("datename", "datepart", "datetime2fromparts", "datetimefromparts", "day", "eomonth", "getdate"),
        *("getutcdate", "isdate", "month", "switchoffset", "sysdatetime", "sysdatetimeoffset"),
        *("sysutcdatetime", "timefromparts", "todatetimeoffset", "year", "binary_checksum", "checksum"),
        *(
            "choose",
            "coalesce",
            "greatest",
            "hashbytes",
            "iif",
            "isjson",
            "isnull",
            "isnumeric",
            "json_query",
        ),
        *("json_value", "least", "nullif"),
    )
)
"""Functions of the server without side effects, and with one result per row throughout a query.

Excluded: functions that allocate memory by a number (REPLICATE, SPACE), random ones (NEWID, RAND), and ones
that query the system.
"""
_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    **nodes.COMPARISONS,
    **nodes.ARITHMETIC,
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
_SUMS: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.Add, exp.Sub, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor),
)
_PREDICATES: Final[tuple[type[exp.Expr], ...]] = (
    *nodes.COMPARISONS,
    *(exp.Between, exp.In, exp.Like, exp.Escape, exp.Is),
)
_PRECEDENCE: Final[dict[type[exp.Expr], int]] = {
    **nodes.CONNECTIVES,
    **dict.fromkeys(_PREDICATES, 5),
    **dict.fromkeys(_SUMS, 8),
    exp.Mul: 9,
    exp.Div: 9,
    exp.Mod: 9,
    exp.Collate: 12,
    exp.Neg: 13,
    exp.BitwiseNot: 13,
}
_CHAINED: Final[frozenset[type[exp.Expr]]] = frozenset(
    (exp.Or, exp.And, exp.Not, *_SUMS, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.BitwiseNot)
)


class _TSql(TSQL):
    """T-SQL's grammar without sqlglot's own parsing of functions."""

    class Parser(TSQLParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: TSQLParser.FUNCTION_PARSERS[name] for name in _SYNTAX
        }


_BINARY: Final = ("this", "expression")
_WRITINGS: Final[dict[type[exp.Expr], tuple[Writing, tuple[str, ...]]]] = {
    exp.Column: (nodes.column, ("this", "table", "db", "catalog")),
    exp.Paren: (nodes.bracket, ("this",)),
    exp.Or: (nodes.chain("OR"), _BINARY),
    exp.And: (nodes.chain("AND"), _BINARY),
    exp.Not: (nodes.negation, ("this",)),
    exp.Is: (nodes.null_test, (*_BINARY, "negate")),
    **{kind: (nodes.infix(sign), (*_BINARY, "typed", "safe")) for kind, sign in _OPERATORS.items()},
    exp.Between: (writings.between, ("this", "low", "high")),
    exp.In: (writings.among, ("this", "expressions")),
    exp.Like: (writings.like, (*_BINARY, "negate")),
    exp.Escape: (writings.escape, _BINARY),
    exp.Neg: (writings.minus, ("this",)),
    exp.BitwiseNot: (writings.bitwise_not, ("this",)),
    exp.Collate: (writings.collate, _BINARY),
    exp.Case: (nodes.case("({} = {})".format), ("this", "ifs", "default")),
    exp.Literal: (writings.literal, ("this", "is_string")),
    exp.National: (writings.national, ("this",)),
    exp.HexString: (writings.binary, ("this", "is_integer")),
    exp.Null: (nodes.null, ()),
    exp.CurrentTimestamp: (writings.now, ()),
    exp.Anonymous: (nodes.call, ("this", "expressions")),
    exp.Trim: (writings.trim, ("this",)),
    exp.Cast: (writings.cast, ("this", "to")),
    exp.TryCast: (writings.cast, ("this", "to", "safe", "requires_string")),
    exp.Convert: (writings.convert, ("this", "expression", "style", "safe")),
}
GRAMMAR: Final = Grammar(
    dialect=_TSql,
    writings=_WRITINGS,
    functions=FUNCTIONS,
    call=writings.call,
    precedence=_PRECEDENCE,
    chained=_CHAINED,
)


def finder(columns: Sequence[Column], table: str) -> Callable[[Reference], ResolvedColumn | None]:
    """A function that finds a table's columns by name: exact, else ignoring case."""
    names = [column.name for column in columns]

    def find(reference: Reference) -> ResolvedColumn | None:
        if reference.qualifiers and reference.qualifiers[-1].lower() not in {_ALIAS, table.lower()}:
            return None
        exact = [name for name in names if name == reference.name]
        found = exact or [name for name in names if name.lower() == reference.name.lower()]
        return ResolvedColumn(quote_ident(found[0])) if len(found) == 1 else None

    return find
