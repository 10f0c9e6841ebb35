"""Saved positions, and what each source and each channel keeps in the state."""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import adapters.mongodb.saved
import adapters.postgres.saved
import adapters.sqlserver.saved
from adapters.cli.status import job_status
from adapters.cli.status import lines_of as told
from adapters.storage.directory import LocalStorage
from adapters.storage.state import FileStateStore
from engine.config import parse
from engine.errors import StateError
from engine.job.saved.state import State
from engine.job.saved.state_document import to_json
from engine.model import Channel, Position
from signals.channels.file import FileChannel
from signals.channels.topic import TopicChannel
from signals.desk import Desk
from tests.fakes import MemoryTopic
from tests.fuzz.fuzzed import Fuzzed

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = tempfile.TemporaryDirectory(prefix="tidemark-fuzz-")
_LINES = Path(_FOLDER.name, "signals.txt")
_LINES.write_bytes(b'{"type": "log"}\n' * 3)
_COMMIT, _CHANGE = "00000027:00000ac0:0002", "00000027:00000758:0005"
POSTGRES = {
    "position": [25_000_000, 3],
    "identity": {"system": "7301", "timeline": "1", "database": "shop"},
    "memory": {
        "last_commit_end": 24_999_000,
        "last_commit": [24_999_000, 740, 1_700_000_000_000_000],
        "subscription": "slot publication {}",
        "unsettled": [
            {
                "xid": 741,
                "keys": {"16385": {"lengths": "AQAAAAIAAAA=", "bytes": "MTIz"}},
                "truncated": [16386],
                "lacking": {"16385": [[None, "MQ=="], ["Mg==", "Mw=="]]},
                "whole": [16387],
                "copies": {"16388": {"lengths": "AQAAAA==", "bytes": "MQ==", "net": [1], "low": [-1]}},
                "serial": 1,
            }
        ],
        "transaction": {
            "xid": 742,
            "commit_lsn": 25_000_000,
            "commit_ts_us": 1_700_000_000_000_000,
            "last_commit_end": None,
            "sequence": 3,
            "events": 2,
            "collections": [["public.t", 2]],
        },
        "keys": {"16385": ["id", "at"]},
        "first": {"run": "a1", "begins_at": 24_000_000},
        "published": {"marks": "d" * 64, "xmax": 750},
        "members": {"publication": "16390 730", "entries": {"16391 731 f": [16385, 16386]}},
        "partitions": {"16389": "e" * 64},
    },
}
_TOKEN = "8265A0B1C2000000012B022C0100296E5A1004"
MONGODB = {
    "position": [_TOKEN, "82", 1],
    "identity": {"replica_set": "rs0", "id": "65a0"},
    "memory": {
        "transaction": {"id": '{"id": 1}:7', "collections": [["rs0.shop.t", 2]]},
        "first": {"run": "a1", "begins_at": [_TOKEN, "", 0]},
        "event": [_TOKEN, "", 0],
    },
}
_COLUMN = {
    "name": "id",
    "position": 1,
    "type": "int",
    "length": 4,
    "precision": 10,
    "scale": 0,
    "nullable": False,
    "identity": True,
    "computed": False,
    "default": None,
    "collation": "",
}
_SHAPE = {"name": ["shop", "dbo", "t"], "columns": [_COLUMN], "primary_key": ["id"], "unique_key": []}
SQL_SERVER = {
    "position": [_COMMIT, 4, _CHANGE, 2],
    "identity": {"shop": "a|b"},
    "memory": {
        "names": ["shop"],
        "transactions": {"shop": {"id": _COMMIT, "collections": [["shop.dbo.t", 2]]}},
        "shapes": [_SHAPE],
        "databases": {"shop": {"instances": [["dbo_t", 1013578649, _COMMIT]], "fork": "1D5F5BF4"}},
        "first": {"run": "a1", "begins_at": {"shop": f"{_COMMIT}/4/{_CHANGE}/2"}},
    },
}
_OLDER_SQL_SERVER = {
    "position": [_COMMIT, _CHANGE, "2"],
    "identity": {"shop": "a"},
    "memory": {"names": ["shop"], "first": {"run": "a1", "begins_at": [_COMMIT, _CHANGE, "2"]}},
}
_CHANNELS = {
    "kafka": {"topic": "signals", "id": "t1", "since_ms": 1_700_000_000_000, "offsets": {"0": 7, "1": 0}},
    "file": {"bytes": 16, "digest": "5d1c"},
    "answers": [{"label": "0/1", "id": None, "outcome": "accepted", "text": "it is done"}],
}


def _state(take: Callable[[State], object], data: bytes) -> object:
    """What a source makes of a state; what is none is left to `engine.job.saved.state`."""
    try:
        fields: dict[str, Any] = orjson.loads(data)
        position = fields["position"]
        memory, identity = dict(fields["memory"]), dict(fields["identity"])
        state = State(
            position=None if position is None else Position(tuple(position)), memory=memory, identity=identity
        )
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
        raise StateError("no state") from None
    return take(state)


def _channels(data: bytes) -> object:
    """What the desk and its channels make of their places, up to the answers that are due."""
    try:
        saved = dict(orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError, ValueError):
        raise StateError("no state") from None
    told: list[object] = []
    topic, file = TopicChannel("signals", "tm", MemoryTopic(), 0), FileChannel(_LINES)
    desk = Desk(told.append, {Channel.KAFKA: topic, Channel.FILE: file}, monotonic=time.monotonic)
    desk.resume(saved, 1)
    desk.commands([], list)
    desk.tell(1)
    return orjson.dumps(desk.memory())


_CHECKPOINT = Path(_FOLDER.name, "checkpoint")
_CHECKPOINT.mkdir()
_ANSWERS = b"".join(
    orjson.dumps(
        {
            "turn": 7,
            "at_s": 1.5,
            "label": "0/1",
            "id": name,
            "outcome": "finished",
            "text": "it is done",
            "collection": "public.t",
            "facts": {"rows": 3},
        }
    )
    + b"\n"
    for name in ("mine", None)
)


def _status(name: str, data: bytes) -> object:
    """What is told of a checkpoint in which one of the files that no checksum covers is damaged."""
    (_CHECKPOINT / name).write_bytes(data)
    try:
        found = job_status(_LOOKED_AT, 1_700_000_000.0)
        return [*told(found), orjson.dumps(asdict(found))]
    finally:
        (_CHECKPOINT / name).unlink()


_LOOKED_AT = parse(
    {
        "database.hostname": "h",
        "database.user": "u",
        "database.password": "p",
        "database.dbname": "d",
        "topic.prefix": "p",
        "tidemark.sink": "null",
        "tidemark.checkpoint": str(_CHECKPOINT),
    }
)
_STORE = FileStateStore(LocalStorage(_CHECKPOINT))
_STORE.save_pending(7, to_json(State(7, Position((5, 0)))))
_STORE.promote(7)
_FIGURES = (
    b'{"at_s": 1.5, "turn": 7, "position": "0/1", "events": 5, "events_per_s": 2.5, "lag_s": 0.1,'
    b' "kept_bytes": 7}'
)


def _seeds(*states: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(map(orjson.dumps, states))


SAVED = {
    "saved-postgres": Fuzzed(
        partial(_state, adapters.postgres.saved.saved_of), _seeds(POSTGRES), (StateError,), json=True
    ),
    "saved-mongodb": Fuzzed(
        partial(_state, adapters.mongodb.saved.saved_of), _seeds(MONGODB), (StateError,), json=True
    ),
    "saved-sqlserver": Fuzzed(
        partial(_state, adapters.sqlserver.saved.check_saved),
        _seeds(SQL_SERVER, _OLDER_SQL_SERVER),
        (StateError,),
        json=True,
    ),
    "saved-answers": Fuzzed(partial(_status, "answers-000000000007.jsonl"), (_ANSWERS,), (StateError,)),
    "saved-figures": Fuzzed(partial(_status, "figures.json"), (_FIGURES,), (StateError,), json=True),
    "saved-channels": Fuzzed(_channels, _seeds(_CHANNELS), (StateError,), json=True),
}
