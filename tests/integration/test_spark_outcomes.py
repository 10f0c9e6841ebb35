"""Errors of ours come from Spark's tasks to the driver with their class and their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from adapters.spark import outcomes
from adapters.spark.executors import SparkExecutors
from engine.errors import (
    SchemaChanged,
    SinkError,
    SinkRefused,
    SourceError,
    TableBusy,
    TidemarkError,
    TopicsRefused,
)
from engine.model import CollectionId

pytestmark = pytest.mark.integration
T = CollectionId(("public", "t"))
ERRORS = [
    SourceError("a document is damaged", where=T, hint="look at it"),
    SchemaChanged("it was dropped", where=T),
    TableBusy("locked", where=T),
    SinkError("no space left on device", where="/data/run-00001-7.arrow", hint="free some space"),
    SinkRefused("broken pipe", where="console"),
    TopicsRefused({"a topic": SinkRefused("denied", where="a topic")}),
]


@dataclass(frozen=True)
class Fails:
    """A task that fails, whatever it is given."""

    error: Exception

    def __call__(self, _given: Any) -> None:
        raise self.error


def fields(error: TidemarkError) -> dict[str, str]:
    return {name: repr(value) for name, value in vars(error).items()}


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def error(request) -> TidemarkError:
    found: TidemarkError = request.param
    return found


def test_from_a_task_on_items(spark, error):
    with pytest.raises(TidemarkError) as caught:
        SparkExecutors(spark).map(Fails(error), [1, 2])

    assert type(caught.value) is type(error)
    assert (fields(caught.value), caught.value.collection) == (fields(error), error.collection)


def test_from_a_task_on_rows(spark, error):
    """It ends at once, with rows left over."""
    with pytest.raises(TidemarkError) as caught:
        outcomes.run(spark.range(0, 100_000, 1, 2), Fails(error))

    assert type(caught.value) is type(error)
    assert (fields(caught.value), caught.value.collection) == (fields(error), error.collection)


def test_results_of_tasks_on_rows_come_by_partition(spark):
    def counted(batches: Any) -> tuple[int, int]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        return min(numbers), len(numbers)

    assert outcomes.run(spark.range(0, 10, 1, 2), counted) == [(0, 5), (5, 5)]


def test_another_failure_stays_sparks(spark):
    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        outcomes.run(spark.range(1), Fails(ZeroDivisionError()))

    assert not isinstance(caught.value, TidemarkError)
