"""What the null sink counts."""

from __future__ import annotations

from adapters.sinks.null import NullSink
from tests.batches import numbered
from tests.turns import Turns


def test_only_committed_events_are_counted_and_a_retried_part_once():
    sink = Turns(NullSink())
    writer = sink.writer(1)
    writer.write(0, [numbered(1, 2, 3)])
    writer.write(0, [numbered(1, 2), numbered(3, 4)])
    writer.write(1, [numbered(5)])
    before = sink.rows
    sink.commit(1)
    sink.writer(2).write(0, [numbered(6)])
    sink.close()

    assert before == 0
    assert sink.rows == 5
