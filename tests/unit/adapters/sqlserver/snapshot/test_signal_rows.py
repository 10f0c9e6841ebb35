"""Rows that mark windows are removed where that is asked for, and stay where they can't be."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, event

from adapters.sqlserver.server.questions import Questions
from adapters.sqlserver.snapshot.watermark import SignalRows, SignalTable
from engine.config.settings import Watermarking
from engine.model import CollectionId


def _plain(_connection: Any, _cursor: Any, statement: str, values: Any, *_more: Any) -> tuple[str, Any]:
    """SQLite has no N before its literals."""
    return statement.replace("N'", "'"), values


def test_a_window_is_closed_though_its_rows_cannot_be_removed(caplog: pytest.LogCaptureFixture):
    signal = SignalTable(CollectionId(("shop", "main", "signals")), ("id", "type", "data"))
    engine = create_engine("sqlite://")
    event.listen(engine, "before_cursor_execute", _plain, retval=True)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE signals (id text, type text, data text)")
        marks = SignalRows(Questions(connection, "shop"), signal, "w", Watermarking.INSERT_DELETE)
        connection.exec_driver_sql("DROP TABLE signals")

        marks.close()

    assert "stay in the signal table" in caplog.text
