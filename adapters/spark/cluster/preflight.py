"""Asks every executor for what a job needs of it, before the first turn and when an executor joins later.

A job that finds out with its first window goes round in circles: the driver has everything, and only its
tasks fail. What an executor lacks is said at once, in one line per thing. What the driver itself does not
reach is an outage, which the job waits for.
"""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark import cloudpickle

from adapters.spark.cluster import executor_look
from adapters.spark.cluster.archive import NEEDED, OURS
from adapters.spark.cluster.executor_look import digest, look, reached
from adapters.spark.cluster.shipping import is_cluster
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.failures import telling_line
from adapters.spark.pools import pool_of
from engine.errors import ConfigError
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from engine.clock import Clock

_log = logging.getLogger("adapters")
_ROUNDS: Final = 10
_TASKS_EACH: Final = 4
_WITH_DRIVER: Final = 2
_REGISTER_S: Final = 10.0
_LOOK_S: Final = 0.2
_HINTS: Final = (
    (
        "lacks ",
        "ship the application, as tidemark run does without another spark.archives",
    ),
    ("has another version", "remove the installed one, or ship an archive that tidemark package makes now"),
    ("has Python", "set tidemark.spark.conf.spark.pyspark.python to a Python like the driver's"),
    ("does not reach", "let the executors' network reach it"),
    ("does not see", "mount it on every machine, or set tidemark.staging=executors"),
)
_OTHER: Final = "ship an archive that tidemark package makes here"


@dataclass(frozen=True, slots=True)
class Requirements:
    """What executors must have: servers by name, host and port; shared directories by setting and path."""

    addresses: tuple[tuple[str, str, int], ...] = ()
    directories: tuple[tuple[str, str], ...] = ()


class Preflight:
    """Asks the executors of one session; remembers whom it has asked."""

    def __init__(self, context: SparkContext, asked: Requirements, new_id: Callable[[], str]) -> None:
        self._context, self._asked, self._new_id = context, asked, new_id
        self._known: frozenset[str] = frozenset()
        # What this process runs, even if its files are replaced later on.
        self._versions, self._code = _versions(), digest(OURS)

    def check(self) -> None:
        """Ask all executors, if there are any that were not asked. Raises ConfigError."""
        there = _registered(self._context)
        if there <= self._known:
            return
        executors = max(1, len(there) - 1)  # the driver is among them
        lacks, answered = self._look(executors)
        if lacks:
            raise ConfigError(*lacks)
        if answered < executors:
            # Busy ones give no slot to a question. They are asked with the next window.
            _log.debug("%d of %d executors have answered", answered, executors)
            return
        self._known |= there

    def _look(self, executors: int) -> tuple[list[str], int]:
        """What is missing: each thing once, with who lacks it and what to do. And how many answered."""
        there = [address for address in self._asked.addresses if reached(*address[1:])]
        with _marked(self._asked.directories, self._new_id) as marks:
            return self._asked_of_all(executors, there, marks)

    def _asked_of_all(
        self, executors: int, there: Sequence[tuple[str, str, int]], marks: Sequence[tuple[str, str, str]]
    ) -> tuple[list[str], int]:
        task = partial(
            look,
            packages=OURS,
            versions=self._versions,
            code=self._code,
            addresses=there,
            directories=marks,
        )
        seen: dict[str, tuple[str, list[str]]] = {}
        cloudpickle.register_pickle_by_value(executor_look)  # type: ignore[no-untyped-call]  # it has no types
        try:
            for _round in range(_ROUNDS):
                tasks = max(1, _TASKS_EACH * executors)
                rows = self._context.parallelize(range(tasks), tasks).mapPartitions(task).collect()
                seen |= {mark: (host, lacks) for mark, host, lacks in rows}
                if len(seen) >= executors:
                    break
        except SPARK_ERRORS as error:
            raise ConfigError(
                f"no executor could run a task: {telling_line(error)}; look at the executors' logs"
            ) from error
        finally:
            cloudpickle.unregister_pickle_by_value(executor_look)  # type: ignore[no-untyped-call]  # it has no types
        return _missing_lines([*seen.values()]), len(seen)


@contextmanager
def _marked(
    directories: Sequence[tuple[str, str]], new_id: Callable[[], str]
) -> Iterator[list[tuple[str, str, str]]]:
    """The directories, each with the name of a file that lies there for the time of the context."""
    marks = [(name, path, f".tidemark-look-{new_id()}") for name, path in directories]
    try:
        for _name, path, mark in marks:
            with sink_errors(path):
                Path(path).mkdir(parents=True, exist_ok=True)
                (Path(path) / mark).touch()
        yield marks
    finally:
        for _name, path, mark in marks:
            (Path(path) / mark).unlink(missing_ok=True)


def _missing_lines(answers: list[tuple[str, list[str]]]) -> list[str]:
    """One line for each thing that is missing."""
    found: dict[str, list[str]] = {}
    for host, lacks in answers:
        for what in lacks:
            found.setdefault(what, []).append(host)
    return [
        f"executors on {', '.join(sorted({*hosts}))} ({len(hosts)} of {len(answers)}): {what}; {_hint(what)}"
        for what, hosts in found.items()
    ]


def _hint(what: str) -> str:
    return next((hint for beginning, hint in _HINTS if what.startswith(beginning)), _OTHER)


def _versions() -> dict[str, str]:
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python} | {name: metadata.version(name) for name in NEEDED}


def _registered(context: SparkContext) -> frozenset[str]:
    """The executors and the driver."""
    infos = context._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001  there is no public way
    return frozenset(f"{info.host()}:{info.port()}" for info in infos)


def _await_first(context: SparkContext, clock: Clock) -> None:
    """Wait a moment for the first executor. Afterwards a task waits for it, and the log says so."""
    deadline = clock.monotonic() + _REGISTER_S
    while len(_registered(context)) < _WITH_DRIVER:
        if clock.monotonic() > deadline:
            _log.warning("no executor has come yet; waiting for one: has the master free cores and memory?")
            return
        if clock.sleep(_LOOK_S):
            return


def _refuse_speculation(context: SparkContext) -> None:
    """Raise ConfigError if Spark may run a task twice at once. It has no setting for single jobs.

    Two attempts of a task that reads a window would keep blocks of different rows under one name.
    """
    if str(context.getConf().get("spark.speculation", "false")).strip().lower() == "true":
        raise ConfigError(
            "spark.speculation is true: a second attempt of a task would read other rows than the first one",
            hint="start Spark with spark.speculation=false",
        )


_of_jobs: dict[tuple[str, str | None], Preflight] = {}
"""By the application's id and the job's pool: what its windows ask of executors that joined later."""


def check(spark: SparkSession, asked: Requirements, clock: Clock) -> None:
    """Ask the executors of a cluster before the first turn. Raises ConfigError."""
    context = spark.sparkContext
    if not is_cluster(str(context.master)):
        return
    _refuse_speculation(context)
    _await_first(context, clock)
    preflight = Preflight(context, asked, clock.new_id)
    preflight.check()
    _of_jobs[str(context.applicationId), pool_of(context)] = preflight
    _log.info("the executors have what the job needs")


def check_new(context: SparkContext, pool: str | None) -> None:
    """Ask executors that have joined since what the job with this pool needs. Raises ConfigError."""
    preflight = _of_jobs.get((str(context.applicationId), pool)) if _of_jobs else None
    if preflight is not None:
        preflight.check()
