"""Takes the picture of the status page that README.md shows: `python -m tests.page.picture FILE`."""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from adapters.http.history import EVERY_S, Sample
from adapters.http.monitor import TimedAnswer
from engine.job.reports.observation import Observation
from engine.job.reports.tally import Phase
from engine.job.saved.state import State
from engine.model import CollectionId, Position, Range, Run, Target, Window
from engine.snapshot.extent import Extent, FailedSnapshot, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from signals.answers import Answer, Outcome
from tests.unit.adapters.http.watched_job import WatchedJob

SPANNED = Extent(rows=1_000_000, bytes=1 << 28, greatest=("1000000",), span=(1, 1_000_000))


def target(name: str) -> Target:
    return Target(CollectionId(("public", name)))


def state() -> tuple[State, Window]:
    """Snapshots in every stage, and the window that reads the first of them."""
    left = (Range(("410000",), ("1000000",)),)
    gap = Gap(Range(("120000",), ("150000",)), why="an unreadable page")
    reading = Progress(SPANNED, 940_000, left, rows=380_000, emitted=379_642, chunks=371, missing=(gap,))
    paused = Progress(SPANNED, 900_000, (Range(("830000",), ("1000000",)),), rows=830_000, emitted=830_000)
    tables = (
        Table(1, "0/1", target("orders"), reading),
        Table(2, "0/1", target("order_lines")),
        Table(3, "0/2", target("customers"), paused, paused=True),
    )
    failed = FailedSnapshot(target("invoices"), (), (Gap(Range(("7",), ("9",))),))
    run = Run(1, target("orders"), ("410000",), ("530000",))
    snapshot = Snapshot(tables, next_ticket=4, failed=(failed,))
    return State(turn=84_213, position=Position((0x2F1A9C48,)), snapshot=snapshot), Window("w", (run,))


def shown(job: WatchedJob) -> None:
    """An hour of a job."""
    tally, monitor = job.monitor.tally, job.monitor
    found, window = state()
    tally.count_turn(Observation(found, 0, 0.4, job.bench.now_s, window, job.bench.now_s))
    tally.note_windows([window], 18 << 20)
    tally.turns, tally.sent, tally.given_up = 84_213, 3_417_902, 2
    tally.snapshots.incremental.read, tally.snapshots.incremental.emitted = 1_210_000, 1_209_642
    tally.failures["SourceError"] = 1
    for phase, seconds in zip(Phase, (3.1, 164.0, 4.2, 71.5), strict=True):
        time = tally.phases[phase]
        time.windows, time.seconds, time.last_s = 82, seconds, seconds / 80
    told = (
        (Outcome.ACCEPTED, "incremental snapshot of public.orders, public.order_lines"),
        (Outcome.STARTED, "public.orders is being read: about 1000000 rows"),
        (Outcome.PROGRESS, "public.orders is read to 40%: 380000 rows"),
    )
    for at, (outcome, text) in enumerate(told):
        answer = Answer("0/2F1A0000/3", "nightly", outcome, text)
        monitor.answers.append(TimedAnswer(84_000 + at, 1_795_000_000 + 40 * at, answer))
    sent = read = 0
    for step in range(720):
        wave = 1 + math.sin(step / 40) * 0.5 + (0.6 if 300 < step < 330 else 0)
        sent += int(900 * wave * EVERY_S)
        read += int(EVERY_S * 21_000) if step > 420 else 0
        at_s = job.bench.now_s - (719 - step) * EVERY_S
        kept = int((24 + 20 * wave) * (1 << 20))
        monitor.history._kept.append(Sample(at_s, step, sent, read, 0.2 + 0.3 * wave**3, kept))


def main(file: str) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as staging, sync_playwright() as playwright:
        job = WatchedJob(
            Path(staging),
            tidemark_http_port="0",
            tidemark_http_control="true",
            name="shop",
            tidemark_sink="null",
        )
        job.begin()
        job.monitor.attach(lambda: 41 << 20, lambda position: f"0/{position.order[0]:X}", lambda _: {})
        shown(job)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        with job.served() as client:
            page = browser.new_page(viewport={"width": 1180, "height": 1000})
            page.goto(f"http://127.0.0.1:{client.port}/")
            page.screenshot(path=file, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
