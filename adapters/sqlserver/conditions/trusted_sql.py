"""SQL of fully trusted users: conditions that may be any SQL, and SELECT overrides. Pure.

The server would run a batch of statements, so a condition that leaves its brackets must never reach it. A
SELECT in brackets can't have an order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from engine.errors import ConfigError, SignalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import Token

    from engine.model import CollectionId

_BRACKETS: Final = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_DRIVERS: Final = frozenset({TokenType.L_BRACE, TokenType.R_BRACE, TokenType.PLACEHOLDER})
_STATEMENTS: Final = (exp.Command, exp.DDL, exp.DML, exp.Drop, exp.Alter, exp.Set, exp.Use)


def check_trusted(condition: str, where: CollectionId | str) -> None:
    """Raise SignalError unless a condition, which may be any SQL, can stand in brackets for every driver."""
    why = _fault(condition)
    if why:
        raise SignalError(f"the condition is no condition of T-SQL: {why}", where=where)


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
