"""What a database's change tables say was committed, in order, read through the stand-in's PostgreSQL.

Inside a commit, changes are ordered by command id. Of a table's two capture instances, the younger counts for
the commits from its start on. An update of a key is a delete and an insert that share a change LSN: one entry
if they are adjacent, two if a statement moved several keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg import sql

from tests.torture.sqlserver_tables import stored, text_of
from tests.torture.truth import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg

    from tests.torture.truth import Row

    Connection = psycopg.Connection[Any]

_Change: TypeAlias = "tuple[str, int, str, int, str, Row]"
"""Commit, command, change, operation, table and row of a change row. They sort in log order."""
_OPS = {1: "d", 2: "c", 3: "d", 4: "u"}
_INSTANCES = """
SELECT t.capture_instance, s.name || '.' || o.name, encode(t.start_lsn, 'hex'), t.object_id
FROM cdc.change_tables t JOIN sys.objects o ON o.object_id = t.source_object_id
JOIN sys.schemas s USING (schema_id) ORDER BY t.object_id
"""
_COLUMNS = (
    "SELECT column_name, column_type FROM cdc.captured_columns WHERE object_id = %s ORDER BY column_ordinal"
)
_TABLE_COLUMNS = """
SELECT c.name, t.name FROM sys.columns c JOIN sys.types t USING (user_type_id)
JOIN sys.objects o ON o.object_id = c.object_id JOIN sys.schemas s USING (schema_id)
WHERE s.name || '.' || o.name = %s ORDER BY c.column_id
"""


@dataclass(slots=True)
class Truth:
    """Reads one database's change tables, each row once. `commits` counts transactions."""

    database: str
    commits: int = 0
    _passed: str = ""
    _held: list[Entry] = field(default_factory=list)

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries that no change table has, for the next read."""
        self._held += entries

    def read(self, connection: Connection) -> list[Entry]:
        """Capture what is committed, and return the entries since the last call."""
        connection.execute("SELECT mssql.capture()")
        with connection.transaction():
            found = connection.execute("SELECT encode(sys.fn_cdc_get_max_lsn(), 'hex')").fetchone()
            upto = found[0] if found else None
            rows = [row for row in self._rows(connection) if upto and self._passed < row[0] <= upto]
        self._passed = max(self._passed, upto or "")
        self.commits += len({commit for commit, *_rest in rows})
        entries = [*paired(rows), *self._held]
        self._held = []
        return sorted(entries, key=lambda entry: commit_of(entry.transaction))

    def _rows(self, connection: Connection) -> Iterable[_Change]:
        instances = connection.execute(_INSTANCES).fetchall()
        for instance, table, start, number in instances:
            ends = [instance[2] for instance in instances if instance[1] == table and instance[3] > number]
            columns = connection.execute(_COLUMNS, [number]).fetchall()
            for commit, command, change, operation, *texts in connection.execute(
                _selected(instance, columns)
            ):
                if commit >= start and not any(commit >= end for end in ends):
                    yield commit, command, change, operation, f"{self.database}.{table}", _row(columns, texts)


def _selected(instance: str, columns: Sequence[tuple[str, str]]) -> sql.Composed:
    listed = [_text(name, kind) for name, kind in columns]
    return sql.SQL(
        'SELECT encode("__$start_lsn", \'hex\'), "__$command_id", encode("__$seqval", \'hex\'),'
        ' "__$operation", {} FROM {}'
    ).format(sql.SQL(", ").join(listed), sql.Identifier("cdc", f"{instance}_CT"))


def _text(name: str, kind: str) -> sql.SQL:
    return sql.SQL(text_of(sql.Identifier(name).as_string(), kind))


def _row(columns: Sequence[tuple[str, str]], texts: Sequence[str | None]) -> Row:
    return {name: stored(text, kind) for (name, kind), text in zip(columns, texts, strict=True)}


def paired(rows: Iterable[_Change]) -> Iterable[Entry]:
    """The entries. Adjacent rows that share both LSNs are the two sides of an update."""
    last: Entry | None = None
    for commit, _command, change, operation, table, row in sorted(rows, key=lambda row: row[:4]):
        place = number(commit, change)
        if last is not None and last.transaction == place:
            last = replace(last, op="u", new=row)
            continue
        if last is not None:
            yield last
        deleted = _OPS[operation] == "d"
        last = Entry(place, _OPS[operation], (table,), old=row if deleted else {}, new={} if deleted else row)
    if last is not None:
        yield last


def number(commit: str, change: str = "") -> int:
    """Both LSNs as one number that grows along the log."""
    digits = [position.replace(":", "").lower() for position in (commit, change or "0")]
    return (int(digits[0], 16) << 80) | int(digits[1], 16)


def commit_of(place: int) -> str:
    """The commit LSN, as in positions."""
    digits = f"{place >> 80:020x}"
    return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"


def table_rows(connection: Connection, table: str) -> list[Row]:
    """The rows of a table (`dbo.t`) as they are, columns by name."""
    columns = connection.execute(_TABLE_COLUMNS, [table]).fetchall()
    listed = sql.SQL(", ").join(_text(name, kind) for name, kind in columns)
    query = sql.SQL("SELECT {} FROM {}").format(listed, sql.Identifier(*table.split(".")))
    return [_row(columns, texts) for texts in connection.execute(query)]
