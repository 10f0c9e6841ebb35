"""Conditions of signals on relational sources: parsed, checked against a list, and written from scratch.

Pure.

Everyone who may insert a signal can influence what the job asks of the server. Their text never reaches a
driver unchanged, because drivers and servers read quotes, comments, `?` and `{` in their own ways: what was
checked would not be what is run. So sqlglot parses a condition into a tree. The tree may contain columns of
the table, literals, and operators and functions from a list, all of them pure. The SQL that is sent is
written from the tree: every name and literal is quoted here, every operator has brackets around its operands,
and `?` or `{` occurs only in quotes.

If sqlglot binds operators differently from the server, the condition is refused, because otherwise it would
not mean what its author meant. `precedence` has the server's rules, and operands without brackets are checked
against it.

Owns the limits, the walk and what both dialects share. Each source's `conditions.py` has its own operators
and functions.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlglot.dialects.dialect import Dialect

    from engine.model import CollectionId

LONGEST: Final = 64 << 10
"""The most characters of a condition."""
MOST_NESTED: Final = 24
"""The deepest nesting of brackets, CASEs and prefixes; sqlglot parses these by recursion."""
MOST_LEVELS: Final = 60
MOST_TERMS: Final = 10_000
"""The most levels and nodes of the tree; a chain of AND or OR counts as one level."""
MOST_WRITTEN: Final = 1 << 20
"""The most characters of the SQL written; an operand may occur in it several times."""

_BRACKETS: Final = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.L_BRACE: 1,
    TokenType.CASE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.R_BRACE: -1,
    TokenType.END: -1,
}
_PREFIXES: Final = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings quote conditions, which may hold values

_GAP: Final = re.compile("\0([0-9]+)\0")
_NUMBER: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
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
class Found:
    """A column of the table, as SQL.

    `type` is the type of its values, `operators` the schema in which its operators are looked up.
    """

    name: str
    type: str = ""
    operators: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A condition in SQL, except for what depends on the table: `gaps` return that for the columns found."""

    text: str
    references: tuple[Reference, ...]
    gaps: tuple[Callable[[Sequence[Found]], str], ...]

    def filled(self, found: Sequence[Found]) -> str:
        """The SQL for one table."""
        return _GAP.sub(lambda gap: self.gaps[int(gap[1])](found), self.text)


def rendered(
    text: str, grammar: Grammar, find: Callable[[Reference], Found | None], place: CollectionId | str
) -> str:
    """The condition as it may be sent, in brackets. Raises SignalError if something in it is not in the list.

    `find` returns the table's column for a reference, None if there is none.
    """
    template = _template(text, grammar)
    if isinstance(template, str):
        raise _refused(template, place)
    columns = []
    for reference in template.references:
        column = find(reference)
        if column is None:
            raise _refused(f"the table has no column {str(reference)[:200]!r}", place)
        columns.append(column)
    return template.filled(columns)


def _refused(why: str, place: CollectionId | str) -> SignalError:
    return SignalError(
        f"the condition is refused: {why}",
        place=place,
        hint="it must be an expression over the table's columns; see tidemark.snapshot.conditions",
    )


@lru_cache(maxsize=64)
def _template(text: str, grammar: Grammar) -> Template | str:
    """The condition, or why it is refused; cached, so that all tables of a signal share the result."""
    try:
        writer = Writer(grammar)
        written = writer.within(_parsed(text, grammar.dialect))
        return Template(written, tuple(writer.references), tuple(writer.gaps))
    except Unwritable as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    except Exception as error:  # noqa: BLE001  no condition may end the job, whatever its error
        return f"it is no expression that can be written ({type(error).__name__})"


def _parsed(text: str, dialect: type[Dialect]) -> exp.Expr:
    """The tree of exactly one expression. Raises Unwritable."""
    if len(text) > LONGEST:
        raise Unwritable(f"it has {len(text)} characters, at most {LONGEST} are read")
    if "\0" in text:
        raise Unwritable("it holds a NUL character")
    try:
        reader = dialect()
        tokens = reader.tokenize(text)
        _check_tokens(tokens)
        (tree,) = reader.parser().parse_into(exp.Condition, tokens, text)
    except SqlglotError as error:
        raise Unwritable(f"it is no expression{_place(error)}") from error
    except RecursionError as error:
        raise Unwritable("it is nested too deeply") from error
    except Unwritable:
        raise
    except Exception as error:
        raise Unwritable(f"it is no expression that can be read ({type(error).__name__})") from error
    if tree is None:
        raise Unwritable("it is empty")
    return tree


def _place(error: SqlglotError) -> str:
    """Where the error is.

    The parser's own message is not used: it quotes the condition, which may hold values.
    """
    errors = error.errors if isinstance(error, ParseError) else []
    at = next((detail for detail in errors if detail.get("line") and detail.get("col")), None)
    return "" if at is None else f", from line {at['line']}, character {at['col']} on"


def _check_tokens(tokens: Sequence[Token]) -> None:
    """Refuse a second statement, and what would take the parser too deep."""
    depth = run = 0
    for token in tokens:
        kind = token.token_type
        depth += _BRACKETS.get(kind, 0)
        run = run + 1 if kind in _PREFIXES else 0
        if depth + run > MOST_NESTED:
            raise Unwritable(f"more than {MOST_NESTED} brackets or signs within each other")
        if kind is TokenType.SEMICOLON:
            raise Unwritable("it holds a semicolon")
        if depth < 0:
            raise Unwritable("a bracket is closed that was not opened")


class Writer:
    """Writes one condition. Every text that it returns is an atom or stands in brackets."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.references: dict[Reference, int] = {}
        self.gaps: list[Callable[[Sequence[Found]], str]] = []
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

    def gap(self, fill: Callable[[Sequence[Found]], str]) -> str:
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


# How to write nodes that both dialects have.


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


def named(node: exp.Expr | None) -> str:
    """The name of a node in messages."""
    return "expression" if node is None else str(node.key).upper()
