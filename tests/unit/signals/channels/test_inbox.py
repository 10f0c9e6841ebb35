"""Messages that wait, and the position to save."""

from __future__ import annotations

from engine.model import Channel
from signals.channels.inbox import Inbox
from signals.model import Message

FIRST, SECOND = (Message(Channel.FILE, f"s@{at}", b"x") for at in (0, 9))


def test_what_is_read_is_saved_once_it_is_taken():
    inbox = Inbox(0)
    inbox.add(FIRST)
    inbox.position = 9

    assert (inbox.pending, inbox.saved()) == (True, 0)
    assert (inbox.take(), inbox.saved()) == ([FIRST], 9)
    assert not inbox.pending


def test_a_first_place_is_to_be_saved_without_a_message():
    inbox = Inbox(0)
    inbox.resume(5, is_new=True)

    assert inbox.pending
    assert inbox.saved() == 5
    assert not inbox.pending


def test_what_waited_before_resuming_is_dropped():
    inbox = Inbox(0)
    inbox.add(FIRST)
    inbox.resume(9, is_new=False)
    inbox.add(SECOND)

    assert inbox.take() == [SECOND]
