"""Rows of the signal table become signals."""

from __future__ import annotations

import pytest

from engine.model import Channel, SignalRow
from signals.channels.table import signals_of
from signals.model import Signal, is_window_row


def test_rows_become_signals_in_the_order_of_the_log():
    rows = [SignalRow("0/2", "b", "log", "{}"), SignalRow("0/1", "a", "log", None)]

    signals = signals_of(rows)

    assert signals == (
        Signal(Channel.SOURCE, "0/2", "b", "log", "{}"),
        Signal(Channel.SOURCE, "0/1", "a", "log", None),
    )


def test_rows_that_mark_a_window_are_no_signals():
    rows = [
        SignalRow("0/1", "x-open", "snapshot-window-open", None),
        SignalRow("0/2", "a", "log", "{}"),
        SignalRow("0/3", "x-close", "snapshot-window-close", None),
    ]

    assert [signal.label for signal in signals_of(rows)] == ["0/2"]


def test_the_same_id_twice_is_two_signals():
    rows = [SignalRow("0/1", "a", "log", "{}"), SignalRow("0/2", "a", "log", "{}")]

    assert [signal.label for signal in signals_of(rows)] == ["0/1", "0/2"]


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("snapshot-window-open", True),
        ("snapshot-window-close", True),
        ("snapshot-window-open   ", True),  # a char(n) column pads
        ("execute-snapshot", False),
        ("", False),
        (None, False),
    ],
)
def test_window_rows_are_told_by_their_type(type_, expected):
    assert is_window_row(type_) is expected
