"""The session that the jobs of a process share if they are given none: made by the first, ended by the last.

A process has one Spark. So jobs that ask for different settings of it can't run in the same process.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark import SparkContext

from adapters.spark.ending import end
from adapters.spark.session import spark_session
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkWanted:
    """What a job needs of Spark: `packages` are the drivers, the others are settings of the same names."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()
    archive: str | None = None

    def start(self) -> SparkSession:
        """A session that has it."""
        return spark_session(self.master, self.conf, self.packages, self.archive)

    def lacks(self, other: SparkWanted) -> str:
        """What another job needs that this session does not have, in words; empty if nothing."""
        if replace(self, packages=()) != replace(other, packages=()):
            return "its tidemark.spark properties differ from those of a job that runs already"
        missing = set(other.packages) - set(self.packages)
        return f"its session was started without {', '.join(sorted(missing))}" if missing else ""


def wanted_by_all(wanted: Iterable[SparkWanted]) -> SparkWanted:
    """What several jobs need of one session. Raises ConfigError if they disagree."""
    first, *others = wanted
    packages = dict.fromkeys(first.packages)
    for other in others:
        packages |= dict.fromkeys(other.packages)
        if why := first.lacks(replace(other, packages=())):
            raise _disagreement(why)
    return replace(first, packages=tuple(packages))


def _disagreement(why: str) -> ConfigError:
    return ConfigError(
        f"the jobs of a process share one Spark session, and {why}",
        hint="give all of them the same tidemark.spark properties and start them together, or give each a"
        " process of its own",
    )


class SharedSession:
    """Counts who uses the session."""

    def __init__(
        self,
        start: Callable[[SparkWanted], SparkSession] = SparkWanted.start,
        stop: Callable[[SparkSession], None] = end,
        there: Callable[[], bool] = lambda: SparkContext._active_spark_context is not None,  # noqa: SLF001  there is no public way
    ) -> None:
        self._start, self._end, self._there = start, stop, there
        self._lock = threading.Lock()
        self._users = 0
        self._session: SparkSession | None = None
        self._has = SparkWanted()
        self._ours = False

    @contextmanager
    def used(self, wanted: SparkWanted) -> Iterator[SparkSession]:
        """The session, which is stopped with its last user unless it was there before the first.

        Raises ConfigError if it was started for other jobs and lacks something.
        """
        session = self._enter(wanted)
        try:
            yield session
        finally:
            self._leave()

    def _enter(self, wanted: SparkWanted) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._ours = not self._there()
                self._session, self._has = self._start(wanted), wanted
            elif self._ours and (why := self._has.lacks(wanted)):
                raise _disagreement(why)
            self._users += 1
            return self._session

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or self._session is None:
                return
            session, self._session = self._session, None
            if self._ours:
                self._end(session)


OF_PROCESS = SharedSession()
