"""What is kept of the pages that Spark says about a failed read."""

from __future__ import annotations

import pytest

from adapters.postgres.chunks import _source_error

HEAD = "An error occurred while calling o138.collectToPython.\n"
TAIL = "\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"


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
        pytest.param("boom", "boom", id="one line"),
        pytest.param("", "Exception('')", id="nothing"),
    ],
)
def test_the_line_that_tells_is_kept(text, expected):
    assert str(_source_error(Exception(text))) == f"spark jdbc: reading rows failed: {expected}"
