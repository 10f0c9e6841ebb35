"""Which records of a topic are read, and that those of a turn are read once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from adapters.kafka.settings import KafkaSettings
from adapters.spark.executors import LocalExecutors
from adapters.verify.events import topic_copy
from adapters.verify.events.copied_events import Traits
from adapters.verify.events.files_copy import FilesCopy
from adapters.verify.events.topic_copy import TopicCopy
from engine.errors import SourceError
from engine.verify.copy import Span
from tests.hand_clock import HandClock

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "shop.public.t"


class Topic:
    """A topic of two partitions, whose records are read without a broker."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends = {0: 3, 1: 1}
        self.directory = directory
        self.read: list[tuple[int, int, int]] = []
        monkeypatch.setattr(topic_copy, "ReadRecords", lambda *_given: self.reading)
        self.in_order: list[bool] = []
        self.patch = monkeypatch
        self.begin_session()

    def begin_session(self) -> None:
        """Another session of the job."""
        work, kept = (str(self.directory / name) for name in ("work", "kept"))
        self.copy = TopicCopy(KafkaSettings(), work, kept, LocalExecutors(), self.files, HandClock().clock)
        self.patch.setattr(self.copy._ends, "of", lambda _topic: dict(self.ends))

    def reading(self, share: Any) -> int:
        time.sleep(0.01)  # for another comparison to come in
        self.read.append((share.partition, share.begin, share.end))
        return 1

    def files(self, directory: str, in_order: bool) -> FilesCopy:  # noqa: FBT001
        self.in_order.append(in_order)
        return FilesCopy(directory, f"{directory}/sorted", LocalExecutors(), Traits())

    def touched(self, since: int, upto: int) -> None:
        self.copy.touched_keys(TOPIC, Span(since, upto))


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(tmp_path, monkeypatch)


def test_records_are_read_once_and_up_to_the_turn(topic):
    topic.copy.follow([TOPIC], 7)
    topic.touched(6, 7)
    topic.ends = {0: 5, 1: 1}
    topic.copy.follow([TOPIC], 8)
    topic.ends = {0: 9, 1: 2}
    topic.copy.follow([TOPIC], 9)
    topic.touched(7, 8)
    topic.touched(8, 8)

    assert topic.read == [(0, 0, 3), (1, 0, 1), (0, 3, 5)]
    assert set(topic.in_order) == {False}


def test_two_comparisons_of_a_topic_read_it_once(topic):
    topic.copy.follow([TOPIC], 7)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _number: topic.touched(6, 7), range(8)))

    assert sorted(topic.read) == [(0, 0, 3), (1, 0, 1)]


def test_a_topic_that_is_compared_anew_is_read_where_no_task_of_before_writes(topic):
    topic.copy.follow([TOPIC], 7)
    before = topic.copy._topics[TOPIC].directory
    topic.copy.follow([], 8)
    topic.copy.follow([TOPIC], 8)

    assert topic.copy._topics[TOPIC].directory != before


def test_a_topic_that_is_compared_no_more_is_forgotten(topic, tmp_path):
    topic.copy.follow([TOPIC], 7)
    (tmp_path / "left").mkdir()
    topic.copy._topics[TOPIC].directory = str(tmp_path / "left")
    topic.copy.follow([], 8)

    assert not (tmp_path / "left").exists()
    with pytest.raises(SourceError, match="turns are not known"):
        topic.touched(6, 7)


def followed(topic: Topic) -> None:
    """Three turns, of which the second has sent something, and the others nothing."""
    for turn, end in ((7, 3), (8, 5), (9, 5)):
        topic.ends[0] = end
        topic.copy.follow([TOPIC], turn)


def test_the_next_session_knows_the_turns_of_records(topic):
    followed(topic)
    topic.begin_session()
    topic.ends[0] = 8  # a turn that was never saved

    assert topic.copy.resume(TOPIC, Span(7, 9))
    topic.copy.follow([TOPIC], 9)
    topic.copy.follow([TOPIC], 10)
    topic.touched(7, 8)
    topic.touched(8, 9)
    topic.touched(9, 10)

    assert topic.read == [(0, 0, 5), (1, 0, 1), (0, 5, 8)]


@pytest.mark.parametrize("span", [Span(6, 9), Span(7, 10)])
def test_the_next_session_must_know_all_turns(topic, span):
    """A turn before the first one that was noted, or one after the last."""
    followed(topic)
    topic.begin_session()

    assert not topic.copy.resume(TOPIC, span)


def test_turns_that_were_never_saved_are_forgotten(topic):
    followed(topic)
    topic.begin_session()

    assert topic.copy.resume(TOPIC, Span(7, 8))
    topic.begin_session()
    assert not topic.copy.resume(TOPIC, Span(7, 9))


@pytest.mark.parametrize("end", [b"", b"\xff\n", b"7\n"])
def test_a_damaged_file_of_ends_is_of_no_use(topic, end):
    followed(topic)
    (kept,) = (topic.directory / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:-4] + end)
    topic.begin_session()

    assert not topic.copy.resume(TOPIC, Span(7, 9))


def test_the_ends_of_a_topic_that_is_compared_no_more_are_removed(topic):
    followed(topic)
    topic.copy.follow([], 10)

    assert list((topic.directory / "kept").iterdir()) == []
