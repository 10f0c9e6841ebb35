"""Conditions of signals and SELECT overrides, as T-SQL: what they may contain, and how they are written.

The server would run a batch of statements, so a condition that leaves its brackets must never reach it. A
SELECT in brackets can't have an order. User-defined functions need a schema name before them, which no
condition may contain; so functions without one are the server's. Owns the use of sqlglot for T-SQL. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.errors import SqlglotError
from sqlglot.parsers.tsql import TSQLParser

from adapters.source.conditions import (
    Found,
    Grammar,
    Unwritable,
    bracket,
    call,
    case,
    chain,
    column,
    digits,
    infix,
    negation,
    null,
    null_test,
)
from adapters.sqlserver.server.tsql import quote_ident, quote_literal
from engine.errors import ConfigError, SignalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import Token

    from adapters.source.conditions import Reference, Writer, Writing
    from adapters.sqlserver.server.table import Column
    from engine.model import CollectionId

_SYNTAX: Final = ("CAST", "CONVERT", "TRIM", "TRY_CAST", "TRY_CONVERT")
"""Functions whose arguments contain keywords or types."""
_ALIAS: Final = "t"
"""The table's alias where rows are read."""
_BRACKETS: Final = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_DRIVERS: Final = frozenset({TokenType.L_BRACE, TokenType.R_BRACE, TokenType.PLACEHOLDER})
_STATEMENTS: Final = (exp.Command, exp.DDL, exp.DML, exp.Drop, exp.Alter, exp.Set, exp.Use)
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_COLLATION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,100}")

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
_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
_SUMS: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.Add, exp.Sub, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor),
)
_PREDICATES: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.Between, exp.In, exp.Like, exp.Escape, exp.Is),
)
_PRECEDENCE: Final[dict[type[exp.Expr], int]] = {
    exp.Or: 1,
    exp.And: 2,
    exp.Not: 3,
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


class _TSql(TSQL):
    """T-SQL's grammar without sqlglot's own parsing of functions."""

    class Parser(TSQLParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: TSQLParser.FUNCTION_PARSERS[name] for name in _SYNTAX
        }


# How nodes are written.


def _literal(_writer: Writer, node: exp.Expr) -> str:
    return quote_literal(str(node.this))[1:] if node.args["is_string"] else digits(node)


def _national(_writer: Writer, node: exp.Expr) -> str:
    return quote_literal(str(node.this))


def _bytes(_writer: Writer, node: exp.Expr) -> str:
    text = str(node.this)
    if not _HEX.fullmatch(text):
        raise Unwritable("it has bytes that are no hexadecimal digits")
    return f"0x{text}"


def _between(writer: Writer, node: exp.Expr) -> str:
    low, high = (writer.operand(node.args.get(name), node, left=False) for name in ("low", "high"))
    return f"({writer.operand(node.this, node)} BETWEEN {low} AND {high})"


def _among(writer: Writer, node: exp.Expr) -> str:
    values = ", ".join(writer.within(expression) for expression in node.expressions)
    return f"({writer.operand(node.this, node)} IN ({values}))"


def _like(writer: Writer, node: exp.Expr) -> str:
    word = "NOT LIKE" if node.args.get("negate") else "LIKE"
    pattern = writer.operand(node.args.get("expression"), node, left=False)
    return f"({writer.operand(node.this, node)} {word} {pattern})"


def _escape(writer: Writer, node: exp.Expr) -> str:
    like = node.this
    if not isinstance(like, exp.Like):
        writer.refuse(node)
    writer.known(like)
    return f"({_like(writer, like)[1:-1]} ESCAPE {writer.within(node.args.get('expression'))})"


def _minus(writer: Writer, node: exp.Expr) -> str:
    return f"(- {writer.operand(node.this, node)})"


def _bitwise_not(writer: Writer, node: exp.Expr) -> str:
    return f"(~ {writer.operand(node.this, node)})"


def _collate(writer: Writer, node: exp.Expr) -> str:
    name = str(getattr(node.args.get("expression"), "name", ""))
    if not _COLLATION.fullmatch(name):
        raise Unwritable("it names a collation that can't be one")
    return f"({writer.operand(node.this, node)} COLLATE {name})"


def _now(_writer: Writer, _node: exp.Expr) -> str:
    return "CURRENT_TIMESTAMP"


def _call(writer: Writer, name: str, arguments: Sequence[exp.Expr]) -> str:
    written = []
    if name in _DATED and arguments:
        first, *arguments = arguments
        part = str(first.name).lower() if isinstance(first, (exp.Column, exp.Var)) else ""
        if part not in _DATE_PARTS:
            raise Unwritable(f"{part[:40]!r} is no part of a date")
        written = [part.upper()]
    written += [writer.within(argument) for argument in arguments]
    return f"{name.upper()}({', '.join(written)})"


def _trim(writer: Writer, node: exp.Expr) -> str:
    return f"TRIM({writer.within(node.this)})"


def _cast(writer: Writer, node: exp.Expr) -> str:
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    return f"{word}({writer.within(node.this)} AS {_type(node.args['to'])})"


def _convert(writer: Writer, node: exp.Expr) -> str:
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


_BINARY: Final = ("this", "expression")
_WRITINGS: Final[dict[type[exp.Expr], tuple[Writing, tuple[str, ...]]]] = {
    exp.Column: (column, ("this", "table", "db", "catalog")),
    exp.Paren: (bracket, ("this",)),
    exp.Or: (chain("OR"), _BINARY),
    exp.And: (chain("AND"), _BINARY),
    exp.Not: (negation, ("this",)),
    exp.Is: (null_test, (*_BINARY, "negate")),
    **{kind: (infix(sign), (*_BINARY, "typed", "safe")) for kind, sign in _OPERATORS.items()},
    exp.Between: (_between, ("this", "low", "high")),
    exp.In: (_among, ("this", "expressions")),
    exp.Like: (_like, (*_BINARY, "negate")),
    exp.Escape: (_escape, _BINARY),
    exp.Neg: (_minus, ("this",)),
    exp.BitwiseNot: (_bitwise_not, ("this",)),
    exp.Collate: (_collate, _BINARY),
    exp.Case: (case("({} = {})".format), ("this", "ifs", "default")),
    exp.Literal: (_literal, ("this", "is_string")),
    exp.National: (_national, ("this",)),
    exp.HexString: (_bytes, ("this", "is_integer")),
    exp.Null: (null, ()),
    exp.CurrentTimestamp: (_now, ()),
    exp.Anonymous: (call, ("this", "expressions")),
    exp.Trim: (_trim, ("this",)),
    exp.Cast: (_cast, ("this", "to")),
    exp.TryCast: (_cast, ("this", "to", "safe", "requires_string")),
    exp.Convert: (_convert, ("this", "expression", "style", "safe")),
}
GRAMMAR: Final = Grammar(
    dialect=_TSql,
    writings=_WRITINGS,
    functions=FUNCTIONS,
    call=_call,
    precedence=_PRECEDENCE,
    chained=_CHAINED,
)


def finder(columns: Sequence[Column], table: str) -> Callable[[Reference], Found | None]:
    """A function that finds a table's columns by name: exact, else ignoring case."""
    names = [column.name for column in columns]

    def find(reference: Reference) -> Found | None:
        if reference.qualifiers and reference.qualifiers[-1].lower() not in {_ALIAS, table.lower()}:
            return None
        exact = [name for name in names if name == reference.name]
        found = exact or [name for name in names if name.lower() == reference.name.lower()]
        return Found(quote_ident(found[0])) if len(found) == 1 else None

    return find


def check_trusted(condition: str, place: CollectionId | str) -> None:
    """Raise SignalError unless a condition, which may be any SQL, can stand in brackets for every driver."""
    why = _fault(condition)
    if why:
        raise SignalError(f"the condition is no condition of T-SQL: {why}", place=place)


def _fault(condition: str) -> str:
    try:
        tokens = sqlglot.tokenize(condition, read="tsql")
        return _broken(tokens) or _more(
            sqlglot.parse(f"SELECT 1 AS one FROM t WHERE ({condition}\n)", read="tsql")
        )
    except SqlglotError as error:
        return str(error).splitlines()[0].split(". Line")[0].rstrip(".:")
    except RecursionError:
        return "it is nested too deeply"


def _broken(tokens: Sequence[Token]) -> str:
    """Why a text would leave its brackets or be misread by a driver; empty if it would not."""
    depth = 0
    for token in tokens:
        depth += _BRACKETS.get(token.token_type, 0)
        if depth < 0:
            return "a bracket is closed that was not opened"
        if token.token_type is TokenType.SEMICOLON:
            return "it holds a semicolon"
        if token.token_type in _DRIVERS:
            return "it holds { or ?, which mean something to JDBC"
    return ""


def _more(parsed: Sequence[exp.Expr | None]) -> str:
    """What a text contains besides a condition; empty if nothing."""
    (select, *others) = parsed
    where = select.args.get("where") if isinstance(select, exp.Select) and not others else None
    if select is None or where is None:
        return "it is more than one statement"
    behind = any(select.args.get(name) for name in ("group", "order", "limit", "having", "options"))
    if behind or not isinstance(where.this, exp.Paren):
        return "it is more than a condition"
    return "it holds a statement" if where.find(*_STATEMENTS) else ""


@lru_cache(maxsize=1_000)
def derived(statement: str, origin: str) -> str:
    """A SELECT of the owner's as it can stand in brackets: without its outer ORDER BY or a semicolon.

    `origin` says in errors where it is from. Raises ConfigError for anything but a SELECT, and for one that
    can't stand in brackets.
    """
    try:
        tokens = sqlglot.tokenize(statement, read="tsql")
        parsed = [
            expression for expression in sqlglot.parse(statement, read="tsql") if expression is not None
        ]
    except SqlglotError as error:
        raise _unfit(origin, str(error).splitlines()[0].split(". Line")[0].rstrip(".:")) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query) or parsed[0].args.get("into"):
        raise _unfit(origin, "it is not one SELECT")
    (query,) = parsed
    if query.args.get("with_"):
        raise _unfit(origin, "WITH can't stand in brackets; write the query where it is used")
    if query.args.get("options") or query.args.get("for_"):
        raise _unfit(origin, "neither OPTION nor FOR can stand in brackets")
    ordered = query.args.get("order") and not query.args.get("limit") and not query.args.get("offset")
    return statement[: _end(tokens, ordered=bool(ordered))].rstrip()


def _end(tokens: Sequence[Token], *, ordered: bool) -> int:
    """Where the query itself ends: before its outer ORDER BY, which comes last, and before a semicolon."""
    depth = 0
    for token in tokens:
        depth += _BRACKETS.get(token.token_type, 0)
        by = ordered and depth == 0 and token.token_type is TokenType.ORDER_BY
        if by or token.token_type is TokenType.SEMICOLON:
            return token.start
    return tokens[-1].end + 1


def _unfit(origin: str, why: str) -> ConfigError:
    return ConfigError(f"{origin} can't be read from: {why}")
