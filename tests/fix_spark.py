"""One SparkSession for a whole test run, with the drivers that the adapters read through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Imported here, so that tests without Spark do not pay for it.
    from adapters.spark.session import POSTGRES_JDBC, spark_session  # noqa: PLC0415

    session = spark_session("local[2]", {}, (POSTGRES_JDBC,))
    yield session
    session.stop()
