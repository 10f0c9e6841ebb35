"""Detects texts of different collations in one expression, which SQL Server refuses.

A column's text keeps its column's collation through conversions. A collation named by COLLATE applies to
everything it is combined with. Columns are known by name only, so some conflicts are missed; none is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

Collations = Callable[[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Label:
    """The possible collations of a text; empty if it takes on any. `named` says that COLLATE set it."""

    may_be: frozenset[str] = frozenset()
    named: bool = False


_ANY = _Label()


def check_collations(tree: exp.Expr, of_column: Collations) -> None:
    """Raise ValueError with the text of error 451 on a conflict."""
    for node in tree.find_all(exp.Concat, exp.Replace, exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE):
        _label(node, of_column)
    for union in tree.find_all(exp.SetOperation):
        if not isinstance(union.parent, exp.SetOperation):
            _check_branches(union, of_column)


def _check_branches(union: exp.SetOperation, of_column: Collations) -> None:
    branches = [branch for branch in _branches(union) if isinstance(branch, exp.Select)]
    for texts in zip(*(branch.expressions for branch in branches), strict=False):
        _met((_label(text.unalias(), of_column) for text in texts), "UNION ALL")


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """The branches, without recursion: a union of many branches is a deep tree."""
    found, left = [], [node]
    while left:
        one = left.pop()
        if isinstance(one, exp.SetOperation):
            left += [one.this, one.expression]
        else:
            found.append(one)
    return found


def _label(node: exp.Expr, of_column: Collations) -> _Label:
    if isinstance(node, exp.Column):
        return _Label(of_column(node.name))
    if isinstance(node, exp.Collate):
        return _Label(frozenset({node.expression.name}), named=True)
    return _met((_label(text, of_column) for text in _texts(node)), node.key)


def _texts(node: exp.Expr) -> list[exp.Expr]:
    """The texts that an expression consists of or compares."""
    found: list[exp.Expr] = []
    match node:
        case exp.Convert():
            found = [node.expression]
        case exp.Cast() | exp.Paren():
            found = [node.this]
        case exp.Case():
            found = [branch.args["true"] for branch in node.args["ifs"]]
        case exp.Concat():
            found = node.expressions
        case exp.Replace() | exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            found = [operand for operand in (node.this, node.expression) if isinstance(operand, exp.Expr)]
    return found


def _met(labels: Iterable[_Label], where: str) -> _Label:
    """The common label of combined texts."""
    met = [label for label in labels if label.may_be]
    named = [collation for collation in met if collation.named]
    met = named or met
    if not met:
        return _ANY
    shared = frozenset.intersection(*(collation.may_be for collation in met))
    if not shared:
        found = sorted(set().union(*(collation.may_be for collation in met)))
        raise ValueError(f"Cannot resolve the collation conflict between {found} in {where} operator. (451)")
    return _Label(shared, named=bool(named))
