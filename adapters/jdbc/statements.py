"""Pieces of SQL about the target's tables, and how text gets into them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, LiteralString

from psycopg import sql

from engine.events.values.text import text_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Connection

    from adapters.lake.table_name import TableName
    from engine.events.values.text import Text

_BLOCK: Final = 1 << 20
_COLUMNS: LiteralString = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


def identifier(name: TableName) -> sql.Identifier:
    """The name of a table in SQL."""
    return sql.Identifier(*([name.schema] if name.schema else []), name.name)


def column_list(names: Iterable[str]) -> sql.Composed:
    """Names of columns, with commas."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def types_of(connection: Connection, name: TableName) -> dict[str, str]:
    """The types of a table's columns; none if it is missing."""
    rows = connection.execute(_COLUMNS, [identifier(name).as_string(connection)]).fetchall()
    return dict(rows)


def size_of(connection: Connection, name: TableName) -> tuple[int, int]:
    """The bytes of a table, or of its largest partition, and of a block."""
    sizes = connection.execute(
        "SELECT coalesce(max(pg_relation_size(relid)), 0), current_setting('block_size')::int"
        " FROM (SELECT relid FROM pg_partition_tree(to_regclass(%(name)s)) UNION"
        " SELECT to_regclass(%(name)s)) AS found",
        {"name": identifier(name).as_string(connection)},
    ).fetchone()
    return sizes or (0, 1)


def copy_texts(connection: Connection, command: sql.Composed, texts: Iterable[Text]) -> int:
    """Send texts, which consist of whole lines, to a COPY. Returns how many texts there were."""
    count = 0
    with connection.cursor() as cursor, ExitStack() as opened:
        copy = None
        for text in texts:
            copy = copy or opened.enter_context(cursor.copy(command))
            ends, data = text_parts(text)
            for at in range(int(ends[0]), int(ends[-1]), _BLOCK):
                copy.write(data[at : min(at + _BLOCK, int(ends[-1]))].data)
            count += 1
    return count
