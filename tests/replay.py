"""Emitted events back into tables: what a consumer would hold, laid beside the source.

Reads what the files sink wrote and knows nothing of the engine: values are read as the documents of
the event format describe them and handed to PostgreSQL as text. A key's last event decides, so the
events are taken from the newest to the oldest, and only the keys seen are kept in memory. The rows
stand in a schema of their own beside the source's tables; both sides are then compared in SQL.
"""

from __future__ import annotations

import base64
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

Reader: TypeAlias = "Callable[[Any], Any]"
Name: TypeAlias = tuple[str, str]
"""Schema and table."""

SCRATCH = "replayed"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = """
SELECT a.attname, t.typname, a.atttypmod,
       coalesce(a.attnum = ANY (i.indkey), false)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as the replay needs it: `readers` turn a JSON value into what PostgreSQL takes."""

    table: Name
    columns: tuple[str, ...]
    key: tuple[str, ...]
    readers: tuple[Reader | None, ...]

    def row(self, image: Mapping[str, Any]) -> list[Any]:
        """The values of an event's row, column by column."""
        values = [image[name] for name in self.columns]
        for place, reader in enumerate(self.readers):
            if reader is not None and values[place] is not None:
                values[place] = reader(values[place])
        return values

    def key_of(self, image: Mapping[str, Any]) -> Any:
        """The values that tell the row from every other one."""
        if len(self.key) == 1:
            return image[self.key[0]]
        return tuple(image[name] for name in self.key)


@dataclass(slots=True)
class Figures:
    """What was found: events by operation (None: tombstones), and rows per table after the replay."""

    operations: Counter[str | None] = field(default_factory=Counter)
    rows: Counter[Name] = field(default_factory=Counter)

    @property
    def events(self) -> int:
        """Events of the replayed tables, tombstones included."""
        return self.operations.total()


@dataclass(frozen=True, slots=True)
class Checksum:
    """The number of rows and a digest over all columns of all rows, whatever their order."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One table on both sides."""

    table: Name
    source: Checksum
    replayed: Checksum

    @property
    def equal(self) -> bool:
        """Whether the replay holds exactly the source's rows."""
        return self.source == self.replayed


def shape_of(connection: psycopg.Connection[Any], table: Name, *, key: Sequence[str] | None = None) -> Shape:
    """Read a table's columns and key from the catalog; `key` replaces or supplies its key."""
    found = connection.execute(_COLUMNS, [_identifier(table).as_string(connection)]).fetchall()
    primary = tuple(name for name, _, _, in_key in found if in_key)
    readers = tuple(_reader(type_, modifier) for _, type_, modifier, _ in found)
    return Shape(table, tuple(row[0] for row in found), tuple(key or primary), readers)


def replay(connection: psycopg.Connection[Any], events_dir: Path, shapes: Mapping[str, Shape]) -> Figures:
    """Load into the scratch schema what the events say of each topic's table."""
    figures = Figures()
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(SCRATCH)))
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCRATCH)))
    for shape in shapes.values():
        statement = sql.SQL("CREATE UNLOGGED TABLE {} (LIKE {})")
        connection.execute(statement.format(_scratch(shape.table), _identifier(shape.table)))
    with ExitStack() as open_copies:
        write = {
            topic: open_copies.enter_context(_copying(connection, shape)).write_row
            for topic, shape in shapes.items()
        }
        for topic, row in last_rows(events_dir, shapes, figures):
            write[topic](row)
            figures.rows[shapes[topic].table] += 1
    return figures


def last_rows(
    events_dir: Path, shapes: Mapping[str, Shape], figures: Figures
) -> Iterator[tuple[str, list[Any]]]:
    """Each row that the events leave, with its topic; the row whose event is newest comes first."""
    seen: dict[str, set[Any]] = {topic: set() for topic in shapes}
    emptied: set[str] = set()
    for topic, value in newest_first(events_dir):
        shape = shapes.get(topic)
        if shape is None:
            continue
        operation = None if value is None else value["op"]
        figures.operations[operation] += 1
        if value is None or topic in emptied:
            continue
        if operation == "t":
            emptied.add(topic)
            continue
        image = value["before"] if operation == "d" else value["after"]
        key = shape.key_of(image)
        if key in seen[topic]:
            continue
        seen[topic].add(key)
        if operation != "d":
            yield topic, shape.row(image)


def newest_first(events_dir: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Topic and value of each event, the last one first; a part is held in memory at a time."""
    return ((topic, value) for topic, _key, value in keyed_newest_first(events_dir))


def keyed_newest_first(events_dir: Path) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    """Topic, key and value of each event, the last one first."""
    for part in sorted(events_dir.glob("turn-*/part-*.jsonl"), reverse=True):
        for line in reversed(part.read_bytes().split(b"\n")):
            if line:
                event = orjson.loads(line)
                yield event["topic"], _payload(event["key"]), _payload(event["value"])


def compare(connection: psycopg.Connection[Any], table: Name, *, where: str = "true") -> Compared:
    """Compare a table, or its rows `where`, with its replay."""
    source = checksum(connection, _identifier(table), where)
    return Compared(table, source, checksum(connection, _scratch(table), "true"))


def checksum(connection: psycopg.Connection[Any], relation: sql.Composable, where: str) -> Checksum:
    """Digest of a relation's rows; computed by the server, over its own text of each row."""
    query = sql.SQL(
        "SELECT count(*), md5(coalesce(string_agg(h, '' ORDER BY h), ''))"
        ' FROM (SELECT md5(t::text) COLLATE "C" AS h FROM {} t WHERE {}) rows'
    ).format(relation, sql.SQL(where))
    row = connection.execute(query).fetchone()
    assert row is not None
    return Checksum(*row)


def differences(connection: psycopg.Connection[Any], table: Name, *, limit: int = 5) -> list[str]:
    """A few rows that stand on one side only, for a reader."""
    query = sql.SQL("SELECT t::text FROM {} t EXCEPT ALL SELECT t::text FROM {} t LIMIT {}")
    source, replayed = _identifier(table), _scratch(table)
    missing = connection.execute(query.format(source, replayed, limit)).fetchall()
    wrong = connection.execute(query.format(replayed, source, limit)).fetchall()
    return [f"only in the source: {row}" for (row,) in missing] + [
        f"only in the replay: {row}" for (row,) in wrong
    ]


def _identifier(table: Name) -> sql.Identifier:
    return sql.Identifier(*table)


def _scratch(table: Name) -> sql.Identifier:
    return sql.Identifier(SCRATCH, ".".join(table))


@contextmanager
def _copying(connection: psycopg.Connection[Any], shape: Shape) -> Iterator[psycopg.Copy]:
    """A COPY into the scratch table on a connection of its own: the tables' rows come interleaved."""
    info = connection.info
    with psycopg.connect(info.dsn, password=info.password) as own, own.cursor() as cursor:
        statement = sql.SQL("COPY {} FROM STDIN").format(_scratch(shape.table))
        with cursor.copy(statement) as copy:
            yield copy


def _payload(document: Any) -> Any:
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["payload"]
    return document


def _reader(type_: str, modifier: int) -> Reader | None:
    """How a value of this type is read; None hands it on as it stands in the JSON text."""
    milliseconds = 0 <= modifier <= 3
    match type_:
        case "numeric":
            return _fixed((modifier - 4) & 0xFFFF if modifier >= 4 else None)
        case "date":
            return lambda days: (date(1970, 1, 1) + timedelta(days=days)).isoformat()
        case "timestamp":
            return lambda time: _moment(time * 1000 if milliseconds else time)
        case "time":
            return lambda time: _moment(time * 1000 if milliseconds else time)[11:]
        case "bytea":
            return lambda text: "\\x" + base64.b64decode(text).hex()
        case _:
            return None


def _moment(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None).isoformat(sep=" ")


def _fixed(scale: int | None) -> Reader:
    """A decimal of a known scale is its unscaled bytes; one of any scale brings its scale along."""
    if scale is not None:
        return lambda text: _decimal(text, scale)
    return lambda parts: _decimal(parts["value"], parts["scale"])


def _decimal(text: str, scale: int) -> str:
    unscaled = int.from_bytes(base64.b64decode(text), "big", signed=True)
    digits = f"{abs(unscaled):0{scale + 1}d}"
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"
