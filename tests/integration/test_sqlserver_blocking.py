"""Blocking snapshots of SQL Server on the stand-in: the cases of Debezium's BlockingSnapshotIT, and ours."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.driven import replayed_rows
from tests.driven_sqlserver import DrivenSqlServer, driven_sqlserver, writing
from tests.integration.test_sqlserver_snapshots import SMALL, WITH_SIGNALS, ask, filled, reads, signals
from tests.servers.sqlserver import StandInDatabase

pytestmark = [pytest.mark.integration, pytest.mark.slow]
__all__ = ["signals"]


def held(driven: DrivenSqlServer, table: str = "t") -> dict[Any, Any]:
    return replayed_rows(driven.events(table))


def filtered(database: StandInDatabase, select: str) -> None:
    more: dict[str, Any] = {
        "type": "blocking",
        "additional-conditions": [{"data-collection": "shop.dbo.t", "filter": select}],
    }
    ask(database, "shop.dbo.t", **more)


def test_execute_blocking_snapshot(sqlserver, signals, tmp_path, spark):
    filled(signals, 1000)
    filled(signals, 300, "dbo.u")
    sqlserver.start_capture(0.05)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        ask(signals, "shop.dbo.t", "shop.dbo.u", type="blocking")
        driven.until_answered("finished", 2)

        assert len(reads(driven)) == 1000
        assert len(reads(driven, "u")) == 300
        marks = [event["value"]["source"]["snapshot"] for event in driven.events("u")]
        assert marks[-1] == "last"


def test_execute_blocking_snapshot_while_streaming(sqlserver, signals, tmp_path, spark):
    """The stream does not move while rows of a window are read, and nothing is lost."""
    filled(signals, 2000)
    sqlserver.start_capture(0.05)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        with writing(signals, "dbo.t", keys=2000) as writer:
            ask(signals, "shop.dbo.t", type="blocking")
            driven.until_answered("finished")
        sqlserver.stop_capture()
        signals.capture()
        driven.until_streamed(signals)

        assert writer.writes > 10
        assert held(driven) == {
            key: {"id": key, "v": text} for key, text in signals.query("SELECT id, v FROM dbo.t")
        }


def test_execute_blocking_snapshot_with_additional_condition(sqlserver, signals, tmp_path, spark):
    filled(signals, 1000)
    sqlserver.start_capture(0.05)
    chosen = "SELECT * FROM dbo.t WHERE id < 120"
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        filtered(signals, chosen)
        driven.until_answered("finished")

        assert len(reads(driven)) == 120


@pytest.mark.parametrize(
    ("conditions", "text", "said"),
    [
        ("off", "SELECT * FROM dbo.t", "conditions are not taken"),
        ("expressions", "id = 1", "is a whole SELECT"),
        ("expressions", "SELECT TOP 3 * FROM dbo.t", "'limit' is not taken"),
        ("expressions", "SELECT * FROM dbo.t WITH (NOLOCK)", "something else than one table"),
        ("sql", "DELETE FROM dbo.t", "is not one SELECT"),
        ("sql", "SELECT * FROM dbo.nowhere", "refused"),
    ],
)
def test_a_select_that_is_not_taken_is_refused(sqlserver, signals, tmp_path, spark, conditions, text, said):
    filled(signals, 3)
    sqlserver.start_capture(0.05)
    more = {"tidemark__snapshot__conditions": conditions}
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **more) as driven:
        filtered(signals, text)
        driven.until_answered("rejected")

        assert said in driven.answered("rejected")[0].text


@pytest.mark.thorough
def test_the_rest_is_read_after_a_crash(sqlserver, signals, tmp_path, spark):
    filled(signals, 2000)
    sqlserver.start_capture(0.05)
    one_by_one = {**WITH_SIGNALS, **SMALL, "tidemark__window__max__chunks": "1"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **one_by_one) as driven:
        ask(signals, "shop.dbo.t", type="blocking")
        driven.until(lambda: len(reads(driven)) >= 200)
        signals.execute("UPDATE dbo.t SET v = N'new' WHERE id % 3 = 0")
    with driven_sqlserver(sqlserver, tmp_path, spark, **one_by_one) as driven:
        driven.until_answered("finished")
        sqlserver.stop_capture()
        signals.capture()
        driven.until_streamed(signals)

        assert held(driven) == {
            key: {"id": key, "v": text} for key, text in signals.query("SELECT id, v FROM dbo.t")
        }


def test_bad_data_is_answered(sqlserver, signals, tmp_path, spark):
    filled(signals, 3)
    sqlserver.start_capture(0.05)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
        data = orjson.dumps({"type": "blocking"}).decode()
        signals.execute(f"INSERT INTO dbo.signals VALUES ('p', 'pause-snapshot', '{data}')")
        driven.until_answered("rejected")

        assert "can't be paused" in driven.answered("rejected")[0].text
