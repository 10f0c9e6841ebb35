"""One table of SQL Server whose log can't be decoded is set aside, with its rows; the rest goes on."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import orjson
import pytest

from engine.errors import PositionLost
from tests.driven import replayed_rows
from tests.driven_sqlserver import SIGNALS, driven_sqlserver

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration
NAMED = {"signal__data__collection": "shop.dbo.signals"}
SNAPSHOT = (
    """INSERT INTO dbo.signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["shop.dbo.t"]}')"""
)


def letters(directory: Path) -> list[dict[str, str]]:
    files = sorted((directory / "state" / "dead-letters").rglob("*.jsonl"))
    return [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]


@pytest.fixture
def broken(shop: StandInDatabase) -> StandInDatabase:
    """Tables `t` and `u`; `break_log` has an update of `t` with one of its two rows in the change table."""
    for ddl, name in ((SIGNALS, "signals"), *((_table(name), name) for name in "tu")):
        shop.execute(ddl)
        shop.enable_cdc(f"dbo.{name}")
    return shop


def _table(name: str) -> str:
    return f"CREATE TABLE dbo.{name} (id int PRIMARY KEY, v nvarchar(50) NULL)"


def break_log(shop: StandInDatabase) -> None:
    shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
    shop.execute("UPDATE dbo.t SET v = N'b' WHERE id = 1")
    shop.execute("INSERT INTO dbo.u VALUES (1, N'u')")
    shop.capture()
    with shop.postgres.connect(shop.name) as connection:
        connection.execute("""DELETE FROM cdc."dbo_t_CT" WHERE "__$operation" = 3""")


def test_one_bad_table_is_set_aside_and_taken_up_by_a_snapshot(
    sqlserver: SqlServer, broken: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    with driven_sqlserver(sqlserver, tmp_path, spark, **NAMED) as driven:
        broken.capture()
        driven.until_streamed(broken)
    break_log(broken)
    with driven_sqlserver(sqlserver, tmp_path, spark, **NAMED) as driven:
        driven.until_streamed(broken)

        assert [op for op, _row in driven.ops("u")] == ["c"]
        assert driven.ops("t") == []
        (found,) = driven.job.state.incomplete
        assert (str(found.collection), found.cause.value, found.kept) == ("shop.dbo.t", "undecodable", 2)
        told = letters(tmp_path)
        assert [notification["operation"] for notification in told] == ["insert", "update to"]
        assert base64.b64decode(told[-1]["message"]).decode().endswith("b")
        assert {notification["transaction"] for notification in told} == {
            notification["position"].split("/")[0] for notification in told
        }

        broken.execute("INSERT INTO dbo.t VALUES (2, N'c')")
        broken.capture()
        driven.until_streamed(broken)
        assert driven.job.state.incomplete[0].kept == 3

    with driven_sqlserver(sqlserver, tmp_path, spark, **NAMED) as driven:
        sqlserver.start_capture(0.02)
        broken.execute(SNAPSHOT)
        driven.until_answered("finished")
        broken.execute("UPDATE dbo.t SET v = N'd' WHERE id = 2")
        sqlserver.stop_capture()
        broken.capture()
        driven.until_streamed(broken)

        assert driven.job.state.incomplete == ()
        assert letters(tmp_path) == []
        assert replayed_rows(driven.events("t")) == {1: {"id": 1, "v": "b"}, 2: {"id": 2, "v": "d"}}


def test_a_bad_table_stops_the_job_where_that_is_asked_for(
    sqlserver: SqlServer, broken: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    more = {**NAMED, "tidemark__table__errors": "stop"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        broken.capture()
        driven.until_streamed(broken)
    break_log(broken)
    with (
        pytest.raises(PositionLost, match="one of its two rows"),
        driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven,
    ):
        driven.until_streamed(broken)


def test_a_table_that_was_cleaned_up_lacks_changes_until_a_snapshot_and_is_streamed_on(
    sqlserver: SqlServer, broken: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    with driven_sqlserver(sqlserver, tmp_path, spark, **NAMED) as driven:
        broken.capture()
        driven.until_streamed(broken)
    for row in (1, 2):
        broken.execute(f"INSERT INTO dbo.t VALUES ({row}, N'a'); INSERT INTO dbo.u VALUES ({row}, N'u')")
        broken.capture()
    broken.cleanup(broken.max_lsn(), "dbo_t")
    with driven_sqlserver(sqlserver, tmp_path, spark, **NAMED) as driven:
        broken.execute("INSERT INTO dbo.t VALUES (3, N'c')")
        broken.capture()
        driven.until_streamed(broken)

        assert [row["id"] for _op, row in driven.ops("u")] == [1, 2]
        assert [row["id"] for _op, row in driven.ops("t")] == [3]
        (found,) = driven.job.state.incomplete
        assert (str(found.collection), found.cause.value) == ("shop.dbo.t", "gap")

    with driven_sqlserver(sqlserver, tmp_path, spark, **NAMED) as driven:
        sqlserver.start_capture(0.02)
        broken.execute(SNAPSHOT)
        driven.until_answered("finished")

        assert driven.job.state.incomplete == ()
        assert replayed_rows(driven.events("t")).keys() == {1, 2, 3}
