"""A session of PostgreSQL's log that begins where another one stopped hands over exactly the rest."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.log.assembler import Assembler
from engine.model import Position
from tests.strategies import wal_servers
from tests.unit.adapters.postgres.wal import is_entry

if TYPE_CHECKING:
    from tests.unit.adapters.postgres.wal import WalServer

START = Position((0, 0))
Entry = tuple[bytes, int | None, int, int]


def session(start: Position, last_commit_end: int | None, part_rows: int) -> Assembler:
    return Assembler(start, last_commit_end=last_commit_end, part_rows=part_rows, part_bytes=1 << 20)


def taken(log: Assembler) -> list[Entry]:
    """Entries as a decoder places them: with their transaction, its commit, and their number in it."""
    found = []
    for cut in log.take():
        xid, commit_lsn, _at, _end, sequence, *_counters = astuple(cut.part.context)
        for message in cut.part.messages.to_pylist():
            match message[25:26]:
                case b"B":
                    xid, commit_lsn, sequence = (
                        int.from_bytes(message[42:46], "big"),
                        int.from_bytes(message[26:34], "big"),
                        0,
                    )
                case b"C":
                    xid = None
                case _ if is_entry(message):
                    found.append(
                        (message, xid, 0 if xid is None else commit_lsn, 0 if xid is None else sequence)
                    )
                    sequence += 1
    return found


def everything(server: WalServer) -> tuple[list[Entry], int | None]:
    log = session(START, None, 1000)
    for entry in server.session(START):
        log.add(entry)
    return taken(log), log.last_commit_end


@given(wal_servers, st.data(), st.integers(1, 4))
def test_any_sequence_of_sessions_hands_over_every_entry_once(server, data, part_rows):
    expected, last_commit_end = everything(server)
    given_, position, end, last = list[Entry](), START, server.lsn, None
    for _ in range(5):
        log = session(position, last, part_rows)
        sent = server.session(position)
        for event in sent[: data.draw(st.integers(0, len(sent)), label="received")]:
            log.add(event)
        given_ += taken(log)
        assert log.position >= position
        position, last = log.position, log.last_commit_end
    log = session(position, last, part_rows)
    for entry in server.session(position):
        log.add(entry)
    given_ += taken(log)
    log.keepalive(end)

    assert given_ == expected
    assert log.last_commit_end == last_commit_end
    assert log.position == Position((end, 0))


@given(wal_servers, st.data())
def test_a_session_that_begins_earlier_passes_over_what_was_sent(server, data):
    expected, _last = everything(server)
    sent = server.session(START)
    first = session(START, None, 1000)
    for event in sent[: data.draw(st.integers(0, len(sent)), label="received")]:
        first.add(event)
    given_ = taken(first)
    again = Assembler(
        first.position,
        last_commit_end=first.last_commit_end,
        part_rows=3,
        part_bytes=1 << 20,
        sent=first.last_commit,
    )
    for record in sent if first.last_commit else server.session(first.position):
        again.add(record)
    given_ += taken(again)

    assert given_ == expected


@given(wal_servers, st.data())
def test_however_often_it_is_taken_from_the_entries_are_the_same(server, data):
    expected, _last = everything(server)
    log, given_ = session(START, None, 3), list[Entry]()
    for entry in server.session(START):
        before = log.position
        log.add(entry)
        assert log.position >= before
        if data.draw(st.booleans(), label="take"):
            given_ += taken(log)
    given_ += taken(log)

    assert given_ == expected
