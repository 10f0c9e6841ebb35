"""The session that the jobs of a process share: who starts it, who stops it, who is refused."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.spark.shared_session import SharedSession, SparkWanted, wanted_by_all
from engine.errors import ConfigError

LOCAL = SparkWanted("local[2]", {"spark.x": "1"}, ("a:b:1",))


class Sessions:
    def __init__(self, *, there: bool = False) -> None:
        self.log: list[str] = []
        self.there = there

    def shared(self) -> SharedSession:
        return SharedSession(self._start, lambda _session: self.log.append("stop"), lambda: self.there)

    def _start(self, wanted: SparkWanted) -> Any:
        self.log.append(f"start {wanted.master}")
        return object()


def test_the_first_user_starts_it_and_the_last_one_stops_it():
    sessions = Sessions()
    shared = sessions.shared()
    with shared.used(LOCAL) as first:
        with shared.used(LOCAL) as second:
            assert first is second
        assert sessions.log == ["start local[2]"]

    assert sessions.log == ["start local[2]", "stop"]
    with shared.used(LOCAL):
        pass
    assert sessions.log == ["start local[2]", "stop"] * 2


def test_a_session_that_was_there_before_is_not_stopped():
    sessions = Sessions(there=True)
    with sessions.shared().used(LOCAL):
        pass

    assert sessions.log == ["start local[2]"]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (SparkWanted("local[4]", {"spark.x": "1"}), "properties differ"),
        (SparkWanted("local[2]", {}), "properties differ"),
        (SparkWanted("local[2]", {"spark.x": "1"}, ("c:d:2",)), "started without c:d:2"),
    ],
)
def test_a_job_that_needs_something_else_is_refused(other: SparkWanted, why: str):
    sessions = Sessions()
    shared = sessions.shared()
    with shared.used(LOCAL), pytest.raises(ConfigError, match=why), shared.used(other):
        pass

    assert sessions.log == ["start local[2]", "stop"]


def test_jobs_that_start_together_get_all_their_drivers():
    others = SparkWanted("local[2]", {"spark.x": "1"}, ("c:d:2", "a:b:1"))

    assert wanted_by_all([LOCAL, others]).packages == ("a:b:1", "c:d:2")
    with pytest.raises(ConfigError, match="properties differ"):
        wanted_by_all([LOCAL, SparkWanted()])
