"""Records of the signal topic, lines of the signal file, and rows of the signal table, up to the answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import orjson

from adapters.mongodb.documents.keys import key_from_json
from adapters.postgres.conditions.grammar import GRAMMAR as POSTGRES
from adapters.postgres.conditions.trusted_sql import plain_condition
from adapters.source.conditions.selects import select_condition
from adapters.source.conditions.writer import ResolvedColumn
from adapters.source.signals.scopes import JsonKind, ScopeColumn, texts_of
from adapters.sqlserver.conditions.grammar import GRAMMAR as SQL_SERVER
from adapters.sqlserver.conditions.trusted_sql import check_trusted
from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.model import Channel, CollectionId
from signals.answers import accepted, line
from signals.model import Message, Signal
from signals.parse.commands import parse
from signals.parse.message import signal_of
from signals.parse.names import KnownNames
from signals.parse.scope import scope_of
from tests.fuzz.fuzzed import Fuzzed

if TYPE_CHECKING:
    from adapters.source.conditions.writer import Grammar

_KNOWN = KnownNames(
    (CollectionId(("public", "orders")), CollectionId(("public", 'we"i\nrd'))), bounded_matcher
)
_MESSAGES = (
    {"id": "a", "type": "execute-snapshot", "data": {"data-collections": ["public.orders"]}},
    {"type": "stop-snapshot", "data": '{"data-collections": ["public.*"], "type": "incremental"}'},
    {"id": "b\n", "type": "log", "data": {"message": "at {}"}},
)
_SCOPED = (
    '{"data-collections": ["public.orders"], "keys": [[1], ["a", 2.5], [{"$oid": "5"}], [null]]}',
    (
        '{"data-collections": ["public.orders"], "priority": 3, "max-rows-per-second": 10, "dry-run": false,'
        ' "max-bytes-per-second": 99, "ranges": [{"from": [1], "to": [2]}, {"to": null}]}'
    ),
)
_ROWS = (
    ["a", "execute-snapshot", '{"data-collections": ["public.orders"]}'],
    ["b", "log", '{"message": "x"}'],
    *(["c", "execute-snapshot", data] for data in _SCOPED),
)


def _id(data: bytes) -> object:
    """An `_id` of a signal for MongoDB: what is none is a ValueError, which is told without the value."""
    try:
        return key_from_json(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        return None


def _message(data: bytes) -> object:
    return _answered(signal_of(Message(Channel.KAFKA, "signals-0@7", data)))


def _row(data: bytes) -> object:
    """A row of the signal table, which has texts or NULLs alone."""
    try:
        values = [None if value is None else str(value) for value in orjson.loads(data)]
        id_, type_, text = (*values, None, None, None)[:3]
    except (orjson.JSONDecodeError, TypeError):
        raise SignalError("no row") from None
    return _answered(Signal(Channel.SOURCE, "0/1", id_, type_, text))


_KEY = (
    ScopeColumn("id", JsonKind.NUMBER),
    ScopeColumn("b", JsonKind.BOOLEAN),
    ScopeColumn("t", JsonKind.STRING, nullable=True),
)
_SCOPES = (
    '{"keys": [[1, true, "a"], ["2", "f", null], [-3.5e1, false, "\\u00e9"]]}',
    '{"ranges": [{"from": [1, true, "a"], "to": ["2", "f", "b"]}, {"from": null, "to": [3, false, "c"]}]}',
)


def _scope(data: bytes) -> object:
    """The rows that a signal asks for, up to the texts that are sent as literals."""
    try:
        text = data.decode()
        fields = dict(orjson.loads(text))
    except (orjson.JSONDecodeError, UnicodeDecodeError, TypeError, ValueError):
        raise SignalError("no data") from None
    scope = scope_of(text, fields)
    if scope is None:
        return None
    texts = texts_of(scope, _KEY, _TABLE)
    values = [value for key in (*texts.keys, *texts.bounds) for value in key if value is not None]
    if any("\0" in value for value in values):
        raise AssertionError(values)
    return texts


_TABLE = CollectionId(("public", "orders"))
_COLUMNS = {"id": ResolvedColumn('"id"', "int4"), "name": ResolvedColumn('"name"', "text")}


def _select(grammar: Grammar, data: bytes) -> object:
    """The filter of a blocking snapshot, of which nothing but the condition may reach the server."""
    text = data.decode("utf-8", "surrogateescape")
    names = [found.name for found in _COLUMNS.values()]
    return select_condition(text, grammar, lambda column: _COLUMNS.get(column.name), _TABLE, names)


def _trusted(data: bytes) -> object:
    """SQL of those who may send any: what it is refused for is a ValueError that becomes the answer."""
    try:
        return plain_condition(data.decode("utf-8", "replace")).encode()
    except ValueError:
        return None


def _answered(signal: Signal) -> object:
    """The line of the log that says what became of it, which is one line of printable characters."""
    said = line(accepted(signal, parse(signal, _KNOWN)))
    if not said.isprintable():
        raise AssertionError(said)
    return said


SIGNALS = {
    "signal-topic": Fuzzed(_message, tuple(map(orjson.dumps, _MESSAGES)), (SignalError,), json=True),
    "signal-id": Fuzzed(_id, (b'{"$oid": "5f0000000000000000000001"}', b"7", b'"a"', b'{"a": [1.5]}'), ()),
    "signal-scope": Fuzzed(_scope, tuple(text.encode() for text in _SCOPES), (SignalError,), json=True),
    "select-postgres": Fuzzed(
        partial(_select, POSTGRES),
        (b"SELECT * FROM public.orders WHERE id > 3 AND name = E'a\\n'", b'select id, "name" from orders'),
        (SignalError,),
    ),
    "select-sqlserver": Fuzzed(
        partial(_select, SQL_SERVER),
        (b"SELECT * FROM [public].orders WHERE [id] IN (1, 2) AND name LIKE N'1%'",),
        (SignalError,),
    ),
    "trusted-postgres": Fuzzed(
        _trusted, (b"id = 3 AND name = $$a$$ -- b\n OR name = E'c\\n' /* d */ AND tags ? 'e'",), ()
    ),
    "trusted-sqlserver": Fuzzed(
        lambda data: check_trusted(data.decode("utf-8", "surrogateescape"), "dbo.orders"),
        (b"[id] IN (SELECT id FROM dbo.others WHERE name = N'a') -- b",),
        (SignalError,),
    ),
    "signal-row": Fuzzed(_row, tuple(map(orjson.dumps, _ROWS)), (SignalError,), json=True),
}
