"""What tasks report to the driver when they end, beside the messages that they give back.

Spark brings the reports with the ends of the tasks, in the order in which they end; those of attempts that
fail never come. They are complete when the job is, unless Spark could not hand one over, which it only logs.

Owns the accumulator. All jobs of this process share one, because PySpark never forgets an accumulator.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator


class _ByJob(AccumulatorParam[dict[str, list[bytes]]]):
    """Adds up reports by the names of their jobs."""

    def zero(self, value: dict[str, list[bytes]]) -> dict[str, list[bytes]]:  # noqa: ARG002  there is one zero
        return {}

    def addInPlace(  # noqa: N802  PySpark's name
        self, value1: dict[str, list[bytes]], value2: dict[str, list[bytes]]
    ) -> dict[str, list[bytes]]:
        for job, reports in value2.items():
            value1.setdefault(job, []).extend(reports)
        return value1


@dataclass(frozen=True, slots=True)
class Report:
    """Called by a task of a job with what it reports. Goes to the executors."""

    job: str
    reports: Accumulator[dict[str, list[bytes]]]

    def __call__(self, report: bytes) -> None:
        """Report this at the end of the task."""
        self.reports.add({self.job: [report]})


@dataclass(slots=True)
class Reports:
    """The reports of one job: `all` of them once it has ended."""

    report: Report
    all: list[bytes] = field(default_factory=list)


@contextmanager
def reports(context: SparkContext) -> Iterator[Reports]:
    """Take the reports of a job that runs in this context."""
    accumulator = _accumulator(context)
    found = Reports(Report(uuid4().hex, accumulator))
    try:
        yield found
    finally:
        found.all = accumulator.value.pop(found.report.job, [])


_made: list[Accumulator[dict[str, list[bytes]]]] = []


def _accumulator(context: SparkContext) -> Accumulator[dict[str, list[bytes]]]:
    if not _made:
        _made.append(context.accumulator({}, _ByJob()))
    return _made[0]
