"""How nodes are written that both dialects have. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from adapters.source.conditions.writer import Unwritable

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.source.conditions.writer import Writer, Writing

_NUMBER: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITHMETIC: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
CONNECTIVES: Final[dict[type[exp.Expr], int]] = {exp.Or: 1, exp.And: 2, exp.Not: 3}
"""What binds least tightly, with its precedence."""


def column(writer: Writer, node: exp.Expr) -> str:
    """A column of the table, by its own name."""
    number = writer.reference(node)
    if number is None:
        writer.refuse(node)
    return writer.gap(lambda found: found[number].name)


def bracket(writer: Writer, node: exp.Expr) -> str:
    """The content of brackets; its text has its own."""
    return writer.within(node.this)


def chain(word: str) -> Writing:
    """A chain of ANDs or ORs."""

    def write(writer: Writer, node: exp.Expr) -> str:
        kind, rest = type(node), node
        right: list[exp.Expr] = []
        while type(rest) is kind:
            right.append(rest.args["expression"])
            rest = rest.this
        parts = [writer.operand(operand, node) for operand in (rest, *reversed(right))]
        return f"({f' {word} '.join(parts)})"

    return write


def negation(writer: Writer, node: exp.Expr) -> str:
    """NOT, which may be preceded by another NOT."""
    if isinstance(node.this, exp.Not):
        return f"(NOT {writer.within(node.this)})"
    return f"(NOT {writer.operand(node.this, node)})"


def infix(operator: str) -> Writing:
    """An operator between two operands."""

    def write(writer: Writer, node: exp.Expr) -> str:
        left = writer.operand(node.this, node)
        return f"({left} {operator} {writer.operand(node.args.get('expression'), node, left=False)})"

    return write


def null_test(writer: Writer, node: exp.Expr) -> str:
    """IS NULL, TRUE or FALSE; a NOT in it is a node around this one."""
    value, negated = node.args.get("expression"), "NOT " if node.args.get("negate") else ""
    if isinstance(value, exp.Null):
        return f"({writer.operand(node.this, node)} IS {negated}NULL)"
    if isinstance(value, exp.Boolean):
        return f"({writer.operand(node.this, node)} IS {negated}{'TRUE' if value.this else 'FALSE'})"
    raise Unwritable("IS is followed by something else than NULL, TRUE or FALSE")


def null(_writer: Writer, _node: exp.Expr) -> str:
    """NULL."""
    return "NULL"


def digits(node: exp.Expr) -> str:
    """A number as it was written. Raises Unwritable if it is none."""
    text = str(node.this)
    if not _NUMBER.fullmatch(text):
        raise Unwritable("a number in it is none")
    return text


def call(writer: Writer, node: exp.Expr) -> str:
    """A function from the list, by its plain name."""
    name = node.this
    if not isinstance(name, str) or name.lower() not in writer.grammar.functions:
        shown = str(name.name if isinstance(name, exp.Expr) else name)
        raise Unwritable(f"the function {shown[:63]!r} is not in the list")
    return writer.grammar.call(writer, name.lower(), node.expressions)


def case(comparison: Callable[[str, str], str]) -> Writing:
    """CASE; if it has a value, each WHEN becomes a comparison."""

    def write(writer: Writer, node: exp.Expr) -> str:
        value = node.args.get("this")
        count = len(node.args["ifs"])
        subject = None if value is None else writer.repeated(writer.within(value), count)
        branches = []
        for branch in node.args["ifs"]:
            test = writer.within(branch.this)
            when = test if subject is None else comparison(subject, test)
            branches.append(f"WHEN {when} THEN {writer.within(branch.args.get('true'))}")
        default = node.args.get("default")
        otherwise = "" if default is None else f" ELSE {writer.within(default)}"
        return f"(CASE {' '.join(branches)}{otherwise} END)"

    return write


def is_text(node: exp.Expr) -> bool:
    """Whether a node is a string."""
    return isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and bool(node.args["is_string"]))
