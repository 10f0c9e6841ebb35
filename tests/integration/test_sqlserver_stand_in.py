"""The stand-in for SQL Server keeps what it promises: what the adapter's tests rest on."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from adapters.sqlserver.server.connection import Server
from engine.errors import PositionLost, SourceError
from tests.servers.sqlserver import Session, StandInDatabase
from tests.servers.sqlserver.asked import asked

pytestmark = pytest.mark.integration

CHANGES = (
    "SELECT CONVERT(varchar(20), [__$start_lsn], 2), CONVERT(varchar(20), [__$seqval], 2),"
    " [__$operation], {columns} FROM [cdc].[{instance}_CT]"
    " ORDER BY [__$start_lsn], [__$seqval], [__$operation]"
)


def changes(
    database: StandInDatabase, columns: str = "[id], [name]", instance: str = "dbo_t"
) -> list[tuple[Any, ...]]:
    """Everything captured: commit LSN, change LSN, operation and the columns."""
    return database.query(CHANGES.format(columns=columns, instance=instance))


def test_changes_are_captured_in_the_order_of_their_commits(captured_table):
    with captured_table.transaction() as first:
        first.execute("INSERT INTO dbo.t (id) VALUES (1)")
        with captured_table.transaction() as second:
            second.execute("INSERT INTO dbo.t (id) VALUES (2)")
        first.execute("INSERT INTO dbo.t (id) VALUES (3)")
    captured_table.capture()

    found = changes(captured_table, "[id]")

    assert [row[3] for row in found] == [2, 1, 3]
    commits, written = [row[0] for row in found], [row[1] for row in found]
    assert commits[0] < commits[1] == commits[2]
    assert written[1] < written[0] < written[2]  # change LSNs are those of the writing
    assert all(change < commit for commit, change in zip(commits, written, strict=True))


def test_many_writers_leave_every_change_once_under_growing_lsns(captured_table):
    def write(writer: int) -> None:
        for number in range(20):
            captured_table.execute(f"INSERT INTO dbo.t (id) VALUES ({writer * 100 + number})")

    captured_table.server.start_capture(0.01)
    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for writer in writers:
        writer.start()
    greatest = []
    while any(writer.is_alive() for writer in writers):
        greatest.append(captured_table.max_lsn())
        time.sleep(0.02)
    captured_table.server.stop_capture()
    captured_table.capture()

    found = changes(captured_table, "[id]")

    assert greatest == sorted(greatest)
    assert sorted(row[3] for row in found) == sorted(w * 100 + n for w in range(4) for n in range(20))
    assert len({row[0] for row in found}) == 80


def test_what_is_captured_later_stands_behind_what_was_captured_before(captured_table):
    with captured_table.transaction() as slow:
        slow.execute("INSERT INTO dbo.t (id) VALUES (1)")
        captured_table.execute("INSERT INTO dbo.t (id) VALUES (2)")
        captured_table.capture()
        before = captured_table.max_lsn()
    captured_table.capture()

    late = next(row for row in changes(captured_table, "[id]") if row[3] == 1)

    assert late[0] > before.replace(":", "").upper()


def test_capture_waits_for_its_delay(captured_table):
    captured_table.server.start_capture(0.4)
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (1)")

    assert changes(captured_table) == []
    deadline = time.monotonic() + 10
    while not changes(captured_table) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(changes(captured_table)) == 1


def test_an_update_is_a_pair_under_one_change_lsn(captured_table):
    captured_table.execute(
        "INSERT INTO dbo.t (id, name) VALUES (1, N'a'); UPDATE dbo.t SET name = N'b' WHERE id = 1"
    )
    captured_table.capture()

    _insert, old, new = changes(captured_table)

    assert (old[:2], old[2:]) == (new[:2], (3, 1, "a"))
    assert new[2:] == (4, 1, "b")


def test_an_update_of_the_key_is_a_delete_and_an_insert(captured_table):
    captured_table.execute(
        "INSERT INTO dbo.t (id, name) VALUES (1, N'a'); UPDATE dbo.t SET id = 2 WHERE id = 1"
    )
    captured_table.capture()

    _insert, gone, there = changes(captured_table)

    assert gone[:2] == there[:2]
    assert (gone[2:], there[2:]) == ((1, 1, "a"), (2, 2, "a"))


def test_columns_may_be_called_as_the_triggers_call_their_variables(shop):
    shop.execute("CREATE TABLE dbo.v (x int PRIMARY KEY, s int NULL, c int NULL, m int NULL)")
    shop.enable_cdc("dbo.v")
    shop.execute("INSERT INTO dbo.v VALUES (1, 2, 3, 4), (2, 3, 4, 5)")
    shop.execute("UPDATE dbo.v SET x = x + 1")
    shop.execute("UPDATE dbo.v SET s = 7")
    shop.capture()

    found = shop.query(
        "SELECT [__$operation], [x], [s] FROM cdc.dbo_v_CT ORDER BY [__$start_lsn], [__$command_id]"
    )

    moved = [(1, 1, 2), (1, 2, 3), (2, 2, 2), (2, 3, 3)]
    assert found[:6] == [(2, 1, 2), (2, 2, 3), *moved]
    assert [row for row in found[6:] if row[0] == 4] == [(4, 2, 7), (4, 3, 7)]


def test_keys_are_shifted_by_deletes_and_then_inserts_whose_change_lsns_say_otherwise(captured_table):
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (1), (2), (3)")
    captured_table.execute("UPDATE dbo.t SET id = id + 1")
    captured_table.capture()
    by_command = captured_table.query(
        "SELECT [__$operation], [id], CONVERT(varchar(20), [__$seqval], 2) FROM [cdc].[dbo_t_CT]"
        " ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
    )[3:]

    assert [row[:2] for row in by_command] == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 4)]
    assert [row[2] for row in by_command[:3]] == [row[2] for row in by_command[3:]]


def test_what_was_rolled_back_is_not_captured(captured_table):
    with captured_table.postgres.connect(captured_table.name, autocommit=False) as connection:
        Session(captured_table, connection).execute("INSERT INTO dbo.t (id) VALUES (1)")
        connection.rollback()

    assert captured_table.capture() == 1  # the commit that enabled CDC
    assert changes(captured_table) == []


def test_a_large_value_left_alone_is_null_in_the_old_row(captured_table):
    captured_table.execute("INSERT INTO dbo.t (id, name, big) VALUES (1, N'a', N'L')")
    captured_table.execute(
        "UPDATE dbo.t SET name = N'b' WHERE id = 1; UPDATE dbo.t SET big = N'M' WHERE id = 1"
    )
    captured_table.execute("DELETE FROM dbo.t WHERE id = 1")
    captured_table.capture()

    found = [(row[2], row[3]) for row in changes(captured_table, "[big]")]

    assert found == [(2, "L"), (3, None), (4, "L"), (3, "L"), (4, "M"), (1, "M")]


def test_a_change_of_columns_that_are_not_captured_is_none(shop):
    shop.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(50) NULL)")
    shop.enable_cdc("dbo.t", columns=["id"])
    shop.execute("INSERT INTO dbo.t (id, name) VALUES (1, N'a'); UPDATE dbo.t SET name = N'b' WHERE id = 1")
    shop.capture()

    assert [row[2:] for row in changes(shop, "[id]")] == [(2, 1)]


def test_retention_raises_the_least_lsn_and_the_function_refuses_what_is_below(captured_table):
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (1)")
    captured_table.capture()
    old = captured_table.max_lsn()
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (2)")
    captured_table.capture()
    captured_table.cleanup(captured_table.max_lsn())
    server = Server(captured_table.server.reach)
    changed = "SELECT [id] FROM cdc.[fn_cdc_get_all_changes_dbo_t](0x{}, 0x{}, N'all update old') AS c"

    now = captured_table.max_lsn().replace(":", "")
    assert asked(server, "shop", changed.format(now, now)) == [(2,)]
    with pytest.raises(PositionLost, match="do not reach back"):
        asked(server, "shop", changed.format(old.replace(":", ""), now))


def test_a_schema_switch_has_two_instances_each_with_its_own_columns(captured_table):
    captured_table.execute("INSERT INTO dbo.t (id, name) VALUES (1, N'a')")
    captured_table.execute("ALTER TABLE dbo.t ADD age int NULL")
    captured_table.execute("INSERT INTO dbo.t (id, name, age) VALUES (2, N'b', 2)")
    captured_table.enable_cdc("dbo.t", "dbo_t_2")
    captured_table.execute("INSERT INTO dbo.t (id, name, age) VALUES (3, N'c', 3)")
    captured_table.capture()

    older = changes(captured_table, "[id]")
    younger = changes(captured_table, "[id], [age]", "dbo_t_2")
    assert [row[3] for row in older] == [1, 2, 3]
    assert [row[3:] for row in younger] == [(3, 3)]
    assert older[-1][:2] == younger[0][:2]  # one change, one LSN
    starts = "SELECT CONVERT(varchar(20), [start_lsn], 2) FROM [cdc].[change_tables] WHERE [capture_instance]"
    ((begun,),) = captured_table.query(f"{starts} = N'dbo_t_2'")
    assert older[1][0] < begun < younger[0][0]
    with pytest.raises(RuntimeError, match="two capture instances"):
        captured_table.enable_cdc("dbo.t", "dbo_t_3")
    captured_table.disable_cdc("dbo_t")
    captured_table.execute("INSERT INTO dbo.t (id, age) VALUES (4, 4)")
    captured_table.capture()
    assert [row[3] for row in changes(captured_table, "[id]", "dbo_t_2")] == [3, 4]


def test_a_dropped_column_is_null_for_the_instance_that_has_it(captured_table):
    captured_table.execute("INSERT INTO dbo.t (id, name) VALUES (1, N'a')")
    captured_table.execute("ALTER TABLE dbo.t DROP COLUMN name")
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (2)")
    captured_table.capture()

    assert [row[3:] for row in changes(captured_table)] == [(1, "a"), (2, None)]


def test_without_the_agent_nothing_is_captured_and_the_status_query_says_so(sqlserver, captured_table):
    status = "SELECT s.[status] FROM [shop].sys.dm_server_services AS s WHERE s.[servicename] LIKE N'SQL %'"
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (1)")
    sqlserver.agent_running = False

    assert captured_table.capture() == 0
    assert captured_table.max_lsn() == ""
    assert captured_table.query(status) == [(1,)]
    sqlserver.agent_running = True
    assert captured_table.query(status) == [(4,)]
    assert captured_table.capture() == 2
    assert captured_table.max_lsn()


def test_a_captured_table_can_not_be_truncated(captured_table):
    with pytest.raises(SourceError, match="Cannot truncate"):
        asked(Server(captured_table.server.reach), "shop", "TRUNCATE TABLE dbo.t")


def test_the_log_ends_where_everything_is_captured_and_a_dummy_entry_goes_beyond(captured_table):
    end = "SELECT s.[log_end_lsn] FROM sys.dm_db_log_stats(DB_ID()) AS s"
    with captured_table.transaction() as session:
        session.execute("INSERT INTO dbo.t (id) VALUES (1)")
        ((open_end,),) = captured_table.query(end)
    captured_table.capture()

    assert captured_table.query(end) == [(captured_table.max_lsn(),)]
    assert open_end < captured_table.max_lsn()
    captured = captured_table.max_lsn()
    captured_table.dummy_entry()
    assert captured_table.max_lsn() > captured
    assert len(changes(captured_table)) == 1
