"""Histories on a Spark cluster whose workers share no disk with the driver, and lose executors meanwhile.

The process that plays jobs is told of the cluster by its environment.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import orjson

from adapters.spark.cluster.archive import default_name, write_archive
from adapters.spark.session import POSTGRES_JDBC, spark_session
from tests.lake_spark import LAKE_PACKAGES, LAKE_SESSION
from tests.servers.spark_cluster import SparkCluster
from tests.torture.verified import ON_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

LAKE: Final = "TIDEMARK_TORTURE_LAKE"
"""Set if jobs write tables of a lake."""
_KILLED_EVERY_S: Final = (8.0, 25.0)


@contextmanager
def cluster_of_histories(seed: str) -> Iterator[None]:
    """A cluster until the end of the context. Executors and Python workers are killed at random times."""
    with ExitStack() as held:
        cluster = held.enter_context(SparkCluster())
        archive = Path(held.enter_context(tempfile.TemporaryDirectory())) / default_name()
        write_archive(archive)
        told = {"url": cluster.url, "settings": cluster.settings, "archive": str(archive)}
        os.environ[ON_CLUSTER] = orjson.dumps(told).decode()
        held.callback(os.environ.pop, ON_CLUSTER)
        over = threading.Event()
        killer = threading.Thread(target=_kill, args=(cluster, Random(seed), over), daemon=True)
        killer.start()
        held.callback(killer.join)
        held.callback(over.set)
        yield


def _kill(cluster: SparkCluster, random: Random, over: threading.Event) -> None:
    killed = {"executors": 0, "workers": 0}
    while not over.wait(random.uniform(*_KILLED_EVERY_S)):
        if random.random() < 0.5 and cluster.executors():
            cluster.kill_executor()
            killed["executors"] += 1
        elif cluster.workers():
            cluster.kill_workers()
            killed["workers"] += 1
    print(f"on the cluster: {killed['executors']} executors killed, {killed['workers']} times all workers")


def session() -> SparkSession:
    """The session of the process that plays jobs: on the cluster that it is told of, else on this machine."""
    text = os.environ.get(ON_CLUSTER)
    if os.environ.get(LAKE):
        return spark_session("local[2]", LAKE_SESSION, (POSTGRES_JDBC, *LAKE_PACKAGES))
    if text is None:
        return spark_session("local[2]", {}, (POSTGRES_JDBC,))
    told: dict[str, Any] = orjson.loads(text)
    return spark_session(told["url"], told["settings"], (POSTGRES_JDBC,), told["archive"])
