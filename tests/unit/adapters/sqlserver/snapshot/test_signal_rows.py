"""Rows that mark windows are removed where that is asked for, and stay where they can't be."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, event

from adapters.sqlserver.server.questions import Questions
from adapters.sqlserver.snapshot.watermark import SignalRows, SignalTable
from engine.model import CollectionId
from signals.window_rows import WindowRows


def _plain(_connection: Any, _cursor: Any, statement: str, values: Any, *_more: Any) -> tuple[str, Any]:
    """SQLite has no N before its literals."""
    return statement.replace("N'", "'"), values


def test_a_row_has_its_data_only_if_the_column_takes_it():
    collection, columns = CollectionId(("shop", "main", "signals")), ("id", "type", "data")
    engine = create_engine("sqlite://")
    event.listen(engine, "before_cursor_execute", _plain, retval=True)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE signals (id text, type text, data text)")
        questions = Questions(connection, "shop")
        for name, room in (("wide", 50), ("short", 10)):
            signal = SignalTable(collection, columns, room)
            marks = SignalRows(questions, signal, WindowRows(name, 0), lambda: 1000, deletes=False)
            marks.open(questions)
        marks.seal()
        found = connection.exec_driver_sql("SELECT id, type, data FROM signals").all()

    assert found == [
        ("wide-open", "snapshot-window-open", '{"openWindowTimestamp": "1970-01-01T00:00:00Z"}'),
        ("short-open", "snapshot-window-open", None),
        ("short-close", "snapshot-window-close", None),
    ]


def test_a_window_is_closed_though_its_rows_cannot_be_removed(caplog: pytest.LogCaptureFixture):
    signal = SignalTable(CollectionId(("shop", "main", "signals")), ("id", "type", "data"))
    engine = create_engine("sqlite://")
    event.listen(engine, "before_cursor_execute", _plain, retval=True)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE signals (id text, type text, data text)")
        questions = Questions(connection, "shop")
        marks = SignalRows(questions, signal, WindowRows("w", 0), lambda: 0, deletes=True)
        connection.exec_driver_sql("DROP TABLE signals")

        marks.close()

    assert "stay in the signal table" in caplog.text
