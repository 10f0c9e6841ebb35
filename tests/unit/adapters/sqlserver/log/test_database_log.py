"""The end of a log, on a connection that answers as a server would whose change tables are locked."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from sqlalchemy.exc import DBAPIError

from adapters.sqlserver.log import change_statements, database_log
from adapters.sqlserver.log.capture_instances import Mark
from adapters.sqlserver.log.change_statements import LEAST_LSNS
from adapters.sqlserver.log.changes import Part
from adapters.sqlserver.log.database_log import Asking, DatabaseTail, unix_s
from adapters.sqlserver.log.span_reader import ChangeReader, Read
from adapters.sqlserver.server.catalog import Catalog
from adapters.sqlserver.server.position import ZERO, Place, after_lsn
from adapters.sqlserver.server.table import Capture, Table
from engine.errors import PositionLost, SourceError
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, lsn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

LOCKED = "[42000] [Microsoft][ODBC][SQL Server]Lock request time out period exceeded. (1222) (SQLExecDirectW)"
GREATEST = lsn(9).replace(":", "")
CAPTURE = Capture("dbo_customers", CUSTOMERS.id, lsn(1), (), 7)


class Server:
    """A connection whose change tables have no rows, and are locked while `locked`."""

    def __init__(self) -> None:
        self.locked = True
        self.least = ""
        self.now = "2026-01-01 00:00:00.000"
        self.asked = ""

    def exec_driver_sql(self, statement: str, _parameters: tuple[bytes, ...] | None = None) -> Server:
        if self.locked and "dbo_customers" in statement:
            raise DBAPIError(statement, None, Exception(LOCKED))
        self.asked = statement
        return self

    def scalar(self) -> str:
        return GREATEST

    def fetchall(self) -> list[tuple[Any, ...]]:
        if self.asked == change_statements.CLOCK:
            return [(0, self.now)]
        least = self.asked == LEAST_LSNS and self.least
        return [(CAPTURE.name, self.least.replace(":", ""))] if least else []


class Known(Catalog):
    """Knows the captured tables that it is told of."""

    found: tuple[Capture, ...] = (CAPTURE,)

    def captures(self, connection: Connection) -> tuple[Capture, ...]:  # noqa: ARG002  no server
        return self.found

    def tables(self, connection: Connection, captures: Any) -> tuple[Table, ...]:  # noqa: ARG002  no server
        return (CUSTOMERS,) * len(captures)


class Nothing(ChangeReader):
    """Reads spans without rows."""

    def __init__(self) -> None:
        self.row_bytes = 1.0

    found = Read()

    def read(self, *_asked: Any) -> Read:
        return self.found


def made(asking: Asking | None = None, known: Sequence[Mark] = ()) -> tuple[DatabaseTail, Server, Known]:
    server, catalog = Server(), Known("shop", lambda _table: True)
    log = DatabaseTail(
        lambda: cast("Connection", server), catalog, Nothing(), asking or Asking(), known=known
    )
    return log, server, catalog


def test_what_is_new_is_told_when_the_lock_is_gone_that_reading_waited_for():
    log, server, _catalog = made()
    waited = [log.next(Place(lsn(5))) for _turn in range(2)]
    server.locked = False
    taken = log.next(Place(lsn(5)))

    assert waited == [None, None]
    assert taken is not None
    assert (taken.news, taken.instances.captures) == (True, (CAPTURE,))
    assert log.next(taken.end) is None


def test_a_lock_is_told_of_once_and_not_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    log, _server, _catalog = made()
    with caplog.at_level(logging.WARNING, "adapters"):
        log.next(Place(lsn(5)))
        assert not caplog.messages
        monkeypatch.setattr(database_log, "_BUSY_TOLD_AFTER_S", 0.0)
        for _turn in range(3):
            log.next(Place(lsn(5)))

    assert len(caplog.messages) == 1
    assert "the log of database shop waits for a lock" in caplog.text


def test_an_instance_that_is_gone_is_told_of_once_though_sessions_fail_before_they_save_it(
    caplog: pytest.LogCaptureFixture,
):
    asking = Asking()
    with caplog.at_level(logging.WARNING, "adapters"):
        for _session in range(3):
            log, _server, catalog = made(asking, [Mark("dbo_customers", 7, lsn(1))])
            catalog.found = ()
            for at in range(5, 9):
                log.next(Place(lsn(at)))

    assert [one for one in caplog.messages if "is gone" in one] == [
        "capture instance dbo_customers of database shop is gone; what it had not told yet is lost"
    ]


def test_what_was_cleaned_up_while_it_was_read_is_lost():
    log, server, _catalog = made()
    server.locked, server.least = False, lsn(7)

    with pytest.raises(PositionLost, match="begins at"):
        log.next(Place(lsn(5)))


def test_what_is_whole_from_where_it_was_read_is_kept():
    log, server, _catalog = made()
    server.locked, server.least = False, after_lsn(lsn(5))

    assert log.next(Place(lsn(5)))


def test_a_login_that_may_not_know_the_least_lsn_is_told_what_it_needs():
    log, server, _catalog = made()
    server.locked, server.least = False, ZERO

    with pytest.raises(SourceError, match="does not tell since when") as caught:
        log.next(Place(lsn(5)))
    assert "gating role" in caught.value.hint


def test_changes_without_a_sure_order_are_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Nothing, "found", Read(unnumbered=frozenset([0])))
    asking = Asking()
    with caplog.at_level(logging.WARNING, "adapters"):
        for _session in range(2):
            log, server, _catalog = made(asking)
            server.locked = False
            log.next(Place(lsn(5)))

    assert [one.partition(" has changes")[0] for one in caplog.messages] == [
        "capture instance dbo_customers of database shop"
    ]


def test_what_was_read_is_as_old_as_the_server_s_clock_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Nothing, "found", Read((Part(1),), committed="2099-01-01 00:00:00.000"))
    log, server, _catalog = made()
    server.locked, server.now = False, "2099-01-01 00:01:00.000"
    taken = log.next(Place(lsn(5)))

    assert taken is not None
    assert 0 <= (taken.lag_s(time.monotonic()) or 0) < 5
    behind = replace(taken, told_at_s=unix_s("2099-01-01 00:00:00.000", 0))
    assert 60 <= (behind.lag_s(time.monotonic()) or 0) < 65
    assert replace(taken, read=Read()).lag_s(time.monotonic()) is None
