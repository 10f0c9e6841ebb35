"""A table of the target: created, completed and written, always inside of the turn's transaction.

Owns all SQL about it. What a turn writes is copied into a temporary table of the session first, which has the
columns of the target's table and these:

- `tidemark: deleted`: the row with this key is to be deleted
- `tidemark: kept`: by column, 1 if the target's value is kept; null if none is
- `tidemark: key 1` and so on: the key of the row that has those values

Then each step is one statement: look up what is kept, delete, write.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, LiteralString

import pyarrow as pa
from psycopg import sql

from adapters.jdbc import copy_lines
from adapters.jdbc.column_types import column_type
from adapters.jdbc.properties import EVOLUTION, FORMAT
from adapters.jdbc.statements import column_list, copy_texts, identifier, types_of
from adapters.jdbc.table_rows import default_text, lines
from adapters.lake.table_name import TableName, TableNaming
from engine.config.sinks.settings import SchemaEvolution
from engine.errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg import Connection

    from adapters.jdbc.folding.fold import Fold
    from adapters.lake.row_columns import Columns
    from engine.events.record.schema import Schema
    from engine.events.values.text import Text

_log = logging.getLogger("adapters")
_LONGEST: Final = 63
"""Bytes of a name; PostgreSQL cuts longer ones."""
_DELETED, _KEPT, _KEY = "tidemark: deleted", "tidemark: kept", "tidemark: key "
_WIDER: Final = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "real": ("double precision",),
}
_NUMERIC: Final = re.compile(r"numeric(?:\((\d+),(\d+)\))?")


def naming(pattern: str) -> TableNaming:
    """How the target's tables are named."""
    return TableNaming(pattern, FORMAT, _LONGEST)


class TableGoneError(Exception):
    """A table was written earlier, and is missing."""


class Table:
    """A table of the target as a session knows it. `written`: an earlier turn has written to it."""

    def __init__(self, name: TableName, number: int, evolution: SchemaEvolution, *, written: bool) -> None:
        self._name, self._evolution, self._written = name, evolution, written
        self._staging = sql.Identifier(f"tidemark_staging_{number}")
        self._ready: Columns | None = None

    def apply(self, connection: Connection, fold: Fold) -> None:
        """Write a turn's events.

        Raises psycopg.Error, SinkRefused and TableGoneError; the transaction is lost then.
        """
        columns = fold.events.columns
        if columns != self._ready:
            self._prepare(connection, columns)
            self._ready = columns
        if fold.events.truncated:
            connection.execute(self._sql("TRUNCATE {target}"))
        key, names = [name for name, _schema in columns.key], list(columns.all)
        deletes, patched = copy_lines.deletes(fold), copy_lines.patched(fold)
        if deletes is not None:
            self._copy(connection, [*key, _DELETED], [deletes])
        writes = self._copy(connection, names, copy_lines.rows(fold))
        if patched is not None:
            keys = [f"{_KEY}{number}" for number in range(1, len(key) + 1)]
            writes += self._copy(connection, [*names, _KEPT, *keys], [patched])
            connection.execute(self._keeping(names, key))
        if deletes is not None:
            connection.execute(self._deleting(key))
        if writes:
            connection.execute(self._writing(names, key))

    def delete(self, connection: Connection, key: Sequence[str], rows: Text) -> None:
        """Delete the rows with these keys, which are fields of COPY. Raises psycopg.Error."""
        self._stage(connection, key)
        self._ready = None
        true = pa.repeat(pa.scalar("t", pa.large_string()), len(rows))
        self._copy(connection, [*key, _DELETED], [lines([rows, true])])
        connection.execute(self._deleting(key))

    def _copy(self, connection: Connection, names: Sequence[str], texts: Iterable[Text]) -> int:
        """Copy lines into the staging table. Returns how many texts there were."""
        command = self._sql("COPY {staging} ({columns}) FROM STDIN", columns=column_list(names))
        return copy_texts(connection, command, texts)

    def _keeping(self, names: Sequence[str], key: Sequence[str]) -> sql.Composed:
        """Fill in the target's values."""
        kept = [
            sql.SQL(
                "{0} = CASE substr(staged.{1}, {2}, 1) WHEN '1' THEN ours.{0} ELSE staged.{0} END"
            ).format(sql.Identifier(name), sql.Identifier(_KEPT), sql.Literal(number))
            for number, name in enumerate(names, 1)
            if name not in key
        ]
        same = [
            sql.SQL("ours.{} = staged.{}").format(sql.Identifier(name), sql.Identifier(f"{_KEY}{number}"))
            for number, name in enumerate(key, 1)
        ]
        return self._sql(
            "UPDATE {staging} AS staged SET {kept} FROM {target} AS ours WHERE {same}",
            kept=sql.SQL(", ").join(kept),
            same=sql.SQL(" AND ").join(same),
        )

    def _deleting(self, key: Sequence[str]) -> sql.Composed:
        same = [sql.SQL("ours.{0} = staged.{0}").format(sql.Identifier(name)) for name in key]
        return self._sql(
            "DELETE FROM {target} AS ours USING {staging} AS staged WHERE staged.{deleted} AND {same}",
            deleted=sql.Identifier(_DELETED),
            same=sql.SQL(" AND ").join(same),
        )

    def _writing(self, names: Sequence[str], key: Sequence[str]) -> sql.Composed:
        changed = [
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names if name not in key
        ]
        update = sql.SQL("UPDATE SET ") + sql.SQL(", ").join(changed) if changed else sql.SQL("NOTHING")
        return self._sql(
            "INSERT INTO {target} ({columns}) SELECT {columns} FROM {staging} WHERE {deleted} IS NULL"
            " ON CONFLICT ({key}) DO {update}",
            columns=column_list(names),
            deleted=sql.Identifier(_DELETED),
            key=column_list(key),
            update=update,
        )

    def _prepare(self, connection: Connection, columns: Columns) -> None:
        """Create what the target lacks, and the staging table anew."""
        wanted = {name: column_type(schema, columns.connector) for name, schema in columns.all.items()}
        for name in wanted:
            if len(name.encode()) > _LONGEST:
                raise SinkRefused(f"the column name {name!r} has more than {_LONGEST} bytes")
        found = types_of(connection, self._name)
        if not found and self._written:
            raise TableGoneError
        if not found:
            self._create(connection, wanted, [name for name, _schema in columns.key])
        for name, kind in wanted.items():
            if found and name not in found:
                self._add(connection, name, kind, columns.all[name])
            elif found and _is_wider(kind, found[name]) and self._evolution is SchemaEvolution.BASIC:
                connection.execute(
                    self._sql(
                        "ALTER TABLE {target} ALTER COLUMN {name} TYPE {kind}",
                        name=sql.Identifier(name),
                        kind=sql.SQL(kind),
                    )
                )
                _log.info("%s: column %s is %s now", self._name, name, kind)
        self._stage(connection, [name for name, _schema in columns.key])

    def _create(self, connection: Connection, wanted: Mapping[str, str], key: Sequence[str]) -> None:
        if self._evolution is SchemaEvolution.NONE:
            raise SinkRefused(
                "the table is missing", where=str(self._name), hint=f"create it, or set {EVOLUTION}"
            )
        if self._name.schema:
            row = connection.execute("SELECT to_regnamespace(%s)", [_quoted(self._name.schema)]).fetchone()
            if row is None or row[0] is None:
                schema = sql.Identifier(self._name.schema)
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        defined = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in wanted.items()
        ]
        connection.execute(
            self._sql(
                "CREATE TABLE {target} ({defined}, PRIMARY KEY ({key}))",
                defined=sql.SQL(", ").join(defined),
                key=column_list(key),
            )
        )
        _log.info("%s: created", self._name)

    def _add(self, connection: Connection, name: str, kind: str, schema: Schema) -> None:
        """Add a column. Rows that are there get its default, as they do in the source."""
        if self._evolution is SchemaEvolution.NONE:
            raise SinkRefused(
                f"the column {name!r} is missing", where=str(self._name), hint=f"add it, or set {EVOLUTION}"
            )
        default = default_text(schema)
        added = sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(name), sql.SQL(kind))
        if default is not None:
            added += sql.SQL(" DEFAULT {}").format(sql.Literal(default))
        connection.execute(self._sql("ALTER TABLE {target} {added}", added=added))
        if default is not None:
            connection.execute(
                self._sql("ALTER TABLE {target} ALTER COLUMN {name} DROP DEFAULT", name=sql.Identifier(name))
            )
        _log.info("%s: column %s %s added", self._name, name, kind)

    def _stage(self, connection: Connection, key: Sequence[str]) -> None:
        more = [
            sql.SQL("ours.{} AS {}").format(sql.Identifier(name), sql.Identifier(f"{_KEY}{number}"))
            for number, name in enumerate(key, 1)
        ]
        connection.execute(self._sql("DROP TABLE IF EXISTS {staging}"))
        connection.execute(
            self._sql(
                "CREATE TEMPORARY TABLE {staging} ON COMMIT DELETE ROWS AS SELECT ours.*, NULL::boolean AS"
                " {deleted}, NULL::text AS {kept}, {more} FROM {target} AS ours WITH NO DATA",
                deleted=sql.Identifier(_DELETED),
                kept=sql.Identifier(_KEPT),
                more=sql.SQL(", ").join(more),
            )
        )

    def _sql(self, statement: LiteralString, **given: sql.Composable) -> sql.Composed:
        return sql.SQL(statement).format(target=identifier(self._name), staging=self._staging, **given)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_wider(wanted: str, found: str) -> bool:
    """Whether every value of the type that a column has is one of the type that is wanted, which has more."""
    if wanted in _WIDER.get(found, ()):
        return True
    new, old = _NUMERIC.fullmatch(wanted), _NUMERIC.fullmatch(found)
    if new is None or old is None or old[1] is None or wanted == found:
        return False
    if new[1] is None:
        return True
    digits, scale, old_digits, old_scale = map(int, (new[1], new[2], old[1], old[2]))
    return scale >= old_scale and digits - scale >= old_digits - old_scale
