"""The line an operator reads while a job runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.job.reports.observation import Observation
from engine.job.reports.progress_log import ProgressLog, TableReport, resume_line, table_report
from engine.job.saved.state import State
from engine.model import CollectionId, Range, Target
from engine.snapshot.extent import Extent, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table

T, U = Target(CollectionId(("public", "t"))), Target(CollectionId(("public", "u")))
SPANNED = Extent(rows=1000, bytes=1, greatest=("1000",), span=(1, 1000))
PROBED = Extent(rows=1000, bytes=1, greatest=("z",))


def read(extent: Extent, last: str | None = None, rows: int = 0) -> Progress:
    left = extent.ranges if last is None else (Range((last,), extent.greatest),)
    return Progress(extent, 0, left, rows=rows)


def table(progress: Progress | None, target: Target = T) -> Table:
    return Table(1, "s", target, progress)


def seen(now_s: float, *tables: Table, events: int = 0, lag_s: float = 0.0) -> Observation:
    return Observation(State(snapshot=Snapshot(tables)), events, lag_s, now_s, None, now_s)


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        pytest.param(read(SPANNED), 0.0, id="nothing read"),
        pytest.param(read(SPANNED, "250", rows=9), 0.25, id="by keys, where they are integers"),
        pytest.param(read(SPANNED, "2000", rows=9), 1.0, id="never above 1"),
        pytest.param(read(PROBED, "k", rows=250), 0.25, id="by rows elsewhere"),
        pytest.param(read(PROBED, "k", rows=3000), 1.0, id="a low estimate"),
        pytest.param(read(Extent(0, 0, greatest=("z",)), "k"), 0.0, id="no estimate"),
    ],
)
def test_how_much_has_been_read(progress, expected):
    assert progress.fraction_read == expected


@pytest.mark.parametrize("tables", [(), (table(None),), (table(None), table(read(PROBED)))])
def test_there_is_no_report_before_a_table_has_begun(tables):
    assert table_report(tables, 1.0) is None


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ((), None),
        ((table(None),), "the snapshot of public.t goes on at 0 %"),
        ((table(read(SPANNED, "250")),), "the snapshot of public.t goes on at 25 %"),
        (
            (table(read(SPANNED, "250")), table(None, U), table(None)),
            "the snapshot of public.t goes on at 25 %, and 2 more are queued",
        ),
    ],
)
def test_a_restart_is_told_where_the_queue_goes_on(tables, expected):
    assert resume_line(tables) == expected


def test_a_report_tells_speed_and_time_left():
    reading = table(replace(read(SPANNED, "250", rows=500), since_ms=2_000))

    assert table_report((reading, table(None, U)), 12.0) == TableReport(
        collection="public.t",
        fraction=0.25,
        rows=500,
        estimated_rows=2000,
        rows_per_s=50.0,
        eta_s=30.0,
        queued=1,
    )


def test_before_the_first_window_the_estimate_is_the_catalog_s():
    report = table_report((table(read(SPANNED)),), 1.0)

    assert report is not None
    assert (report.estimated_rows, report.eta_s, report.rows_per_s) == (1000, None, 0.0)


@pytest.mark.parametrize(
    ("eta_s", "queued", "expected"),
    [
        (None, 0, "public.t 25.0% (500 of about 2,000 rows), 50 rows/s, ETA unknown"),
        (59.4, 0, "public.t 25.0% (500 of about 2,000 rows), 50 rows/s, ETA 59s"),
        (61.0, 0, "public.t 25.0% (500 of about 2,000 rows), 50 rows/s, ETA 1m01s"),
        (7325.0, 2, "public.t 25.0% (500 of about 2,000 rows), 50 rows/s, ETA 2h02m, 2 more queued"),
    ],
)
def test_a_report_reads_as_one_line(eta_s, queued, expected):
    assert str(TableReport("public.t", 0.25, 500, 2000, 50.0, eta_s, queued)) == expected


def test_a_report_counts_the_tables_of_the_snapshot_before_the_log():
    report = table_report((replace(table(read(SPANNED)), ordinal=(3, 17)),), 1.0)

    assert str(report).startswith("table 3 of 17, public.t 0.0%")


def test_a_line_is_said_once_an_interval_with_what_came_in_it():
    lines: list[str] = []
    log = ProgressLog(10.0, lines.append)
    for second in range(21):
        log(seen(float(second), events=100, lag_s=0.25))

    assert lines == [
        "1,100 events sent, 110 events/s, lag 0.2 s",
        "1,000 events sent, 100 events/s, lag 0.2 s",
    ]


def test_silence_is_not_reported():
    lines: list[str] = []
    log = ProgressLog(10.0, lines.append)
    for second in range(0, 50, 5):
        log(seen(float(second)))

    assert lines == []


def test_an_idle_job_says_so_once_a_minute():
    lines: list[str] = []
    log = ProgressLog(5.0, lines.append)
    for second in range(200):
        log(seen(float(second), events=1 if second == 10 else 0))

    sent, *idle = lines
    assert sent.startswith("1 events sent")
    assert idle == [
        "idle for 1m00s: nothing to send or to read",
        "idle for 2m00s: nothing to send or to read",
        "idle for 3m00s: nothing to send or to read",
    ]


def test_a_snapshot_stands_first_in_the_line():
    lines: list[str] = []
    log = ProgressLog(10.0, lines.append)
    log(seen(0.0))
    log(seen(10.0, table(read(SPANNED, "250", rows=500))))

    report = "public.t 25.0% (500 of about 2,000 rows), 50 rows/s, ETA 30s"
    assert lines == [f"snapshot of {report}; 0 events sent, 0 events/s, lag 0.0 s"]
