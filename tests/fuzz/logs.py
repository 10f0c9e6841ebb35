"""Logs as drivers hand them over: pgoutput's messages, change rows, answers of a change stream, rows read."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
import numpy as np
import orjson
import pyarrow as pa
from bson.timestamp import Timestamp

from adapters.mongodb.documents.bson_walk import concatenated
from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events.codec import Rules as MongoRules
from adapters.mongodb.events.codec import codec_of
from adapters.mongodb.events.decode import decode as decode_mongodb
from adapters.mongodb.events.facts import Watch as MongoWatch
from adapters.mongodb.events.rows import ReadEvents
from adapters.mongodb.log.split_events import Parts
from adapters.mongodb.log.stream import answer
from adapters.postgres.events.codec import codec_for as postgres_codec
from adapters.postgres.events.decode import decode as decode_postgres
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.assembler import Assembler
from adapters.postgres.log.streamed_transactions import STREAMED, StreamedTransactions
from adapters.postgres.log.touched_keys import Watch as PostgresWatch
from adapters.postgres.server.table import Column as PostgresColumn
from adapters.postgres.server.table import Table as PostgresTable
from adapters.postgres.server.table import relation_of
from adapters.sqlserver.events.codec import codec_for as sqlserver_codec
from adapters.sqlserver.events.decode import Rules, Watch, decode
from adapters.sqlserver.log.changes import collided, in_order, raw_batch, unnumbered
from adapters.sqlserver.log.entries import instance_of
from adapters.sqlserver.server.table import Column, Table
from engine.config.sources.selection import CaptureSettings
from engine.errors import PositionLost, SourceError
from engine.events.settings import EventSettings
from engine.events.values.row_form import RowMode, RowShape
from engine.events.values.row_texts import split_rows
from engine.model import CollectionId, Position
from tests.fuzz.fuzzed import Fuzzed
from tests.unit.adapters.postgres.messages import UNCHANGED, Log

if TYPE_CHECKING:
    from collections.abc import Sequence

_SETTINGS = EventSettings("tm", "shop", transaction_metadata=True)

# PostgreSQL.

_STREAMED = {bytes([kind]) for kind in STREAMED}
_TEMPORARY = tempfile.TemporaryDirectory(prefix="tidemark-fuzz-")
_FOLDER = Path(_TEMPORARY.name)
_BETWEEN = b"\xde\xad\xbe\xef"
"""Between messages, which damage may run together."""
_ORDERS = PostgresTable(
    1,
    CollectionId(("public", "orders")),
    "r",
    (PostgresColumn("id", 23, nullable=False), PostgresColumn("note", 25), PostgresColumn("at", 1184)),
    ("id",),
    identity="d",
    identity_key=("id",),
)
_CODECS = {1: postgres_codec(relation_of(_ORDERS), _ORDERS, _SETTINGS, {})}


def _log_of_changes() -> Log:
    """A transaction that has not ended."""
    log = Log()
    log.begin(7)
    log.insert(1, 1, "a", "2024-05-06 07:08:09+00")
    log.update(1, (2, UNCHANGED, None), (1, None, None))
    log.message("prefix", b"content")
    log.delete(1, (2, None, None))
    return log


def _postgres_log() -> bytes:
    log = _log_of_changes()
    log.truncate(1, 9)
    log.commit()
    return _BETWEEN.join(log.messages)


def _streamed_log() -> bytes:
    """A transaction in two blocks, with another one between them and a savepoint that was rolled back."""
    log = _log_of_changes()
    log.commit()
    _begin, insert, update, message, delete, commit = log.messages
    head, xid = commit[:25], (8).to_bytes(4, "big")
    blocks = [
        [head + b"S" + xid + b"\1", *(_inside(xid, sent) for sent in (insert, update)), head + b"E"],
        log.messages,
        [
            head + b"S" + xid + b"\0",
            *(_inside((9).to_bytes(4, "big"), sent) for sent in (message, delete)),
            _inside(xid, insert),
            head + b"E",
            head + b"A" + xid + (9).to_bytes(4, "big"),
            head + b"c" + xid + commit[26:],
        ],
    ]
    return _BETWEEN.join(sent for block in blocks for sent in block)


def _inside(xid: bytes, sent: bytes) -> bytes:
    """A message as a block has it: with the id of its transaction."""
    return sent[:26] + xid + sent[26:]


def _streamed(data: bytes) -> object:
    """Messages with blocks of open transactions, up to the events."""
    assembler = Assembler(Position((0, 0)), last_commit_end=None, part_rows=100, part_bytes=1 << 20)
    streamed = StreamedTransactions(_FOLDER)
    try:
        for payload in data.split(_BETWEEN):
            if streamed.in_block or payload[25:26] in _STREAMED:
                streamed.add(payload)
                for sent in streamed.replayed():
                    assembler.add(sent)
            else:
                assembler.add(payload)
                if payload[25:26] == b"R":
                    streamed.define(payload)
    finally:
        streamed.close()
    return _decoded(assembler)


def _pgoutput(data: bytes) -> object:
    """Messages from the wire to events: a third of the logs in parts of a few entries, the others in one."""
    part_rows = 100 if len(data) % 3 else 3
    assembler = Assembler(Position((0, 0)), last_commit_end=None, part_rows=part_rows, part_bytes=1 << 20)
    for payload in data.split(_BETWEEN):
        assembler.add(payload)
    return _decoded(assembler)


def _decoded(assembler: Assembler) -> object:
    watch, moment = PostgresWatch(), Moment(7)
    cuts = assembler.take()
    return [decode_postgres(cut.part, _CODECS, _SETTINGS, watch, moment).events for cut in cuts]


# SQL Server.

_TABLE = Table(
    CollectionId(("shop", "dbo", "orders")),
    (
        Column("id", 1, "int", nullable=False),
        Column("name", 2, "nvarchar", 50),
        Column("paid", 3, "decimal", precision=9, scale=2),
        Column("at", 4, "datetime2", scale=7),
        Column("raw", 5, "varbinary", -1, nullable=False),
    ),
    ("id",),
)
_LOGGED = "2024-05-06 07:08:09.123"
_LSN = "0000002700000ac00002"
_VALUES = "ff\x1f1\x1fann\x1f12.50\x1f2024-05-06 07:08:09.1234567\x1f0A0B"
_CHANGES = (
    [
        [0, _LSN, 1, "00000027000007580005", 2, _LOGGED, _VALUES],
        [0, _LSN, 2, "00000027000007580006", 3, _LOGGED, _VALUES],
        [0, _LSN, 2, "00000027000007580006", 4, _LOGGED, _VALUES.replace("ann", "bob")],
        [0, "0000002700000AC00003", 0, "00000027000007580007", 1, None, _VALUES],
        [7, _LSN, 1, "00000027000007580008", 2, _LOGGED, ""],
    ],
)


def _change_rows(mode: RowMode, data: bytes) -> object:
    """Rows of change tables from the driver's columns to events."""
    try:
        rows = [tuple(row) for row in orjson.loads(data)]
        columns = [
            pa.array([row[at] for row in rows], kind) for at, kind in enumerate((*_DRIVERS, pa.string()))
        ]
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError, OverflowError, pa.ArrowException):
        raise SourceError("no rows of a driver") from None
    if any(columns[at].null_count for at in (0, 1, 2, 3, 4, 6)):
        raise SourceError("columns that are never NULL")
    batch = in_order([raw_batch(columns)]).to_batches()
    collided(batch, {0: len(_TABLE.columns)})
    unnumbered(batch)
    instance = instance_of(_TABLE, sqlserver_codec(_TABLE, _SETTINGS), mode)
    return decode(batch, Rules(_SETTINGS, {0: instance}), Watch(frozenset({_TABLE.id})), 7).events


_DRIVERS = (pa.int32(), pa.string(), pa.int32(), pa.string(), pa.int32(), pa.string())


# MongoDB.

_NAMESPACE = {"db": "shop", "coll": "t"}
_TOKEN = {"_data": "8265A0B1C2000000012B022C0100296E5A1004", "_typeBits": b"\x82"}


def _change(operation: str, **more: Any) -> dict[str, Any]:
    return {
        "_id": _TOKEN,
        "operationType": operation,
        "clusterTime": Timestamp(5, 1),
        "ns": _NAMESPACE,
        **more,
    }


_KEY = {"documentKey": {"_id": 1}}
_DOCUMENT = {"_id": 1, "a": ["x", 2.5, {"b": None}], "n": bson.Int64(3), "d": bson.Decimal128("1.5")}
_DESCRIBED = {"updatedFields": {"_id": 1.0, "a.0": 1}, "removedFields": ["b"], "truncatedArrays": []}
_CHANGED = (
    _change("insert", **_KEY, fullDocument=_DOCUMENT),
    _change("update", **_KEY, updateDescription=_DESCRIBED, fullDocument=_DOCUMENT),
    _change("replace", **_KEY, fullDocument=_DOCUMENT, fullDocumentBeforeChange={"_id": 1}),
    _change("delete", **_KEY, lsid={"id": bson.Binary(bytes(16), 4), "uid": b"1"}, txnNumber=bson.Int64(7)),
    _change("rename", to={"db": "shop", "coll": "u"}),
    _change("drop"),
    {**_change("dropDatabase"), "ns": {"db": "shop"}},
    {**_change("invalidate"), "splitEvent": {"fragment": 1, "of": 2}},
)
_ANSWER = {
    "cursor": {
        "id": bson.Int64(7),
        "ns": "shop.t",
        "nextBatch": list(_CHANGED),
        "postBatchResumeToken": _TOKEN,
    },
    "$clusterTime": {"clusterTime": Timestamp(9, 1)},
    "ok": 1.0,
}
_RULES = MongoRules(_SETTINGS, CaptureSettings(), "rs0", FieldRules())
_READ = ReadEvents(codec_of(CollectionId(("shop", "t")), _RULES), "{}", 7)
_ALIKE = (*({"_id": number, "a": "x", "b": [1, {"c": 2.5}]} for number in range(3)), _DOCUMENT)


def _answered(data: bytes) -> object:
    """An answer of the server from its bytes to events, the parts of large ones put together."""
    came = answer(data, "nextBatch").came
    whole = Parts().joined(came)
    return decode_mongodb(
        whole, _RULES, MongoWatch(frozenset({CollectionId(("shop", "t"))}), ((0, 0),)), 7
    ).events


def _documents(data: bytes) -> object:
    """Documents that were read, up to their READ events."""
    return _READ.batches(data, np.array(concatenated(data)[:-1], np.int64))


# Rows of a query.

_SHAPE = RowShape(("id", "name", "note"), (False, True, True), (False, True, False))
_FAST, _EXACT = ["f\x1f1\x1fann\x1fx", "t\x1f2\x1f\x1f"], ["1,3,-1,;1ann", "1,-1,1,;2x"]


def _rows(mode: RowMode, data: bytes) -> object:
    try:
        texts: Sequence[str] = [str(text) for text in orjson.loads(data)]
    except (orjson.JSONDecodeError, TypeError):
        raise SourceError("no rows of a driver") from None
    return split_rows(pa.array(texts, pa.large_string()), _SHAPE, mode)


LOGS = {
    "pgoutput": Fuzzed(_pgoutput, (_postgres_log(),), (SourceError, PositionLost)),
    "pgoutput-streamed": Fuzzed(_streamed, (_streamed_log(),), (SourceError, PositionLost)),
    "change-rows": Fuzzed(
        partial(_change_rows, RowMode.FAST), tuple(map(orjson.dumps, _CHANGES)), (SourceError,), json=True
    ),
    "change-rows-escaped": Fuzzed(
        partial(_change_rows, RowMode.ESCAPED), tuple(map(orjson.dumps, _CHANGES)), (SourceError,), json=True
    ),
    "change-stream": Fuzzed(_answered, (bson.encode(_ANSWER),), (SourceError,)),
    "documents": Fuzzed(_documents, (b"".join(map(bson.encode, _ALIKE)),), (SourceError,)),
    "rows": Fuzzed(partial(_rows, RowMode.FAST), (orjson.dumps(_FAST),), (SourceError,), json=True),
    "rows-exact": Fuzzed(partial(_rows, RowMode.EXACT), (orjson.dumps(_EXACT),), (SourceError,), json=True),
}
