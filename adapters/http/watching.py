"""Lets others watch a job for as long as it runs: opens its web server, and posts its OpenLineage events."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from adapters.http.lineage import Lineage
from adapters.http.monitor import Monitor
from adapters.http.routes import Routes
from adapters.http.server import JobServer
from adapters.http.webhook import Webhook
from engine.job.reports.tally import JobPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.clock import Clock
    from engine.config.settings import Settings

_log = logging.getLogger("adapters")


@contextmanager
def watching(
    settings: Settings,
    addresses: Callable[[Settings], Sequence[tuple[str, int]]],
    clock: Clock,
    given: Monitor | None = None,
) -> Iterator[Monitor | None]:
    """What the job is watched by: `given`, else one that is made if the settings ask for it, else None.

    `addresses` are the source's servers. Raises ConfigError if the port can't be opened.
    """
    if not settings.http.on and not settings.lineage.url:
        yield given
        return
    monitor = given or Monitor(settings, clock)
    with ExitStack() as watched:
        watched.callback(monitor.history.close)
        if settings.http.on:
            watched.enter_context(_served(monitor))
        if settings.lineage.url:
            watched.enter_context(_traced(monitor, addresses(settings)))
        monitor.history.begin()
        yield monitor


@contextmanager
def _served(monitor: Monitor) -> Iterator[None]:
    server = JobServer(monitor.settings.http, Routes(monitor))
    _log.info("the job's page is at %s, its metrics at %smetrics", server.address, server.address)
    monitor.address = server.address
    try:
        yield
    finally:
        monitor.tally.standing = JobPhase.STOPPED
        monitor.address = ""
        server.close()


@contextmanager
def _traced(monitor: Monitor, addresses: Sequence[tuple[str, int]]) -> Iterator[None]:
    lineage = monitor.settings.lineage
    receiver = Webhook(lineage.url, token=lineage.token, texts="OpenLineage events")
    try:
        told = Lineage(monitor, addresses, receiver.post)
        monitor.history.also = told.look
        try:
            yield
        except BaseException as error:
            told.ended(error)
            raise
        told.ended(None)
    finally:
        receiver.close()
