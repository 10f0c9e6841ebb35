"""A network that stands still: nobody says that the server is gone, and the job comes back all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adapters.cli.stopping import descendants
from adapters.postgres.server import connection as server_module
from adapters.postgres.server.answering import AnsweringConnection
from adapters.postgres.server.connection import Server
from adapters.postgres.server.failures import source_errors
from engine.errors import SourceError
from tests.driven import SIGNAL_TABLE, driven, properties, replayed_rows
from tests.servers.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    with Proxy(database.server.host, database.server.port) as proxy:
        yield proxy


@pytest.fixture
def shop(database: Database) -> Database:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i",
        SIGNAL_TABLE,
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
        f"SELECT pg_create_logical_replication_slot('slot_{database.name}', 'pgoutput')",
    )
    return database


def through(proxy: Proxy) -> dict[str, str]:
    return {"database__port": str(proxy.port), "errors__max__retries": "-1"}


def thawed_after(proxy: Proxy, seconds: float) -> None:
    """Freeze for so long, and go on."""
    proxy.freeze()
    threading.Timer(seconds, proxy.thaw).start()


class TestTheJobComesBack:
    @pytest.fixture(autouse=True)
    def hears_soon(self, monkeypatch):
        """What takes a minute otherwise."""
        monkeypatch.setattr(server_module, "_LEAST_SILENCE_S", 2.0)
        monkeypatch.setattr(Server, "silence_s", lambda *_: 2.0)

    def test_while_it_streams(self, shop, tmp_path, spark, proxy, caplog):
        with driven(shop, tmp_path, spark, status__update__interval__ms="500", **through(proxy)) as job:
            shop.execute("INSERT INTO t VALUES (0, 'before')")
            job.until_drained(shop)
            # For longer than it is patient; until then whatever waits on the way is kept.
            proxy.freeze()
            threading.Timer(5, lambda: (proxy.cut(), proxy.thaw())).start()
            shop.execute("INSERT INTO t VALUES (-1, 'meanwhile')")
            job.job.run(lambda: -1 in replayed_rows(job.events("t")))

            assert set(replayed_rows(job.events("t"))) == {0, -1}
            assert "the server has answered nothing for" in caplog.text

    def test_while_a_snapshot_is_read(self, shop, tmp_path, spark, proxy):
        more = {"status__update__interval__ms": "500", "incremental__snapshot__chunk__size": "1000"}
        with driven(shop, tmp_path, spark, database__socketTimeout="4", **more, **through(proxy)) as job:
            shop.execute(SNAPSHOT)
            job.until(lambda: job.events("t"))
            thawed_after(proxy, 6)
            job.job.run(lambda: bool(job.answered("finished")))

            assert len(replayed_rows(job.events("t"))) == 50_000


def test_a_statement_that_is_too_slow_is_ended_by_the_server(shop):
    server = Server(parameters(shop), query_timeout_s=0.2)
    with server.connect() as connection, pytest.raises(Exception, match="statement timeout"):
        connection.execute("SELECT pg_sleep(10)")


def test_an_answer_that_does_not_come_is_not_waited_for(shop, proxy, monkeypatch):
    monkeypatch.setattr(server_module, "_ON_ITS_WAY_S", 0.5)
    server = Server(parameters(shop) | {"port": str(proxy.port)}, query_timeout_s=0.2)
    with server.connect() as connection:
        proxy.freeze()
        with pytest.raises(SourceError, match="answered nothing for 1 s"), source_errors("it"):
            connection.execute("SELECT 1")
        assert connection.closed


def test_who_waits_is_told_that_the_server_is_given_up(shop, proxy):
    server = Server(parameters(shop) | {"port": str(proxy.port)})
    with server.connect() as connection:
        proxy.freeze()
        threading.Timer(0.3, server.give_up).start()
        began = time.monotonic()
        with pytest.raises(SourceError, match="answered nothing"), source_errors("it"):
            connection.execute("SELECT 1")

        assert time.monotonic() - began < 5
    proxy.thaw()
    with server.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


class TestAConnectionThatTheServerLost:
    @pytest.fixture
    def server(self, shop, proxy, monkeypatch):
        monkeypatch.setattr(server_module, "_LEAST_SILENCE_S", 0.5)
        return Server(parameters(shop) | {"port": str(proxy.port)})

    def test_is_not_waited_for(self, server, proxy):
        with server.connect() as connection:
            connection.execute("SELECT 1")
            proxy.lose()
            began = time.monotonic()
            with pytest.raises(SourceError, match="answered nothing"), source_errors("it"):
                connection.execute("SELECT 1")

            assert time.monotonic() - began < 5

    def test_nor_where_nobody_can_be_asked(self, server, proxy, monkeypatch):
        monkeypatch.setattr(server_module, "_PROBE_S", 2)
        with server.connect() as connection:
            proxy.freeze()
            with pytest.raises(SourceError, match="answered nothing"), source_errors("it"):
                connection.execute("SELECT 1")

    def test_a_slow_answer_is_waited_for(self, server):
        with server.connect() as connection:
            assert connection.execute("SELECT 1 FROM pg_sleep(2)").fetchone() == (1,)


def test_slow_rows_are_answers(shop):
    server = Server(parameters(shop), query_timeout_s=0.4)
    with server.connect() as connection:
        assert isinstance(connection, AnsweringConnection)
        connection.within_s = 0.5
        connection.execute("SET statement_timeout = 0")
        rows = connection.execute("SELECT pg_sleep(0.1), repeat('x', 9000) FROM generate_series(1, 12)")

        assert len(rows.fetchall()) == 12


def parameters(database: Database) -> dict[str, str]:
    server = database.server
    return {
        "host": server.host,
        "port": str(server.port),
        "user": server.user,
        "password": server.password,
        "dbname": database.name,
    }


@pytest.mark.parametrize(
    "frozen",
    [pytest.param(False, id="flowing", marks=pytest.mark.thorough), pytest.param(True, id="frozen")],
)
def test_a_signal_ends_the_command_in_time_and_leaves_no_process(
    shop: Database, tmp_path: Path, proxy: Proxy, *, frozen: bool
):
    config = tmp_path / "job.properties"
    said = properties(
        shop, tmp_path, database__port=str(proxy.port), incremental__snapshot__chunk__size="500"
    )
    config.write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", "from adapters.cli.app import main; main()", "run", str(config)],
            stderr=log,
        )
    try:
        shop.execute(SNAPSHOT)
        until = time.monotonic() + 120
        while not list((tmp_path / "events").glob("turn-*/part-*")):
            assert time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.1)
        started = descendants(process.pid)
        if frozen:
            proxy.freeze()
            time.sleep(1)
        asked = time.monotonic()
        process.terminate()
        code = process.wait(timeout=30)
        took_s = time.monotonic() - asked
        left = wait_gone(started)
    finally:
        process.kill()
        process.wait()

    assert (left, took_s < 10) == ([], True), (took_s, (tmp_path / "log").read_text())
    assert code in {0, 128 + signal.SIGTERM}


def wait_gone(processes: list[int]) -> list[int]:
    """Those of the processes that still run after a moment."""
    until = time.monotonic() + 3
    while (left := [process for process in processes if alive(process)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
