"""More of a Spark cluster without a shared disk, an executor killed meanwhile.

Takes minutes, so `make test-cluster` runs it.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.display import Display
from tests.demo.load import Load
from tests.demo.mongodb import MongoShop
from tests.demo.postgres import PostgresShop
from tests.demo.roads import FilesRoad, KafkaRoad
from tests.demo.scene import Scene
from tests.demo.tidemark import PREFIX, Folder
from tests.servers.kafka import KafkaBroker
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.demo.roads import Compared, Road
    from tests.demo.shop import Shop
    from tests.servers.spark_cluster import SparkCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LOAD = Load(orders=60_000, stock=6_000, writes_per_s=50, least_s=0)
KILLED_AFTER_S = 3.0
_CLIENT = "job-on-a-cluster"
_SLOW_BYTES_PER_S, _ON_THEIR_WAY = 2_000_000, 3_000


@dataclass(frozen=True)
class ClusterRoad:
    """Another road, of a job on a cluster. An executor is killed while the snapshot is taken."""

    road: Road
    cluster: SparkCluster
    application: Path
    kills: bool = True

    def properties(self, folder: Folder) -> dict[str, str]:
        spark = {f"tidemark.spark.conf.{name}": value for name, value in self.cluster.settings.items()}
        master = {"tidemark.spark.master": self.cluster.url, "tidemark.spark.archive": str(self.application)}
        # Small windows, so that several are read; all of them by the executors.
        windows = {"tidemark.window.max.chunks": "16", "tidemark.window.local.rows": "0"}
        return self.road.properties(folder) | spark | master | windows

    def ask(self, shop: Shop, data: dict[str, Any]) -> str:
        if self.kills:
            threading.Timer(KILLED_AFTER_S, self.cluster.kill_executor).start()
        return self.road.ask(shop, data)

    def collect(self, folder: Folder, topics: Sequence[str]) -> str:
        return self.road.collect(folder, topics)

    def compared(self, shop: Shop, folder: Folder, say: Callable[[str], None]) -> Compared:
        return self.road.compared(shop, folder, say)


def test_an_incremental_snapshot_into_kafka_under_writes_replays_equal(
    tmp_path: Path, cluster: SparkCluster, application: Path
):
    with PostgresServer(18) as server, KafkaBroker() as broker:
        shop = PostgresShop(server.create_database("shop"))
        road = ClusterRoad(KafkaRoad(broker), cluster, application)

        verdict = Scene(shop, Folder(tmp_path), LOAD, Display(), road).play()

    assert verdict.equal, str(verdict)


@dataclass(frozen=True, slots=True)
class SlowKafkaRoad:
    """Kafka under a quota, and a blow once rows are on their way; then without one."""

    broker: KafkaBroker
    blow: Callable[[], object]
    more: dict[str, str]
    struck: list[int] = field(default_factory=list)

    def properties(self, folder: Folder) -> dict[str, str]:
        self.broker.slow_down(_CLIENT, _SLOW_BYTES_PER_S)
        return KafkaRoad(self.broker).properties(folder) | {"producer.client.id": _CLIENT} | self.more

    def ask(self, shop: Shop, data: dict[str, Any]) -> str:
        before = self._records(shop)
        threading.Thread(target=self._strike, args=(shop, before), daemon=True).start()
        return KafkaRoad(self.broker).ask(shop, data)

    def _records(self, shop: Shop) -> int:
        return sum(map(self.broker.count, (f"{PREFIX}.{name}" for name in shop.names)))

    def _strike(self, shop: Shop, before: int) -> None:
        # More than the writers have written since: rows of the snapshot.
        while (there := self._records(shop) - before) < _ON_THEIR_WAY:
            time.sleep(0.05)
        self.blow()
        self.struck.append(there)
        self.broker.slow_down(_CLIENT, 0)

    def collect(self, folder: Folder, topics: Sequence[str]) -> str:
        return KafkaRoad(self.broker).collect(folder, topics)

    def compared(self, shop: Shop, folder: Folder, say: Callable[[str], None]) -> Compared:
        return KafkaRoad(self.broker).compared(shop, folder, say)


@pytest.mark.parametrize("fencing", ["none", "transactions"])
@pytest.mark.parametrize("killed", ["executor", "workers"])
def test_killed_while_executors_send_rows_to_kafka(
    tmp_path: Path, cluster: SparkCluster, application: Path, killed: str, fencing: str
):
    blow = cluster.kill_executor if killed == "executor" else cluster.kill_workers
    with PostgresServer(18) as server, KafkaBroker() as broker:
        shop = PostgresShop(server.create_database("shop"))
        slow = SlowKafkaRoad(broker, blow, {"tidemark.sink.kafka.fencing": fencing})
        road = ClusterRoad(slow, cluster, application, kills=False)

        verdict = Scene(shop, Folder(tmp_path), LOAD, Display(), road).play()

    assert verdict.equal, str(verdict)
    assert len(slow.struck) == 1
    assert slow.struck[0] < LOAD.orders / 2


@pytest.mark.parametrize("initial", [True, False], ids=["initial", "incremental"])
def test_snapshots_of_mongodb_under_writes_replay_equal(
    tmp_path: Path, cluster: SparkCluster, application: Path, *, initial: bool
):
    with MongoServer() as server, closing(MongoShop(server)) as shop:
        road = ClusterRoad(FilesRoad(), cluster, application)
        if initial:
            threading.Timer(3 * KILLED_AFTER_S, cluster.kill_executor).start()

        verdict = Scene(shop, Folder(tmp_path), LOAD, Display(), road, initial=initial).play()

    assert verdict.equal, str(verdict)
