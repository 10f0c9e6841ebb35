"""The end of a log, with questions answered as by a server whose change tables are locked."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from adapters.sqlserver.log import database_log, span_planner
from adapters.sqlserver.log.capture_instances import Mark
from adapters.sqlserver.log.changes import Part
from adapters.sqlserver.log.database_log import DatabaseLogReader, LogContext, unix_s
from adapters.sqlserver.log.span_reader import ChangeReader, ReadSpan
from adapters.sqlserver.server.catalog import Catalog
from adapters.sqlserver.server.change_tables import ChangeTables, ServerClock
from adapters.sqlserver.server.forks import Fork
from adapters.sqlserver.server.position import ZERO, LogPosition, after_lsn
from adapters.sqlserver.server.questions import Questions
from adapters.sqlserver.server.table import Capture, Table
from adapters.system import system_clock
from engine.errors import PositionLost, SourceError, TableBusy
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, lsn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.log.span_planner import Share

CAPTURE = Capture("dbo_customers", CUSTOMERS.id, lsn(1), (), 7)


class Locked(ChangeTables):
    """Change tables without rows, which are locked while `locked`."""

    def __init__(self) -> None:
        self.locked = True
        self.least_lsn = ""
        self.now = "2026-01-01 00:00:00.000"

    def greatest(self) -> LogPosition:
        return LogPosition(lsn(9))

    def counts(self, asked: Sequence[Share], most: int) -> list[int]:  # noqa: ARG002  no server
        if self.locked:
            raise TableBusy("asking change tables failed: lock timeout", where="shop")
        return [0] * len(asked)

    def least(self) -> dict[str, str]:
        return {CAPTURE.name: self.least_lsn} if self.least_lsn else {}

    def clock(self) -> ServerClock:
        return ServerClock(0, self.now)


class Known(Catalog):
    """Knows the captured tables that it is told of."""

    def __init__(self) -> None:
        self.found: tuple[Capture, ...] = (CAPTURE,)
        self.forks = [Fork("A")]

    def fork(self) -> Fork:
        return self.forks.pop(0) if len(self.forks) > 1 else self.forks[0]

    def captures(self, selected: Any) -> tuple[Capture, ...]:  # noqa: ARG002  no server
        return self.found

    def tables(self, captures: Sequence[Capture]) -> tuple[Table, ...]:
        return (CUSTOMERS,) * len(captures)


class Asked(Questions):
    """A database that answers from memory."""

    database = "shop"

    def __init__(self) -> None:
        self.changes, self.catalog = Locked(), Known()


class Nothing(ChangeReader):
    """Reads spans without rows."""

    def __init__(self) -> None:
        self.row_bytes = 1.0

    found = ReadSpan()

    def read(self, *_asked: Any) -> ReadSpan:
        return self.found


def made(
    asking: LogContext | None = None, known: Sequence[Mark] = ()
) -> tuple[DatabaseLogReader, Locked, Known]:
    asked = Asked()
    log = DatabaseLogReader(
        "shop", lambda: asked, Nothing(), asking or LogContext(system_clock()), known=known
    )
    return log, cast("Locked", asked.changes), cast("Known", asked.catalog)


def test_what_is_new_is_told_when_the_lock_is_gone_that_reading_waited_for():
    log, server, _catalog = made()
    waited = [log.next(LogPosition(lsn(5))) for _turn in range(2)]
    server.locked = False
    taken = log.next(LogPosition(lsn(5)))

    assert waited == [None, None]
    assert taken is not None
    assert (taken.changed, taken.instances.captures) == (True, (CAPTURE,))
    assert log.next(taken.end) is None


def test_a_lock_is_told_of_once_and_not_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    log, _server, _catalog = made()
    with caplog.at_level(logging.WARNING, "adapters"):
        log.next(LogPosition(lsn(5)))
        assert not caplog.messages
        monkeypatch.setattr(database_log, "_BUSY_TOLD_AFTER_S", 0.0)
        for _turn in range(3):
            log.next(LogPosition(lsn(5)))

    assert len(caplog.messages) == 1
    assert "the log of database shop waits for a lock" in caplog.text


def test_an_instance_that_is_gone_is_told_of_once_though_sessions_fail_before_they_save_it(
    caplog: pytest.LogCaptureFixture,
):
    asking = LogContext(system_clock())
    with caplog.at_level(logging.WARNING, "adapters"):
        for _session in range(3):
            log, _server, catalog = made(asking, [Mark("dbo_customers", 7, lsn(1))])
            catalog.found = ()
            for at in range(5, 9):
                log.next(LogPosition(lsn(at)))

    assert [message for message in caplog.messages if "is gone" in message] == [
        "capture instance dbo_customers of database shop is gone; its changes that were not read yet are lost"
    ]


def test_what_was_cleaned_up_while_it_was_read_is_lost():
    log, server, _catalog = made()
    server.locked, server.least_lsn = False, lsn(7)

    with pytest.raises(PositionLost, match="begins at"):
        log.next(LogPosition(lsn(5)))


def test_so_is_what_was_cleaned_up_before_the_first_commit_that_was_found(monkeypatch: pytest.MonkeyPatch):
    log, server, _catalog = made()
    server.locked, server.least_lsn = False, lsn(7)
    plan = span_planner.plan_span
    found = LogPosition(lsn(7))
    monkeypatch.setattr(database_log, "plan_span", lambda made, _after, *rest: plan(made, found, *rest))

    with pytest.raises(PositionLost, match="begins at"):
        log.next(LogPosition(lsn(5)))


def opened(*forks: str) -> DatabaseLogReader:
    """A log that was opened on fork A; of these forks the server tells one after the other."""
    log, server, catalog = made(LogContext(system_clock(), fork=Fork("A")))
    server.locked, catalog.forks = False, [Fork(fork) for fork in forks]
    return log


def test_a_connection_to_a_database_on_another_fork_ends_the_session():
    with pytest.raises(SourceError, match="another recovery fork"):
        opened("B").next(LogPosition(lsn(5)))


def test_rows_read_while_the_database_went_to_another_fork_are_not_given_out():
    log = opened("A", "A", "B")
    assert log.next(LogPosition(lsn(5)))

    with pytest.raises(SourceError, match="another recovery fork"):
        log.next(LogPosition(lsn(5)))


def test_a_log_that_ends_before_the_place_reached_is_looked_at():
    log = opened("A", "A", "A", "B")
    taken = log.next(LogPosition(lsn(5)))
    assert taken is not None
    assert log.next(LogPosition(lsn(12))) is None

    with pytest.raises(SourceError, match="another recovery fork"):
        log.next(LogPosition(lsn(12)))


def test_what_is_whole_from_where_it_was_read_is_kept():
    log, server, _catalog = made()
    server.locked, server.least_lsn = False, after_lsn(lsn(5))

    assert log.next(LogPosition(lsn(5)))


def test_a_login_that_may_not_know_the_least_lsn_is_told_what_it_needs():
    log, server, _catalog = made()
    server.locked, server.least_lsn = False, ZERO

    with pytest.raises(SourceError, match="does not tell since when") as caught:
        log.next(LogPosition(lsn(5)))
    assert "gating role" in caught.value.hint


def test_changes_without_a_sure_order_are_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Nothing, "found", ReadSpan(unnumbered=frozenset([0])))
    asking = LogContext(system_clock())
    with caplog.at_level(logging.WARNING, "adapters"):
        for _session in range(2):
            log, server, _catalog = made(asking)
            server.locked = False
            log.next(LogPosition(lsn(5)))

    assert [message.partition(" has changes")[0] for message in caplog.messages] == [
        "capture instance dbo_customers of database shop"
    ]


def test_what_was_read_is_as_old_as_the_server_s_clock_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Nothing, "found", ReadSpan((Part(1),), committed="2099-01-01 00:00:00.000"))
    log, server, _catalog = made()
    server.locked, server.now = False, "2099-01-01 00:01:00.000"
    taken = log.next(LogPosition(lsn(5)))

    assert taken is not None
    assert 0 <= (taken.lag_s(time.monotonic()) or 0) < 5
    behind = replace(taken, told_at_s=unix_s("2099-01-01 00:00:00.000", 0))
    assert 60 <= (behind.lag_s(time.monotonic()) or 0) < 65
    assert replace(taken, read=ReadSpan()).lag_s(time.monotonic()) is None
