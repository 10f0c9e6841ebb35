"""A user's password that changes again and again while the job streams and reads documents."""

from __future__ import annotations

import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest

from adapters.mongodb.job import building
from tests.changing_password import Load, by_references
from tests.driven import Driven, driving
from tests.integration.test_mongodb_job import fill, properties, signal
from tests.integration.test_mongodb_security import access
from tests.servers.certificates import Authority
from tests.servers.mongodb import MongoServer, Security
from tests.servers.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 3_000
UNKNOWN_S = 1.0
"""For how long the server has a password already that the job can't know."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def secured(authority: Authority) -> Iterator[MongoServer]:
    with MongoServer(security=Security(authority)) as server:
        yield server


@pytest.mark.thorough
def test_a_password_that_changes_under_load_is_asked_for_again(
    secured: MongoServer,
    authority: Authority,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("engine.job.parts.Pace.pause_s", lambda *_args, **_named: 0.2)
    file = tmp_path / "password"
    passwords = (f"password-{number}" for number in count())
    with Proxy(secured.host, secured.port) as proxy, secured.connect() as client:
        first, roles = next(passwords), ["readAnyDatabase", "clusterMonitor"]
        client.admin.command("createUser", "reader", pwd=first, roles=roles)
        file.write_text(first)
        fill(client, ROWS)

        def write(row: int) -> None:
            signal(client, "inventory.t")
            client["inventory"]["t"].insert_one({"_id": row, "n": 0})

        def change() -> None:
            password = next(passwords)
            client.admin.command("updateUser", "reader", pwd=password)
            proxy.cut()  # so that everybody logs in again
            time.sleep(UNKNOWN_S)
            file.write_text(password)

        string = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true&tlsCAFile={authority.root}"
        given = properties(
            secured,
            tmp_path,
            **access(string, **{"mongodb.password": f"${{dir:{tmp_path}:password}}"}),
            **{"tidemark.window.max.chunks": "2"},
        )
        with driving(Driven, tmp_path, partial(building, by_references(given), spark)) as driven:
            load = Load(
                ROWS, write, change, lambda: {int(event["key"]["id"]) for event in driven.events("t")}
            )
            load.drive(driven.job)

    load.check()
    assert not driven.answered("failed")
    assert "Authentication failed" in caplog.text  # while the file had the password from before
    assert "password-" not in caplog.text
