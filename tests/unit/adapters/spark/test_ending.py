"""Spark that ends before the job: asked to, or on its own."""

from __future__ import annotations

import subprocess
import threading
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]  # it ships no types

from adapters.spark import ending, failures
from adapters.spark.ending import end, outlived, spark_ended
from adapters.spark.failures import job_error
from engine.errors import SourceError, StateError
from tests.thrown import Thrown, failed_job, raised


class FakeSession:
    """A session whose JVM stands, has stopped, or is gone, and that may die while it is stopped."""

    def __init__(self, *, stopped: bool = False, gone: bool = False, dies: bool = False) -> None:
        self.stopped, self.gone, self.dies = stopped, gone, dies
        self.asked_to_stop = 0
        self.sparkContext = self._jsc = self._gateway = self
        self.proc: subprocess.Popen[bytes] | None = None

    def sc(self):
        if self.gone:
            raise Py4JNetworkError("Answer from Java side is empty")
        return self

    def isStopped(self):  # noqa: N802  Java's name
        return self.stopped

    def stop(self):
        self.asked_to_stop += 1
        if self.dies:
            self.gone = True
            raise ConnectionRefusedError(111, "Connection refused")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(ending, "_SIGNAL_WITHIN_S", 0.3)
    monkeypatch.setattr(failures, "_ran_out", threading.Event())


@pytest.fixture
def stop():
    return threading.Event()


def fail(spark: Any, stop: threading.Event, error: Exception) -> None:
    """Fail in the middle of a job on this session."""
    with outlived(spark, stop):
        raise error


ENDED: list[Any] = [FakeSession(stopped=True), FakeSession(gone=True)]


@pytest.mark.parametrize("spark", ENDED)
@pytest.mark.parametrize("error", [Py4JError("x"), StateError("the storage can't be reached"), EOFError()])
def test_what_fails_when_spark_was_stopped_with_us_is_one_line(spark, stop, error, caplog):
    stop.set()
    with caplog.at_level("INFO", "adapters"):
        fail(spark, stop, error)

    assert caplog.messages == ["Spark ended before the job; the next start repeats the unfinished work"]


def test_the_order_to_stop_may_come_after_the_failure(stop):
    timer = threading.Timer(0.1, stop.set)
    timer.start()
    fail(FakeSession(gone=True), stop, Py4JError("x"))

    timer.join()


def test_spark_may_take_a_moment_to_end(stop):
    spark = FakeSession()
    stop.set()
    timer = threading.Timer(0.1, setattr, (spark, "gone", True))
    timer.start()
    fail(spark, stop, Py4JError("x"))

    timer.join()


@pytest.mark.parametrize("spark", ENDED)
def test_spark_that_ends_on_its_own_is_a_fault(spark, stop):
    cause = Py4JError("x")
    with pytest.raises(SourceError, match="spark: Spark ended; start again") as caught:
        fail(spark, stop, cause)

    assert caught.value.__cause__ is cause


def test_spark_that_ran_out_of_memory_says_so(stop):
    spark: Any = FakeSession(gone=True)
    no_memory = Thrown("java.lang.OutOfMemoryError", "Java heap space")
    failed = job_error(failed_job(no_memory), "reading rows")
    with pytest.raises(SourceError, match="Spark ended for lack of memory; give Spark more memory: tidemark"):
        fail(spark, stop, Py4JError("x"))

    assert "spark.driver.memory" in str(failed)


def test_spark_whose_master_has_given_the_job_up_says_so(stop):
    said = "Job aborted due to stage failure: Master removed our application: FAILED"
    aborted = raised(Thrown("org.apache.spark.SparkException", said, condition=None))
    failed = job_error(aborted, "reading rows")
    failed.__cause__ = aborted

    for error in (aborted, failed):
        with pytest.raises(
            SourceError, match=r"executors have ended one after the other, .*; look at the executors"
        ):
            fail(FakeSession(stopped=True), stop, error)


def test_the_same_words_of_anybody_else_say_nothing_of_the_master(stop):
    with pytest.raises(SourceError, match="spark: Spark ended; start again"):
        fail(FakeSession(stopped=True), stop, StateError("Master removed our application"))


@pytest.mark.parametrize(
    ("code", "said"), [(52, "ended for lack of memory; give"), (1, "ended; start again")]
)
def test_the_exit_code_says_so_if_the_job_s_error_did_not_arrive(stop, code: int, said: str):
    spark: Any = FakeSession(gone=True)
    with subprocess.Popen(["sh", "-c", f"exit {code}"]) as spark.proc, pytest.raises(SourceError, match=said):
        fail(spark, stop, ConnectionRefusedError(111, "Connection refused"))


@pytest.mark.parametrize("stopping", [False, True])
def test_other_failures_pass(stop, *, stopping: bool):
    if stopping:
        stop.set()
    with pytest.raises(StateError, match="damaged"):
        fail(FakeSession(), stop, StateError("damaged"))


def test_a_session_that_stands_is_stopped():
    spark: Any = FakeSession()
    end(spark)

    assert spark.asked_to_stop == 1


@pytest.mark.parametrize("spark", ENDED)
def test_one_that_has_ended_is_left_alone(spark):
    assert spark_ended(spark)
    end(spark)

    assert spark.asked_to_stop == 0


def test_one_that_dies_while_it_is_stopped_has_ended():
    dying: Any = FakeSession(dies=True)
    end(dying)

    assert dying.asked_to_stop == 1


def test_a_failure_to_stop_is_not_hidden():
    class Stubborn(FakeSession):
        def stop(self):
            raise Py4JError("no")

    stubborn: Any = Stubborn()
    with pytest.raises(Py4JError):
        end(stubborn)


def test_a_jvm_that_takes_long_to_stop_finishes_by_itself(monkeypatch, caplog):
    monkeypatch.setattr(ending, "STOPPED_WITHIN_S", 0.05)
    let_go = threading.Event()
    slow: Any = FakeSession()
    monkeypatch.setattr(slow, "stop", let_go.wait)
    with caplog.at_level("INFO"):
        end(slow)
    let_go.set()

    assert "finishes by itself" in caplog.text
