"""Whole SELECTs of signals on relational sources: the filters of blocking snapshots. Pure.

    SELECT * FROM schema.table WHERE condition

Only this form is taken from those who may send signals but not write SQL: one table, the one that is read;
all its columns, by `*` or by their names; a condition. The condition is checked and written anew as any other
(`rendering`), and nothing else of the text reaches the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from adapters.source.conditions.rendering import Template, parsed, refusal, refusal_reason
from adapters.source.conditions.writer import Reference, Unwritable, Writer, named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from adapters.source.conditions.writer import Grammar, ResolvedColumn
    from engine.model import CollectionId

_QUERY: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)
_PARTS: Final = ("catalog", "db", "this")
_TAKEN: Final = frozenset({"expressions", "from", "from_", "where", "kind"})


@dataclass(frozen=True, slots=True)
class _Selection:
    """A SELECT: its table, its columns (None for all), its condition."""

    table: Reference
    columns: tuple[Reference, ...] | None
    condition: Template | None


def is_query(text: str) -> bool:
    """Whether a text begins as a query does."""
    return _QUERY.match(text) is not None


def select_condition(
    text: str,
    grammar: Grammar,
    find: Callable[[Reference], ResolvedColumn | None],
    table: CollectionId,
    columns: Collection[str],
) -> str | None:
    """The condition of a SELECT from `table` as it may be sent; None if it has none.

    `columns` are those that are read, as SQL. Raises SignalError if the text is any other query.
    """
    selection = _selection(text, grammar)
    if isinstance(selection, str):
        raise refusal(selection, table)
    if not _is_named(selection.table, table):
        raise refusal(f"it selects from {str(selection.table)[:200]!r}", table)
    if selection.columns is not None:
        given = {found.name for reference in selection.columns if (found := find(reference))}
        lacking = [name for name in columns if name not in given]
        if lacking:
            raise refusal(f"its list lacks the column {lacking[0]}; write SELECT *", table)
    if selection.condition is None:
        return None
    known = []
    for reference in selection.condition.references:
        column = find(reference)
        if column is None:
            raise refusal(f"the table has no column {str(reference)[:200]!r}", table)
        known.append(column)
    return selection.condition.filled(known)


@lru_cache(maxsize=64)
def _selection(text: str, grammar: Grammar) -> _Selection | str:
    """The SELECT, or why it is refused; cached, since all windows of a table ask for it."""
    try:
        tree = parsed(text, grammar.dialect, lambda parser, tokens: parser.parse(tokens, text))
        return _read(tree, grammar)
    except Exception as error:  # noqa: BLE001  no text may end the job, whatever its error
        return refusal_reason(error, "it is no SELECT that can be read")


def _read(tree: exp.Expr, grammar: Grammar) -> _Selection:
    if not isinstance(tree, exp.Select):
        raise Unwritable("the filter of a blocking snapshot is a whole SELECT … FROM its table WHERE …")
    for name, value in tree.args.items():
        if name not in _TAKEN and value:
            raise Unwritable(f"a SELECT with {name!r} is not taken")
    source = tree.args.get("from_") or tree.args.get("from")
    if source is None:
        raise Unwritable("it selects from no table")
    where = tree.args.get("where")
    return _Selection(_table(source.this), _columns(tree), _condition(where.this, grammar) if where else None)


def _condition(tree: exp.Expr, grammar: Grammar) -> Template:
    writer = Writer(grammar)
    written = writer.within(tree)
    return Template(written, tuple(writer.references), tuple(writer.gaps))


def _table(node: exp.Expr) -> Reference:
    """The table's name as written. Nothing but the name may be there, not even an alias."""
    if not isinstance(node, exp.Table) or any(
        value for name, value in node.args.items() if name not in _PARTS
    ):
        raise Unwritable("it selects from something else than one table without an alias")
    parts = [part for key in _PARTS if (part := node.args.get(key)) is not None]
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise Unwritable("it selects from something else than one table")
    *qualifiers, name = (str(part.this) for part in parts)
    return Reference(name, quoted=False, qualifiers=tuple(qualifiers))


def _columns(tree: exp.Select) -> tuple[Reference, ...] | None:
    found = []
    for node in tree.expressions:
        if type(node) is exp.Star and not any(node.args.values()):
            return None
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise Unwritable(f"{named(node)} is not taken in its list; write SELECT *")
        qualifiers = [str(part.name) for key in ("catalog", "db", "table") if (part := node.args.get(key))]
        found.append(Reference(str(node.this.this), bool(node.this.args.get("quoted")), tuple(qualifiers)))
    return tuple(found)


def _is_named(written: Reference, table: CollectionId) -> bool:
    """Whether a name, with some or all of its qualifiers, names the table. Nothing is made of it but this."""
    parts = [part.lower() for part in (*written.qualifiers, written.name)]
    return [part.lower() for part in table.parts][-len(parts) :] == parts
