"""Opens the log at a position, and passes over what was sent before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from adapters.postgres.log.reader import PostgresLog
from adapters.postgres.log.stream.subscription import LogBounds, Subscription
from adapters.postgres.server.position import shown
from adapters.postgres.server.visibility import format_lsn
from adapters.postgres.settings import PostgresSettings
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.postgres.log.reader import SessionTools
    from adapters.postgres.log.stream.subscription import SentBefore, Start
    from adapters.postgres.server.connection import Server
    from engine.clock import Clock
    from engine.config.settings import Settings

OpenStream: TypeAlias = "Callable[[Settings, Server, Start, float, SessionTools], PostgresLog]"
"""`open_stream`, or what takes its place."""
_log = logging.getLogger("adapters")
_LOOK_S, _TOLD_AFTER_S = 0.2, 5.0


def open_stream(
    settings: Settings,
    server: Server,
    start: Start,
    silence_s: float,
    tools: SessionTools,
    reader: type[PostgresLog] = PostgresLog,
) -> PostgresLog:
    """Open the log; a server that sends nothing for `silence_s` is given up."""
    postgres = settings.source_as(PostgresSettings)
    with server.admission():
        log = reader(
            server.log_conninfo,
            subscription=Subscription(
                postgres.slot, postgres.publication, postgres.stream_params, postgres.log_streaming
            ),
            start=start,
            tools=tools,
            bounds=_bounds(settings, silence_s),
            give_up=server.give_up,
        )
    _log.info("reading the log from %s", shown(start.position))
    return log


def _bounds(settings: Settings, silence_s: float) -> LogBounds:
    job = settings.job
    return LogBounds(
        span_rows=job.span_max_rows,
        span_bytes=job.span_max_bytes,
        part_rows=max(1, job.span_max_rows // 4),
        part_bytes=max(1, job.span_max_bytes // 4),
        status_interval_s=settings.source_as(PostgresSettings).status_interval_ms / 1000,
        silence_s=silence_s,
    )


def await_past(log: PostgresLog, sent: SentBefore | None, clock: Clock) -> None:
    """Return once the log has brought again what was sent before.

    Raises PositionLost if it does not come.
    """
    tell_at = clock.monotonic() + _TOLD_AFTER_S
    while not log.await_past(_LOOK_S):
        if clock.sleep(0.0):
            raise SourceError("stopped while the log skipped entries sent before")
        if sent and sent.commit and clock.monotonic() >= tell_at:
            tell_at = float("inf")
            _log.info("skipping entries sent before, up to %s", format_lsn(sent.commit.end))
