"""The cases of Debezium's AbstractBlockingSnapshotTest, by their names there, on three sources.

`make debezium-cases` runs them. Left out are `readsSchemaOnlyForSignaledTables`, which Debezium skips here as
well, and `streamingMetricsResumeAfterBlockingSnapshot`, since our counters never pause.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.debezium_subjects import EXPECTED, ROWS, Subject, subject

pytestmark = pytest.mark.integration
__all__ = ["subject"]

TWICE = {number + 1: number for number in range(2 * ROWS)}
THRICE = {number + 1: number for number in range(3 * ROWS)}


def more(subject: Subject, first: int, count: int = ROWS, table: str = "a") -> None:
    subject.insert(table, [(number + 1, number) for number in range(first, first + count)])


def ask(subject: Subject, *tables: str, **data: Any) -> None:
    subject.send("execute-snapshot", *tables, type="blocking", **data)


def test_execute_blocking_snapshot(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        more(subject, ROWS)
        ask(subject, "a")
        job.until_answered("finished")
        assert sorted(subject.reads(job)) == sorted(TWICE)
        more(subject, 2 * ROWS)
        subject.drain(job)

        assert subject.values(job) == THRICE


def test_execute_multiple_blocking_snapshots(subject: Subject):
    """Requests that are equal and wait are read once. Each signal is answered."""
    subject.table("a")
    with subject.job() as job:
        for _ in range(3):
            ask(subject, "a")
        job.until_answered("finished", 3)
        more(subject, ROWS)
        subject.drain(job)

        assert len(subject.reads(job)) in {ROWS, 2 * ROWS, 3 * ROWS}
        assert subject.values(job) == TWICE


def test_execute_blocking_snapshot_while_streaming(subject: Subject):
    subject.table("a")
    with subject.job() as job:

        def write() -> None:
            for first in range(ROWS, 2 * ROWS, 20):
                more(subject, first, 20)

        writer = threading.Thread(target=write)
        writer.start()
        ask(subject, "a")
        job.until_answered("finished")
        writer.join()
        more(subject, 2 * ROWS)
        subject.drain(job)

        assert subject.values(job) == THRICE


def test_execute_blocking_snapshot_with_additional_condition(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        chosen = {"data-collection": f"{subject.prefix}a", "filter": subject.select("a", 500)}
        ask(subject, "a", additional_conditions=[chosen])
        job.until_answered("finished")

        assert sorted(subject.reads(job)) == list(range(1, 501))


def test_execute_blocking_snapshot_with_escaped_collection_name(subject: Subject):
    subject.table("a")
    with subject.job() as job:
        subject.raw("execute-snapshot", [subject.quoted("a")], type="blocking")
        job.until_answered("finished")

        assert subject.values(job) == EXPECTED


def test_an_error_during_blocking_snapshot_should_leave_the_connector_in_a_good_state(subject: Subject):
    """`anErrorDuringBlockingSnapshotShouldNotLeaveTheStreamingPaused` asks for the same."""
    subject.table("a")
    subject.table("b")
    with subject.job() as job:
        broken = {"data-collection": f"{subject.prefix}b", "filter": "SELECT WITH AN ERROR"}
        ask(subject, "b", additional_conditions=[broken])
        job.until_answered("rejected")
        more(subject, ROWS)
        subject.drain(job)

        assert subject.events(job, "b") == []
        assert len(subject.events(job, "a")) == ROWS
        ask(subject, "a")
        job.until_answered("finished")
        assert subject.values(job) == TWICE


def test_a_failed_blocking_snapshot_should_not_cause_initial_snapshot_on_restart(subject: Subject):
    subject.table("a")
    subject.table("b")
    given = subject.only("a", "b") | {"snapshot__mode": "initial"}
    with subject.job(**given) as job:
        job.until(lambda: len(subject.reads(job)) == len(subject.reads(job, "b")) == ROWS)
        broken = {"data-collection": f"{subject.prefix}b", "filter": "SELECT failing query"}
        ask(subject, "a", "b", additional_conditions=[broken])
        job.until_answered("rejected")
        job.until(lambda: len(subject.reads(job)) == 2 * ROWS)
        more(subject, ROWS, 1)
        subject.drain(job)
    with subject.job(**given) as job:
        more(subject, ROWS + 1, 1)
        subject.drain(job)

        assert len(subject.reads(job)) == 2 * ROWS
        assert len(subject.reads(job, "b")) == ROWS
        assert subject.values(job) == {number + 1: number for number in range(ROWS + 2)}


def test_blocking_snapshot_must_reuse_existing_offset_as_snapshot_offset(subject: Subject):
    """What is written while no job runs, before the signal and after it, comes once the job is back."""
    subject.table("a")
    subject.table("b", rows=200)
    with subject.job(**subject.only("a", "b")) as job:
        ask(subject, "a")
        job.until_answered("finished")
    more(subject, ROWS)
    ask(subject, "b")
    more(subject, 2 * ROWS)
    with subject.job(**subject.only("a", "b")) as job:
        job.until(lambda: len(subject.reads(job, "b")) == 200)
        subject.drain(job)

        assert subject.values(job) == THRICE
        assert len(subject.events(job, "a")) == 3 * ROWS
