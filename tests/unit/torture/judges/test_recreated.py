"""A recreated topic judged: it has all rows, or the job says that it lacks some; what it has is right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.torture.drawn import write
from tests.torture.emitted import Emitted
from tests.torture.oracle import Table, Violation
from tests.torture.recreated import SETTING, NewTopic
from tests.torture.run import _EACH_EVERY, _KAFKA_BLOWS
from tests.torture.script import Wanted

T = "public.t"
ROWS: list[dict[str, str | None]] = [{"k": "1", "v": "a"}, {"k": "2", "v": "b"}]
LARGE = "__debezium_unavailable_value"


def event(op: str, key: int, value: str | None, **more: Any) -> Emitted:
    image = {"k": key, "v": value}
    gone = op == "d"
    return Emitted(1, T, op, image if gone else more.get("before"), None if gone else image, 9)


def judged(events: list[Emitted], *, incomplete: bool = False) -> None:
    new = NewTopic(Table(T, ("k",), {"k": "integer", "v": "text"}))
    for record in events:
        new.take_in(record)
    new.settle(ROWS, incomplete=incomplete)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([event("r", 1, "a"), event("r", 2, "b")], id="read"),
        pytest.param([event("r", 1, "a"), event("r", 2, "b"), event("u", 2, "b")], id="sent-again"),
        pytest.param([event("r", 1, "a"), event("r", 2, "b"), event("u", 2, LARGE)], id="value-left-out"),
        pytest.param(
            [event("r", 1, "a"), event("r", 3, "b"), event("d", 3, None), event("c", 2, LARGE)], id="key"
        ),
        pytest.param(
            [event("u", 7, "x"), event("t", 0, ""), event("r", 1, "a"), event("r", 2, "b")], id="truncate"
        ),
    ],
)
def test_a_topic_with_all_rows_is_right(events: list[Emitted]):
    judged(events)


def test_a_topic_may_lack_rows_and_values_while_the_job_says_so():
    judged([event("u", 2, LARGE)], incomplete=True)


@pytest.mark.parametrize("incomplete", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param(event("u", 2, "old"), id="an-old-value"),
        pytest.param(event("u", 3, "c"), id="a-row-that-is-gone"),
    ],
)
def test_what_is_wrong_is_a_violation(more: Emitted, incomplete: bool):  # noqa: FBT001  from the cases
    with pytest.raises(Violation):
        judged([event("r", 1, "a"), event("r", 2, "b"), more], incomplete=incomplete)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([event("r", 1, "a")], id="a-row"),
        pytest.param([event("r", 1, "a"), event("u", 2, LARGE)], id="a-value"),
    ],
)
def test_what_is_lacking_in_silence_is_a_violation(events: list[Emitted]):
    with pytest.raises(Violation):
        judged(events)


@pytest.mark.parametrize("number", range(2 * _EACH_EVERY))
def test_each_history_of_a_long_run_with_kafka_has_its_blows(number: int):
    wanted = _KAFKA_BLOWS[number % _EACH_EVERY]
    script = write(f"k/{number}", Wanted(kafka=True, blow=wanted))
    kinds = sorted(blow.kind for round_ in script.rounds for blow in round_.blows)

    assert kinds == sorted(wanted.split(", "))
    assert (SETTING in script.properties) == ("recreate" in kinds)
    assert not (script.initial and {"recreate", "refuse"} & set(kinds))


def test_five_histories_with_kafka_reach_every_floor_of_the_broker():
    kinds = Counter(kind for blows in _KAFKA_BLOWS.values() for kind in blows.split(", "))

    assert min(kinds[kind] for kind in ("kill broker", "slow broker", "freeze broker")) >= 1
    assert min(kinds[kind] for kind in ("refuse", "recreate")) >= 2
