"""How many tasks a window is read by, while executors come and go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import Mock

import pytest

from adapters.spark.cluster.slots import slots_of, with_growth


@dataclass
class Context:
    """A SparkContext of so many slots."""

    master: str
    slots: int
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def defaultParallelism(self) -> int:  # noqa: N802  Spark's name
        return int(self.settings.get("spark.default.parallelism", self.slots))

    @property
    def _jsc(self) -> Any:
        scala = Mock()
        scala.sc().maxNumConcurrentTasks.return_value = self.slots
        return scala

    def getConf(self) -> dict[str, str]:  # noqa: N802  Spark's name
        return self.settings


@dataclass
class Session:
    """Its session."""

    sparkContext: Context  # noqa: N815  Spark's name


def slots(context: Context) -> Any:
    return slots_of(cast("Any", Session(context)))


def test_executors_that_join_later_get_tasks():
    context = Context("spark://m:7077", 2)
    told = slots(context)

    assert told() == 2
    context.slots = 16
    assert told() == 16


def test_one_machine_has_as_many_as_at_the_start():
    context = Context("local[2]", 2)
    told = slots(context)
    context.slots = 5

    assert told() == 2


@pytest.mark.parametrize(
    ("settings", "running", "tasks"),
    [
        pytest.param({}, 4, 8, id="no bound"),
        pytest.param({"maxExecutors": "infinity"}, 4, 8, id="no bound, in Spark's word"),
        pytest.param({"maxExecutors": "3", "cores": "2"}, 4, 6, id="up to the most executors"),
        pytest.param({"maxExecutors": "2", "cores": "2"}, 4, 4, id="all are there"),
        pytest.param({"maxExecutors": "1"}, 4, 4, id="never fewer than run now"),
    ],
)
def test_with_dynamic_allocation_some_tasks_wait_so_that_more_executors_start(settings, running, tasks):
    names = {"maxExecutors": "spark.dynamicAllocation.maxExecutors", "cores": "spark.executor.cores"}
    given = {"spark.dynamicAllocation.enabled": "true"}
    given |= {names[name]: value for name, value in settings.items()}

    assert slots(Context("yarn", running, given))() == tasks


@pytest.mark.parametrize("master", ["local[2]", "spark://m:7077"])
def test_a_parallelism_that_is_set_says_nothing_of_the_slots(master):
    # Clusters often have it in spark-defaults.conf. Windows would have room for so many tasks' rows.
    assert slots(Context(master, 2, {"spark.default.parallelism": "200"}))() == 2


def test_growth_doubles():
    assert [with_growth(1, 100), with_growth(60, 100)] == [2, 100]
