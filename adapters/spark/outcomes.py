"""What a task gives back to the driver: its result, or the error of ours that it raised, as a value.

Spark would wrap an error in an exception of its own and pages of text, which only a pattern could take apart.
So a task returns our errors, with their class and their fields, and the driver raises them. Anything else
that a task raises stays Spark's to report (`failures.py`).
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from adapters.spark.worker import spare_worker
from engine.errors import TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

Item = TypeVar("Item")
Result = TypeVar("Result")
_OUTCOME = pa.schema([("outcome", pa.binary())])
_OUTCOME_DDL = "outcome binary"


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Item, Result]):
    """A task that returns our errors as values. Goes to the executors."""

    task: Callable[[Item], Result]

    def __call__(self, item: Item) -> Result | TidemarkError:
        """Run the task on an item."""
        try:
            return self.task(item)
        except TidemarkError as error:
            return error
        finally:
            spare_worker()


@dataclass(frozen=True, slots=True)
class _RowsAttempt(Generic[Result]):
    """The same for a task that takes rows; the outcome is the only row that it gives back."""

    task: Callable[[Iterable[pa.RecordBatch]], Result]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = pickle.dumps(Attempt(self.task)(batches))
        yield pa.RecordBatch.from_pydict({"outcome": [outcome]}, _OUTCOME)


def result(outcome: Result | TidemarkError) -> Result:
    """The result of a task. Raises the error that the task raised."""
    if isinstance(outcome, TidemarkError):
        raise outcome
    return outcome


def run(frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Result]) -> list[Result]:
    """Run a task on the rows of every partition, as one job, and return the results.

    Raises the first of our errors that a task raised, once all have ended. Raises Spark's exception if a task
    fails for any other reason, or the job does.
    """
    rows = frame.mapInArrow(_RowsAttempt(task), _OUTCOME_DDL).collect()
    return [result(pickle.loads(row.outcome)) for row in rows]  # noqa: S301  our own tasks wrote it
