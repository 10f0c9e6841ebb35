"""A signal ends the command in time where both its sink and its source hang, and leaves no process."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from adapters.cli.stopping import descendants
from tests.command import Command, gone
from tests.driven_sqlserver import SIGNALS
from tests.driven_sqlserver import properties as sqlserver_properties
from tests.integration.test_mongodb_job import properties as mongodb_properties
from tests.servers.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.servers.mongodb import MongoServer
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration
LOADED_S = 20.0
"""What a loaded machine adds to the ten seconds."""
HANGS = """
import pathlib, sys, time
from adapters.cli.app import main
from adapters.sinks.files import FilesSink
from adapters.sqlserver import job
from tests.torture.sqlserver_reach import building_on_stand_in, run_on_stand_in
def commit(sink, turn, parts):
    if parts:
        hangs.touch()
        time.sleep(600)
hangs = pathlib.Path(sys.argv.pop(1))
FilesSink.commit = commit
job.run, job.building = run_on_stand_in, building_on_stand_in
main()
"""
"""The command, on the stand-in if its source is SQL Server. Its sink never commits a turn with events."""


def ended(said: Mapping[str, str], directory: Path, proxy: Proxy, write: Callable[[], object]) -> None:
    """Start the command, freeze the network once the sink hangs with a row, and end it by SIGTERM."""
    hangs = directory / "hangs"
    with Command(said, directory, run=[sys.executable, "-c", HANGS, str(hangs), "run"]) as command:
        command.until_said("reading the c")
        write()
        command.until(hangs.exists)
        started = descendants(command.process.pid)
        proxy.freeze()
        asked = time.monotonic()
        command.send(signal.SIGTERM)
        code = command.ended(60)
        took_s = time.monotonic() - asked
        assert gone(started), command.log

    assert started
    assert code == 128 + signal.SIGTERM
    assert took_s < 10 + LOADED_S, command.log
    assert "something hangs" in command.log


def test_on_mongodb(mongodb: MongoServer, tmp_path: Path):
    with Proxy(mongodb.host, mongodb.port) as proxy, mongodb.connect() as client:
        client["inventory"].create_collection("signals")
        string = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"
        said = mongodb_properties(mongodb, tmp_path) | {"mongodb.connection.string": string}
        ended(said, tmp_path, proxy, lambda: client["inventory"]["t"].insert_one({"_id": 1}))


@pytest.mark.thorough
def test_on_sqlserver(shop: StandInDatabase, sqlserver: SqlServer, tmp_path: Path):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute(SIGNALS)
    for table in ("dbo.t", "dbo.signals"):
        shop.enable_cdc(table)
    sqlserver.start_capture(0.02)
    postgres = sqlserver.postgres
    with Proxy(postgres.host, postgres.port) as proxy:
        server = {
            "database__hostname": "127.0.0.1",
            "database__port": str(proxy.port),
            "database__user": postgres.user,
            "database__password": postgres.password,
        }
        said = sqlserver_properties(
            sqlserver,
            tmp_path,
            signal__data__collection="shop.dbo.signals",
            **server,
        )
        ended(said, tmp_path, proxy, lambda: shop.execute("INSERT INTO dbo.t VALUES (1, NULL)"))
