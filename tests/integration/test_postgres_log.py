"""Where a session of a real server's log may begin."""

from __future__ import annotations

import time
from typing import Any

import pytest

from adapters.postgres.log.reader import LogBounds, PostgresLog, Start, Subscription
from engine.errors import SourceError
from engine.model import Position

pytestmark = pytest.mark.integration


def opened(database, start: Position) -> PostgresLog:
    """A session, once the server has let go of the one before."""
    deadline = time.monotonic() + 10.0
    while True:
        try:
            return PostgresLog(
                database.dsn(),
                subscription=Subscription("s", "p"),
                start=Start(start),
                bounds=LogBounds(part_rows=1),
            )
        except SourceError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def kinds_from(database, start: Position) -> str:
    """The kinds of messages that a session sends, up to the next commit."""
    log, kinds = opened(database, start), ""
    deadline = time.monotonic() + 10.0
    while not kinds.endswith("C") and time.monotonic() < deadline:
        span = log.take(0.1)
        for cut in span.cuts if span else ():
            kinds += "".join(chr(one[25]) for one in cut.part.messages.to_pylist())
    log.close()
    return kinds


def with_slot(connection: Any) -> Position:
    """A table, a publication and a slot. Returns where the slot begins."""
    connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
    (start,) = connection.execute(
        "SELECT (lsn - '0/0')::bigint FROM pg_create_logical_replication_slot('s', 'pgoutput')"
    ).fetchone()
    return Position((start, 0))


def test_a_transaction_directly_behind_a_message_is_not_skipped(database):
    with database.connect() as connection:
        start = with_slot(connection)
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (1)")
            told = connection.execute("SELECT pg_logical_emit_message(false, 'a', 'b') - '0/0'").fetchone()

    # The message's record ends where the commit record begins, and that is where it is told to be.
    assert kinds_from(database, start) == "MBRIC"
    assert kinds_from(database, Position((int(told[0]), 0))) == "BRIC"


def test_a_limit_makes_spans_smaller_and_loses_nothing(database):
    with database.connect() as connection:
        start = with_slot(connection)
        log = opened(database, start)
        log.limit(1 / 1024)
        connection.execute("INSERT INTO t SELECT generate_series(1, 20000)")
    time.sleep(2.0)  # all of it would be there by now
    entries: list[int] = []
    deadline = time.monotonic() + 30.0
    while sum(entries) < 20_000 and time.monotonic() < deadline:
        time.sleep(0.02)
        span = log.take(0.1)
        entries.append(span.entries if span else 0)
    log.close()

    assert sum(entries) == 20_000
    assert max(entries) < 5_000
