"""The snapshot that a slot begins with: what it shows, and what makes it useless."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, LiteralString

import pytest

from adapters.postgres.log.slots.slot import find_slot
from adapters.postgres.server import connection as server_module
from adapters.postgres.server.connection import Server
from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot, LogStart, begin_log, create_slot, hold
from adapters.system import system_clock
from engine.errors import ConfigError, SourceError
from engine.model import CollectionId
from tests.servers.postgres_states import in_background, no_standby
from tests.servers.proxy import Proxy

if TYPE_CHECKING:
    from psycopg import Connection

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

T = CollectionId(("public", "t"))
SLOT = "first_slot"
CLOCK = system_clock()
STOPPED = system_clock(lambda _seconds: True)


def server(database: Database, query_timeout_s: float = 0.0, **login: str) -> Server:
    own = database.server
    parameters = {"host": own.host, "port": str(own.port), "user": own.user, "password": own.password}
    return Server({**parameters, "dbname": database.name, **login}, query_timeout_s=query_timeout_s)


def rows_in(held: HeldSnapshot, query: LiteralString) -> list[tuple[Any, ...]]:
    """The rows of a query in the transaction that holds a snapshot."""
    return held.snapshot.session._connection.execute(query).fetchall()


@pytest.fixture
def filled(each_database: Database) -> Database:
    each_database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 5)")
    return each_database


def test_it_shows_what_came_before_the_slot_and_nothing_that_came_after(filled: Database):
    def meanwhile() -> list[CollectionId]:
        filled.execute("INSERT INTO t VALUES (6)", "DELETE FROM t WHERE id = 1")
        return [T]

    held = begin_log(server(filled), LogStart(SLOT, 1000, CLOCK), meanwhile)

    try:
        assert rows_in(held, "SELECT count(*), min(id), max(id) FROM t") == [(5, 1, 5)]
        slot = find_slot(server(filled), SLOT, CLOCK)
        assert slot is not None
        assert slot.confirmed_lsn == held.lsn
        with filled.connect() as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute(f"SET TRANSACTION SNAPSHOT '{held.snapshot.exported.id}'".encode())
            assert reader.execute("SELECT count(*), pg_current_snapshot()::text FROM t").fetchone() == (
                5,
                held.snapshot.exported.text,
            )
        assert held.is_alive()
    finally:
        held.snapshot.close()
        filled.execute(f"SELECT pg_drop_replication_slot('{SLOT}')")
    assert not held.is_alive()


@pytest.mark.parametrize(
    "statement", ["TRUNCATE t", "ALTER TABLE t ALTER id TYPE bigint", "DROP TABLE t"], ids=lambda text: text
)
def test_a_table_that_is_rewritten_before_it_is_locked_makes_it_useless(filled: Database, statement: str):
    def meanwhile() -> list[CollectionId]:
        filled.execute(statement)
        return [T]

    with pytest.raises(SourceError):
        begin_log(server(filled), LogStart(SLOT, 1000, CLOCK), meanwhile)

    assert find_slot(server(filled), SLOT, CLOCK) is None


def test_a_lock_that_is_not_to_be_had_leaves_no_slot(filled: Database):
    with filled.connect() as other:

        def meanwhile() -> list[CollectionId]:
            other.execute("BEGIN")
            other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            return [T]

        with pytest.raises(SourceError, match=r"snapshot\.lock\.timeout\.ms"):
            begin_log(server(filled), LogStart(SLOT, 300, CLOCK), meanwhile)
    assert find_slot(server(filled), SLOT, CLOCK) is None


def test_it_can_be_stopped_while_a_transaction_holds_the_slot_up(filled: Database):
    with filled.connect() as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (6)")
        since = time.monotonic()

        with pytest.raises(SourceError, match="stopped"):
            begin_log(server(filled), LogStart(SLOT, 300, STOPPED), lambda: [T])

        assert time.monotonic() - since < 60
    assert find_slot(server(filled), SLOT, CLOCK) is None


def test_a_slot_alone_waits_for_transactions_however_long_they_take(filled: Database):
    with filled.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (6)")
        made = pool.submit(create_slot, server(filled, 0.5), LogStart(SLOT, 300, CLOCK))
        time.sleep(2.0)
        waits = not made.done()
        other.execute("COMMIT")
        lsn = made.result(10)
    try:
        slot = find_slot(server(filled), SLOT, CLOCK)

        assert waits
        assert slot is not None
        assert slot.confirmed_lsn == lsn
    finally:
        filled.execute(f"SELECT pg_drop_replication_slot('{SLOT}')")


def test_a_connection_that_only_the_server_knows_to_have_ended_is_not_waited_for(
    filled: Database, monkeypatch: pytest.MonkeyPatch
):
    """Nothing tells the client that it waits for nobody: the transaction ends, and no answer comes."""
    monkeypatch.setattr(server_module, "_LEAST_SILENCE_S", 0.5)
    own = filled.server
    with Proxy(own.host, own.port) as proxy, filled.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (6)")
        through = server(filled, host="127.0.0.1", port=str(proxy.port))
        made = pool.submit(create_slot, through, LogStart(SLOT, 300, CLOCK))
        _until(filled, _HELD_UP_BY, _id_of(other))
        proxy.lose()
        other.execute("COMMIT")

        with pytest.raises(SourceError, match="the server has answered nothing for"):
            made.result(20)
    slot = find_slot(server(filled), SLOT, CLOCK)
    if slot is not None:
        filled.execute(f"SELECT pg_drop_replication_slot('{SLOT}')")


def test_a_slot_alone_can_be_stopped_while_it_waits(filled: Database):
    with filled.connect() as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (6)")

        with pytest.raises(SourceError, match="stopped"):
            create_slot(server(filled), LogStart(SLOT, 300, STOPPED))
    # The server drops it once it has seen that the command was cancelled.
    _until(filled, "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database())")


@pytest.mark.parametrize("later", ["", "INSERT INTO t VALUES (9)"], ids=["the newest", "not the newest"])
def test_a_slot_alone_is_used_once_new_snapshots_show_what_precedes_it(filled: Database, later: str):
    """The log begins behind a commit that waits for a standby, so windows must show it.

    A slot waits for the transactions that it finds, then for those that have begun meanwhile, and for no
    others: the second one holds it up while the third commits.
    """
    with filled.connect() as first, filled.connect() as second, ThreadPoolExecutor(1) as pool:
        first.execute("BEGIN")
        first.execute("INSERT INTO t VALUES (6)")
        made = pool.submit(create_slot, server(filled), LogStart(SLOT, 300, CLOCK))
        _until(filled, _HELD_UP_BY, _id_of(first))
        second.execute("BEGIN")
        second.execute("INSERT INTO t VALUES (7)")
        held_up_by = _id_of(second)
        first.execute("ROLLBACK")
        _until(filled, _HELD_UP_BY, held_up_by)
        with no_standby(filled.server):
            waiting = in_background(filled, "INSERT INTO t VALUES (8)")
            _until(filled, "SELECT true FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            if later:
                filled.execute(f"SET synchronous_commit = local; {later}")
            second.execute("ROLLBACK")
            _until(filled, "SELECT confirmed_flush_lsn IS NOT NULL FROM pg_replication_slots")
            time.sleep(1.0)
            waits = not made.done()
        made.result(10)
        waiting.join(10)
    filled.execute(f"SELECT pg_drop_replication_slot('{SLOT}')")

    assert waits


_HELD_UP_BY: LiteralString = (
    "SELECT true FROM pg_locks"
    " WHERE locktype = 'transactionid' AND NOT granted AND transactionid::text::bigint = %s"
)


def _id_of(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint % 4294967296").fetchone()
    return int(row[0]) if row else 0


def _until(database: Database, question: LiteralString, *arguments: int) -> None:
    """Ask until the answer is true."""
    deadline = time.monotonic() + 30
    with database.connect() as connection:
        while connection.execute(question, arguments).fetchone() != (True,):
            assert time.monotonic() < deadline, question
            time.sleep(0.02)


def test_a_role_that_may_not_replicate_is_told_so(filled: Database):
    role = f"reader_{filled.name}"
    filled.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'p'", f"GRANT SELECT ON t TO {role}")

    with pytest.raises((ConfigError, SourceError), match=r"(?i)replication"):
        begin_log(server(filled, user=role, password="p"), LogStart(SLOT, 300, CLOCK), lambda: [T])

    filled.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_without_a_log_it_shows_the_present(filled: Database):
    held = hold(server(filled), [T], 1000, CLOCK)

    try:
        filled.execute("INSERT INTO t VALUES (6)")
        assert rows_in(held, "SELECT count(*) FROM t") == [(5,)]
        assert find_slot(server(filled), SLOT, CLOCK) is None
    finally:
        held.snapshot.close()
