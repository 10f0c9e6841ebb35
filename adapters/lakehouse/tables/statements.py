"""Statements about tables of a lake, as Spark's SQL writes them for either format. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from adapters.lake.column_types import TEXT_SUFFIX
from adapters.lakehouse.port import DELETED, KEEP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.lakehouse.port import NewTable

SOURCE: Final = "tidemark_changes"
"""The view of what is to be written."""
KEY_PROPERTY: Final = "tidemark.key"
_ZONED: Final = re.compile(r"\btimestamp\b(?!:)")


def _ddl(kind: str) -> str:
    """A type in a statement. In the sink's session a time without a zone is the plain one."""
    return _ZONED.sub("timestamp_ltz", kind)


def column_definitions(table: NewTable) -> str:
    """The columns of a new table. Those of its key are never null, but for texts beside them."""
    return ", ".join(
        f"{quoted(name)} {_ddl(kind)}{' NOT NULL' if _is_whole(name, table) else ''}"
        for name, kind in table.columns.items()
    )


def _is_whole(name: str, table: NewTable) -> bool:
    return (
        name in table.key and f"{name}{TEXT_SUFFIX}" not in table.columns and not name.endswith(TEXT_SUFFIX)
    )


def properties(table: NewTable, ours: Mapping[str, str]) -> str:
    """The properties of a new table."""
    given = {**ours, KEY_PROPERTY: ",".join(table.key), **table.properties}
    return ", ".join(f"{literal(name)} = {literal(value)}" for name, value in given.items())


def altering(target: str, added: Mapping[str, str], widened: Mapping[str, str]) -> Sequence[str]:
    """The statements that add columns and widen others."""
    columns = ", ".join(f"{quoted(name)} {_ddl(kind)}" for name, kind in added.items())
    return [
        *([f"ALTER TABLE {target} ADD COLUMNS ({columns})"] if added else []),
        *(
            f"ALTER TABLE {target} ALTER COLUMN {quoted(name)} TYPE {_ddl(kind)}"
            for name, kind in widened.items()
        ),
    ]


def merging(
    target: str, columns: Sequence[str], key: Sequence[str], kept: Sequence[str], *, deletes: bool = False
) -> str:
    """The statement that merges the changes into a replica. `deletes`: all of them are deletes."""
    same = " AND ".join(f"ours.{quoted(name)} <=> theirs.{quoted(name)}" for name in key)
    if deletes:
        return f"MERGE INTO {target} AS ours USING {SOURCE} AS theirs ON {same} WHEN MATCHED THEN DELETE"
    changed = ", ".join(
        f"ours.{quoted(name)} = {_new_value(name, kept)}" for name in columns if name not in key
    )
    names = ", ".join(map(quoted, columns))
    values = ", ".join(f"theirs.{quoted(name)}" for name in columns)
    update = f" WHEN MATCHED THEN UPDATE SET {changed}" if changed else ""
    return (
        f"MERGE INTO {target} AS ours USING {SOURCE} AS theirs ON {same}"
        f" WHEN MATCHED AND theirs.{DELETED} THEN DELETE{update}"
        f" WHEN NOT MATCHED AND NOT theirs.{DELETED} THEN INSERT ({names}) VALUES ({values})"
    )


def _new_value(name: str, kept: Sequence[str]) -> str:
    theirs = f"theirs.{quoted(name)}"
    if name not in kept:
        return theirs
    return f"CASE WHEN theirs.{KEEP.format(kept.index(name))} THEN ours.{quoted(name)} ELSE {theirs} END"


def quoted(name: str) -> str:
    """A name in a statement."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text in a statement."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
