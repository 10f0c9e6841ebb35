"""What every log reader must promise; see `engine.ports.log.LogReader`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from engine.job.saved.state import State
from tests.conformance.subjects import TIMEOUT_S, T, open_log, until
from tests.fakes import MemorySink
from tests.memory_source import Change
from tests.turns import Turns

if TYPE_CHECKING:
    from engine.ports.log import LogReader, Span
    from engine.ports.source import Source
    from tests.conformance.subjects import Row, Subject


NEW = State()


@dataclass
class Session:
    """A session of the log: the rows it has told of, the spans it gave, the state after each."""

    subject: Subject
    source: Source
    log: LogReader
    states: list[State]
    spans: list[Span] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0])

    def take(self) -> Span | None:
        span = self.log.take(0.05)
        if span is not None:
            sink = Turns(MemorySink())
            self.source.encode(span, sink.writer(1))
            sink.commit(1)
            told = (self.subject.row(event) for event in sink.events())
            self.rows += [row for row in told if row is not None]
            self.spans.append(span)
            memory = dict(self.source.memory())
            self.states.append(replace(self.states[-1], position=span.end, memory=memory))
            self.counts.append(len(self.rows))
        return span

    def until_rows(self, count: int) -> list[Row]:
        """Take until so many rows have come; one more look shows that there are no others."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.rows) < count:
            assert time.monotonic() < deadline, f"{len(self.rows)} of {count} rows"
            self.take()
        self.take()
        return self.rows


@pytest.fixture
def begin(subject):
    """Begins sessions of the log from a state, ending the one before."""
    opened: list[LogReader] = []

    def end() -> None:
        while opened:
            opened.pop().close()

    def begin(state: State = NEW, *, span_rows: int = 1000) -> Session:
        end()
        source = subject.source(span_rows=span_rows)
        state, log = open_log(source, state)
        opened.append(log)
        return Session(subject, source, log, [state])

    yield begin
    end()


def puts(*keys: int) -> list[Change]:
    return [Change(T, key, f"v{key}") for key in keys]


def rows(*keys: int) -> list[Row]:
    return [(key, f"v{key}") for key in keys]


def test_changes_come_in_the_order_of_their_commits(subject, begin):
    session = begin()
    subject.commit(*puts(1, 2))
    subject.commit(Change(T, 1, "new"), *puts(3))
    subject.commit(Change(T, 2, None))

    expected = [*rows(1, 2), (1, "new"), *rows(3), (2, None)]
    assert session.until_rows(5) == expected


def test_what_is_committed_while_it_reads_comes_too(subject, begin):
    session = begin()
    for key in range(5):
        subject.commit(*puts(key))
        session.until_rows(key + 1)

    assert session.rows == rows(*range(5))


def test_positions_go_on_with_every_span_that_has_entries(subject, begin):
    session = begin(span_rows=2)
    for key in range(6):
        subject.commit(*puts(key))
    session.until_rows(6)

    with_entries = [span.end for span in session.spans if span.entries]
    every = [session.states[0].position, *(span.end for span in session.spans)]
    assert all(one and other and one <= other for one, other in pairwise(every))
    assert all(one < other for one, other in pairwise([every[0], *with_entries]))


def test_spans_are_bounded_inside_a_transaction_too(subject, begin):
    count = 3 * subject.span_slack + 50
    session = begin(span_rows=10)
    subject.commit(*puts(*range(count)))

    assert session.until_rows(count) == rows(*range(count))
    assert max(span.entries for span in session.spans) <= 10 + subject.span_slack
    assert len([span for span in session.spans if span.entries]) > 1


def test_silence_is_none(subject, begin):
    session = begin()
    subject.commit(*puts(1))
    session.until_rows(1)
    until(lambda: session.take() is None)

    assert session.rows == rows(1)


def test_a_span_without_entries_is_silent_or_an_empty_transaction(subject, begin):
    session = begin()
    session.log.hurry(on=True)
    subject.commit(*puts(1))
    session.until_rows(1)

    assert [span for span in session.spans if span.silent and span.entries] == []
    assert any(not span.silent for span in session.spans)


def test_in_a_hurry_the_position_follows_the_database(subject, begin):
    session = begin()
    session.log.hurry(on=True)
    subject.commit(*puts(1))
    end = subject.end()
    begun = time.monotonic()
    until(lambda: session.take() is None and bool(session.spans) and session.spans[-1].end >= end)

    assert time.monotonic() - begun < 5.0


def test_a_session_goes_on_at_any_saved_position_without_gap_or_doubling(subject, begin):
    first = begin(span_rows=3)
    subject.commit(*puts(*range(7)))
    subject.commit(*puts(7))
    for key in range(8, 12):
        subject.commit(*puts(key))
    every = list(first.until_rows(12))
    saved = list(zip(first.states, first.counts, strict=True))
    for state, count in saved[:: max(1, len(saved) // 4)]:
        rest = begin(state).until_rows(len(every) - count)

        assert rest == every[count:]


def test_what_was_not_acknowledged_is_sent_again(subject, begin):
    first = begin()
    subject.commit(*puts(1, 2))
    first.until_rows(2)

    assert begin(first.states[0]).until_rows(2) == rows(1, 2)


def test_what_was_acknowledged_may_be_forgotten_and_never_comes_back(subject, begin):
    session = begin()
    subject.commit(*puts(1))
    session.until_rows(1)
    before, after = session.states[0].position, session.states[-1].position
    assert before
    assert after
    session.log.acknowledge(after)
    session.log.acknowledge(after)
    until(lambda: subject.acknowledged() >= after)
    session.log.acknowledge(before)
    session.log.hurry(on=True)
    session.take()
    subject.commit(*puts(2))

    assert subject.acknowledged() >= after
    rest = begin() if subject.keeps_place else begin(session.states[-1])
    assert rest.until_rows(1) == rows(2)
