"""Looks at a MongoDB deployment, and says what a job would lack there."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from adapters.mongodb.log.position import seconds_of
from adapters.mongodb.server.connection import (
    Server,
    check_capture,
    check_splitting,
    connection_of,
    replica_set,
)
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.settings import MongoSettings
from engine.config.findings import Distance, Finding
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.settings import Settings
    from engine.model import Position


def inspect(settings: Settings) -> list[Finding]:
    """What was found. Raises SourceError."""
    mongodb = settings.source_as(MongoSettings)
    with closing(Questions(Server(connection_of(mongodb)))) as questions:
        hello, version = questions.hello(), questions.version()
        shown = ".".join(map(str, version[:3]))
        return [
            _judged(f"a replica set of MongoDB {shown}", lambda: replica_set(hello), "rs.initiate()"),
            _judged(
                f"capture.mode {mongodb.capture_mode.value}",
                lambda: check_capture(hello, mongodb.capture_mode),
            ),
            _judged(
                f"cursor.oversize.handling.mode {mongodb.oversize.value}",
                lambda: check_splitting(version, mongodb.oversize),
            ),
        ]


def distance(settings: Settings, position: Position | None) -> Distance:
    """How far the deployment's time is ahead of a saved position. Raises SourceError."""
    mongodb = settings.source_as(MongoSettings)
    with closing(Questions(Server(connection_of(mongodb)))) as questions:
        seconds, number = questions.now()
    behind_s = None if position is None else float(max(0, seconds - seconds_of(position)))
    return Distance(f"cluster time {seconds}, {number}", behind_s=behind_s)


def _judged(text: str, check: Callable[[], object], statement: str = "") -> Finding:
    try:
        check()
    except ConfigError as error:
        return Finding(str(error), missing=True, statement=statement)
    return Finding(text)
