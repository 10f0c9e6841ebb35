"""How operators are written in conditions: each with its schema. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from adapters.source.conditions import nodes
from adapters.source.conditions.writer import Unwritable, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.source.conditions.writer import ResolvedColumn, Writer, Writing

_COLLATIONS: Final = frozenset({"C", "POSIX", "default", "ucs_basic"})


def _operator(writer: Writer, sign: str, *operands: exp.Expr | None) -> str:
    """An operator of pg_catalog, or of the schema of its operands' type if an extension defines that."""
    numbers = [number for operand in operands if (number := writer.reference(operand)) is not None]

    def schema(found: Sequence[ResolvedColumn]) -> str:
        return next((found[at].operators for at in numbers if found[at].operators), "pg_catalog")

    return f"OPERATOR({writer.gap(schema)}.{sign})" if numbers else f"OPERATOR(pg_catalog.{sign})"


def infix(sign: str) -> Writing:
    """An operator between two operands."""

    def write(writer: Writer, node: exp.Expr) -> str:
        left, right = node.this, node.args.get("expression")
        operator = _operator(writer, sign, left, right)
        return f"({writer.operand(left, node)} {operator} {writer.operand(right, node, left=False)})"

    return write


def json_test(function: str) -> Writing:
    """A test for JSON keys, as a function; the driver would take the operator's `?` for a parameter."""

    def write(writer: Writer, node: exp.Expr) -> str:
        left = writer.operand(node.this, node)
        return (
            f"pg_catalog.{function}({left}, {writer.operand(node.args.get('expression'), node, left=False)})"
        )

    return write


def equal(left: str, right: str) -> str:
    """A comparison of two texts."""
    return f"({left} OPERATOR(pg_catalog.=) {right})"


def distinct(*, negated: bool) -> Writing:
    """IS [NOT] DISTINCT FROM; the server would look for any operator named `=`."""

    def write(writer: Writer, node: exp.Expr) -> str:
        left, right = node.this, node.args.get("expression")
        operator = _operator(writer, "=", left, right)
        one, other = writer.operand(left, node), writer.operand(right, node, left=False)
        same = f"(({one} {operator} {other}) IS TRUE OR ({one} IS NULL AND {other} IS NULL))"
        return f"(NOT {same})" if negated else same

    return write


def between(writer: Writer, node: exp.Expr) -> str:
    """BETWEEN, as two comparisons."""
    value, low, high = node.this, node.args.get("low"), node.args.get("high")
    least, most = _operator(writer, ">=", value, low), _operator(writer, "<=", value, high)
    text = writer.operand(value, node)
    bounds = writer.operand(low, node, left=False), writer.operand(high, node, left=False)
    return f"({text} {least} {bounds[0]} AND {text} {most} {bounds[1]})"


def among(writer: Writer, node: exp.Expr) -> str:
    """IN: one comparison with an array if all values are of one kind, otherwise one comparison per value."""
    value, among = node.this, node.expressions
    operator, text = _operator(writer, "=", value), writer.operand(value, node)
    values = [writer.within(member) for member in among]
    number = writer.reference(value)
    plain = [member for member in among if not isinstance(member, exp.Null)]
    if number is not None and all(nodes.is_text(member) for member in plain):
        kind = writer.gap(lambda found: found[number].type)
        return f"({text} {operator} ANY (CAST(ARRAY[{', '.join(values)}] AS {kind}[])))"
    if all(isinstance(member, (exp.Literal, exp.Neg)) and not nodes.is_text(member) for member in plain):
        return f"({text} {operator} ANY (ARRAY[{', '.join(values)}]))"
    writer.repeated(text, len(values))
    return f"({' OR '.join(f'({text} {operator} {operand})' for operand in values)})"


_LIKES: Final[dict[type[exp.Expr], str]] = {exp.Like: "~~", exp.ILike: "~~*"}


def like(writer: Writer, node: exp.Expr) -> str:
    """LIKE and ILIKE, whose operators have other names."""
    pattern = writer.operand(node.args.get("expression"), node, left=False)
    return f"({writer.operand(node.this, node)} {_like_operator(writer, node)} {pattern})"


def _like_operator(writer: Writer, node: exp.Expr) -> str:
    return _operator(writer, ("!" if node.args.get("negate") else "") + _LIKES[type(node)], node.this)


def escape(writer: Writer, node: exp.Expr) -> str:
    """LIKE with an ESCAPE character."""
    like = node.this
    if type(like) not in _LIKES:
        writer.refuse(node)
    writer.known(like)
    pattern = writer.operand(like.args.get("expression"), like, left=False)
    escaped = f"pg_catalog.like_escape({pattern}, {writer.within(node.args.get('expression'))})"
    return f"({writer.operand(like.this, like)} {_like_operator(writer, like)} {escaped})"


def similar(writer: Writer, node: exp.Expr) -> str:
    """SIMILAR TO, as a regular expression."""
    pattern = writer.operand(node.args.get("expression"), node, left=False)
    value = writer.operand(node.this, node)
    return f"({value} OPERATOR(pg_catalog.~) pg_catalog.similar_escape({pattern}, NULL))"


def regex(sign: str) -> Writing:
    """A match with a regular expression."""
    plain = infix(sign)

    def write(writer: Writer, node: exp.Expr) -> str:
        if isinstance(node.args.get("expression"), (exp.Any, exp.All)):
            # sqlglot parses both `NOT a ~ ANY …` and `a !~ ANY …` like this
            raise Unwritable(f"{named(node)} with ANY or ALL is not in the list")
        return plain(writer, node)

    return write


def collate(writer: Writer, node: exp.Expr) -> str:
    """COLLATE with a collation from the list."""
    name = str(getattr(node.args.get("expression"), "name", ""))
    if name not in _COLLATIONS:
        raise Unwritable(f"the collation {name[:63]!r} is not in the list")
    return f'({writer.operand(node.this, node)} COLLATE pg_catalog."{name}")'


def subscript(writer: Writer, node: exp.Expr) -> str:
    """One element of an array."""
    (number,) = node.expressions
    if not isinstance(number, exp.Literal) or nodes.is_text(number) or writer.reference(node.this) is None:
        writer.refuse(node)
    return f"({writer.within(node.this)})[{nodes.digits(number)}]"


def quantified(word: str) -> Writing:
    """ANY and ALL of an array."""

    def write(writer: Writer, node: exp.Expr) -> str:
        return f"{word} ({writer.within(node.this)})"

    return write


def minus(writer: Writer, node: exp.Expr) -> str:
    """A negative number, or the negation of an operand."""
    if isinstance(node.this, exp.Literal) and not nodes.is_text(node.this):
        return f"(-{nodes.digits(node.this)})"
    return f"({_operator(writer, '-', node.this)} {writer.operand(node.this, node)})"


def bitwise_not(writer: Writer, node: exp.Expr) -> str:
    """The inversion of bits."""
    return f"(OPERATOR(pg_catalog.~) {writer.operand(node.this, node, left=False)})"
