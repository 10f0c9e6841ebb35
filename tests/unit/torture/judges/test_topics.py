"""Topics judged: what is sent again after a failure is right, what is lost or out of order is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.torture.emitted import Emitted
from tests.torture.journal import Journal, JournalReader
from tests.torture.oracle import Oracle, Table, Violation
from tests.torture.topics import Topics
from tests.torture.truth import Entry

if TYPE_CHECKING:
    from pathlib import Path

T = "public.t"


@pytest.fixture
def journal(tmp_path: Path) -> JournalReader:
    written = Journal(tmp_path / "journal")
    written.note("crash")
    written.note("turn", turn=1)
    written.close()
    return JournalReader(tmp_path / "journal")


@pytest.fixture
def topics() -> Topics:
    table = Table(T, ("k",), {"k": "integer", "v": "text"})
    table.start([{"k": "1", "v": "old"}, {"k": "2", "v": "old"}])
    return Topics(Oracle({T: table}))


def update(place: int, value: str) -> Entry:
    return Entry(9, "u", (T,), new={"k": "1", "v": value}, place=place)


def updated(place: int, value: str, **more: Any) -> Emitted:
    return Emitted(2, T, "u", None, {"k": 1, "v": value}, 9, place=place, **more)


def read(value: str) -> Emitted:
    return Emitted(2, T, "r", None, {"k": 1, "v": value}, None)


MOVE = Entry(9, "u", (T,), old={"k": "2"}, new={"k": "3", "v": "moved"}, place=30)
LEFT = Emitted(2, T, "d", {"k": 2, "v": None}, None, 9, place=30)
CAME = Emitted(2, T, "c", None, {"k": 3, "v": "moved"}, 9, place=30)
LOG = [update(10, "a"), update(20, "b"), MOVE]


@pytest.mark.parametrize(
    "again",
    [
        [updated(10, "a"), updated(20, "b"), LEFT, CAME],
        [updated(10, "a"), updated(20, "b"), LEFT, updated(10, "a"), updated(20, "b"), LEFT, CAME],
        [updated(10, "a"), updated(20, "b"), LEFT, LEFT, CAME],
        [updated(10, "a"), read("a"), updated(20, "b"), LEFT, CAME, updated(20, "b"), read("b"), LEFT, CAME],
    ],
    ids=["once", "amid-a-move", "the-move-again", "reads-in-between"],
)
def test_what_is_sent_again_in_order_is_right(topics: Topics, journal: JournalReader, again: list[Emitted]):
    left = topics.follow(LOG, again, journal)
    topics.settle(T)

    assert left == []
    assert topics.goings_back <= 1


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([updated(20, "b")], id="one-left-out"),
        pytest.param([updated(10, "a"), updated(20, "b"), updated(10, "a"), LEFT], id="only-one-again"),
        pytest.param([updated(10, "a"), updated(20, "b"), read("a")], id="an-old-row"),
        pytest.param([updated(10, "a"), updated(20, "b"), updated(10, "a"), read("b")], id="a-row-too-new"),
        pytest.param([updated(10, "a"), updated(10, "a"), updated(10, "a")], id="twice-after-one-failure"),
        pytest.param([updated(10, "b")], id="another-value"),
        pytest.param([updated(40, "c")], id="not-in-the-log"),
    ],
)
def test_what_is_wrong_is_a_violation(topics: Topics, journal: JournalReader, sent: list[Emitted]):
    with pytest.raises(Violation):
        topics.follow(LOG, sent, journal)


def test_a_saved_turn_that_is_sent_again_is_a_violation(topics: Topics, journal: JournalReader):
    saved = Emitted(1, T, "u", None, {"k": 1, "v": "a"}, 9, place=10)
    later = journal.of("turn")[0]["at"] + 1.0

    with pytest.raises(Violation, match="turn 1 was saved"):
        topics.follow(LOG, [saved, updated(10, "a", at_s=later)], journal)


def test_what_an_unsent_turn_had_sent_may_come_again_with_the_turn_after_it(topics: Topics, tmp_path: Path):
    # The broker went away; the first turn that was saved afterwards set a table aside and sent nothing.
    written = Journal(tmp_path / "another")
    written.note("unsent", turn=1)
    written.note("turn", turn=1)
    written.close()
    journal = JournalReader(tmp_path / "another")
    unsent_s, saved_s = (journal.of(what)[0]["at"] for what in ("unsent", "turn"))
    first = Emitted(1, T, "u", None, {"k": 1, "v": "a"}, 9, place=10, at_s=unsent_s - 1.0)

    sent = [first, updated(10, "a", at_s=saved_s + 1.0), updated(20, "b"), LEFT, CAME]

    assert topics.follow(LOG, sent, journal) == []
    assert topics.goings_back == 1


def test_rows_of_a_blocking_snapshot_count_as_read(topics: Topics, journal: JournalReader):
    topics.oracle.blocks = True
    topics.follow(LOG, [updated(10, "a"), replace(read("a"), snapshot="first"), updated(20, "b")], journal)

    assert topics.oracle.tables[T].read_in == {("1",): [2]}


def test_what_was_left_over_is_still_expected(topics: Topics, journal: JournalReader):
    topics.follow(LOG[:2], [updated(10, "a")], journal)

    assert topics.follow([MOVE], [updated(20, "b"), LEFT, CAME], journal) == []


def test_what_was_not_sent_is_left_over(topics: Topics, journal: JournalReader):
    assert topics.follow(LOG, [updated(10, "a"), updated(20, "b")], journal) == [MOVE]


def test_a_key_whose_last_event_tells_of_a_row_that_is_gone_is_a_violation(
    topics: Topics, journal: JournalReader
):
    topics.follow(LOG, [updated(10, "a"), updated(20, "b"), LEFT, CAME], journal)
    del topics.oracle.tables[T].rows["3",]

    with pytest.raises(Violation, match="last event"):
        topics.settle(T)
