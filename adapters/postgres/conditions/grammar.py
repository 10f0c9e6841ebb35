"""Conditions of signals in PostgreSQL's SQL: what they may contain, and how it is written. Pure.

Every operator and function is written with its schema. Otherwise the server could pick one that somebody
created elsewhere on the search path, and run it with the job's rights. For IN, BETWEEN, CASE and IS DISTINCT
FROM the server looks operators up by the name `=` alone, so these are spelled out as comparisons. The numbers
in `_PRECEDENCE` are the rows of the documentation's table, from OR at 1 to a cast at 15.

https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-PRECEDENCE
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlglot import TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from adapters.postgres.conditions import functions, operators, values
from adapters.source.conditions import nodes
from adapters.source.conditions.writer import Grammar

if TYPE_CHECKING:
    from adapters.source.conditions.writer import Reference, Writing
    from engine.model import CollectionId

_SYNTAX: Final = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
"""Functions whose arguments are separated by keywords."""


_JSON_OPERATORS: Final[dict[TokenType, type[exp.Expr]]] = {
    TokenType.ARROW: exp.JSONExtract,
    TokenType.DARROW: exp.JSONExtractScalar,
    TokenType.HASH_ARROW: exp.JSONBExtract,
    TokenType.DHASH_ARROW: exp.JSONBExtractScalar,
    TokenType.PLACEHOLDER: exp.JSONBContainsTopKey,
}


def _json_operator(kind: type[exp.Expr], _parser: Any, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return kind(this=left, expression=right)


class _Postgres(Postgres):
    """PostgreSQL's grammar, without sqlglot's own parsing of functions, JSON paths and subscripts."""

    INDEX_OFFSET = 0

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: PostgresParser.FUNCTION_PARSERS[name] for name in _SYNTAX
        }
        JSON_OPERATORS: ClassVar[dict[TokenType, Any]] = {
            token: partial(_json_operator, kind) for token, kind in _JSON_OPERATORS.items()
        }


FUNCTIONS: Final = frozenset(
    (
        *("abs", "ceil", "ceiling", "div", "exp", "floor", "ln", "log", "mod", "power", "round", "scale"),
        *("sign", "sqrt", "trunc", "width_bucket", "ascii", "bit_length", "btrim", "char_length"),
        *("character_length", "chr", "concat", "concat_ws", "initcap", "left", "length", "lower", "ltrim"),
        *("md5", "octet_length", "replace", "reverse", "right", "rtrim", "split_part"),
        *("starts_with", "strpos", "substr", "substring", "to_hex", "translate", "upper", "encode", "decode"),
        *("age", "date_part", "date_trunc", "isfinite", "justify_days", "justify_hours", "justify_interval"),
        *("make_date", "make_interval", "make_time", "make_timestamp", "make_timestamptz", "now", "to_char"),
        *("statement_timestamp", "transaction_timestamp", "to_date", "to_number", "to_timestamp", "timezone"),
        *("array_length", "array_lower", "array_position", "array_ndims", "array_upper", "cardinality"),
        *("json_array_length", "json_typeof", "json_extract_path_text", "jsonb_array_length", "jsonb_exists"),
        *("jsonb_exists_all", "jsonb_exists_any", "jsonb_extract_path", "jsonb_extract_path_text"),
        *("jsonb_typeof", "num_nonnulls", "num_nulls", "hashtext", "hashint4", "hashint8", "family", "host"),
        *("masklen", "network", "lower_inc", "lower_inf", "upper_inc", "upper_inf", "isempty", "uuid_send"),
    )
)
"""Functions of pg_catalog that change nothing and return the same for the same row throughout a query.

Not included: functions that allocate memory by a number (repeat, lpad), that query the system
(current_setting, pg_sleep, pg_read_file), or that turn text into SQL.
"""
_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    **nodes.COMPARISONS,
    **nodes.ARITHMETIC,
    exp.Pow: "^",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "#",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
}
_JSON_TESTS: Final[dict[type[exp.Expr], str]] = {
    exp.JSONBContainsTopKey: "jsonb_exists",
    exp.JSONBContainsAnyTopKeys: "jsonb_exists_any",
    exp.JSONBContainsAllTopKeys: "jsonb_exists_all",
}
_JSON_TESTED: Final[tuple[type[exp.Expr], ...]] = tuple(_JSON_TESTS)
_OTHER: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.RegexpLike, exp.RegexpILike, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract),
    *(exp.JSONBExtractScalar, exp.ArrayContainsAll, exp.ArrayContainedBy, exp.ArrayOverlaps),
    *_JSON_TESTED,
)
_PRECEDENCE: Final[dict[type[exp.Expr], int]] = {
    **nodes.CONNECTIVES,
    exp.Is: 4,
    exp.NullSafeEQ: 4,
    exp.NullSafeNEQ: 4,
    **dict.fromkeys(nodes.COMPARISONS, 5),
    **dict.fromkeys((exp.Between, exp.In, exp.Like, exp.ILike, exp.SimilarTo, exp.Escape), 6),
    **dict.fromkeys(_OTHER, 7),
    **dict.fromkeys((exp.Add, exp.Sub), 8),
    **dict.fromkeys((exp.Mul, exp.Div, exp.Mod), 9),
    exp.Pow: 10,
    exp.AtTimeZone: 11,
    exp.Collate: 12,
    exp.Neg: 13,
    exp.BitwiseNot: 7,
}
_CHAINED: Final[frozenset[type[exp.Expr]]] = frozenset(
    (
        exp.Or,
        exp.And,
        exp.Not,
        exp.Is,
        *_OTHER,
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Mod,
        exp.Pow,
        exp.Neg,
        exp.AtTimeZone,
    )
)
_WORDS: Final = frozenset(
    (
        "current_catalog",
        "current_role",
        "current_schema",
        "current_user",
        "session_user",
        "system_user",
        "user",
    )
)
"""Names that the server does not take for a column unless they are quoted."""


def named_column(reference: Reference, table: CollectionId) -> str | None:
    """The table's column that is meant, as the server folds its name; None for another table's column."""
    before = [name.lower() for name in reference.qualifiers]
    if before not in ([], [table.parts[-1].lower()], [part.lower() for part in table.parts]):
        return None
    if reference.quoted:
        return reference.name
    name = "".join(sign.lower() if sign.isascii() else sign for sign in reference.name)
    return None if name in _WORDS else name


_WRITINGS: Final[dict[type[exp.Expr], tuple[Writing, tuple[str, ...]]]] = {
    exp.Column: (nodes.column, ("this", "table", "db", "catalog")),
    exp.Paren: (nodes.bracket, ("this",)),
    exp.Or: (nodes.chain("OR"), ("this", "expression")),
    exp.And: (nodes.chain("AND"), ("this", "expression")),
    exp.Not: (nodes.negation, ("this",)),
    exp.Is: (nodes.null_test, ("this", "expression", "negate")),
    exp.NullSafeEQ: (operators.distinct(negated=False), ("this", "expression")),
    exp.NullSafeNEQ: (operators.distinct(negated=True), ("this", "expression")),
    **{
        kind: (operators.infix(sign), ("this", "expression", "typed", "safe", "only_json_types"))
        for kind, sign in _OPERATORS.items()
    },
    **{
        kind: (operators.json_test(function), ("this", "expression"))
        for kind, function in _JSON_TESTS.items()
    },
    exp.Between: (operators.between, ("this", "low", "high")),
    exp.In: (operators.among, ("this", "expressions")),
    exp.Like: (operators.like, ("this", "expression", "negate")),
    exp.ILike: (operators.like, ("this", "expression", "negate")),
    exp.RegexpLike: (operators.regex("~"), ("this", "expression")),
    exp.RegexpILike: (operators.regex("~*"), ("this", "expression")),
    exp.Escape: (operators.escape, ("this", "expression")),
    exp.SimilarTo: (operators.similar, ("this", "expression")),
    exp.Any: (operators.quantified("ANY"), ("this",)),
    exp.All: (operators.quantified("ALL"), ("this",)),
    exp.Neg: (operators.minus, ("this",)),
    exp.BitwiseNot: (operators.bitwise_not, ("this",)),
    exp.Collate: (operators.collate, ("this", "expression")),
    exp.Bracket: (operators.subscript, ("this", "expressions")),
    exp.Case: (nodes.case(operators.equal), ("this", "ifs", "default")),
    exp.Literal: (values.literal, ("this", "is_string")),
    exp.RawString: (values.raw, ("this",)),
    exp.ByteString: (values.raw, ("this",)),
    exp.Boolean: (values.boolean, ("this",)),
    exp.Null: (nodes.null, ()),
    exp.Array: (values.array, ("expressions",)),
    exp.Tuple: (values.row, ("expressions",)),
    exp.Interval: (values.interval, ("this", "unit")),
    exp.CurrentTimestamp: (values.keyword("CURRENT_TIMESTAMP"), ()),
    exp.CurrentDate: (values.keyword("CURRENT_DATE"), ()),
    exp.Localtimestamp: (values.keyword("LOCALTIMESTAMP"), ()),
    exp.Anonymous: (nodes.call, ("this", "expressions")),
    exp.Extract: (functions.extract, ("this", "expression")),
    exp.Substring: (functions.substring, ("this", "start", "length")),
    exp.Trim: (functions.trim, ("this", "expression", "position")),
    exp.StrPosition: (functions.position, ("this", "substr")),
    exp.AtTimeZone: (functions.time_zone, ("this", "zone")),
    exp.Cast: (functions.cast, ("this", "to")),
}

GRAMMAR: Final = Grammar(
    dialect=_Postgres,
    writings=_WRITINGS,
    functions=FUNCTIONS | functions.CONSTRUCTS | functions.QUANTIFIERS | {"nullif"},
    call=functions.call,
    precedence=_PRECEDENCE,
    chained=_CHAINED,
)
