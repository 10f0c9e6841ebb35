"""Several jobs in one process, before they start: what they may not share."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from adapters.embedding import job_group
from adapters.embedding.job_group import refuse_sharing
from adapters.spark.shared_session import SharedSession
from engine.config import Settings, parse
from engine.errors import ConfigError
from tests.unit.engine.config.least import POSTGRES


def settings(at: int, **more: str):
    own = {"tidemark.checkpoint": f"/state-{at}", "tidemark.sink.files.dir": f"/events-{at}"}
    return parse(POSTGRES | own | {name.replace("__", "."): value for name, value in more.items()})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tidemark__checkpoint", "/state", "tidemark.checkpoint"),
        ("tidemark__sink__files__dir", "/events", "directory of the sink"),
        ("tidemark__http__port", "8080", "tidemark.http.port"),
    ],
)
def test_two_jobs_share_no_checkpoint_directory_or_port(name: str, value: str, said: str):
    with pytest.raises(ConfigError, match=f"two of the jobs have the same {said}: {value}"):
        refuse_sharing([settings(1, **{name: value}), settings(2, **{name: value})])


def test_what_is_chosen_by_the_system_may_be_the_same():
    refuse_sharing([settings(at, tidemark__http__port="0") for at in range(2)])


class Starts:
    """Takes the place of jobs: each ends at once, or waits to be asked."""

    def __init__(self, fails: str) -> None:
        self.fails, self.asked = fails, list[str]()

    def __call__(self, settings: Settings, session: object) -> Any:
        assert session == "session"
        error = ConfigError("no") if settings.name == self.fails else None
        job = SimpleNamespace(name=settings.name, error=error, running=error is None)

        def join() -> None:
            if error:
                raise error

        job.join, job.ask_to_stop = join, lambda: self.asked.append(settings.name)
        return job


@pytest.fixture
def _shared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        job_group,
        "OF_PROCESS",
        SharedSession(lambda _wanted: cast("Any", "session"), lambda _session: None, lambda: False),
    )


@pytest.mark.usefixtures("_shared")
def test_the_group_ends_with_the_error_of_the_one_that_failed(monkeypatch: pytest.MonkeyPatch):
    starts, stop = Starts("b"), threading.Event()
    monkeypatch.setattr(job_group, "ThreadedJob", starts)
    stop.set()

    with pytest.raises(ConfigError, match="no"):
        job_group.run_together([settings(1, topic__prefix="a"), settings(2, topic__prefix="b")], stop)
    assert starts.asked == ["a", "b"]

    job_group.run_together([settings(1, topic__prefix="a"), settings(2, topic__prefix="c")], stop)
