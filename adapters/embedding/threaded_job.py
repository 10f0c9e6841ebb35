"""A job in a thread of the program that embeds it: `tidemark.start` returns one.

Its signals go through the in-process channel, so a configuration needs no other.
"""

from __future__ import annotations

import logging
from importlib import import_module
from threading import Condition, Event
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, cast

import orjson

from adapters.embedding.progress_bars import showing
from adapters.embedding.signal_fates import SignalFates
from adapters.http.monitor import Monitor
from adapters.source.assembly.supplied import Onlookers
from adapters.system import RUNNING, start_thread, system_clock
from engine.errors import SignalError, TidemarkError
from engine.job.reports.tally import JobPhase
from engine.job.running_job import JobStatus, SentSignal, SignalResult
from engine.job.saved.overview import overview
from signals.channels.in_process import InProcessChannel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from engine.config.settings import Settings

_log = logging.getLogger("adapters")
_LOOK_S: Final = 0.1
_SHOWN_EVERY_S: Final = 0.25


class RunJob(Protocol):
    """A source's `run`; see `adapters.source.assembly.job.SourceJob`."""

    def __call__(
        self, settings: Settings, *, stop: Event, spark: SparkSession | None, onlookers: Onlookers
    ) -> None:
        """Run until `stop` is set. Raises a TidemarkError if the job can't continue."""


class ThreadedJob:
    """A `RunningJob`, started. It runs on `spark`, or on the session that the process's jobs share."""

    def __init__(self, settings: Settings, spark: SparkSession | None = None) -> None:
        self._settings, self._spark, self._clock = settings, spark, system_clock()
        self._channel = InProcessChannel()
        self._monitor = Monitor(settings, self._clock, channel=self._channel)
        self._fates, self._stop = SignalFates(), Event()
        self._ended = Condition()
        self.error: BaseException | None = None
        self._running = True
        self._thread = start_thread(self._run, f"tidemark-job-{settings.name}")

    def _run(self) -> None:
        run_job = cast("RunJob", import_module(self._settings.runs).run)
        onlookers = Onlookers(answer=self._fates.answered, monitor=self._monitor)
        RUNNING.set(self._settings.name)
        try:
            run_job(self._settings, stop=self._stop, spark=self._spark, onlookers=onlookers)
        except BaseException as error:  # noqa: BLE001  raised where the job's end is asked for
            self.error = error
            said = error if isinstance(error, TidemarkError) else type(error).__name__
            _log.error("the job %s has ended: %s", self._settings.name, said)
        finally:
            self._monitor.tally.standing = JobPhase.STOPPED
            with self._ended:
                self._running = False
                self._ended.notify_all()
            self._fates.wake()

    @property
    def name(self) -> str:
        """The job's name."""
        return self._settings.name

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._running

    @property
    def page(self) -> str | None:
        """The address of its page, if it has one."""
        return self._monitor.address or None

    def signal(
        self,
        kind: str,
        collections: Sequence[str] = (),
        *,
        data: Mapping[str, Any] | None = None,
        within_s: float = 120.0,
    ) -> SentSignal:
        """Send it a signal once it takes them. Raises TimeoutError, or SignalError if it has ended."""
        fields = ({"data-collections": list(collections)} if collections else {}) | dict(data or {})
        text = orjson.dumps({"id": "embedded", "type": kind, "data": fields})
        until_s = self._clock.monotonic() + within_s
        while self._running:
            label = self._channel.send(text)
            if label is not None:
                return SentSignal(label, kind, tuple(collections))
            if self._clock.monotonic() >= until_s:
                raise TimeoutError(f"the job took no signal within {within_s:g} s")
            self._clock.sleep(_LOOK_S)
        raise SignalError("the job has ended, and takes no signals") from self.error

    def wait(self, signal: SentSignal, timeout_s: float | None = None, *, show: bool = False) -> SignalResult:
        """Wait until nothing more will be said about a signal. Raises TimeoutError, and the job's error."""
        until_s = None if timeout_s is None else self._clock.monotonic() + timeout_s
        if show:
            with showing() as bars:
                while self._awaited(signal, until_s):
                    bars.draw(self.status().snapshots)
                    self._fates.wait(signal, lambda: not self._running, _SHOWN_EVERY_S)
                for answer in self._fates.answers(signal):
                    bars.say(f"{answer.outcome}: {answer.text}")
        left_s = None if until_s is None else max(0.0, until_s - self._clock.monotonic())
        self._fates.wait(signal, lambda: not self._running, left_s)
        result = self._fates.result(signal)
        if result is not None:
            return result
        if self._running:
            raise TimeoutError(f"the signal {signal.label} was not done within {timeout_s:g} s")
        raise self.error or SignalError("the job was stopped before the signal was done", where=signal.label)

    def _awaited(self, signal: SentSignal, until_s: float | None) -> bool:
        in_time = until_s is None or self._clock.monotonic() < until_s
        return in_time and self._running and self._fates.result(signal) is None

    def status(self) -> JobStatus:
        """How it does now."""
        tally, now_s = self._monitor.tally, self._clock.now()
        seen = tally.seen
        if seen is None:
            return JobStatus(self._settings.name, tally.standing, failure=tally.failure)
        found = overview(seen.state, now_s)
        return JobStatus(
            job=self._settings.name,
            standing=tally.standing,
            turn=found.turn,
            position=self._monitor.show(seen.state.position) if seen.state.position else None,
            lag_s=self._monitor.lag_s,
            events=tally.sent,
            kept_bytes=self._monitor.kept(),
            failure=tally.failure,
            snapshots=found.snapshots,
            incomplete=found.incomplete,
        )

    def ask_to_stop(self) -> None:
        """Let it end; does not wait."""
        self._stop.set()

    def stop(self, timeout_s: float = 120.0) -> None:
        """End it and wait for its end. Raises the error that has ended it before, and TimeoutError."""
        self.ask_to_stop()
        self.join(timeout_s)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it ends by itself. Raises the error that has ended it, and TimeoutError."""
        with self._ended:
            if not self._ended.wait_for(lambda: not self._running, timeout_s):
                raise TimeoutError(f"the job has not ended within {timeout_s:g} s")
        if self.error is not None:
            raise self.error

    def __enter__(self) -> Self:
        """The job itself."""
        return self

    def __exit__(self, kind: object, *_raised: object) -> None:
        """Stop it. Its own error is raised unless the block has failed by itself."""
        try:
            self.stop()
        except Exception:
            if kind is None:
                raise
