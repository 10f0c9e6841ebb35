"""SparkSessions for a whole test run: one with the drivers that the adapters read through, one for a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.images import docker_answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    yield from _session({})


@pytest.fixture(scope="session")
def lake_spark() -> Iterator[SparkSession]:
    """With Delta and Iceberg. A process has one Spark, so tests with this one and that above run apart."""
    from tests.lake_spark import LAKE_PACKAGES, LAKE_SESSION  # noqa: PLC0415

    yield from _session(LAKE_SESSION, *LAKE_PACKAGES)


def _session(conf: Mapping[str, str], *packages: str) -> Iterator[SparkSession]:
    # Imported here, so that tests without Spark do not pay for it.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from adapters.spark.session import POSTGRES_JDBC, SQLSERVER_JDBC, spark_session  # noqa: PLC0415

    assert SparkSession.getActiveSession() is None, "the fixtures spark and lake_spark are for two processes"
    # the stand-in for SQL Server is read by PostgreSQL's driver
    drivers = (POSTGRES_JDBC, SQLSERVER_JDBC) if docker_answers() else (POSTGRES_JDBC,)
    session = spark_session("local[2]", conf, (*drivers, *packages))
    yield session
    session.stop()
