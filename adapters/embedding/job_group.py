"""Several jobs in one process: one Spark session, and for each job a pool, a lease and threads of its own.

A job that fails ends alone. The others go on, and the group ends with the last of them.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Final

from adapters.embedding.threaded_job import ThreadedJob
from adapters.source.assembly.job_sink import wiring_of
from adapters.source.assembly.spark_wanted import wanted_by
from adapters.spark.shared_session import OF_PROCESS, wanted_by_all
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from threading import Event

    from engine.config.settings import Settings

_log = logging.getLogger("adapters")
_LOOK_S: Final = 0.2


def run_together(settings: Sequence[Settings], stop: Event) -> None:
    """Run the jobs until `stop` is set or all have ended. Raises the error of the first that has failed.

    Raises ConfigError before any starts if they can't share a process.
    """
    refuse_sharing(settings)
    wanted = wanted_by_all(wanted_by(of_job, _packages(of_job)) for of_job in settings)
    with OF_PROCESS.used(wanted) as session:
        jobs = [ThreadedJob(of_job, session) for of_job in settings]
        while any(job.running for job in jobs) and not stop.wait(_LOOK_S):
            pass
        for job in jobs:
            job.ask_to_stop()
        failed = [job for job in jobs if _failed(job)]
    if failed:
        _log.error("failed: %s", ", ".join(job.name for job in failed))
        raise failed[0].error or AssertionError


def refuse_sharing(settings: Sequence[Settings]) -> None:
    """Raise ConfigError where two jobs would use the same checkpoint, directory or port."""
    used: dict[str, list[object]] = {
        "tidemark.checkpoint": [of_job.job.checkpoint for of_job in settings],
        "directory of the sink": [wiring_of(of_job.sink).owned(of_job.sink.own) for of_job in settings],
        "tidemark.http.port": [of_job.http.port for of_job in settings if of_job.http.port > 0],
    }
    for what, values in used.items():
        found = _twice(value for value in values if value)
        if found:
            raise ConfigError(f"two of the jobs have the same {what}: {found}", hint="give each its own")


def _twice(values: Iterable[object]) -> object:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _packages(settings: Settings) -> tuple[str, ...]:
    """The drivers that Spark needs for a job; another package's source may name none."""
    return tuple(getattr(import_module(settings.runs), "packages", ()))


def _failed(job: ThreadedJob) -> bool:
    """Wait for a job's end. Returns whether it has failed."""
    try:
        job.join()
    except BaseException:  # noqa: BLE001  kept in the job, which has logged it
        return True
    return False
