"""Replication messages to parts of a span, with the position after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.postgres.log.assembler import Assembler, Commit
from adapters.postgres.log.timeline import TransactionContext
from engine.errors import InvariantError, PositionLost
from engine.model import Position
from tests.unit.adapters.postgres.wal import (
    POSTGRES_EPOCH_US,
    begin,
    commit,
    grouped,
    is_entry,
    message,
    payload,
    relation,
    row,
    sent_from,
)
from tests.unit.golden_wal.catalogs import CASES
from tests.unit.golden_wal.replay import payloads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapters.postgres.log.assembler import Cut

T, U = 16384, 16385
RECORDED = sorted(path.parent.name for path in CASES.glob("*/wal.jsonl") if path.stat().st_size)
TRANSACTION = (begin(500, 7), relation(T), row(T, 1), row(T, 2), commit(500, 540))


def assembler(lsn: int = 0, sequence: int = 0, *, rows: int = 1000, size: int = 1 << 20) -> Assembler:
    return Assembler(Position((lsn, sequence)), last_commit_end=None, part_rows=rows, part_bytes=size)


def fed(log: Assembler, messages: Iterable[bytes]) -> Assembler:
    for entry in messages:
        log.add(entry)
    return log


def kinds(cuts: Iterable[Cut]) -> list[str]:
    return ["".join(chr(entry[25]) for entry in cut.part.messages.to_pylist()) for cut in cuts]


def entries(cuts: Iterable[Cut]) -> list[bytes]:
    return [entry for cut in cuts for entry in cut.part.messages.to_pylist() if is_entry(entry)]


class TestPosition:
    @pytest.mark.parametrize(
        ("messages", "expected"),
        [
            pytest.param((), (100, 0), id="nothing"),
            pytest.param((begin(500, 7),), (500, 0), id="begin"),
            pytest.param((begin(500, 7), relation(T)), (500, 0), id="a relation is no entry"),
            pytest.param((begin(500, 7), relation(T), row(T)), (500, 1), id="insert"),
            pytest.param((begin(500, 7), row(T, 1, b"U"), row(T, 2, b"D")), (500, 2), id="update, delete"),
            pytest.param((begin(500, 7), row(T, 1, b"T")), (500, 1), id="truncate"),
            pytest.param((begin(500, 7), message(480, transactional=True)), (500, 1), id="message inside"),
            pytest.param(TRANSACTION, (540, 0), id="commit"),
            pytest.param((begin(500, 7), commit(500, 540)), (540, 0), id="empty transaction"),
            pytest.param((*TRANSACTION, begin(540, 8), row(T)), (540, 1), id="the next follows at once"),
            pytest.param((message(300, transactional=False),), (300, 0), id="message outside"),
            pytest.param((begin(500, 7), payload(1, b"Y"), payload(1, b"O")), (500, 0), id="other kinds"),
        ],
    )
    def test_stands_after_what_was_added(self, messages, expected):
        log = fed(assembler(100), messages)

        assert log.position == Position(expected)

    def test_a_transaction_directly_behind_a_message_is_ahead_of_it(self):
        log = fed(assembler(100), [message(500, transactional=False)])
        before = log.position
        fed(log, [begin(500, 7), row(T)])

        assert log.position > before

    def test_taking_does_not_move_it(self):
        log = fed(assembler(100), TRANSACTION[:4])
        log.take()

        assert log.position == Position((500, 2))

    def test_tells_the_last_commit_and_its_time(self):
        log = fed(assembler(100), [begin(500, 7, POSTGRES_EPOCH_US + 1_500_000), commit(500, 540)])

        assert (log.last_commit_end, log.committed_at_s) == (540, 946_684_801.5)

    def test_a_message_outside_transactions_counts_as_the_last_commit(self):
        log = fed(assembler(100), [*TRANSACTION, message(700, transactional=False)])

        assert log.last_commit_end == 700


class TestKeepalive:
    @pytest.mark.parametrize(
        ("messages", "wal_end", "expected"),
        [
            pytest.param((), 200, (200, 0), id="moves it on"),
            pytest.param((), 90, (100, 0), id="never back"),
            pytest.param(TRANSACTION, 530, (540, 0), id="never behind a commit"),
            pytest.param(TRANSACTION, 600, (600, 0), id="on, behind a commit"),
            pytest.param((begin(500, 7),), 600, (500, 0), id="not behind a begin"),
            pytest.param((begin(500, 7), row(T)), 600, (500, 1), id="not inside a transaction"),
        ],
    )
    def test_moves_the_position_outside_transactions_only(self, messages, wal_end, expected):
        log = fed(assembler(100), messages)
        log.keepalive(wal_end)

        assert log.position == Position(expected)

    def test_says_nothing_before_the_saved_transaction_has_come(self):
        log = assembler(500, 1)
        log.keepalive(600)

        assert log.position == Position((500, 1))


class TestParts:
    def test_nothing_gives_no_part(self):
        assert assembler().take() == ()

    def test_a_keepalive_alone_gives_no_part(self):
        log = assembler()
        log.keepalive(900)

        assert log.take() == ()

    def test_relation_and_transaction_messages_go_along(self):
        cuts = fed(assembler(), TRANSACTION).take()

        assert kinds(cuts) == ["BRIIC"]
        assert [cut.entries for cut in cuts] == [2]

    def test_what_was_taken_does_not_come_again(self):
        log = fed(assembler(), TRANSACTION[:3])
        log.take()
        fed(log, TRANSACTION[3:])

        assert kinds(log.take()) == ["IC"]

    def test_entries_and_bytes_count_what_waits(self):
        log = fed(assembler(), TRANSACTION)
        before = (log.entries, log.bytes)
        log.take()

        assert before == (
            2,
            sum(len(entry) for entry in TRANSACTION if entry[25:26] != b"R") + len(TRANSACTION[1]),
        )
        assert (log.entries, log.bytes) == (0, 0)

    def test_a_large_transaction_is_cut_by_rows(self):
        rows = [row(T, number) for number in range(5)]
        cuts = fed(assembler(rows=2), [begin(500, 7), relation(T), *rows, commit(500, 540)]).take()

        assert kinds(cuts) == ["BRII", "II", "IC"]
        assert entries(cuts) == rows

    def test_a_large_transaction_is_cut_by_bytes(self):
        rows = [row(T, number) for number in range(4)]
        log = assembler(size=2 * len(rows[0]))
        cuts = fed(log, [begin(500, 7), *rows, commit(500, 540)]).take()

        assert kinds(cuts) == ["BI", "II", "IC"]

    def test_each_part_knows_what_came_before_it(self):
        rows = [row(T, number) for number in range(3)]
        sent = [*TRANSACTION, begin(600, 8, POSTGRES_EPOCH_US + 9), *rows, commit(600, 640)]
        contexts = [cut.part.context for cut in fed(assembler(rows=2), sent).take()]

        assert contexts[1:] == [
            TransactionContext(8, 600, POSTGRES_EPOCH_US + 9, 540, 0),
            TransactionContext(8, 600, POSTGRES_EPOCH_US + 9, 540, 2),
        ]

    def test_definitions_in_force_go_with_each_part(self):
        other = relation(U, b"u")
        log = fed(assembler(rows=1), [begin(500, 7), relation(T), row(T, 1), other, row(U, 2)])
        known = [
            {oid: definition.message for oid, definition in cut.definitions.items()} for cut in log.take()
        ]

        assert known == [
            {T: relation(T)[25:], U: other[25:]},
            {T: relation(T)[25:], U: other[25:]},
        ]

    def test_a_redefined_relation_begins_a_part(self):
        wider = relation(T, b"wider")
        cuts = fed(assembler(), [begin(500, 7), relation(T), row(T, 1), wider, row(T, 2)]).take()

        assert kinds(cuts) == ["BRI", "RI"]
        assert [cut.definitions[T].message for cut in cuts] == [relation(T)[25:], wider[25:]]

    def test_the_same_definition_again_is_another(self):
        """A default or NOT NULL does not show in the message, only in its coming again."""
        cuts = fed(assembler(), [begin(500, 7), relation(T), row(T, 1), relation(T), row(T, 2)]).take()

        first, second = (cut.definitions[T] for cut in cuts)
        assert first.message == second.message
        assert first.serial < second.serial

    def test_a_definition_before_any_entry_cuts_nothing(self):
        cuts = fed(assembler(), [begin(500, 7), relation(T), relation(T, b"wider"), row(T, 1)]).take()

        assert kinds(cuts) == ["BRRI"]
        assert cuts[0].definitions[T].message == relation(T, b"wider")[25:]


class TestResumption:
    SENT = (begin(500, 7), relation(T), *(row(T, number) for number in range(1, 5)), commit(500, 540))

    @pytest.mark.parametrize("sequence", [1, 2, 3, 4])
    def test_entries_already_sent_are_passed_over(self, sequence):
        log = fed(assembler(500, sequence), self.SENT)

        assert entries(log.take()) == [row(T, number) for number in range(sequence + 1, 5)]
        assert log.position == Position((540, 0))

    def test_the_position_stands_still_meanwhile(self):
        log = assembler(500, 3)
        positions = [fed(log, [entry]).position for entry in self.SENT]

        assert positions == [Position((500, 3))] * 5 + [Position((500, 4)), Position((540, 0))]

    def test_the_first_part_counts_on_from_there_without_a_begin(self):
        cuts = fed(assembler(500, 3), self.SENT).take()

        assert kinds(cuts) == ["RIC"]
        assert (cuts[0].part.context.xid, cuts[0].part.context.sequence) == (7, 3)

    def test_another_transaction_is_a_lost_position(self):
        with pytest.raises(PositionLost, match="600, not at 500"):
            fed(assembler(500, 2), [begin(600, 7)])

    def test_a_shorter_transaction_is_our_mistake(self):
        with pytest.raises(InvariantError, match="1 entries before"):
            fed(assembler(500, 5), self.SENT)

    def test_no_sequence_is_no_resumption(self):
        log = fed(assembler(500), self.SENT)

        assert kinds(log.take()) == ["BRIIIIC"]


class TestPassingOver:
    """The server begins before the last commit that was sent: that must come again."""

    SENT = Commit(540, 7, POSTGRES_EPOCH_US)
    BEFORE = (begin(200, 5), relation(T), row(T, 1), commit(200, 240))
    AGAIN = (begin(500, 7), row(T, 2), commit(500, 540))
    NEXT = (begin(600, 9), row(T, 3), commit(600, 640))

    def log(self, start: int = 550, sequence: int = 0) -> Assembler:
        return Assembler(
            Position((start, sequence)),
            last_commit_end=540,
            part_rows=1000,
            part_bytes=1 << 20,
            sent=self.SENT,
        )

    def test_what_was_sent_is_passed_over_and_the_rest_is_not(self):
        cuts = fed(self.log(), (*self.BEFORE, *self.AGAIN, *self.NEXT)).take()

        assert kinds(cuts) == ["BIC"]
        assert entries(cuts) == [row(T, 3)]
        assert T in cuts[0].definitions

    def test_the_position_stands_still_meanwhile(self):
        log = self.log()
        seen = [(fed(log, [entry]).position, log.passing) for entry in (*self.BEFORE, *self.AGAIN)]

        assert seen == [(Position((550, 0)), True)] * (len(self.BEFORE) + 2) + [(Position((550, 0)), False)]

    def test_a_transaction_that_was_sent_in_part_goes_on(self):
        half = (begin(600, 9), row(T, 3), row(T, 4), commit(600, 640))
        cuts = fed(self.log(600, 1), (*self.BEFORE, *self.AGAIN, *half)).take()

        assert kinds(cuts) == ["IC"]
        assert entries(cuts) == [row(T, 4)]

    def test_messages_before_the_saved_position_were_sent(self):
        loose = [message(at, at, transactional=False) for at in (300, 545, 550, 560)]
        cuts = fed(self.log(), (*self.BEFORE, loose[0], *self.AGAIN, *loose[1:])).take()

        assert entries(cuts) == [loose[3]]

    @pytest.mark.parametrize(
        "instead",
        [
            pytest.param((begin(500, 8), row(T), commit(500, 540)), id="another transaction"),
            pytest.param((begin(500, 7, POSTGRES_EPOCH_US + 1), commit(500, 540)), id="another time"),
            pytest.param((begin(500, 7), commit(500, 556)), id="another end"),
            pytest.param((begin(600, 9),), id="a later one"),
        ],
    )
    def test_a_log_that_has_something_else_there_is_another_one(self, instead):
        log = fed(self.log(), self.BEFORE)

        with pytest.raises(PositionLost, match="transaction 7 at 0/21C, does not come again"):
            fed(log, instead)

    def test_so_is_one_that_has_nothing_there(self):
        log = fed(self.log(), self.BEFORE)
        log.keepalive(539)

        with pytest.raises(PositionLost, match="nothing up to 0/21C"):
            log.keepalive(540)

    def test_a_keepalive_inside_a_transaction_says_nothing(self):
        log = fed(self.log(), (*self.BEFORE, begin(500, 7)))
        log.keepalive(600)

        assert log.passing

    def test_the_last_commit_is_known(self):
        log = fed(self.log(), (*self.AGAIN, *self.NEXT))

        assert log.last_commit == Commit(640, 9, POSTGRES_EPOCH_US)


class TestRecordedLogs:
    @pytest.mark.parametrize("case", RECORDED)
    def test_positions_go_on_and_every_one_can_be_restarted_from(self, case):
        sent = payloads(CASES / case)
        groups = grouped(sent)
        log = assembler(int.from_bytes(sent[0][1:9], "big") - 1, rows=3)
        every = [event for event in sent if is_entry(event)]
        given: list[bytes] = []
        for event in sent:
            before = log.position
            fed(log, [event])
            given += entries(log.take())
            again = fed(
                Assembler(log.position, last_commit_end=None, part_rows=7, part_bytes=1 << 20),
                sent_from(groups, log.position),
            )

            assert log.position >= before
            assert given + entries(again.take()) == every


class TestHold:
    def test_a_transaction_that_commits_at_the_place_or_behind_it_waits(self):
        log = assembler(100)
        log.hold(500)
        fed(log, [begin(400, 6), row(T), commit(400, 440), begin(500, 7)])

        assert log.waiting
        assert log.position == Position((500, 0))
        assert kinds(log.take()) == ["BIC"]

    def test_it_goes_on_where_it_was_held(self):
        held, free = assembler(100), assembler(100)
        fed(free, TRANSACTION)
        held.hold(0)
        fed(held, TRANSACTION[:1])
        position = held.position
        held.hold(None)
        fed(held, TRANSACTION[1:])

        assert position == Position((100, 0))
        assert held.position == free.position
        assert entries(held.take()) == entries(free.take())

    def test_the_place_may_become_a_later_one(self):
        log = assembler(100)
        log.hold(0)
        fed(log, TRANSACTION[:1])
        log.hold(501)

        assert not log.waiting
        assert log.position == Position((500, 0))

    def test_a_transaction_that_has_begun_goes_on(self):
        log = fed(assembler(100), TRANSACTION[:2])
        log.hold(0)
        fed(log, TRANSACTION[2:])

        assert not log.waiting
        assert log.position == Position((540, 0))

    def test_what_the_server_has_sent_up_to_moves_the_position_past_the_place(self):
        log = assembler(100)
        log.hold(500)
        log.keepalive(600)

        assert log.position == Position((600, 0))
