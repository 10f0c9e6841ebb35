"""Transactions that come in blocks while they are open: seen as if they came at their commit."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.log.assembler import Assembler
from adapters.postgres.log.streamed_transactions import STREAMED, StreamedTransactions
from engine.errors import SourceError
from engine.model import Position
from tests.unit.adapters.postgres.wal import begin, commit, message, payload, relation, row

T = 16384


def start(xid: int, *, first: bool = True) -> bytes:
    return payload(0, b"S" + xid.to_bytes(4, "big") + bytes([first]))


STOP = payload(0, b"E")


def committed(xid: int, at: int, end: int) -> bytes:
    whole = commit(at, end)
    return whole[:25] + b"c" + xid.to_bytes(4, "big") + whole[26:]


def aborted(xid: int, subtransaction: int | None = None) -> bytes:
    sub = xid if subtransaction is None else subtransaction
    return payload(0, b"A" + xid.to_bytes(4, "big") + sub.to_bytes(4, "big"))


def inside(xid: int, sent: bytes) -> bytes:
    """A message as a block has it: with the id of its transaction or subtransaction."""
    return sent[:26] + xid.to_bytes(4, "big") + sent[26:]


def block(xid: int, *sent: tuple[int, bytes]) -> list[bytes]:
    return [start(xid), *(inside(own, entry) for own, entry in sent), STOP]


def seen(streamed: StreamedTransactions, sent: list[bytes], *, pieces: int = 1000) -> list[bytes]:
    """What the assembler gets, if it takes so many messages at a time."""
    found: list[bytes] = []
    for event in sent:
        if streamed.in_block or event[25] in STREAMED:
            streamed.add(event)
            while streamed.replaying:
                found += islice(streamed.replayed(), pieces)
        else:
            found.append(event)
            if event[25:26] == b"R":
                streamed.define(event)
    return found


def texts(messages: list[bytes]) -> list[bytes]:
    """The messages without their headers: BEGIN's has no meaning."""
    return [entry[25:] for entry in messages]


@pytest.fixture
def streamed(tmp_path):
    streamed = StreamedTransactions(tmp_path)
    yield streamed
    streamed.close()


@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_it_is_replayed_whole_at_its_commit(streamed, pieces):
    other = [begin(500, 8), row(T, 9), commit(500, 540)]
    sent = [
        *block(7, (7, relation(T)), (7, row(T, 1))),
        *other,
        *block(7, (7, row(T, 2)), (7, message(550, 3, transactional=True))),
        committed(7, 600, 640),
    ]
    expected = [
        *other,
        *(begin(600, 7), relation(T), row(T, 1), row(T, 2), message(550, 3, transactional=True)),
        commit(600, 640),
    ]

    assert texts(seen(streamed, sent, pieces=pieces)) == texts(expected)


def test_each_entry_keeps_its_own_place_in_the_log(streamed):
    sent = [*block(7, (7, row(T, 111)), (7, row(T, 222))), committed(7, 600, 640)]
    found = seen(streamed, sent)

    assert [entry[:25] for entry in found[1:3]] == [row(T, 111)[:25], row(T, 222)[:25]]


def test_what_was_done_since_a_savepoint_is_dropped_with_it(streamed):
    sent = [
        *block(7, (7, row(T, 1)), (8, row(T, 2)), (9, row(T, 3))),
        aborted(7, 9),
        *block(7, (7, row(T, 4)), (8, row(T, 5))),
        aborted(7, 8),
        *block(7, (10, row(T, 6))),
        committed(7, 600, 640),
    ]
    expected = [begin(600, 7), row(T, 1), row(T, 4), row(T, 6), commit(600, 640)]

    assert texts(seen(streamed, sent)) == texts(expected)


def test_one_that_is_aborted_leaves_nothing(streamed):
    sent = [*block(7, (7, row(T, 1))), *block(8, (8, row(T, 2))), aborted(7), committed(8, 600, 640)]

    assert texts(seen(streamed, sent)) == texts([begin(600, 8), row(T, 2), commit(600, 640)])


OLD, NEW = relation(T, b"old"), relation(T, b"new")
NINE = [begin(500, 9), NEW, row(T, 2), commit(500, 540)]


def test_a_definition_that_came_after_a_replayed_one_is_in_force_again(streamed):
    sent = [*block(7, (7, OLD), (7, row(T, 1))), *NINE, committed(7, 600, 640)]
    expected = [*NINE, begin(600, 7), OLD, row(T, 1), NEW, commit(600, 640)]

    assert texts(seen(streamed, sent)) == texts(expected)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([*NINE, *block(7, (7, OLD), (7, row(T, 1)))], id="sent before"),
        pytest.param([*block(7, (7, OLD)), *NINE, *block(7, (7, OLD), (7, row(T, 1)))], id="sent between"),
        pytest.param([*block(7, (7, NEW), (7, row(T, 1))), *NINE], id="the same"),
        pytest.param([*block(7, (8, OLD), (7, row(T, 1))), *NINE, aborted(7, 8)], id="aborted"),
    ],
)
def test_no_other_definition_comes_again(streamed, sent):
    found = seen(streamed, [*sent, committed(7, 600, 640)])

    assert texts(found)[-2:] == texts([row(T, 1), commit(600, 640)])


def test_definitions_of_several_open_transactions_are_in_the_order_in_which_they_were_sent(streamed):
    sent = [
        *block(7, (7, OLD), (7, row(T, 1))),
        *block(8, (8, NEW), (8, row(T, 2))),
        *(committed(8, 500, 540), committed(7, 600, 640)),
    ]
    expected = [begin(500, 8), NEW, row(T, 2), commit(500, 540)]
    expected += [begin(600, 7), OLD, row(T, 1), NEW, commit(600, 640)]

    assert texts(seen(streamed, sent)) == texts(expected)


def test_an_abort_of_what_was_not_sent_is_no_matter(streamed):
    assert seen(streamed, [aborted(5), aborted(5, 6)]) == []


def test_a_transaction_larger_than_a_block_of_the_file_is_whole(streamed):
    rows = [row(T, number) + bytes(1000) for number in range(5000)]
    sent = [*block(7, *((7, record) for record in rows)), committed(7, 600, 640)]

    assert texts(seen(streamed, sent))[1:-1] == texts(rows)


def test_an_origin_within_a_block_is_no_entry(streamed):
    origin = payload(0, b"O" + bytes(8) + b"elsewhere\0")
    sent = [start(7), origin, inside(7, row(T, 1)), STOP, committed(7, 600, 640)]

    assert texts(seen(streamed, sent)) == texts([begin(600, 7), row(T, 1), commit(600, 640)])


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([start(7), start(8)], id="a block in a block"),
        pytest.param([STOP], id="an end without a block"),
        pytest.param([start(7), committed(7, 1, 2)], id="a commit in a block"),
        pytest.param([start(7), aborted(7)], id="an abort in a block"),
        pytest.param([committed(7, 1, 2)], id="a commit of what was not sent"),
    ],
)
def test_messages_out_of_order_are_an_error(streamed, sent):
    with pytest.raises(SourceError):
        seen(streamed, sent)


def test_a_full_disk_is_an_error_that_says_what_to_do(streamed, tmp_path, monkeypatch):
    def full(*_args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    streamed.add(start(7))
    streamed.add(inside(7, row(T, 1)))
    monkeypatch.setattr(streamed._block._file, "writelines", full)
    with pytest.raises(SourceError, match="no space left on device") as told:
        streamed.add(STOP)

    assert told.value.where == str(tmp_path)
    assert "tidemark.log.streaming=false" in told.value.hint


def test_its_files_have_no_names(streamed, tmp_path):
    seen(streamed, block(7, *((7, row(T, number) + bytes(1000)) for number in range(3000))))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_one_that_is_closed_in_the_middle_of_a_replay_leaves_no_file_open(tmp_path, taken):
    streamed = StreamedTransactions(tmp_path)
    for entry in block(7, (7, row(T, 1)), (7, row(T, 2))):
        streamed.add(entry)
    file = streamed._open[7]._file
    streamed.add(committed(7, 600, 640))
    assert len(list(islice(streamed.replayed(), taken))) == taken
    streamed.close()

    assert file.closed


def test_damaged_messages_are_an_error(streamed):
    with pytest.raises(SourceError, match="damaged"):
        streamed.add(payload(0, b"S\0"))


@dataclass
class World:
    """A server's transactions: what it sends of them in blocks, and what it would send at their commits."""

    sent: list[bytes] = field(default_factory=list)
    expected: list[bytes] = field(default_factory=list)
    kept: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    rolled_back: Counter[tuple[int, int]] = field(default_factory=Counter)
    number: int = 0
    lsn: int = 1000

    def write(self, xid: int, subs: list[int]) -> None:
        """A block of an open transaction, with an entry of each of these subtransactions."""
        entries = []
        for sub in subs:
            self.number += 1
            entries.append((self._id(xid, sub) if sub else xid, row(T, self.number)))
        self.kept.setdefault(xid, []).extend(entries)
        self.sent += block(xid, *entries)

    def _id(self, xid: int, sub: int) -> int:
        """A subtransaction's id. A server gives none twice."""
        return xid * 10 + sub + 100 * self.rolled_back[xid, sub]

    def roll_back(self, xid: int, sub: int) -> None:
        if not sub:
            self.sent.append(aborted(xid))
            self.kept.pop(xid, None)
        elif xid in self.kept:
            gone = self._id(xid, sub)
            self.rolled_back[xid, sub] += 1
            self.sent.append(aborted(xid, gone))
            self.kept[xid] = [entry for entry in self.kept[xid] if entry[0] != gone]

    def commit(self, xid: int) -> None:
        self.lsn += 100
        if (kept := self.kept.pop(xid, None)) is None:
            whole = [begin(self.lsn, xid), row(T, self.number), commit(self.lsn, self.lsn + 40)]
            self.sent += whole
            self.expected += whole
        else:
            self.sent.append(committed(xid, self.lsn, self.lsn + 40))
            rows = [written for _xid, written in kept]
            self.expected += [begin(self.lsn, xid), *rows, commit(self.lsn, self.lsn + 40)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3), st.lists(st.integers(0, 3), max_size=4)),
        st.tuples(st.just("roll back"), st.integers(1, 3), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.integers(1, 4)),
    ),
    max_size=30,
)


@given(steps=STEPS, pieces=st.integers(1, 5))
def test_any_order_of_blocks_gives_what_the_commits_would(tmp_path_factory, steps, pieces):
    world: Any = World()
    for name, *arguments in steps:
        getattr(world, name.replace(" ", "_"))(*arguments)
    streamed = StreamedTransactions(tmp_path_factory.getbasetemp())
    found = seen(streamed, world.sent, pieces=pieces)
    streamed.close()
    whole, apart = (
        Assembler(Position((0, 0)), last_commit_end=None, part_rows=3, part_bytes=1 << 20) for _ in "ab"
    )
    for whole_message in found:
        apart.add(whole_message)
    for entry in world.expected:
        whole.add(entry)

    assert texts(found) == texts(world.expected)
    assert apart.position == whole.position
    assert [cut.part.context for cut in apart.take()] == [cut.part.context for cut in whole.take()]


@pytest.mark.parametrize("damaged", [b"w", b"w" * 20, start(7)[:27], STOP[:25]])
@pytest.mark.parametrize("in_block", [True, False])
def test_a_damaged_message_is_reported_as_such(streamed, damaged, *, in_block):
    if in_block:
        streamed.add(start(7))
    with pytest.raises(SourceError):
        streamed.add(damaged)
