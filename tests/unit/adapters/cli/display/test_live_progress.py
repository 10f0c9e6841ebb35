"""The progress of snapshots in `tidemark run`: bars on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from io import StringIO

import pytest
from rich.console import Console

from adapters.cli.display.live_progress import LiveProgress, onlookers_for
from adapters.source.assembly.supplied import NOBODY
from engine.config import parse
from engine.job.reports.observation import Observation
from engine.job.saved.state import State
from engine.snapshot.queue import Snapshot
from tests.unit.adapters.cli.test_status import entry
from tests.unit.adapters.cli.test_status import reading as half_read
from tests.unit.engine.config.least import POSTGRES


def seen(clock_s: float, *, reading: bool = True) -> Observation:
    tables = (entry("a", progress=half_read()),) if reading else ()
    return Observation(State(1, snapshot=Snapshot(tables)), 10, 0.1, 1_000.0 + clock_s, None, clock_s)


def live() -> tuple[LiveProgress, StringIO]:
    out = StringIO()
    return LiveProgress(Console(file=out, force_terminal=True, width=120), 5.0), out


def test_bars_are_drawn_while_something_is_read_and_vanish_then(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "engine")
    progress, out = live()
    progress(seen(0.0))
    first = out.getvalue()
    progress(seen(0.1))  # too soon
    assert out.getvalue() == first
    progress(seen(6.0))
    drawn = out.getvalue()
    progress(seen(12.0, reading=False))

    assert "public.a" in first
    assert "━" in first
    assert "events/s, lag 0.1 s" in drawn
    assert [record.message for record in caplog.records] == ["10 events sent, 2 events/s, lag 0.1 s"]


@pytest.mark.parametrize("drawn", [True, False])
def test_without_a_terminal_the_log_tells(monkeypatch: pytest.MonkeyPatch, *, drawn: bool):
    monkeypatch.setattr(sys, "stderr", StringIO())
    with onlookers_for(parse(POSTGRES), drawn=drawn) as onlookers:
        assert onlookers is NOBODY
