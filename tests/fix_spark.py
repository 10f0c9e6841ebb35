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
    from tests.lake_spark import LAKE_PACKAGES, LAKE_SESSION  # noqa: PLC0415

    # the stand-in for SQL Server is read by PostgreSQL's driver
    drivers = (POSTGRES_JDBC, SQLSERVER_JDBC) if docker_answers() else (POSTGRES_JDBC,)
    # One process has one Spark, so it has what the sinks of tables need, too.
    session = spark_session("local[2]", LAKE_SESSION, (*drivers, *LAKE_PACKAGES))
    yield session
    session.stop()
