"""Keys as SQL: order, comparison and boundaries, all decided by the database.

Bounds are literals of the database's own text, cast to the column's own type. So PostgreSQL compares them
under the column's collation and with the operators of its index, as the index does. Only a surrogate key can
have NULLs; they sort last, as in an ascending index. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.postgres.server.sql import IS_NULL, IS_THERE, quote_ident, quote_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key, Range


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key: its name, its SQL type without a length, nullability, collation.

    For a domain, `type` is the base type: a value may violate a constraint that was added later, and the
    domain's collation may differ from the column's. `operators` is the schema of the type's comparisons if
    that is not pg_catalog. It is written out because the search path may lack it, and a type that casts to
    another one would silently be compared as that one. `labels` are an enum's, in order.
    """

    name: str
    type: str
    nullable: bool = False
    collation: int = 0
    operators: str = ""
    labels: tuple[str, ...] = ()

    def literal(self, text: str) -> str:
        """A value of this column as a literal."""
        return f"{quote_literal(text)}::{self.type}"

    def compared(self, operator: str, text: str) -> str:
        """The column compared with a value; not true for NULL."""
        if self.operators:
            operator = f"OPERATOR({quote_ident(self.operators)}.{operator})"
        return f"{quote_ident(self.name)} {operator} {self.literal(text)}"

    @property
    def fingerprint(self) -> str:
        """What bounds depend on.

        Labels are included because a bound with a renamed label names no value any more.
        """
        labels = "".join(f" {quote_literal(label)}" for label in self.labels)
        return f"{quote_ident(self.name)} {self.type} {self.collation}{labels}"


@dataclass(frozen=True, slots=True)
class Keyset:
    """The columns that a table's chunks are ordered by."""

    columns: tuple[KeyColumn, ...]

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What bounds depend on: the columns, their types, collations and labels, in order."""
        return tuple(column.fingerprint for column in self.columns)

    @property
    def order(self) -> str:
        """The columns for ORDER BY."""
        return ", ".join(quote_ident(column.name) for column in self.columns)

    @property
    def reverse_order(self) -> str:
        """The columns for ORDER BY, greatest key first."""
        return ", ".join(f"{quote_ident(column.name)} DESC" for column in self.columns)

    @property
    def texts(self) -> str:
        """Select list of the key as text; format() is the type's output function, '' for NULL."""
        return ", ".join(
            f"CASE WHEN {quoted} {IS_THERE} THEN format('%s', {quoted}) END"
            for quoted in (quote_ident(column.name) for column in self.columns)
        )

    def beyond(self, key: Key) -> str:
        """A condition for keys greater than `key`."""
        if not self._plain(key):
            return self._nested(key, inclusive=False)
        return self._compared(key, ">")

    def up_to(self, key: Key) -> str:
        """A condition for keys not greater than `key`."""
        if not self._plain(key):
            return f"NOT coalesce({self._nested(key, inclusive=False)}, false)"
        return self._compared(key, "<=")

    def at_least(self, key: Key) -> str:
        """A condition for keys not less than `key`."""
        return self._compared(key, ">=") if self._plain(key) else self._nested(key, inclusive=True)

    def below(self, key: Key) -> str:
        """A condition for keys less than `key`."""
        if not self._plain(key):
            return f"NOT coalesce({self._nested(key, inclusive=True)}, false)"
        return self._compared(key, "<")

    def among(self, keys: Sequence[Key]) -> str:
        """A condition for the rows with exactly these keys."""
        if all(self._plain(key) for key in keys) and not any(column.operators for column in self.columns):
            names = ", ".join(quote_ident(column.name) for column in self.columns)
            values = ", ".join(f"({', '.join(_literals(self.columns, key))})" for key in keys)
            return f"({names}) IN ({values})"
        return " OR ".join(f"({self._equal(key)})" for key in keys)

    def _equal(self, key: Key) -> str:
        return " AND ".join(
            f"{quote_ident(column.name)} {IS_NULL}" if text is None else column.compared("=", text)
            for column, text in zip(self.columns, key, strict=True)
        )

    def between(
        self, after: Key | None, upto: Key | None, *, holds_after: bool = False, lacks_upto: bool = False
    ) -> str:
        """A condition for the keys in `(after, upto]`; `true` if both are None. The ends are a Range's."""
        conditions = []
        if after is not None:
            conditions = [self.at_least(after) if holds_after else self.beyond(after)]
        if upto is not None:
            end = self.below(upto) if lacks_upto else self.up_to(upto)
            conditions += [end, *self._within(after, upto)]
        return " AND ".join(f"({condition})" for condition in conditions) or "true"

    def inside(self, part: Range) -> str:
        """A condition for the keys of a range."""
        return self.between(part.after, part.upto, holds_after=part.holds_after, lacks_upto=part.lacks_upto)

    def stretches(self, after: Key | None, upto: Key, *, lacks_upto: bool = False) -> list[str]:
        """Conditions that together equal `between`, in order, each for one stretch of the index.

        If one condition asked for values or NULL, the index would be read from its beginning.
        """
        first = self.columns[0]
        if upto[0] is not None or (after is not None and after[0] is None):
            within = [] if upto[0] is not None else [f"{quote_ident(first.name)} {IS_NULL}"]
            return [" AND ".join([self.between(after, upto, lacks_upto=lacks_upto), *within])]
        values = [f"{quote_ident(first.name)} {IS_THERE}"]
        if after is not None and after[0] is not None:
            values += [first.compared(">=", after[0]), f"({self.beyond(after)})"]
        return [" AND ".join(values), f"{quote_ident(first.name)} {IS_NULL} AND ({self.up_to(upto)})"]

    def _within(self, after: Key | None, upto: Key) -> list[str]:
        """A redundant condition that lets an index serve one that does not compare rows."""
        if self._plain(upto) or upto[0] is None:
            return []
        first = self.columns[0]
        above = [] if after is None or after[0] is None else [first.compared(">=", after[0])]
        return [*above, first.compared("<=", upto[0])]

    def _plain(self, key: Key) -> bool:
        """Whether the key can be compared as one row value."""
        if None in key or any(column.nullable for column in self.columns):
            return False
        return len(key) == 1 or not any(column.operators for column in self.columns)

    def _compared(self, key: Key, operator: str) -> str:
        names = ", ".join(quote_ident(column.name) for column in self.columns)
        values = _literals(self.columns, key)
        if len(values) == 1:
            return self.columns[0].compared(operator, str(key[0]))
        return f"({names}) {operator} ({', '.join(values)})"

    def _nested(self, key: Key, *, inclusive: bool) -> str:
        """`a > ? OR (a = ? AND (b > ? …))`, with NULL as the greatest value of each column."""
        condition = "true" if inclusive else "false"
        for column, text in reversed(list(zip(self.columns, key, strict=True))):
            name = quote_ident(column.name)
            if text is None:
                condition = f"({name} {IS_NULL} AND {condition})"
                continue
            beyond_null = f" OR {name} {IS_NULL}" if column.nullable else ""
            equal = column.compared("=", text)
            condition = f"({column.compared('>', text)}{beyond_null} OR ({equal} AND {condition}))"
        return condition


def numbered(keyset: Keyset) -> Keyset:
    """The keyset with its columns named by their places: c0, c1…"""
    columns = (replace(column, name=f"c{place}") for place, column in enumerate(keyset.columns))
    return Keyset(tuple(columns))


def key_rows(keyset: Keyset, keys: Sequence[Key]) -> str:
    """Rows for VALUES: a number from 0 up, and a key's values in the types of its columns."""
    columns = keyset.columns
    typed = [", ".join(_typed(*pair) for pair in zip(columns, key, strict=True)) for key in keys]
    return ", ".join(f"({number}, {values})" for number, values in enumerate(typed))


def _typed(column: KeyColumn, text: str | None) -> str:
    return f"NULL::{column.type}" if text is None else column.literal(text)


def _literals(columns: Sequence[KeyColumn], key: Key) -> list[str]:
    return [column.literal(text) for column, text in zip(columns, key, strict=True) if text is not None]


BY_CTID = Keyset((KeyColumn("ctid", '"pg_catalog"."tid"'),))
"""Rows by where they are stored, `(page,number)`: for tables without a key, within one snapshot only."""


_PAGE_BYTES = 8192


def page_starts(after: Key | None, upto: Key, step_bytes: float, count: int) -> list[Key]:
    """Up to `count` starts of pages before `upto`, each about `step_bytes` of the table after the last."""
    first, last = 0 if after is None else _page_of(after), _page_of(upto)
    step = max(1, round(step_bytes / _PAGE_BYTES))
    return [page_start(page) for page in range(first + step, last, step)][:count]


def _page_of(key: Key) -> int:
    return int((key[0] or "(0,0)")[1:].partition(",")[0])


def page_start(page: int) -> Key:
    """The ctid before a page's first row."""
    return (f"({page},0)",)
