"""Which windows are small enough to be read without a Spark job, and what cancels them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import psycopg
import pytest

from adapters.postgres.snapshot.local_reader import Bounds, LocalReader, Query
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa


@pytest.mark.parametrize(
    ("sizes", "rows", "small"),
    [
        ([(1, 100.0)], 10_000, True),
        ([(5, 100.0), (5, 100.0)], 10_000, True),
        ([(5, 100.0), (6, 100.0)], 10_000, False),
        ([(1, 100_000.0)], 10_000, False),
        ([(1, 1.0)], 0, False),
    ],
    ids=["one-chunk", "at-the-bound", "too-many-rows", "too-many-bytes", "switched-off"],
)
def test_a_window_is_small_by_rows_and_by_bytes(sizes, rows, small):
    reader = LocalReader(lambda: pytest.fail("nothing is read"), Bounds(rows, chunk_rows=1000))

    assert reader.takes(sizes) is small


def test_a_window_that_is_not_read_is_cancelled_without_effect():
    LocalReader(lambda: pytest.fail("nothing is read"), Bounds(1, 1)).cancel("window")


class Scripted:
    """A connection whose query has ten rows. `before` is called with the name of each step."""

    def __init__(self, before: Callable[[str], None]) -> None:
        self._before = before
        self.steps: list[str] = []
        self.cancelled = 0

    def _step(self, name: str) -> None:
        self.steps.append(name)
        self._before(name)

    def execute(self, statement: str | bytes) -> None:
        text = statement if isinstance(statement, str) else statement.decode()
        self._step(text.split()[0].lower())

    def cursor(self, _name: str) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def fetchmany(self, _rows: int) -> list[tuple[int, str]]:
        self._step("fetch")
        return [(0, "row")] * 10 if self.steps.count("fetch") < 5 else []

    def cancel_safe(self, *, timeout: float) -> None:
        assert timeout
        self.cancelled += 1

    def close(self) -> None:
        pass


def count_rows(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [batch.num_rows for batch in batches]


ROWS: Any = count_rows
"""Takes a task's place."""


def read_cancelled_at(step: str) -> Scripted:
    """Read a window that is cancelled just before a step, when the server ignores a cancel request."""

    def before(name: str) -> None:
        if name == step and name not in connection.steps[:-1]:
            reader.cancel("window")

    def connect() -> psycopg.Connection:
        before("connect")
        return cast("psycopg.Connection", connection)

    connection = Scripted(before)
    reader = LocalReader(connect, Bounds(1, 1))
    with pytest.raises(SourceError, match="the window was cancelled"):
        reader.read("window", Query("BEGIN", "SELECT", 10.0), ROWS)
    return connection


def test_a_window_cancelled_before_its_read_begins_is_not_read():
    reader = LocalReader(lambda: pytest.fail("nothing is read"), Bounds(1, 1))
    reader.cancel("window")

    with pytest.raises(SourceError, match="the window was cancelled"):
        reader.read("window", Query("BEGIN", "SELECT", 10.0), ROWS)


def test_a_window_cancelled_while_its_connection_is_opened_is_not_read():
    connection = read_cancelled_at("connect")

    assert connection.steps == []
    assert connection.cancelled == 0


@pytest.mark.parametrize(
    ("step", "last"),
    [("set", ["set"]), ("begin", ["set", "begin"]), ("fetch", ["set", "begin", "select", "fetch"])],
)
def test_a_window_cancelled_between_two_statements_is_read_no_further(step: str, last: list[str]):
    connection = read_cancelled_at(step)

    assert connection.steps == last
    assert connection.cancelled == 1


def test_a_server_that_can_not_be_asked_to_cancel_ends_no_job(monkeypatch: pytest.MonkeyPatch):
    def gone(_connection: Scripted, *, timeout: float) -> None:
        raise psycopg.OperationalError(
            f"cancellation failed: server closed the connection, asked for {timeout}"
        )

    monkeypatch.setattr(Scripted, "cancel_safe", gone)

    assert read_cancelled_at("fetch").steps == ["set", "begin", "select", "fetch"]


class LostCursor(Scripted):
    """A cursor that loses the server while it is closed. psycopg calls it open until it is closed again."""

    closed = 0

    def __exit__(self, *_error: object) -> None:
        raise psycopg.OperationalError("server closed the connection")

    def close(self) -> None:
        self.closed += 1


def test_a_cursor_that_loses_the_server_while_it_is_closed_is_closed_again(monkeypatch: pytest.MonkeyPatch):
    cursor, connection = LostCursor(lambda _step: None), Scripted(lambda _step: None)
    monkeypatch.setattr(connection, "cursor", lambda _name: cursor)
    reader = LocalReader(lambda: cast("psycopg.Connection", connection), Bounds(1, 1))

    with pytest.raises(SourceError, match="server closed the connection"):
        reader.read("window", Query("BEGIN", "SELECT", 10.0), ROWS)
    assert cursor.closed == 1


def test_a_cancelled_window_leaves_others_alone():
    connection = Scripted(lambda _step: None)
    reader = LocalReader(lambda: cast("psycopg.Connection", connection), Bounds(1, 1))
    reader.cancel("another")

    assert len(reader.read("window", Query("BEGIN", "SELECT", 10.0), ROWS)) == 4
