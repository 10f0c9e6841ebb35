"""The jobs that read a window end when the window is cancelled, also those that have not begun."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest

from adapters.mongodb.server.connection import Connection
from adapters.mongodb.snapshot.chunk_reader import ChunkReader, RunRead
from adapters.spark.executors import SparkExecutors
from adapters.spark.windows.window_jobs import WindowJobs
from engine.errors import SourceError
from engine.model import CollectionId, Run, Target
from tests.staged import files_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration
NOBODY = Connection("mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=100")


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    """A window's own thread, since a job group belongs to the thread that sets it."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def begun(jobs: WindowJobs, window: str, spark: SparkSession, task: Callable[[int], None]) -> None:
    jobs.begin(window)
    SparkExecutors(spark).map(task, [1])


def noted(path: Path, wait_s: float, _item: int) -> None:
    path.touch()
    time.sleep(wait_s)


def test_a_running_job_ends(spark: SparkSession, tmp_path: Path, thread: ThreadPoolExecutor):
    jobs, window, begins = (
        WindowJobs(spark, files_in(tmp_path), slots=lambda: 1),
        str(uuid4()),
        time.monotonic(),
    )
    reading = thread.submit(begun, jobs, window, spark, partial(noted, tmp_path / "began", 120.0))
    while not (tmp_path / "began").exists():
        assert time.monotonic() < begins + 60, "the job does not begin"
        time.sleep(0.01)
    jobs.cancel(window)

    with pytest.raises(SourceError, match="cancelled"):
        reading.result(60)


def test_a_job_that_has_not_begun_does_not_begin(
    spark: SparkSession, tmp_path: Path, thread: ThreadPoolExecutor
):
    jobs, window = WindowJobs(spark, files_in(tmp_path), slots=lambda: 1), str(uuid4())
    jobs.cancel(window)

    with pytest.raises(SourceError, match="cancelled"):
        thread.submit(begun, jobs, window, spark, partial(noted, tmp_path / "began", 0.0)).result(60)
    assert not (tmp_path / "began").exists()


def test_documents_of_a_window_that_was_cancelled_are_not_asked_for(
    spark: SparkSession, tmp_path: Path, thread: ThreadPoolExecutor
):
    reader = ChunkReader(spark, NOBODY, files_in(tmp_path), slots=lambda: 1, batch_rows=1)
    run, window = Run(1, Target(CollectionId(("shop", "t"))), None, None), str(uuid4())
    reader.jobs.cancel(window)

    with pytest.raises(SourceError, match="cancelled"):
        thread.submit(reader.read, window, [RunRead(0, run, cast("Any", None))], (1, 1)).result(60)
