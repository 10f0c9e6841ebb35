"""The log reader where there is no server to read from."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.postgres.log import PostgresLog, Subscription
from engine.errors import SourceError
from engine.model import Position


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_log_that_can_not_be_opened_leaves_no_file_open():
    before = open_files()
    for _ in range(5):
        with pytest.raises(SourceError):
            PostgresLog(
                "host=127.0.0.1 port=1 connect_timeout=2",
                subscription=Subscription("slot", "publication"),
                start=Position((0, 0)),
            )

    assert open_files() == before
