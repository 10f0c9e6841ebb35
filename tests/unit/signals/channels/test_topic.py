"""The kafka channel: whose records count, their labels, and where reading begins."""

from __future__ import annotations

import logging

import pytest

from signals.channels.topic import TopicChannel, TopicPosition
from tests.fakes import MemoryTopic

VALUE = b'{"type": "log"}'


@pytest.fixture
def reader():
    return MemoryTopic()


@pytest.fixture
def channel(reader):
    channel = TopicChannel("asks", "shop", reader, first_ms=1_000)
    channel.resume({})
    return channel


def test_records_of_this_job_are_labelled_by_their_place(reader, channel):
    reader.append(0, b"shop", VALUE)
    reader.append(2, b"shop", None)

    assert [(message.label, message.text) for message in channel.receive()] == [
        ("asks-0@0", VALUE),
        ("asks-2@0", b""),
    ]


@pytest.mark.parametrize("key", [None, b"", b"shop2", b"SHOP", b"\xff"])
def test_a_record_with_another_key_is_passed_over_with_a_debug_line(reader, channel, key, caplog):
    channel.memory()
    with caplog.at_level(logging.DEBUG, "signals"):
        reader.append(0, key, VALUE)
        assert not channel.pending()

    assert list(channel.receive()) == []
    assert channel.memory()["offsets"] == {"0": 1}
    assert "the record at asks-0@0 has another key" in caplog.text


def test_a_new_job_reads_what_was_sent_since_its_first_start(reader, channel):
    assert reader.position == TopicPosition({}, 1_000)
    assert channel.memory() == {"topic": "asks", "id": "", "since_ms": 1_000, "offsets": {}}


def test_a_later_start_goes_on_at_the_saved_offsets_and_keeps_the_time_of_the_first(reader):
    saved = {"topic": "asks", "id": "t1", "since_ms": 1_000, "offsets": {"0": 5, "3": 1}}
    channel = TopicChannel("asks", "shop", reader, first_ms=9_000)
    channel.resume(saved)

    assert reader.position == TopicPosition({0: 5, 3: 1}, 1_000, "t1")
    assert channel.memory() == saved


def test_offsets_of_a_topic_that_was_made_anew_are_its_own(reader):
    channel = TopicChannel("asks", "shop", reader, first_ms=9_000)
    channel.resume({"topic": "asks", "id": "t0", "since_ms": 1_000, "offsets": {"0": 5, "3": 1}})
    reader.position = TopicPosition({}, 1_000)
    reader.append(3, b"shop", VALUE)
    reader.begin(reader.position)
    channel.receive()

    assert channel.memory() == {"topic": "asks", "id": "t1", "since_ms": 1_000, "offsets": {"3": 1}}


def test_another_topic_is_begun_anew(reader, caplog):
    channel = TopicChannel("asks", "shop", reader, first_ms=9_000)
    with caplog.at_level(logging.WARNING, "signals"):
        channel.resume({"topic": "old", "id": "t0", "since_ms": 1_000, "offsets": {"0": 5}})

    assert reader.position == TopicPosition({}, 9_000)
    assert "'old' is left" in caplog.text


def test_the_place_covers_what_was_received_and_not_what_merely_waits(reader, channel):
    reader.append(0, b"shop", VALUE)
    channel.receive()
    reader.append(0, b"shop", VALUE)
    assert channel.pending()

    assert channel.memory()["offsets"] == {"0": 1}
