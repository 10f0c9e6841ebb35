"""Fixtures: a Spark cluster without a shared disk, and the archive that it gets the application from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers, for the whole session."""
    # Imported here, so that tests without it do not pay for it.
    from tests.servers.spark_cluster import SparkCluster  # noqa: PLC0415

    with SparkCluster() as running:
        yield running


@pytest.fixture(scope="session")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `tidemark package` makes."""
    from adapters.spark.cluster.archive import default_name, write_archive  # noqa: PLC0415

    path = tmp_path_factory.mktemp("application") / default_name()
    write_archive(path)
    return path


@pytest.fixture(scope="module")
def cluster_spark(cluster: SparkCluster, application: Path) -> Iterator[SparkSession]:
    """A session of this process on the cluster. It holds all cores until the module ends."""
    from adapters.spark.session import POSTGRES_JDBC, spark_session  # noqa: PLC0415

    session = spark_session(cluster.url, cluster.settings, (POSTGRES_JDBC,), str(application))
    yield session
    session.stop()
