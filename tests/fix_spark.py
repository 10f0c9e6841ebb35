"""One SparkSession for a whole test run, with the drivers that the adapters read through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.images import docker_answers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Imported here, so that tests without Spark do not pay for it.
    from adapters.spark.session import POSTGRES_JDBC, SQLSERVER_JDBC, spark_session  # noqa: PLC0415

    # the stand-in for SQL Server is read by PostgreSQL's driver
    drivers = (POSTGRES_JDBC, SQLSERVER_JDBC) if docker_answers() else (POSTGRES_JDBC,)
    session = spark_session("local[2]", {}, drivers)
    yield session
    session.stop()
