"""A user's password that changes again and again while the job streams and reads documents."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from adapters.mongodb.job import building
from adapters.source.wiring import Onlookers
from engine.config import parse
from engine.config.references import resolve
from tests.driven import read_events
from tests.integration.test_mongodb_job import fill, properties, signal
from tests.integration.test_mongodb_security import access
from tests.servers.certificates import Authority
from tests.servers.mongodb import MongoServer, Security
from tests.servers.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from signals.answers import Answer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS, CHANGES = 3_000, 2
UNKNOWN_S = 1.0
"""For how long the server has a password already that the job can't know."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def secured(authority: Authority) -> Iterator[MongoServer]:
    with MongoServer(security=Security(authority)) as server:
        yield server


def test_a_password_that_changes_under_load_is_asked_for_again(
    secured: MongoServer,
    authority: Authority,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("engine.job.parts.Pace.pause_s", lambda *_args, **_named: 0.2)
    file, stop = tmp_path / "password", threading.Event()
    changes, inserted = [0], [ROWS]
    answers: list[Answer] = []
    with Proxy(secured.host, secured.port) as proxy, secured.connect() as client:
        roles = ["readAnyDatabase", "clusterMonitor"]
        client.admin.command("createUser", "reader", pwd="password-0", roles=roles)
        file.write_text("password-0")
        fill(client, ROWS)

        def streamed() -> set[Any]:
            events = (one for one in read_events(tmp_path / "events") if one["topic"].endswith(".t"))
            return {one["key"]["id"] for one in events}

        def load() -> None:
            while not stop.is_set():
                signal(client, "inventory.t")
                client["inventory"]["t"].insert_one({"_id": inserted[0], "n": 0})
                inserted[0] += 1
                while str(inserted[0] - 1) not in streamed():
                    if stop.wait(0.2):
                        return
                if changes[0] == CHANGES:
                    return
                changes[0] += 1
                client.admin.command("updateUser", "reader", pwd=f"password-{changes[0]}")
                proxy.cut()  # so that everybody logs in again
                stop.wait(UNKNOWN_S)
                file.write_text(f"password-{changes[0]}")

        string = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true&tlsCAFile={authority.root}"
        given = properties(
            secured,
            tmp_path,
            **access(string, **{"mongodb.password": f"${{dir:{tmp_path}:password}}"}),
            **{"tidemark.window.max.chunks": "2"},
        )
        found, unresolved = resolve(given, {})
        assert not unresolved
        loading = threading.Thread(target=load)
        bound = threading.Timer(120, stop.set)
        onlookers = Onlookers(observe=lambda _seen: None, answer=answers.append)
        with building(parse(found), spark, onlookers) as job:
            job.settle()
            job.start()
            loading.start()
            bound.start()
            try:
                job.run(
                    lambda: (
                        stop.is_set()
                        or (
                            not loading.is_alive()
                            and len(streamed()) >= inserted[0]
                            and not job.state.snapshot.tables
                        )
                    )
                )
            finally:
                stop.set()
                bound.cancel()
                loading.join()

    assert changes[0] == CHANGES
    assert streamed() == set(map(str, range(inserted[0])))
    assert not [one for one in answers if one.outcome == "failed"]
    assert "Authentication failed" in caplog.text  # while the file had the password from before
    assert "password-" not in caplog.text
