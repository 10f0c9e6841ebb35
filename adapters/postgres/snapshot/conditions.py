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

from adapters.postgres.server.sql import quote_literal
from adapters.source.conditions import (
    Grammar,
    Unwritable,
    Writer,
    Writing,
    bracket,
    call,
    case,
    chain,
    column,
    digits,
    named,
    negation,
    null,
    null_test,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.source.conditions import Found, Reference
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
_CONSTRUCTS: Final = frozenset({"coalesce", "greatest", "least"})
"""Keywords that look like functions and have no schema."""

_QUANTIFIERS: Final = frozenset({"all", "some"})
"""Keywords that sqlglot parses as functions."""

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
_COMPARISONS: Final[tuple[type[exp.Expr], ...]] = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
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
    exp.Or: 1,
    exp.And: 2,
    exp.Not: 3,
    exp.Is: 4,
    exp.NullSafeEQ: 4,
    exp.NullSafeNEQ: 4,
    **dict.fromkeys(_COMPARISONS, 5),
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
_COLLATIONS: Final = frozenset({"C", "POSIX", "default", "ucs_basic"})
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
_UNITS: Final = frozenset(
    {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "DECADE"}
)
_FIELDS: Final = frozenset(
    (
        *("CENTURY", "DAY", "DECADE", "DOW", "DOY", "EPOCH", "HOUR", "ISODOW", "ISOYEAR", "JULIAN"),
        *("MICROSECONDS", "MILLENNIUM", "MILLISECONDS", "MINUTE", "MONTH", "QUARTER", "SECOND", "TIMEZONE"),
        *("TIMEZONE_HOUR", "TIMEZONE_MINUTE", "WEEK", "YEAR"),
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


# Operators.


def _operator(writer: Writer, sign: str, *operands: exp.Expr | None) -> str:
    """An operator of pg_catalog, or of the schema of its operands' type if an extension defines that."""
    numbers = [number for operand in operands if (number := writer.reference(operand)) is not None]

    def schema(found: Sequence[Found]) -> str:
        return next((found[at].operators for at in numbers if found[at].operators), "pg_catalog")

    return f"OPERATOR({writer.gap(schema)}.{sign})" if numbers else f"OPERATOR(pg_catalog.{sign})"


def _infix(sign: str) -> Writing:
    def write(writer: Writer, node: exp.Expr) -> str:
        left, right = node.this, node.args.get("expression")
        operator = _operator(writer, sign, left, right)
        return f"({writer.operand(left, node)} {operator} {writer.operand(right, node, left=False)})"

    return write


def _json_test(function: str) -> Writing:
    def write(writer: Writer, node: exp.Expr) -> str:
        left = writer.operand(node.this, node)
        return (
            f"pg_catalog.{function}({left}, {writer.operand(node.args.get('expression'), node, left=False)})"
        )

    return write


def _equal(left: str, right: str) -> str:
    return f"({left} OPERATOR(pg_catalog.=) {right})"


def _distinct(*, negated: bool) -> Writing:
    """IS [NOT] DISTINCT FROM; the server would look for any operator named `=`."""

    def write(writer: Writer, node: exp.Expr) -> str:
        left, right = node.this, node.args.get("expression")
        operator = _operator(writer, "=", left, right)
        one, other = writer.operand(left, node), writer.operand(right, node, left=False)
        same = f"(({one} {operator} {other}) IS TRUE OR ({one} IS NULL AND {other} IS NULL))"
        return f"(NOT {same})" if negated else same

    return write


def _between(writer: Writer, node: exp.Expr) -> str:
    value, low, high = node.this, node.args.get("low"), node.args.get("high")
    least, most = _operator(writer, ">=", value, low), _operator(writer, "<=", value, high)
    text = writer.operand(value, node)
    bounds = writer.operand(low, node, left=False), writer.operand(high, node, left=False)
    return f"({text} {least} {bounds[0]} AND {text} {most} {bounds[1]})"


def _among(writer: Writer, node: exp.Expr) -> str:
    """IN: one comparison with an array if all values are of one kind, otherwise one comparison per value."""
    value, among = node.this, node.expressions
    operator, text = _operator(writer, "=", value), writer.operand(value, node)
    values = [writer.within(member) for member in among]
    number = writer.reference(value)
    plain = [member for member in among if not isinstance(member, exp.Null)]
    if number is not None and all(_is_text(member) for member in plain):
        kind = writer.gap(lambda found: found[number].type)
        return f"({text} {operator} ANY (CAST(ARRAY[{', '.join(values)}] AS {kind}[])))"
    if all(isinstance(member, (exp.Literal, exp.Neg)) and not _is_text(member) for member in plain):
        return f"({text} {operator} ANY (ARRAY[{', '.join(values)}]))"
    writer.repeated(text, len(values))
    return f"({' OR '.join(f'({text} {operator} {operand})' for operand in values)})"


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and bool(node.args["is_string"]))


_LIKES: Final[dict[type[exp.Expr], str]] = {exp.Like: "~~", exp.ILike: "~~*"}


def _like(writer: Writer, node: exp.Expr) -> str:
    """LIKE and ILIKE, whose operators have other names."""
    pattern = writer.operand(node.args.get("expression"), node, left=False)
    return f"({writer.operand(node.this, node)} {_like_operator(writer, node)} {pattern})"


def _like_operator(writer: Writer, node: exp.Expr) -> str:
    return _operator(writer, ("!" if node.args.get("negate") else "") + _LIKES[type(node)], node.this)


def _escape(writer: Writer, node: exp.Expr) -> str:
    """LIKE with an ESCAPE character."""
    like = node.this
    if type(like) not in _LIKES:
        writer.refuse(node)
    writer.known(like)
    pattern = writer.operand(like.args.get("expression"), like, left=False)
    escaped = f"pg_catalog.like_escape({pattern}, {writer.within(node.args.get('expression'))})"
    return f"({writer.operand(like.this, like)} {_like_operator(writer, like)} {escaped})"


def _similar(writer: Writer, node: exp.Expr) -> str:
    pattern = writer.operand(node.args.get("expression"), node, left=False)
    value = writer.operand(node.this, node)
    return f"({value} OPERATOR(pg_catalog.~) pg_catalog.similar_escape({pattern}, NULL))"


def _regex(sign: str) -> Writing:
    infix = _infix(sign)

    def write(writer: Writer, node: exp.Expr) -> str:
        if isinstance(node.args.get("expression"), (exp.Any, exp.All)):
            # sqlglot parses both `NOT a ~ ANY …` and `a !~ ANY …` like this
            raise Unwritable(f"{named(node)} with ANY or ALL is not in the list")
        return infix(writer, node)

    return write


def _collate(writer: Writer, node: exp.Expr) -> str:
    name = str(getattr(node.args.get("expression"), "name", ""))
    if name not in _COLLATIONS:
        raise Unwritable(f"the collation {name[:63]!r} is not in the list")
    return f'({writer.operand(node.this, node)} COLLATE pg_catalog."{name}")'


def _subscript(writer: Writer, node: exp.Expr) -> str:
    """One element of an array."""
    (number,) = node.expressions
    if not isinstance(number, exp.Literal) or _is_text(number) or writer.reference(node.this) is None:
        writer.refuse(node)
    return f"({writer.within(node.this)})[{digits(number)}]"


def _quantified(word: str) -> Writing:
    """ANY and ALL of an array."""

    def write(writer: Writer, node: exp.Expr) -> str:
        return f"{word} ({writer.within(node.this)})"

    return write


def _minus(writer: Writer, node: exp.Expr) -> str:
    if isinstance(node.this, exp.Literal) and not _is_text(node.this):
        return f"(-{digits(node.this)})"
    return f"({_operator(writer, '-', node.this)} {writer.operand(node.this, node)})"


def _bitwise_not(writer: Writer, node: exp.Expr) -> str:
    return f"(OPERATOR(pg_catalog.~) {writer.operand(node.this, node, left=False)})"


# Values.


def _literal(_writer: Writer, node: exp.Expr) -> str:
    return quote_literal(str(node.this)) if _is_text(node) else digits(node)


def _raw(_writer: Writer, node: exp.Expr) -> str:
    return quote_literal(str(node.this))


def _boolean(_writer: Writer, node: exp.Expr) -> str:
    return "TRUE" if node.this else "FALSE"


def _array(writer: Writer, node: exp.Expr) -> str:
    return f"ARRAY[{', '.join(writer.within(expression) for expression in node.expressions)}]"


def _row(writer: Writer, node: exp.Expr) -> str:
    return f"ROW({', '.join(writer.within(expression) for expression in node.expressions)})"


def _interval(writer: Writer, node: exp.Expr) -> str:
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


def _keyword(word: str) -> Writing:
    def write(_writer: Writer, _node: exp.Expr) -> str:
        return word

    return write


# Functions and types.


def _function(writer: Writer, name: str, arguments: Sequence[exp.Expr]) -> str:
    written = ", ".join(writer.within(argument) for argument in arguments)
    return f"{name.upper()}({written})" if name in _CONSTRUCTS else f"pg_catalog.{name}({written})"


def _null_if(writer: Writer, arguments: Sequence[exp.Expr]) -> str:
    """NULLIF; the server would look for any operator named `=`."""
    one, other = (writer.within(argument) for argument in arguments)
    return f"(CASE WHEN {_equal(one, other)} THEN NULL ELSE {one} END)"


def _call(writer: Writer, name: str, arguments: Sequence[exp.Expr]) -> str:
    if name == "nullif" and len(arguments) == 2:
        return _null_if(writer, arguments)
    if name in _QUANTIFIERS and len(arguments) == 1:
        return f"{name.upper()} ({writer.within(arguments[0])})"
    return _function(writer, name, arguments)


def _extract(writer: Writer, node: exp.Expr) -> str:
    field = str(node.this.name).upper()
    if field not in _FIELDS:
        raise Unwritable(f"{field[:40]!r} is no field that can be extracted")
    return f"EXTRACT({field} FROM {writer.within(node.args.get('expression'))})"


def _substring(writer: Writer, node: exp.Expr) -> str:
    parts = [node.this, node.args.get("start"), node.args.get("length")]
    return f"pg_catalog.substring({', '.join(writer.within(part) for part in parts if part is not None)})"


def _trim(writer: Writer, node: exp.Expr) -> str:
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "btrim")
    parts = [node.this, node.args.get("expression")]
    return f"pg_catalog.{function}({', '.join(writer.within(part) for part in parts if part is not None)})"


def _position(writer: Writer, node: exp.Expr) -> str:
    text, part = writer.within(node.this), writer.within(node.args.get("substr"))
    return f"pg_catalog.strpos({text}, {part})"


def _time_zone(writer: Writer, node: exp.Expr) -> str:
    moment, zone = writer.operand(node.this, node), writer.operand(node.args.get("zone"), node, left=False)
    return f"pg_catalog.timezone({zone}, {moment})"


def _cast(writer: Writer, node: exp.Expr) -> str:
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
        digits(parameter.this)
        for parameter in node.expressions
        if isinstance(parameter, exp.DataTypeParam) and isinstance(parameter.this, exp.Literal)
    ]
    if len(lengths) < len(node.expressions):
        raise Unwritable(f"a cast to {node.sql('postgres')[:60]!r} is not in the list")
    if name == "CHAR" and not lengths:
        lengths = ["1"]
    plain = _KINDS[name] or name.lower()
    return f"pg_catalog.{plain}" + (f"({', '.join(lengths)})" if lengths else "")


_WRITINGS: Final[dict[type[exp.Expr], tuple[Callable[[Writer, exp.Expr], str], tuple[str, ...]]]] = {
    exp.Column: (column, ("this", "table", "db", "catalog")),
    exp.Paren: (bracket, ("this",)),
    exp.Or: (chain("OR"), ("this", "expression")),
    exp.And: (chain("AND"), ("this", "expression")),
    exp.Not: (negation, ("this",)),
    exp.Is: (null_test, ("this", "expression", "negate")),
    exp.NullSafeEQ: (_distinct(negated=False), ("this", "expression")),
    exp.NullSafeNEQ: (_distinct(negated=True), ("this", "expression")),
    **{
        kind: (_infix(sign), ("this", "expression", "typed", "safe", "only_json_types"))
        for kind, sign in _OPERATORS.items()
    },
    **{kind: (_json_test(function), ("this", "expression")) for kind, function in _JSON_TESTS.items()},
    exp.Between: (_between, ("this", "low", "high")),
    exp.In: (_among, ("this", "expressions")),
    exp.Like: (_like, ("this", "expression", "negate")),
    exp.ILike: (_like, ("this", "expression", "negate")),
    exp.RegexpLike: (_regex("~"), ("this", "expression")),
    exp.RegexpILike: (_regex("~*"), ("this", "expression")),
    exp.Escape: (_escape, ("this", "expression")),
    exp.SimilarTo: (_similar, ("this", "expression")),
    exp.Any: (_quantified("ANY"), ("this",)),
    exp.All: (_quantified("ALL"), ("this",)),
    exp.Neg: (_minus, ("this",)),
    exp.BitwiseNot: (_bitwise_not, ("this",)),
    exp.Collate: (_collate, ("this", "expression")),
    exp.Bracket: (_subscript, ("this", "expressions")),
    exp.Case: (case(_equal), ("this", "ifs", "default")),
    exp.Literal: (_literal, ("this", "is_string")),
    exp.RawString: (_raw, ("this",)),
    exp.ByteString: (_raw, ("this",)),
    exp.Boolean: (_boolean, ("this",)),
    exp.Null: (null, ()),
    exp.Array: (_array, ("expressions",)),
    exp.Tuple: (_row, ("expressions",)),
    exp.Interval: (_interval, ("this", "unit")),
    exp.CurrentTimestamp: (_keyword("CURRENT_TIMESTAMP"), ()),
    exp.CurrentDate: (_keyword("CURRENT_DATE"), ()),
    exp.Localtimestamp: (_keyword("LOCALTIMESTAMP"), ()),
    exp.Anonymous: (call, ("this", "expressions")),
    exp.Extract: (_extract, ("this", "expression")),
    exp.Substring: (_substring, ("this", "start", "length")),
    exp.Trim: (_trim, ("this", "expression", "position")),
    exp.StrPosition: (_position, ("this", "substr")),
    exp.AtTimeZone: (_time_zone, ("this", "zone")),
    exp.Cast: (_cast, ("this", "to")),
}

GRAMMAR: Final = Grammar(
    dialect=_Postgres,
    writings=_WRITINGS,
    functions=FUNCTIONS | _CONSTRUCTS | _QUANTIFIERS | {"nullif"},
    call=_call,
    precedence=_PRECEDENCE,
    chained=_CHAINED,
)
