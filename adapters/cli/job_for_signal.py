"""Runs a job in this process for as long as one signal takes: `tidemark verify --run`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from adapters.cli.exits import FAILED
from adapters.cli.stopping import run_until_signalled
from adapters.embedding.threaded_job import ThreadedJob
from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from adapters.cli.display.answer_display import Display
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.job.running_job import SignalResult
    from signals.request import SignalRequest

_LOOK_S: Final = 0.25


def run_for_signal(
    settings: Settings, request: SignalRequest, display: Display, clock: Clock, timeout_s: float
) -> int:
    """Run the job, send it the signal, show the answers, and stop it. Returns the exit code.

    The answer may take `timeout_s` seconds; 0: no bound. Raises the job's error if it ends before.
    """
    codes: list[int] = []
    # Whoever waits for a verdict must not wait for another job.
    settings = replace(settings, job=replace(settings.job, lease_wait=False))

    def job(stop: Event) -> None:
        until_s = clock.monotonic() + timeout_s if timeout_s else float("inf")
        with ThreadedJob(settings) as running:
            display.sent(request.id, "to a job of this command")
            result = _result(running, request, lambda: stop.is_set() or clock.monotonic() >= until_s)
            codes.append(_show(result, request, display))

    run_until_signalled(job)
    return codes[0]


def _show(result: SignalResult | None, request: SignalRequest, display: Display) -> int:
    """Show the answers; returns the exit code."""
    if result is None:
        return display.unanswered("the job was stopped before the signal was done")
    for answer in result.answers:
        display.answered({"id": request.id, **asdict(answer)})
    return 0 if result.good else FAILED


def _result(
    running: ThreadedJob, request: SignalRequest, gives_up: Callable[[], bool]
) -> SignalResult | None:
    """What became of the signal; None once it `gives_up`."""
    sent = None
    while not gives_up():
        try:
            if sent is None:
                sent = running.signal(request.type, data=request.data, within_s=_LOOK_S)
            return running.wait(sent, _LOOK_S)
        except TimeoutError:
            if running.error is not None:  # it may have ended with one, too
                raise running.error from None
        except SignalError:
            if running.error is not None:
                raise running.error from None
            raise
    return None
