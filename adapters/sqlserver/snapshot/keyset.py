"""Keys as T-SQL: order, comparison and bounds, all decided by the server.

Bounds are literals of the server's own text, converted to the column's own type and collation. So the server
compares them as its index does: GUIDs by their last group first, texts by the column's collation and code
page, and never a varchar column as nvarchar, which no index would serve. NULLs, which only a surrogate key
can have, come first, as in an ascending index. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.sqlserver.server.tsql import key_literal, quote_ident

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from adapters.sqlserver.server.table import Column
    from engine.model import Key, Range

    _Compare: TypeAlias = Callable[[Column, str | None, str], str]

EVERY = "1 = 1"
NOTHING = "1 = 0"


@dataclass(frozen=True, slots=True)
class Keyset:
    """The columns that a table's chunks are ordered by."""

    columns: tuple[Column, ...]

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What bounds depend on: the columns, their types and collations, in order."""
        return tuple(
            f"{quote_ident(column.name)} {column.type} {column.length}"
            f" {column.precision} {column.scale} {column.collation}"
            for column in self.columns
        )

    @property
    def order(self) -> str:
        """The columns of `t` for ORDER BY. Qualified: a bare name could mean an alias of the SELECT."""
        return ", ".join(f"t.{quote_ident(column.name)}" for column in self.columns)

    @property
    def reverse_order(self) -> str:
        """Like `order`, greatest key first."""
        return ", ".join(f"t.{quote_ident(column.name)} DESC" for column in self.columns)

    def beyond(self, key: Key) -> str:
        """A condition for the keys greater than `key`."""
        return self._beside(key, NOTHING, _beyond)

    def at_least(self, key: Key) -> str:
        """A condition for the keys not less than `key`."""
        return self._beside(key, EVERY, _beyond)

    def up_to(self, key: Key) -> str:
        """A condition for the keys not greater than `key`."""
        return self._beside(key, EVERY, _up_to)

    def below(self, key: Key) -> str:
        """A condition for the keys less than `key`."""
        return self._beside(key, NOTHING, _up_to)

    def _beside(self, key: Key, condition: str, compare: _Compare) -> str:
        """A condition for the keys on one side of `key`, and for the key itself under `condition`."""
        for column, text in reversed(list(zip(self.columns, key, strict=True))):
            condition = compare(column, text, condition)
        return condition

    def between(
        self, after: Key | None, upto: Key | None, *, holds_after: bool = False, lacks_upto: bool = False
    ) -> str:
        """A condition for the keys of `(after, upto]`. True for all if both are None. Ends as in Range."""
        conditions = []
        if after is not None:
            conditions = [*self._least(after), self.at_least(after) if holds_after else self.beyond(after)]
        if upto is not None:
            conditions += [*self._most(upto), self.below(upto) if lacks_upto else self.up_to(upto)]
        return " AND ".join(f"({condition})" for condition in conditions) or EVERY

    def inside(self, part: Range) -> str:
        """A condition for the keys of a range."""
        return self.between(part.after, part.upto, holds_after=part.holds_after, lacks_upto=part.lacks_upto)

    def among(self, keys: Sequence[Key]) -> str:
        """A condition for the rows under exactly these keys."""
        return " OR ".join(f"({self._equal(key)})" for key in keys)

    def _equal(self, key: Key) -> str:
        return " AND ".join(
            f"{quote_ident(column.name)} IS NULL" if text is None else compared(column, "=", text)
            for column, text in zip(self.columns, key, strict=True)
        )

    def _least(self, after: Key) -> list[str]:
        """A redundant condition on the first column, so that an index can seek to the lower bound."""
        if len(self.columns) == 1 or after[0] is None:
            return []
        return [compared(self.columns[0], ">=", after[0])]

    def _most(self, upto: Key) -> list[str]:
        """The same for the upper bound. A range with NULLs has none."""
        if len(self.columns) == 1 or upto[0] is None or self.columns[0].nullable:
            return []
        return [compared(self.columns[0], "<=", upto[0])]


def compared(column: Column, operator: str, text: str) -> str:
    """The column compared with a value; unknown for NULL."""
    return f"{quote_ident(column.name)} {operator} {key_literal(column, text)}"


def _beyond(column: Column, text: str | None, rest: str) -> str:
    """`a > x OR (a = x AND …)`; `rest` is the condition for the following columns."""
    name = quote_ident(column.name)
    if text is None:
        there = f"{name} IS NOT NULL"
        return there if rest == NOTHING else f"({there} OR ({name} IS NULL AND {rest}))"
    greater = compared(column, ">", text)
    return greater if rest == NOTHING else f"({greater} OR ({compared(column, '=', text)} AND {rest}))"


def _up_to(column: Column, text: str | None, rest: str) -> str:
    """`a < x OR (a = x AND …)`."""
    name = quote_ident(column.name)
    if text is None:
        return f"{name} IS NULL" if rest == EVERY else f"({name} IS NULL AND {rest})"
    if rest == EVERY:
        less = compared(column, "<=", text)
    else:
        less = f"{compared(column, '<', text)} OR ({compared(column, '=', text)} AND {rest})"
    if column.nullable:
        return f"({name} IS NULL OR {less})"
    return less if rest == EVERY else f"({less})"
