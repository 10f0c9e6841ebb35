"""The log's thread hands over whatever happened, without what a row holds."""

from __future__ import annotations

import time

import pytest

from adapters.sqlserver.log.reader import SqlServerLog
from adapters.sqlserver.server.position import LogPosition, position_of
from engine.errors import InvariantError


class Failing:
    """Change tables with a row that the driver can't decode."""

    def next(self, after: LogPosition) -> None:  # noqa: ARG002  fails wherever it stands
        b"secret row\x3d\xd8".decode("utf-16-le")

    def limit(self, share: float) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_failure_is_told_without_the_row_that_it_quotes():
    log = SqlServerLog([Failing()], position_of([LogPosition()]), 0.01, time.monotonic)
    with pytest.raises(InvariantError) as caught:
        log.take(10)
    log.close()

    assert "UnicodeDecodeError" in str(caught.value)
    assert "secret" not in str(caught.value)
