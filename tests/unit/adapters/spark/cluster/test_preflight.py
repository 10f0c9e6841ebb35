"""What is said of executors that lack something."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types

from adapters.spark.cluster import preflight
from adapters.spark.cluster.preflight import _missing_lines
from engine.errors import ConfigError
from tests.hand_clock import HandClock


def test_each_thing_is_said_once_with_what_to_do():
    shipping = "ship the application, as tidemark run does without another spark.archives"
    said = _missing_lines(
        [("a", ["lacks tidemark", "does not reach x"]), ("b", ["lacks tidemark"]), ("c", [])]
    )

    assert said == [
        f"executors on a, b (2 of 3): lacks tidemark; {shipping}",
        "executors on a (1 of 3): does not reach x; let the executors' network reach it",
    ]


def test_nothing_is_said_if_nothing_is_missing():
    assert _missing_lines([("a", []), ("b", [])]) == []


class Joining:
    """A Spark context whose executors answer with the code that they were asked for."""

    def __init__(self):
        self.asked: list[str] = []
        self.answers: list[tuple[str, str, list[str]]] = [("executor", "host", []), ("another", "host", [])]

    def parallelize(self, _items, _count):
        return self

    def mapPartitions(self, task):  # noqa: N802  Spark's name
        self.asked.append(task.keywords["code"])
        return self

    def collect(self):
        return self.answers


def asking_of(context: Any) -> preflight.Preflight:
    return preflight.Preflight(context, preflight.Requirements(), HandClock().clock.new_id)


def test_if_spark_gives_the_question_up_its_error_is_the_cause(monkeypatch):
    """It tells whether the master has given the job up (`ending.py`)."""
    given_up = Py4JError("Master removed our application: FAILED")

    class GivenUp(Joining):
        def collect(self):
            raise given_up

    monkeypatch.setattr(preflight, "_registered", lambda _context: frozenset({"driver", "a"}))

    with pytest.raises(
        ConfigError, match=r"no executor could run a task: .*removed our application"
    ) as caught:
        asking_of(GivenUp()).check()
    assert caught.value.__cause__ is given_up


def test_executors_that_join_after_an_upgrade_are_compared_with_the_running_code(monkeypatch):
    context, joined = Joining(), iter([frozenset({"driver", "a"}), frozenset({"driver", "a", "b"})])
    monkeypatch.setattr(preflight, "_registered", lambda _context: next(joined))
    digests = iter(["started with", "upgraded to"])
    monkeypatch.setattr(preflight, "digest", lambda _packages: next(digests))
    asking = asking_of(context)

    asking.check()
    asking.check()

    assert set(context.asked) == {"started with"}


def test_an_executor_too_busy_to_answer_is_asked_again(monkeypatch):
    context, there = Joining(), frozenset({"driver", "a", "b", "busy"})
    monkeypatch.setattr(preflight, "_registered", lambda _context: there)
    asking = asking_of(context)

    asking.check()
    context.asked.clear()
    asking.check()
    assert context.asked

    context.answers.append(("busy", "host", ["lacks tidemark"]))
    with pytest.raises(ConfigError, match="lacks tidemark"):
        asking.check()


def test_each_job_asks_new_executors_for_what_it_needs_itself(monkeypatch):
    session: Any = SimpleNamespace(sparkContext=Shared())
    monkeypatch.setattr(preflight, "_registered", lambda _context: session.sparkContext.there)
    monkeypatch.setattr(preflight, "reached", lambda *_address: True)
    monkeypatch.setattr(preflight, "_of_jobs", {})
    for pool in ("orders", "stock"):
        session.sparkContext.pool = pool
        preflight.check(session, preflight.Requirements(((pool, "host", 1),)), HandClock().clock)
    session.sparkContext.asked.clear()
    session.sparkContext.there |= {"b"}

    preflight.check_new(session.sparkContext, "orders")
    assert session.sparkContext.asked == ["orders"]
    preflight.check_new(session.sparkContext, "stock")
    assert session.sparkContext.asked == ["orders", "stock"]
    preflight.check_new(session.sparkContext, "another")
    assert session.sparkContext.asked == ["orders", "stock"]


def test_a_cluster_that_runs_tasks_twice_at_once_is_refused_before_anything_is_asked(monkeypatch):
    session: Any = SimpleNamespace(sparkContext=Shared())
    monkeypatch.setattr(preflight, "_registered", lambda _context: session.sparkContext.there)
    session.sparkContext.settings["spark.speculation"] = "true"

    with pytest.raises(ConfigError, match=r"spark\.speculation is true"):
        preflight.check(session, preflight.Requirements(), HandClock().clock)
    assert session.sparkContext.asked == []

    session.sparkContext.master = "local[2]"  # where Spark never does
    preflight.check(session, preflight.Requirements(), HandClock().clock)


@pytest.mark.parametrize(("stops", "waits_s"), [(False, 10.0), (True, 0.0)])
def test_the_first_executor_is_waited_for_a_moment_unless_the_job_stops(monkeypatch, stops, waits_s):
    session: Any = SimpleNamespace(sparkContext=Shared())
    monkeypatch.setattr(preflight, "_registered", lambda _context: frozenset({"driver"}))
    monkeypatch.setattr(preflight, "reached", lambda *_address: True)
    monkeypatch.setattr(preflight, "_of_jobs", {})
    hands = HandClock()
    sleep = (lambda _seconds: True) if stops else hands.sleep
    asked = preflight.Requirements((("database", "host", 1),))
    preflight.check(session, asked, replace(hands.clock, sleep=sleep))

    assert hands.time_s == pytest.approx(waits_s, abs=0.5)


class Shared(Joining):
    """The context of a cluster that several jobs use, each from a pool of its own."""

    master, applicationId = "spark://there:7077", "two-jobs"  # noqa: N815  Spark's name

    def __init__(self):
        super().__init__()
        self.there, self.pool = frozenset({"driver", "a"}), ""
        self.settings: dict[str, str] = {}

    def getConf(self):  # noqa: N802  Spark's name
        return self.settings

    def getLocalProperty(self, _name):  # noqa: N802  Spark's name
        return self.pool

    def mapPartitions(self, task):  # noqa: N802  Spark's name
        self.asked.append(task.keywords["addresses"][0][0])
        return self
