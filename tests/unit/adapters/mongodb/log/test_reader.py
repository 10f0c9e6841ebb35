"""How old what the log brings is, by the cluster's clock and not by ours."""

from __future__ import annotations

import time
from typing import Any, cast

from bson import encode
from bson.timestamp import Timestamp

from adapters.mongodb.log.position import has_passed
from adapters.mongodb.log.reader import MongoLog
from adapters.mongodb.log.stream import Batch, _cluster_s
from engine.model import Position

FAR_AHEAD_S = 4_000_000_000
CAME_S = 50.0
"""When a batch came, by the job's clock."""


def position(seconds: int) -> Position:
    return Position((f"82{seconds:08X}{1:08X}", "", 0))


class Stream:
    """Gives one batch, then nothing."""

    def __init__(self, batch: Batch) -> None:
        self._batches = [batch]

    def next(self, _most: int, _await_ms: int) -> Batch:
        if self._batches:
            return self._batches.pop()
        time.sleep(0.01)
        return Batch((), position(0))

    def close(self) -> None:
        pass


def opened(batch: Batch) -> MongoLog:
    return MongoLog(cast("Any", Stream(batch)), position(1), lambda: CAME_S)


def lag_s(batch: Batch, waited_s: float = 0.0) -> float | None:
    log = opened(batch)
    try:
        span = log.take(10.0)
        assert span is not None
        return span.lag_s(CAME_S + waited_s)
    finally:
        log.close()


def test_a_change_is_as_old_as_the_cluster_has_gone_on_since():
    assert lag_s(Batch((b"change",), position(FAR_AHEAD_S), FAR_AHEAD_S + 30)) == 30


def test_a_change_ages_while_it_waits_to_be_taken():
    assert lag_s(Batch((b"change",), position(FAR_AHEAD_S), FAR_AHEAD_S), waited_s=100) == 100


def test_nothing_is_said_without_a_change_or_a_clock():
    assert lag_s(Batch((), position(FAR_AHEAD_S), FAR_AHEAD_S + 30)) is None
    assert lag_s(Batch((b"change",), position(FAR_AHEAD_S))) is None


def test_the_cluster_s_time_stands_in_every_answer():
    told = encode({"ok": 1, "$clusterTime": {"clusterTime": Timestamp(FAR_AHEAD_S, 7)}})

    assert _cluster_s(told) == FAR_AHEAD_S
    assert _cluster_s(encode({"ok": 1})) is None


def event(seconds: int) -> bytes:
    return encode({"_id": {"_data": position(seconds).order[0]}})


def taken(log: MongoLog) -> list[int] | None:
    span = log.take(0.2)
    return None if span is None else [len(batch) for batch in span.batches]


def test_a_held_log_hands_out_what_comes_up_to_a_time_and_no_more():
    log = opened(Batch(tuple(map(event, (5, 6, 6, 7, 8))), position(8)))
    log.hold((6, 1))
    try:
        assert [taken(log), log.held_back, taken(log)] == [[3], True, None]
        log.let_go()
        assert [log.held_back, taken(log)] == [False, [2]]
    finally:
        log.close()


def test_a_log_held_before_its_first_event_says_that_it_waits():
    log = opened(Batch((event(7),), position(7)))
    log.hold((6, 1))
    try:
        assert taken(log) is None
        assert log.held_back
    finally:
        log.close()


def test_the_position_before_a_held_event_covers_its_whole_time():
    log = opened(Batch((event(5), event(7)), position(7)))
    log.hold((5, 1))
    try:
        span = log.take(10.0)
        assert span is not None
        assert has_passed(span.end, (5, 1))
        assert not has_passed(span.end, (7, 1))
    finally:
        log.close()
