"""Signals from the job's own process: each is taken once, and again if its turn was not saved."""

from __future__ import annotations

from signals.channels.in_process import MOST_WAITING, InProcessChannel


def test_a_signal_is_taken_once_and_its_place_is_saved():
    channel = InProcessChannel()
    channel.resume({})
    assert channel.pending()
    assert channel.memory() == {"taken": 0}
    assert not channel.pending()

    assert channel.send(b"{}") == "in-process@1"
    assert channel.pending()
    assert [(message.label, message.text) for message in channel.receive()] == [("in-process@1", b"{}")]
    assert channel.receive() == []
    assert channel.memory() == {"taken": 1}


def test_a_signal_whose_turn_failed_is_taken_again():
    channel = InProcessChannel()
    channel.resume({"taken": 4})
    channel.send(b"a")
    channel.receive()
    channel.resume({"taken": 4})
    assert [message.label for message in channel.receive()] == ["in-process@5"]
    channel.resume({"taken": 5})
    assert channel.receive() == []


def test_nothing_is_taken_before_the_job_has_a_state_nor_beyond_a_bound():
    channel = InProcessChannel()
    assert channel.send(b"{}") is None
    channel.resume({"taken": 0})
    sent = [channel.send(b"{}") for _ in range(MOST_WAITING + 1)]
    assert sent[-1] is None
    assert len(channel.receive()) == MOST_WAITING
    assert channel.send(b"{}") is not None
