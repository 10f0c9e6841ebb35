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

Owns parsing, and the limits of a text. `writer` walks the tree, `nodes` writes what both dialects have. Each
source's `conditions` have its own operators and functions.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from adapters.source.conditions.writer import Unwritable, Writer
from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot import Token
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.parser import Parser

    from adapters.source.conditions.writer import Grammar, Reference, ResolvedColumn
    from engine.model import CollectionId

LONGEST: Final = 64 << 10
"""The most characters of a condition."""
MOST_NESTED: Final = 24
"""The deepest nesting of brackets, CASEs and prefixes; sqlglot parses these by recursion."""

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


@dataclass(frozen=True, slots=True)
class Template:
    """A condition in SQL, except for what depends on the table: `gaps` return that for the columns found."""

    text: str
    references: tuple[Reference, ...]
    gaps: tuple[Callable[[Sequence[ResolvedColumn]], str], ...]

    def filled(self, found: Sequence[ResolvedColumn]) -> str:
        """The SQL for one table."""
        return _GAP.sub(lambda gap: self.gaps[int(gap[1])](found), self.text)


def render_condition(
    text: str, grammar: Grammar, find: Callable[[Reference], ResolvedColumn | None], where: CollectionId | str
) -> str:
    """The condition as it may be sent, in brackets. Raises SignalError if something in it is not in the list.

    `find` returns the table's column for a reference, None if there is none.
    """
    template = _template(text, grammar)
    if isinstance(template, str):
        raise refusal(template, where)
    columns = []
    for reference in template.references:
        column = find(reference)
        if column is None:
            raise refusal(f"the table has no column {str(reference)[:200]!r}", where)
        columns.append(column)
    return template.filled(columns)


def refusal_reason(error: Exception, otherwise: str) -> str:
    """Why a text is refused whose parsing or writing ended with this error."""
    if isinstance(error, Unwritable):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"{otherwise} ({type(error).__name__})"


def refusal(why: str, where: CollectionId | str) -> SignalError:
    """The error for a condition that is not sent."""
    return SignalError(
        f"the condition is refused: {why}",
        where=where,
        hint="it must be an expression over the table's columns; see tidemark.snapshot.conditions",
    )


@lru_cache(maxsize=64)
def _template(text: str, grammar: Grammar) -> Template | str:
    """The condition, or why it is refused; cached, so that all tables of a signal share the result."""
    try:
        writer = Writer(grammar)
        written = writer.within(_parsed(text, grammar.dialect))
        return Template(written, tuple(writer.references), tuple(writer.gaps))
    except Exception as error:  # noqa: BLE001  no condition may end the job, whatever its error
        return refusal_reason(error, "it is no expression that can be written")


def _parsed(text: str, dialect: type[Dialect]) -> exp.Expr:
    """The tree of exactly one expression. Raises Unwritable."""
    return parsed(text, dialect, lambda parser, tokens: parser.parse_into(exp.Condition, tokens, text))


def parsed(
    text: str, dialect: type[Dialect], parse: Callable[[Parser, list[Token]], Sequence[exp.Expr | None]]
) -> exp.Expr:
    """The one tree that `parse` makes of a text. Raises Unwritable."""
    if len(text) > LONGEST:
        raise Unwritable(f"it has {len(text)} characters, at most {LONGEST} are read")
    if "\0" in text:
        raise Unwritable("it holds a NUL character")
    try:
        reader = dialect()
        tokens = reader.tokenize(text)
        _check_tokens(tokens)
        (tree,) = parse(reader.parser(), tokens)
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
