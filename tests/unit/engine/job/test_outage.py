"""What a job says while it waits for a server: what it waits for, once, and that it is over."""

from __future__ import annotations

import logging

import pytest

from engine.errors import SourceError
from engine.job.outage import Outage

DOWN, REFUSED = SourceError("connection refused"), SourceError("too many clients")


@pytest.fixture
def said(caplog):
    """What is said at the usual level."""
    caplog.set_level(logging.INFO, "engine")
    return lambda: [record.getMessage() for record in caplog.records]


def test_the_same_reason_is_told_once(said):
    outage = Outage()
    for attempt in range(100):
        outage.note_failure(DOWN, 10.0, 10.0 * attempt)

    assert said() == ["connection refused; trying again in 10.0 s, and until it passes"]


def test_another_reason_is_told(said):
    outage = Outage()
    outage.note_failure(DOWN, 1.0, 0.0)
    outage.note_failure(REFUSED, 2.0, 1.0)
    outage.note_failure(DOWN, 4.0, 3.0)

    assert [line.partition(";")[0] for line in said()] == [
        "connection refused",
        "too many clients",
        "connection refused",
    ]


def test_its_end_is_told_once_and_the_next_one_anew(said):
    outage = Outage()
    outage.note_progress(0.0)
    outage.note_failure(DOWN, 1.0, 10.0)
    outage.note_failure(DOWN, 2.0, 11.0)
    outage.note_progress(14.0)
    outage.note_progress(15.0)
    outage.note_failure(DOWN, 1.0, 20.0)

    assert said()[1:] == [
        "continues after 4 s and 2 attempts",
        "connection refused; trying again in 1.0 s, and until it passes",
    ]
