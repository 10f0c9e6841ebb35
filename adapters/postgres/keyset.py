"""Keys as SQL: order, comparison and boundaries, decided by the database alone.

Bounds are literals of the database's own text, cast to the column's own type, so that PostgreSQL
compares them under the column's collation as its index does. NULLs, which only a surrogate key can
have, stand last, as in an ascending index. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.postgres.sql import quote_ident, quote_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key: its name, its type as SQL writes it, without a length, nullability, collation."""

    name: str
    type: str
    nullable: bool = False
    collation: int = 0

    def literal(self, text: str) -> str:
        """A value of this column."""
        return f"{quote_literal(text)}::{self.type}"


@dataclass(frozen=True, slots=True)
class Keyset:
    """The columns that a table's chunks are ordered by."""

    columns: tuple[KeyColumn, ...]

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What bounds depend on: the columns, their types and their collations, in order."""
        return tuple(f"{quote_ident(one.name)} {one.type} {one.collation}" for one in self.columns)

    @property
    def order(self) -> str:
        """The columns, as ORDER BY takes them."""
        return ", ".join(quote_ident(column.name) for column in self.columns)

    @property
    def reverse_order(self) -> str:
        """The same, greatest key first."""
        return ", ".join(f"{quote_ident(column.name)} DESC" for column in self.columns)

    @property
    def texts(self) -> str:
        """Select list of the key as text; format() is the type's output function, '' for NULL."""
        return ", ".join(
            f"CASE WHEN {quoted} IS NOT NULL THEN format('%s', {quoted}) END"
            for quoted in (quote_ident(column.name) for column in self.columns)
        )

    def beyond(self, key: Key) -> str:
        """A condition for the keys greater than `key`."""
        if not self._plain(key):
            return self._nested(key, inclusive=False)
        return self._compared(key, ">")

    def up_to(self, key: Key) -> str:
        """A condition for the keys not greater than `key`."""
        if not self._plain(key):
            return f"NOT coalesce({self._nested(key, inclusive=False)}, false)"
        return self._compared(key, "<=")

    def among(self, keys: Sequence[Key]) -> str:
        """A condition for the rows under just these keys."""
        if all(self._plain(key) for key in keys):
            names = ", ".join(quote_ident(column.name) for column in self.columns)
            values = ", ".join(f"({', '.join(_literals(self.columns, key))})" for key in keys)
            return f"({names}) IN ({values})"
        return " OR ".join(f"({self._equal(key)})" for key in keys)

    def _equal(self, key: Key) -> str:
        return " AND ".join(
            f"{quote_ident(column.name)} IS NULL"
            if text is None
            else f"{quote_ident(column.name)} = {column.literal(text)}"
            for column, text in zip(self.columns, key, strict=True)
        )

    def between(self, after: Key | None, upto: Key | None) -> str:
        """A condition for the keys of `(after, upto]`; `true` where both are None."""
        conditions = [] if after is None else [self.beyond(after)]
        if upto is not None:
            conditions.append(self.up_to(upto))
        return " AND ".join(f"({condition})" for condition in conditions) or "true"

    def _plain(self, key: Key) -> bool:
        return None not in key and not any(column.nullable for column in self.columns)

    def _compared(self, key: Key, operator: str) -> str:
        names = ", ".join(quote_ident(column.name) for column in self.columns)
        values = ", ".join(_literals(self.columns, key))
        if len(self.columns) == 1:
            return f"{names} {operator} {values}"
        return f"({names}) {operator} ({values})"

    def _nested(self, key: Key, *, inclusive: bool) -> str:
        """`a > ? OR (a = ? AND (b > ? …))`, with NULL as the greatest value of each column."""
        condition = "true" if inclusive else "false"
        for column, text in reversed(list(zip(self.columns, key, strict=True))):
            name = quote_ident(column.name)
            if text is None:
                condition = f"({name} IS NULL AND {condition})"
                continue
            value = column.literal(text)
            greater = f"{name} > {value} OR {name} IS NULL" if column.nullable else f"{name} > {value}"
            condition = f"({greater} OR ({name} = {value} AND {condition}))"
        return condition


def _literals(columns: Sequence[KeyColumn], key: Key) -> list[str]:
    return [column.literal(text) for column, text in zip(columns, key, strict=True) if text is not None]
