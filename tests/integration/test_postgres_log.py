"""Where a session of a real server's log may begin."""

from __future__ import annotations

import time
from functools import partial
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest

from adapters.postgres.log.reader import PostgresLog, SessionTools
from adapters.postgres.log.stream.subscription import LogBounds, SentBefore, Start, Subscription
from adapters.system import system_clock
from engine.errors import SourceError
from engine.model import Position

pytestmark = pytest.mark.integration


def opened(
    database, start: Position, slot: str = "s", *, streaming: bool = True, sent: SentBefore | None = None
) -> PostgresLog:
    """A session, once the server has let go of the one before."""
    deadline = time.monotonic() + 10.0
    while True:
        try:
            return PostgresLog(
                database.dsn(),
                subscription=Subscription(slot, "p", streaming=streaming),
                start=Start(start, sent=sent),
                tools=SessionTools(system_clock(), Path(gettempdir())),
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
            kinds += "".join(chr(message[25]) for message in cut.part.messages.to_pylist())
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


def begins_before(lsn: int, message: bytes) -> bool:
    """Whether a message is no BEGIN of a transaction that was committed behind an LSN."""
    return message[25:26] != b"B" or int.from_bytes(message[26:34]) < lsn


def whole(database, start: Position, slot: str, end: int, *, streaming: bool) -> list[bytes]:
    """What a slot sends up to an LSN: each message with the LSN of its record.

    The last spans may have a transaction that came after it, or a part of it, or not.
    """
    log, found = opened(database, start, slot, streaming=streaming), list[bytes]()
    deadline = time.monotonic() + 60.0
    while log.failure is None and time.monotonic() < deadline:
        span = log.take(0.1)
        for cut in span.cuts if span else ():
            found += cut.part.messages.to_pylist()
        if span and int(span.end.order[0]) >= end and not span.end.order[1]:
            break
    log.close()
    return [
        message[1:9] * (message[25] in b"IUDTM") + message[25:]
        for message in takewhile(partial(begins_before, end), found)
    ]


def interleaved(database) -> None:
    """Large transactions that overlap, with savepoints; one is aborted, one prepared. Small ones between."""
    sizes = "SELECT g, repeat(g::text, 50) FROM generate_series(%s::int, %s::int) g"
    large = f"INSERT INTO t (id, v) {sizes}"
    with database.connect() as one, database.connect() as two, database.connect() as small:
        for connection in (one, two):
            connection.execute("BEGIN")
        one.execute(large, (1, 3000))
        small.execute("INSERT INTO t VALUES (-1, 'between')")
        two.execute(large, (10_001, 12_000))
        one.execute("SAVEPOINT a")
        one.execute(large, (3001, 5000))
        one.execute("SAVEPOINT b")
        one.execute(large, (5001, 6000))
        one.execute("ROLLBACK TO a")
        one.execute(large, (3001, 3500))
        small.execute("ALTER TABLE u ADD COLUMN w int DEFAULT 7")
        small.execute("INSERT INTO u VALUES (1, 2)")
        two.execute("INSERT INTO u SELECT g, g FROM generate_series(10, 3000) g")
        two.execute("ROLLBACK")
        two.execute("BEGIN")
        two.execute(large, (20_001, 22_000))
        one.execute("UPDATE t SET v = v || 'x' WHERE id BETWEEN 1 AND 2000")
        two.execute("PREPARE TRANSACTION 'p'")
        one.execute("SELECT pg_logical_emit_message(true, 'a', 'b')")
        one.execute("COMMIT")
        small.execute("COMMIT PREPARED 'p'")
        small.execute("TRUNCATE u")


def test_what_is_streamed_while_it_is_open_is_what_is_sent_at_its_commit(each_database):
    with each_database.connect() as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET logical_decoding_work_mem = '64kB'")
        start = with_slot(connection)
        connection.execute("ALTER TABLE t ADD COLUMN v text")
        connection.execute("CREATE TABLE u (id int PRIMARY KEY, v int)")
        connection.execute("SELECT pg_copy_logical_replication_slot('s', 's2')")
        interleaved(each_database)
        (end,) = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        connection.execute("INSERT INTO u VALUES (0)")
        streamed = whole(each_database, start, "s", end, streaming=True)
        at_commit = whole(each_database, start, "s2", end, streaming=False)
        told = connection.execute(
            "SELECT slot_name, stream_txns > 0, spill_txns > 0 FROM pg_stat_replication_slots"
            " WHERE slot_name IN ('s', 's2') ORDER BY 1"
        ).fetchall()

    assert without_definitions(streamed) == without_definitions(at_commit)
    assert len(streamed) > 7_500
    assert told == [("s", True, False), ("s2", False, True)]


def without_definitions(sent: list[bytes]) -> list[bytes]:
    """Entries and the ends of transactions. Tables' definitions come again for each streamed transaction."""
    return [event for event in sent if event[:1] not in b"RY"]


def test_a_session_goes_on_in_the_middle_of_a_transaction_that_is_streamed(database):
    with database.connect() as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET logical_decoding_work_mem = '64kB'")
        start = with_slot(connection)
        with connection.transaction():
            connection.execute("INSERT INTO t SELECT generate_series(1, 5000)")
        connection.execute("INSERT INTO t VALUES (0)")
    found: list[bytes] = []
    at: Position | None = start
    while at is not None:
        log = opened(database, at)
        log.limit(1 / 100)
        at = taken(log, found)
        log.close()

    assert [number(message) for message in found] == [*range(1, 5001), 0]


def test_a_span_has_no_more_of_a_replayed_transaction_than_its_rows(database):
    with database.connect() as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET logical_decoding_work_mem = '64kB'")
        start = with_slot(connection)
        log = opened(database, start)
        log.limit(1 / 1000)
        connection.execute("INSERT INTO t SELECT generate_series(1, 5000)")
    entries: list[int] = []
    deadline = time.monotonic() + 30.0
    while sum(entries) < 5000 and time.monotonic() < deadline:
        if span := log.take(0.1):
            entries.append(span.entries)
    log.close()

    assert sum(entries) == 5000
    assert max(entries) <= 200


def taken(log: PostgresLog, found: list[bytes]) -> Position | None:
    """Add the entries of one span; returns the position after it, None after the last entry of all."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        if (span := log.take(0.1)) and span.entries:
            sent = [message for cut in span.cuts for message in cut.part.messages.to_pylist()]
            found += [event for event in sent if event[25:26] == b"I"]
            return span.end if number(found[-1]) else None
    raise AssertionError("nothing comes")


def number(insert: bytes) -> int:
    """The value of the only column, which follows kind, relation, `N`, the columns' number, kind and size."""
    return int(insert[25 + 1 + 4 + 1 + 2 + 1 + 4 :])


def confirmed(connection: Any) -> int:
    """Up to where the slot has been acknowledged."""
    (lsn,) = connection.execute(
        "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = 's'"
    ).fetchone()
    return int(lsn)


def test_what_comes_below_the_saved_position_is_not_acknowledged_before_it_is_taken(database):
    with database.connect() as connection:
        with_slot(connection)
        connection.execute("INSERT INTO t VALUES (1)")
        (end,) = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        saved = Position((int(end), 0))
        begins = confirmed(connection)

        log = opened(database, saved, sent=SentBefore(None, begins))
        log.acknowledge(saved)
        time.sleep(1.0)  # it would be there by now
        assert confirmed(connection) == begins

        connection.execute("INSERT INTO t VALUES (2)")
        entries, deadline = 0, time.monotonic() + 10.0
        while entries < 2 and time.monotonic() < deadline:
            span = log.take(0.1)
            entries += span.entries if span else 0
            saved = span.end if span else saved
        assert entries == 2

        log.acknowledge(saved)
        deadline = time.monotonic() + 30.0  # the first of the two may have been told of just now
        while confirmed(connection) < int(saved.order[0]) and time.monotonic() < deadline:
            time.sleep(0.05)
        log.close()
        assert confirmed(connection) == int(saved.order[0])
