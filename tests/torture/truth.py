"""What the database says was committed, in order: its log, decoded by `test_decoding`.

Owns the second replication slot, and the parsing of that plug-in's text. An entry has values as the database
prints them. One that an update left out of the log is `UNCHANGED`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

Row: TypeAlias = dict[str, "str | None"]
SLOT: Final = "truth"
UNCHANGED: Final = "\x00unchanged"
PREFIX: Final = "torture"
"""The prefix of messages that inform the judge of what the log does not show."""
_NAME = r'(?:"(?:[^"]|"")+"|[^"\s.:,]+)'
_HEAD = re.compile(
    rf"table ((?:{_NAME})\.(?:{_NAME})(?:, (?:{_NAME})\.(?:{_NAME}))*): (INSERT|UPDATE|DELETE|TRUNCATE):"
)
_MESSAGE = re.compile(rf"message: transactional: 1 prefix: {PREFIX}, sz: \d+ content:(.*)", re.DOTALL)
_COLUMN = re.compile(r" (\"(?:[^\"]|\"\")+\"|[^\[\s]+)\[((?:[^\[\]]|\[\])*)\]:('(?:[^']|'')*'|[^ ]+)")
_UNCHANGED_WORD = "unchanged-toast-datum"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change: `op` c, u, d or t, or m for a message, which has a `text`.

    `old` holds the columns of the old row that the log has. `types` has each column's type, as the server
    writes it. `place` is the entry's place in the log, `end` that of its transaction's end. A `silent` entry
    is not published.
    """

    transaction: int
    op: str
    tables: tuple[str, ...]
    old: Row = field(default_factory=dict)
    new: Row = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    place: int = 0
    end: int = 0
    text: str = ""
    silent: bool = False


class UnexpectedWrite(Exception):
    """The log has something that no writer writes."""


class Truth:
    """Reads the slot, each entry once, even if the server has forgotten how far it was read.

    `more` are further arguments for creating the slot. `passed` is the end of what was read.
    """

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], more: str = "") -> None:
        connection.execute(
            f"SELECT pg_create_logical_replication_slot(%s, 'test_decoding'{more})".encode(), [SLOT]
        )
        self.passed = 0
        self.transactions = 0

    def read(self, connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[Entry]:
        """The entries committed since the last call, in log order.

        With as much memory as it takes: in little memory, `test_decoding` of PostgreSQL 18.6 has crashed the
        server over transactions that were rolled back.
        """
        connection.execute("SET logical_decoding_work_mem = '1GB'")
        rows = connection.execute(
            "SELECT (lsn - '0/0')::bigint, xid::text::bigint, data FROM pg_logical_slot_get_changes("
            "%s, NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')",
            [SLOT],
        ).fetchall()
        transaction: list[Entry] = []
        for place, xid, data in rows:
            assert isinstance(place, int)
            assert isinstance(xid, int)
            text = str(data)
            if text == "BEGIN":
                transaction = []
            elif text == "COMMIT":
                if place > self.passed:
                    self.passed = place
                    self.transactions += 1
                    yield from (replace(logged, end=place) for logged in transaction)
            else:
                transaction.append(replace(entry(xid, text), place=place))


def entry(transaction: int, text: str) -> Entry:
    """Parse one line of the plug-in."""
    if message := _MESSAGE.match(text):
        return Entry(transaction, "m", ("message",), text=message[1])
    head = _HEAD.match(text)
    if head is None:
        raise UnexpectedWrite(f"transaction {transaction} wrote {text[:200]!r}")
    tables = tuple(_plain(name) for name in head[1].split(", "))
    verb, rest = head[2], text[head.end() :]
    types: dict[str, str] = {}
    match verb:
        case "TRUNCATE":
            return Entry(transaction, "t", tables)
        case "INSERT":
            return Entry(transaction, "c", tables, new=_columns(rest, types), types=types)
        case "DELETE":
            return Entry(transaction, "d", tables, old=_columns(rest, types), types=types)
    old, new = "", rest
    if rest.startswith(" old-key:"):
        old, new = _parted(rest)
    return Entry(transaction, "u", tables, _columns(old, types), _columns(new, types), types)


def _parted(rest: str) -> tuple[str, str]:
    """The texts of the old and the new tuple. Values may contain anything."""
    at = len(" old-key:")
    while found := _COLUMN.match(rest, at):
        at = found.end()
    marker = " new-tuple:"
    if not rest.startswith(marker, at):
        raise UnexpectedWrite(f"no new tuple at {rest[at : at + 40]!r}")
    return rest[len(" old-key:") : at], rest[at + len(marker) :]


def _columns(text: str, types: dict[str, str]) -> Row:
    found: Row = {}
    at = 0
    while column := _COLUMN.match(text, at):
        name = _unquoted(column[1], '"')
        types[name] = column[2]
        found[name] = _value(column[3])
        at = column.end()
    if at != len(text) and text[at:] != " (no-tuple-data)":
        raise UnexpectedWrite(f"no column at {text[at : at + 80]!r}")
    return found


def _value(text: str) -> str | None:
    if text == "null":
        return None
    if text == _UNCHANGED_WORD:
        return UNCHANGED
    return _unquoted(text, "'")


def _unquoted(text: str, quote: str) -> str:
    return text[1:-1].replace(quote * 2, quote) if text.startswith(quote) else text


def _plain(name: str) -> str:
    return ".".join(_unquoted(part, '"') for part in re.findall(_NAME, name))
