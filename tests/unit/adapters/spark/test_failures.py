"""What Spark's pages of text come down to."""

from __future__ import annotations

from typing import Any, cast

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import PySparkRuntimeError

from adapters.spark.executors import SparkExecutors
from adapters.spark.failures import job_error, telling_line
from engine.config.text.refusals import refusal_count
from engine.errors import LoginRefused, SinkError, SinkRefused, SourceError
from tests.thrown import Thrown, failed_job

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


ABORTED = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task"
)
ROW = "the-value-of-a-row"


def thrown(name: str, message: str, **codes: Any) -> Exception:
    """What py4j raises where a statement failed below Spark's own error."""
    return failed_job(Thrown(name, message, **codes), ABORTED)


def in_a_task(raised: str) -> Exception:
    frames = (
        f'{HEAD}: org.apache.spark.SparkException: {ABORTED}: org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):\n  File "chunks.py", line 3, in read\n    int(value)\n'
    )
    return cast("Exception", Py4JError(f"{frames}{raised}\n{TAIL}"))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            Py4JError(f"{HEAD}: org.apache.spark.SparkException: Job 5 cancelled{TAIL}"),
            "org.apache.spark.SparkException: Job 5 cancelled",
            id="Spark's own",
        ),
        pytest.param(
            thrown("org.postgresql.util.PSQLException", "ERROR: lock timeout\n  Detail: x", state="55P03"),
            "ERROR: lock timeout",
            id="the server's, below Spark's",
        ),
        pytest.param(
            in_a_task("engine.errors.SourceError: no such column"),
            "engine.errors.SourceError: no such column",
            id="a task's, below Spark's",
        ),
        pytest.param(
            in_a_task("OSError: [Errno 28] No space left on device"),
            "OSError: [Errno 28] No space left on device",
            id="the machine's, in a task",
        ),
        pytest.param(Py4JError("x" * 900), "x" * 500, id="one long line"),
        pytest.param(Exception(""), "Exception", id="nothing"),
    ],
)
def test_the_line_that_tells_is_kept(error, expected):
    assert telling_line(error) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            thrown("org.postgresql.util.PSQLException", f'ERROR: invalid integer: "{ROW}"', state="22P02"),
            "error 22P02 of the server, whose message may hold values",
            id="PostgreSQL's",
        ),
        pytest.param(
            thrown("com.microsoft.sqlserver.jdbc.SQLServerException", f"Conversion of '{ROW}'", number=245),
            "error 245 of the server, whose message holds values",
            id="SQL Server's",
        ),
        pytest.param(in_a_task(f"ValueError: invalid literal '{ROW}'"), "ValueError", id="a task's"),
        pytest.param(
            Py4JError(f"{HEAD}: java.lang.NumberFormatException: For input string: {ROW}{TAIL}"),
            "java.lang.NumberFormatException",
            id="the JVM's",
        ),
        pytest.param(ValueError(ROW), "ValueError", id="the driver's"),
    ],
)
def test_what_may_hold_the_value_of_a_row_is_not_said(error, expected):
    assert telling_line(error) == expected


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


def test_an_error_of_ours_stays_as_it_is():
    error = SinkRefused("no space left on device", where="/data/run-00001-7.arrow", hint="free some space")

    assert job_error(error, "reading rows") is error


def test_results_come_in_the_items_order():
    assert SparkExecutors(session()).map(str, [2, 1]) == ["2", "1"]


def test_an_error_whose_text_went_with_the_jvm_is_named():
    class Untold(Py4JError):  # type: ignore[misc]  # it ships no types
        def __str__(self) -> str:
            raise Py4JNetworkError("Answer from Java side is empty")

    assert telling_line(Untold()) == "Untold"


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (thrown("org.postgresql.util.PSQLException", "FATAL: password …", state="28P01"), True),
        (thrown("org.postgresql.util.PSQLException", "FATAL: role …", state="28000"), True),
        (thrown("org.postgresql.util.PSQLException", "ERROR: bad block", state="XX001"), False),
        (thrown("com.microsoft.sqlserver.jdbc.SQLServerException", "Login failed", number=18456), True),
        (thrown("com.microsoft.sqlserver.jdbc.SQLServerException", "Deadlock", number=1205), False),
        (in_a_task("ValueError: 1"), False),
    ],
)
def test_a_refused_login_is_told_from_rows_that_can_not_be_read(error: Exception, *, refused: bool):
    before = refusal_count()

    assert isinstance(job_error(error, "reading rows"), LoginRefused) is refused
    assert refusal_count() == before + refused
