"""The walk over a condition's tree: a text for each node that a dialect's grammar allows. Pure.

Owns the limits of a tree and the check that the server would bind operators as sqlglot does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlglot.dialects.dialect import Dialect

MOST_LEVELS: Final = 60
MOST_TERMS: Final = 10_000
"""The most levels and nodes of the tree; a chain of AND or OR counts as one level."""
MOST_WRITTEN: Final = 1 << 20
"""The most characters of the SQL written; an operand may occur in it several times."""

_PARTS: Final = ("catalog", "db", "table", "this")

ATOM: Final = 100
"""The precedence of what needs no brackets."""


class Unwritable(ValueError):
    """A condition with something that is not in the list; the message names it."""


Writing: TypeAlias = "Callable[[Writer, exp.Expr], str]"


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """What a dialect allows, and how it is written.

    `writings` says how each kind of node is written, and which of its parts that covers; a node with any
    other part is refused. `functions` are names in lower case; `call` writes one. `precedence` has the
    server's numbers for operators: a higher number binds more tightly. Operators in `chained` may follow each
    other without brackets.
    """

    dialect: type[Dialect]
    writings: Mapping[type[exp.Expr], tuple[Writing, tuple[str, ...]]]
    functions: frozenset[str]
    call: Callable[[Writer, str, Sequence[exp.Expr]], str]
    precedence: Mapping[type[exp.Expr], int]
    chained: frozenset[type[exp.Expr]]


@dataclass(frozen=True, slots=True)
class Reference:
    """A column as it was written, with its qualifiers."""

    name: str
    quoted: bool
    qualifiers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((*self.qualifiers, self.name))


@dataclass(frozen=True, slots=True)
class ResolvedColumn:
    """A column of the table, as SQL.

    `type` is the type of its values, `operators` the schema in which its operators are looked up.
    """

    name: str
    type: str = ""
    operators: str = ""


class Writer:
    """Writes one condition. Every text that it returns is an atom or stands in brackets."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.references: dict[Reference, int] = {}
        self.gaps: list[Callable[[Sequence[ResolvedColumn]], str]] = []
        self._level = self._terms = 0

    def within(self, node: exp.Expr | None) -> str:
        """The text of a part that stands alone: an argument, the content of brackets, a whole condition."""
        if node is None:
            raise Unwritable("something is missing in it")
        self._level, self._terms = self._level + 1, self._terms + 1
        if self._level > MOST_LEVELS or self._terms > MOST_TERMS:
            raise Unwritable(f"it has more than {MOST_LEVELS} levels or {MOST_TERMS} terms")
        if isinstance(node.this, str) and "\0" in node.this:
            raise Unwritable("it holds a NUL character")  # from an escape; NUL characters mark the gaps
        text = self.repeated(self.known(node)(self, node))
        self._level -= 1
        return text

    def repeated(self, text: str, times: int = 1) -> str:
        """Check a text that will occur `times` times in others. Raises Unwritable if that is too long."""
        if len(text) * times > MOST_WRITTEN:
            raise Unwritable("it is too long when it is written out")
        return text

    def known(self, node: exp.Expr) -> Writing:
        """How a node is written. Raises Unwritable if the node or one of its parts is not in the list."""
        writing = self.grammar.writings.get(type(node))
        if writing is None:
            self.refuse(node)
        write, parts = writing
        for name, value in node.args.items():
            if name not in parts and not (value is None or value is False or value == []):
                raise Unwritable(f"{named(node)} with {name!r} is not in the list")
        return write

    def operand(self, node: exp.Expr | None, parent: exp.Expr, *, left: bool = True) -> str:
        """The text of an operand. Raises Unwritable if the server would bind it differently from sqlglot."""
        own, outer = self._precedence(node), self._precedence(parent)
        if own < outer or (own == outer and not (left and type(parent) in self.grammar.chained)):
            raise Unwritable(f"put brackets around the {named(node)} in the {named(parent)}")
        return self.within(node)

    def _precedence(self, node: exp.Expr | None) -> int:
        return ATOM if node is None else self.grammar.precedence.get(type(node), ATOM)

    def refuse(self, node: exp.Expr) -> NoReturn:
        """Raise Unwritable: the node is not in the list."""
        raise Unwritable(f"{named(node)} is not in the list of what a condition may hold")

    def gap(self, fill: Callable[[Sequence[ResolvedColumn]], str]) -> str:
        """A mark in the text for what depends on the table's columns."""
        self.gaps.append(fill)
        return f"\0{len(self.gaps) - 1}\0"

    def reference(self, node: exp.Expr | None) -> int | None:
        """The number of the column that a node is, perhaps in brackets; None for any other node."""
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column):
            return None
        *qualifiers, name = [part for key in _PARTS if (part := node.args.get(key)) is not None]
        if not isinstance(name, exp.Identifier):
            self.refuse(name)
        quoted = bool(name.args.get("quoted"))
        found = Reference(str(name.this), quoted, tuple(str(part.name) for part in qualifiers))
        return self.references.setdefault(found, len(self.references))


def named(node: exp.Expr | None) -> str:
    """The name of a node in messages."""
    return "expression" if node is None else str(node.key).upper()
