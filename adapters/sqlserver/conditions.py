"""Conditions of signals and SELECTs of the settings, as T-SQL: whether a text is one of them, nothing else.

The server compiles it, too, and refuses what it does not know. But it would run a batch of statements, so a
condition that leaves its brackets must never get there; and a SELECT in brackets takes no order. Owns the
use of sqlglot. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from engine.errors import ConfigError, SignalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import Token

_BRACKETS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_STATEMENTS = (exp.Command, exp.DDL, exp.DML, exp.Drop, exp.Alter, exp.Set, exp.Use)


def check_condition(condition: str, place: str) -> None:
    """Raise SignalError unless the text is a condition that can stand in brackets."""
    why = _fault(condition)
    if why:
        raise SignalError(f"the condition {condition!r} is no condition of T-SQL: {why}", place=place)


def _fault(condition: str) -> str:
    try:
        return _broken(sqlglot.tokenize(condition, read="tsql")) or _more(
            sqlglot.parse(f"SELECT 1 AS one FROM t WHERE ({condition}\n)", read="tsql")
        )
    except SqlglotError as error:
        return str(error).splitlines()[0].split(". Line")[0].rstrip(".:")


def _broken(tokens: Sequence[Token]) -> str:
    """Why a text would leave its brackets, if so."""
    depth = 0
    for token in tokens:
        depth += _BRACKETS.get(token.token_type, 0)
        if depth < 0:
            return "a bracket is closed that was not opened"
        if token.token_type is TokenType.SEMICOLON:
            return "it holds a semicolon"
    return ""


def _more(parsed: Sequence[exp.Expr | None]) -> str:
    """What a text holds beside a condition, if so."""
    (select, *others) = parsed
    where = select.args.get("where") if isinstance(select, exp.Select) and not others else None
    if select is None or where is None:
        return "it is more than one statement"
    behind = any(select.args.get(name) for name in ("group", "order", "limit", "having", "options"))
    if behind or not isinstance(where.this, exp.Paren):
        return "it is more than a condition"
    return "it holds a statement" if where.find(*_STATEMENTS) else ""


def derived(statement: str, table: str) -> str:
    """A SELECT of the settings as it can stand in brackets: without the order of its rows, or a semicolon.

    Raises ConfigError for what is no SELECT, or none that can.
    """
    try:
        tokens = sqlglot.tokenize(statement, read="tsql")
        parsed = [one for one in sqlglot.parse(statement, read="tsql") if one is not None]
    except SqlglotError as error:
        raise _unfit(table, str(error).splitlines()[0].split(". Line")[0].rstrip(".:")) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query) or parsed[0].args.get("into"):
        raise _unfit(table, "it is not one SELECT")
    (query,) = parsed
    if query.args.get("with_"):
        raise _unfit(table, "WITH can't stand in brackets; write the query where it is used")
    if query.args.get("options") or query.args.get("for_"):
        raise _unfit(table, "neither OPTION nor FOR can stand in brackets")
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


def _unfit(table: str, why: str) -> ConfigError:
    return ConfigError(f"'snapshot.select.statement.overrides.{table}' can't be read from: {why}")
