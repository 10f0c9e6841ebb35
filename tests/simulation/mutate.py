"""Makes mutants of the code under test from its syntax: one small change each, named for where and what.

always, never    a condition is taken for true, for false
boundary         < for <=, and the like
opposite         == for !=, `in` for `not in`, `is` for `is not`
either, both     `or` for `and`, and the reverse
dropped          a statement that calls or assigns does nothing
less, united     a set or mapping is not joined: `a | b` becomes `a`, `a - b` becomes `a`
one more         a number grows by one
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOUNDARY: Final = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: Final = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_QUIET: Final = {"warning", "info", "error", "debug", "log"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: in a function, by an operator, to an expression or statement (the n-th with that text)."""

    function: str
    operator: str
    text: str
    number: int
    line: int

    @property
    def name(self) -> str:
        """Stable as long as the function says this."""
        times = f" #{self.number}" if self.number > 1 else ""
        return f"{self.function}: {self.operator}: {self.text}{times}"


def mutations(source: str) -> Iterator[Mutation]:
    """All mutations of a module's functions."""
    for _node, mutation in _found(ast.parse(source)):
        yield mutation


def mutated(source: str, mutation: Mutation) -> ast.Module:
    """The module's tree with the mutation."""
    module = ast.parse(source)
    for node, found in _found(module):
        if found == mutation:
            _change(node, mutation.operator)
            return ast.fix_missing_locations(module)
    raise LookupError(mutation.name)


def _found(module: ast.Module) -> Iterator[tuple[ast.AST, Mutation]]:
    for function, tree in _functions(module):
        seen: Counter[tuple[str, str]] = Counter()
        says = isinstance(tree.returns, ast.Name) and tree.returns.id == "bool"
        for node in [inner for statement in tree.body for inner in ast.walk(statement)]:
            for operator in _answers(node) if says and isinstance(node, ast.Return) else _operators(node):
                text = _text(node)
                seen[operator, text] += 1
                line = getattr(node, "lineno", tree.lineno)
                yield node, Mutation(function, operator, text, seen[operator, text], line)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.comprehension):
        return " and ".join(map(ast.unparse, node.ifs))
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return ast.unparse(node.test)
    return ast.unparse(node)


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def _answers(answer: ast.Return) -> Iterator[str]:
    """Other answers of a function that says yes or no than the one that it gives here."""
    same = answer.value.value if isinstance(answer.value, ast.Constant) else None
    yield from (name for name, truth in (("always", True), ("never", False)) if truth is not same)


def _operators(node: ast.AST) -> Iterator[str]:
    if _decides(node):
        yield from ("always", "never")
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        kind = type(node.ops[0])
        yield from [
            name for name, known in (("boundary", _BOUNDARY), ("opposite", _OPPOSITE)) if kind in known
        ]
    if isinstance(node, ast.BoolOp):
        yield "either" if isinstance(node.op, ast.And) else "both"
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.BitOr | ast.Sub | ast.BitAnd):
            yield "less"
        if isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
            yield "one more"
    if _acts(node):
        yield "dropped"


def _decides(node: ast.AST) -> bool:
    if isinstance(node, ast.comprehension):
        return bool(node.ifs)
    if isinstance(node, ast.Return):
        return isinstance(node.value, ast.Compare | ast.BoolOp)
    return isinstance(node, ast.If | ast.IfExp | ast.While)


def _acts(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not _logs(node.value)
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute)
    return isinstance(node, ast.AugAssign)


def _logs(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _QUIET


def _change(node: ast.AST, operator: str) -> None:
    match operator:
        case "always" | "never":
            truth = ast.Constant(operator == "always")
            if isinstance(node, ast.comprehension):
                node.ifs = [truth]
            elif isinstance(node, ast.Return):
                node.value = truth
            elif isinstance(node, ast.If | ast.IfExp | ast.While):
                node.test = truth
        case "boundary" | "opposite" if isinstance(node, ast.Compare):
            node.ops = [(_BOUNDARY | _OPPOSITE)[type(node.ops[0])]()]
        case "either" | "both" if isinstance(node, ast.BoolOp):
            node.op = ast.Or() if operator == "either" else ast.And()
        case "less" if isinstance(node, ast.BinOp):
            _become(node, node.left)
        case "one more" if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
            node.right = ast.Constant(int(str(node.right.value)) + 1)
        case "dropped":
            _become(node, ast.Pass())
        case _:
            raise LookupError(operator)


def _become(node: ast.AST, other: ast.AST) -> None:
    """Turn a node into another in its place."""
    other = copy.deepcopy(other)
    other = ast.copy_location(other, node)
    node.__class__ = other.__class__  # the tree has no link to parents
    node.__dict__.clear()
    node.__dict__.update(other.__dict__)
