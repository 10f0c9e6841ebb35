"""Recorded change streams through our decoder: what a server sent, without a server."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events.codec import Rules
from adapters.mongodb.events.decode import decode
from adapters.mongodb.events.facts import DecodedPart, Watch
from adapters.mongodb.settings import MongoSettings
from engine.config import parse
from tests.golden.event import Event

if TYPE_CHECKING:
    from adapters.source.log.open_transaction import OpenTransaction
    from engine.config import Settings
    from tests.golden.case import Case

_RAW = CodecOptions(document_class=RawBSONDocument)
OWN = {"tidemark.sink": "null", "mongodb.connection.string": "mongodb://localhost/", "snapshot.mode": "never"}


def settings_of(case: Case) -> Settings:
    return parse({**case.properties, **OWN})


def rules_of(settings: Settings) -> Rules:
    return Rules(
        settings.events,
        settings.capture,
        "rs0",
        FieldRules(settings.source_as(MongoSettings).fields),
        settings.signals.collection,
    )


def recorded_changes(case: Case, settings: Settings) -> list[bytes]:
    """The change events, with what the case's capture mode asks the server for."""
    mode = settings.source_as(MongoSettings).capture_mode
    lines = [
        json.loads(line) for line in (case.folder / "changestream.jsonl").read_text().split("\n") if line
    ]
    changes = []
    for line in lines:
        if set(line) == {"bytes"}:
            continue
        change = dict(bson.decode(base64.b64decode(line["bson"]), _RAW))
        if change["operationType"] == "update" and not mode.looks_up:
            change.pop("fullDocument", None)
        if not mode.pre_images:
            change.pop("fullDocumentBeforeChange", None)
        changes.append(bson.encode(change, codec_options=_RAW))
    return changes


NOTHING_OPEN = Watch()


def replayed(case: Case, watch: Watch = NOTHING_OPEN, before: OpenTransaction | None = None) -> DecodedPart:
    settings = settings_of(case)
    return decode(recorded_changes(case, settings), rules_of(settings), watch, 1_700_000_000_000, before)


def events_of(decoded: DecodedPart) -> list[Event]:
    return [
        Event(
            row["topic"], json.loads(row["key"]), None if row["value"] is None else json.loads(row["value"])
        )
        for row in decoded.events.to_pylist()
    ]
