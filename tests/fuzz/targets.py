"""What takes input that others have written: each with good input to begin with, and its own errors."""

from __future__ import annotations

import struct
import tempfile
from functools import partial
from pathlib import Path

import bson
import numpy as np
import pyarrow as pa
from bson.timestamp import Timestamp

from adapters.mongodb.documents.bson_walk import concatenated, document_starts
from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events.codec import Rules
from adapters.mongodb.events.decode import decode
from adapters.mongodb.events.facts import Watch
from adapters.mongodb.snapshot.conditions import condition_filter
from adapters.postgres.conditions.grammar import GRAMMAR as POSTGRES
from adapters.postgres.log.pgoutput import (
    HEADER,
    parse_message,
    parse_relation,
    parse_truncate,
    read_messages,
    read_tuples,
)
from adapters.source.conditions.rendering import render_condition
from adapters.source.conditions.writer import ResolvedColumn
from adapters.sqlserver.conditions.grammar import GRAMMAR as SQL_SERVER
from adapters.staging.file_blocks import FileBlock, FileBlocks
from adapters.storage.state_files import seal, unseal
from engine.config import read
from engine.config.sources.selection import CaptureSettings
from engine.errors import ConfigError, SignalError, SourceError, StateError
from engine.events.settings import EventSettings
from engine.expressions import bounded_matcher, matches, split_expressions
from engine.job.saved.state import State
from engine.job.saved.state_document import from_json, to_json
from engine.model import Channel, CollectionId, Position, Target
from engine.patterns.untranslatable import Untranslatable
from engine.staging.batches import StagedBatches, stage
from signals.model import Signal
from signals.parse.commands import parse
from signals.parse.names import KnownNames
from tests.fuzz.fuzzed import Fuzzed
from tests.fuzz.logs import LOGS
from tests.fuzz.saved import SAVED
from tests.fuzz.signals import SIGNALS

T = CollectionId(("public", "orders"))
KNOWN = KnownNames((T, CollectionId(("public", 'we"ird'))), bounded_matcher)
_TEMPORARY = tempfile.TemporaryDirectory(prefix="tidemark-fuzz-")
FOLDER = Path(_TEMPORARY.name)
LONGEST_S = 5.0
"""What an input may take of the processor; the slowest of what was found takes a tenth."""


def _signal(data: bytes) -> object:
    text = data.decode("utf-8", "surrogateescape")
    return parse(Signal(Channel.SOURCE, "0/1", None, "execute-snapshot", text), KNOWN)


def _configuration(suffix: str, data: bytes) -> object:
    path = FOLDER / f"configuration{suffix}"
    path.write_bytes(data)
    return read(path)


def _expression(data: bytes) -> object:
    try:
        return bounded_matcher(data.decode("utf-8", "surrogateescape"), ignore_case=True)("public.orders")
    except Untranslatable:
        return None  # told with what the signal names


def _owners_expression(data: bytes) -> object:
    try:
        expressions = split_expressions(data.decode("utf-8", "replace"))
        return matches(expressions, "public.o")
    except ValueError:
        return None  # told with the setting's name where it is read


def _postgres_condition(data: bytes) -> object:
    columns = {"id": "int4", "name": "text"}

    def find(reference: object) -> ResolvedColumn | None:
        name = getattr(reference, "name", "")
        return ResolvedColumn(f'"{name}"', columns[name]) if name in columns else None

    return render_condition(data.decode("utf-8", "surrogateescape"), POSTGRES, find, "public.orders")


def _sql_server_condition(data: bytes) -> object:
    text = data.decode("utf-8", "surrogateescape")
    return render_condition(text, SQL_SERVER, lambda _reference: ResolvedColumn("[id]", "int"), "dbo.orders")


def _mongodb_condition(data: bytes) -> object:
    return condition_filter(Target(T, data.decode("utf-8", "surrogateescape")))


def _row(data: bytes) -> object:
    payload = b"w" + bytes(HEADER - 1) + b"I" + bytes(4) + b"N" + data
    messages = read_messages(pa.array([payload], pa.large_binary()))
    tuples, _ends = read_tuples(messages, messages.starts + 6, 2)
    return tuples


def _change(data: bytes) -> object:
    rules = Rules(EventSettings("tm", ""), CaptureSettings(), "rs0", FieldRules())
    return decode([data], rules, Watch(), 0)


def _state(data: bytes) -> object:
    return from_json(data)


def _state_file(data: bytes) -> object:
    return unseal(3, data, where="state")


def _span(data: bytes) -> object:
    path = FOLDER / "span.arrow"
    path.write_bytes(data)
    return StagedBatches(FileBlock(str(path), _SPAN.block.checksum)).load()


_SPAN = stage(
    FileBlocks(str(FOLDER)),
    pa.record_batch({"message": pa.array([b"one", b"two"], pa.large_binary())}),
    "good",
)
_SPAN_BYTES = Path(f"{FOLDER}/good").read_bytes()
_EVENT = {
    "_id": {"_data": "82"},
    "operationType": "insert",
    "clusterTime": Timestamp(5, 1),
    "ns": {"db": "shop", "coll": "t"},
    "documentKey": {"_id": 1},
    "fullDocument": {"_id": 1, "a": ["x", 2.5, {"b": None}], "when": bson.Int64(3), "raw": b"12"},
}
_UPDATE = {
    **{name: value for name, value in _EVENT.items() if name != "fullDocument"},
    "operationType": "update",
    "updateDescription": {"updatedFields": {"a": 1}, "removedFields": ["b"], "truncatedArrays": []},
    "lsid": {"id": bson.Binary(bytes(16), 4), "uid": b"1"},
    "txnNumber": bson.Int64(7),
}
_RELATION = (
    b"R\0\0\x40\x01public\0orders\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19" + b"\xff" * 4
)
_SIGNALS = (
    b'{"data-collections": ["public.orders", "public\\\\.(a|b)_\\\\d{4}"], "type": "incremental"}',
    (
        b'{"data-collections": ["\\"public\\".\\"we\\"\\"ird\\""], "surrogate-key": "id",'
        b' "additional-conditions":'
        b' [{"data-collection": "public.orders", "filter": "id > 3 AND name LIKE \'x%\'"}]}'
    ),
)
_LEAST = b"database.hostname=h\ndatabase.user=u\ndatabase.dbname=d\ntopic.prefix=p\ntidemark.sink=null\n"
_EXPRESSIONS = (rb"public\.(orders|customers)_\d{4}", rb"(?i)[a-z&&[^b-d]]+\Q.\E\p{L}*?", rb"^(?:a{2,3}|b+)$")

FUZZED = {
    "signal": Fuzzed(_signal, _SIGNALS, (SignalError,)),
    "properties": Fuzzed(partial(_configuration, ".properties"), (_LEAST,), (ConfigError,)),
    "json": Fuzzed(
        partial(_configuration, ".json"),
        (
            (
                b'{"name": "c", "config": {"topic.prefix": "p", "database.port": 5432,'
                b' "database.hostname": "h",'
                b' "database.user": "u", "database.dbname": "d", "tidemark.sink": "null"}}'
            ),
        ),
        (ConfigError,),
    ),
    "yaml": Fuzzed(
        partial(_configuration, ".yaml"),
        (
            (
                b"topic.prefix: p\ndatabase.hostname: h\ndatabase.user: \"u\"\ndatabase.dbname: 'd'\n"
                b"database.port: 5432\ntidemark.sink: 'null'\n"
            ),
        ),
        (ConfigError,),
    ),
    "expression": Fuzzed(_expression, _EXPRESSIONS, (SignalError, ConfigError)),
    "list": Fuzzed(_owners_expression, (*_EXPRESSIONS, rb"(?!tmp)\w++,(a)\1"), (ConfigError,)),
    "condition-postgres": Fuzzed(
        _postgres_condition,
        (b"id BETWEEN 1 AND 3 OR lower(name) IN ('a', E'b\\n') AND NOT (id::text ~ 'x$')",),
        (SignalError,),
    ),
    "condition-sqlserver": Fuzzed(
        _sql_server_condition,
        (b"[id] IN (1, 2) AND CAST([id] AS nvarchar(10)) LIKE N'1%' ESCAPE '\\'",),
        (SignalError,),
    ),
    "condition-mongodb": Fuzzed(
        _mongodb_condition,
        (b'{"a": {"$gt": {"$numberLong": "3"}}, "$or": [{"b": {"$in": [1, null]}}]}',),
        (SignalError,),
    ),
    "relation": Fuzzed(parse_relation, (_RELATION,), (SourceError,)),
    "truncate": Fuzzed(parse_truncate, (b"T\0\0\0\x02\0\0\0\x40\x01\0\0\x40\x02",), (SourceError,)),
    "message": Fuzzed(
        parse_message, (b"M\x01" + struct.pack(">q", 9) + b"prefix\0\0\0\0\x04body",), (SourceError,)
    ),
    "row": Fuzzed(_row, (b"\0\x02t\0\0\0\x0212n", b"\0\x02ut\0\0\0\x01x"), (SourceError,)),
    "bson": Fuzzed(_change, (bson.encode(_EVENT), bson.encode(_UPDATE)), (SourceError,)),
    "bson-array": Fuzzed(
        lambda data: document_starts(data, 0), (bson.encode({"0": {"a": 1}, "1": {}}),), (SourceError,)
    ),
    "bson-documents": Fuzzed(concatenated, (bson.encode({"a": 1}) * 3,), (SourceError,)),
    "state": Fuzzed(_state, (to_json(State(position=Position((1, 2)))),), (StateError,)),
    "state-file": Fuzzed(_state_file, (seal(3, to_json(State())),), (StateError,)),
    "span": Fuzzed(_span, (_SPAN_BYTES,), (SourceError,)),
    **SAVED,
    **LOGS,
    **SIGNALS,
}


def accepted(fuzzed: Fuzzed, data: bytes) -> bool:
    """Whether it was taken; an error of ours is an answer, too, and anything else passes through."""
    try:
        with np.errstate(all="ignore"):
            fuzzed.run(data)
    except fuzzed.errors:
        return False
    return True
