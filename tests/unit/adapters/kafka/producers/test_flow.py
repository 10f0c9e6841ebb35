"""What a producer may have in flight: it follows the rate of the acknowledgements."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from adapters.kafka.producers.flow import Flow

RECORD = 1000


@dataclass
class Link:
    """Acknowledges records at a rate, after a first burst; `step_s` between two looks."""

    rate: float
    burst: int = 0
    step_s: float = 0.01
    flow: Flow = field(default_factory=Flow)
    now_s: float = 100.0
    sent: int = 0
    done: float = 0.0
    most: int = 0

    def send(self, records: int, slice_records: int = 50) -> None:
        while self.sent < records:
            while self.flow.full():
                self.pass_time(self.step_s)
            self.sent += slice_records
            self.flow.note_sent(slice_records, slice_records * RECORD, self.now_s)
            self.most = max(self.most, self.sent - int(self.done))

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        more = self.rate * seconds / RECORD
        if self.done < self.burst:
            more = self.burst - self.done
        self.done = min(self.done + more, self.sent)
        self.flow.note_unacknowledged(self.sent - int(self.done), self.now_s)


@pytest.mark.parametrize("rate", [50e3, 200e3, 5e6, 20e6])
def test_what_is_in_flight_is_two_seconds_worth(rate: float):
    link = Link(rate)
    link.send(int(30 * rate / RECORD))

    assert 0.8 * rate <= link.flow.rate <= 1.2 * rate
    assert link.flow.window <= max(64 << 10, 2.4 * rate)
    assert link.flow.window >= min(1 * rate, 64 << 20)


def test_a_burst_does_not_fill_the_queue():
    link = Link(100e3, burst=1100)
    link.send(4000)

    assert link.most * RECORD < 3 << 20
    assert link.flow.window < 300_000


def test_small_turns_leave_the_window_as_it_is():
    flow = Flow()
    before = flow.window
    for turn in range(100):
        flow.note_sent(1, 500, turn)
        flow.note_unacknowledged(0, turn + 0.5)

    assert (flow.window, flow.full(), flow.silent_s(1000)) == (before, False, 0.0)


def test_silence_counts_from_the_last_acknowledgement_not_from_when_records_were_given():
    flow = Flow()
    flow.note_sent(100, 100_000, 10.0)
    for second in range(50):
        flow.note_unacknowledged(99 - second, 11.0 + second)

        assert flow.silent_s(11.0 + second) == 0.0
    assert flow.silent_s(70.0) == 10.0


def test_silence_counts_from_the_first_record_behind_a_pause():
    flow = Flow()
    flow.note_sent(1, 100, 10.0)
    flow.note_unacknowledged(0, 10.1)
    flow.note_sent(1, 100, 500.0)
    flow.note_unacknowledged(1, 503.0)

    assert flow.silent_s(503.0) == 3.0
