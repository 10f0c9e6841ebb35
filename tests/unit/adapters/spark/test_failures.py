"""What Spark's pages of text come down to."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import PySparkRuntimeError

from adapters.spark.executors import SparkExecutors
from adapters.spark.failures import job_error, telling_line
from engine.errors import SinkError, SourceError

HEAD = "An error occurred while calling o138.collectToPython.\n"
TAIL = "\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
KILLED = f"{HEAD}: org.apache.spark.SparkException: Job aborted due to stage failure{TAIL}"


class FakeContext:
    """Takes a job, and does it here or dies of what it is told."""

    def __init__(self, dies_of: Exception | None = None) -> None:
        self.dies_of = dies_of
        self.sparkContext = self

    def parallelize(self, items, _slices):
        self.items = items
        return self

    def map(self, task):
        self.task = task
        return self

    def collect(self):
        if self.dies_of:
            raise self.dies_of
        return [self.task(item) for item in self.items]


def session(dies_of: Exception | None = None) -> Any:
    return FakeContext(dies_of)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            f"{HEAD}: org.apache.spark.SparkException: Job 5 cancelled{TAIL}",
            "org.apache.spark.SparkException: Job 5 cancelled",
            id="Spark's own",
        ),
        pytest.param(
            f"{HEAD}: org.apache.spark.SparkException: Job aborted{TAIL}"
            f"Caused by: org.postgresql.util.PSQLException: ERROR: lock timeout{TAIL}",
            "Caused by: org.postgresql.util.PSQLException: ERROR: lock timeout",
            id="the server's, below Spark's",
        ),
        pytest.param(
            f"{HEAD}: org.apache.spark.SparkException: Job aborted{TAIL}SourceError: no such column{TAIL}",
            "SourceError: no such column",
            id="a task's, below Spark's",
        ),
        pytest.param("x" * 900, "x" * 500, id="one long line"),
        pytest.param("", "Exception", id="nothing"),
    ],
)
def test_the_line_that_tells_is_kept(text, expected):
    assert telling_line(Exception(text)) == expected


def test_it_says_what_failed_and_where():
    assert str(job_error(Py4JError("a\nb"), "reading rows", "spark jdbc")) == (
        "spark jdbc: reading rows failed: a"
    )


@pytest.mark.parametrize(
    "error",
    [
        Py4JError(KILLED),
        Py4JNetworkError("Answer from Java side is empty"),
        PySparkRuntimeError("the worker is gone"),
        ConnectionRefusedError(111, "Connection refused"),
        EOFError(),
    ],
)
def test_a_job_that_dies_is_a_fault_of_the_source(error):
    with pytest.raises(SourceError, match="spark: a job of 2 tasks failed: ") as caught:
        SparkExecutors(session(error)).map(str, [1, 2])

    assert caught.value.__cause__ is error


def test_a_task_s_own_error_keeps_its_class():
    def refuse(_item):
        raise SinkError("disk full")

    with pytest.raises(SinkError, match="disk full"):
        SparkExecutors(session()).map(refuse, [1])


@pytest.mark.parametrize(
    "line",
    [
        "engine.errors.SinkError: {}",
        "  engine.errors.SinkError: {}",
        "Caused by: engine.errors.SinkError: {}",
    ],
)
def test_a_task_without_a_place_to_write_is_found_in_what_the_job_says(line):
    told = "/data/run-00001-7.arrow: no space left on device; free some space"
    error = Exception(f"{HEAD}Traceback (most recent call last):\n{line.format(told)}\n{TAIL}")

    raised = job_error(error, "reading rows")
    assert isinstance(raised, SinkError)
    assert str(raised) == told


def test_results_come_in_the_items_order():
    assert SparkExecutors(session()).map(str, [2, 1]) == ["2", "1"]


def test_an_error_whose_text_went_with_the_jvm_is_named():
    class Untold(Py4JError):  # type: ignore[misc]  # it ships no types
        def __str__(self) -> str:
            raise Py4JNetworkError("Answer from Java side is empty")

    assert telling_line(Untold()) == "Untold"
