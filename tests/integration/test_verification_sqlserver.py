"""Verifying and repairing the files of a job on the stand-in for SQL Server, under writes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.against import last_answer
from tests.driven import replayed_rows
from tests.driven_sqlserver import SIGNALS, driven_sqlserver, writing
from tests.faulty_copy import FaultyCopy

if TYPE_CHECKING:
    from signals.answers import Answer
    from tests.driven_sqlserver import DrivenSqlServer
    from tests.servers.sqlserver import StandInDatabase

pytestmark = pytest.mark.integration

ROWS = 400
GIVEN = {
    "signal__data__collection": "shop.dbo.signals",
    "incremental__snapshot__chunk__size": "100",
    "tidemark__window__max__chunks": "3",
}
TABLE = (
    "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v nvarchar(50) NULL, price decimal(10, 2) NULL,"
    " big nvarchar(max) NULL, at datetime2 NULL, double AS (id * 2))"
)


def asked(job: DrivenSqlServer, shop: StandInDatabase, type_: str, id_: str) -> Answer:
    """The last answer to a signal of this type, which is sent now."""
    data = orjson.dumps({"data-collections": ["shop.dbo.t"], "type": type_}).decode()
    shop.execute(f"INSERT INTO dbo.signals VALUES ('{id_}', 'execute-snapshot', '{data}')")
    return last_answer(job, id_)


def fill(shop: StandInDatabase) -> None:
    """A captured table, and the signal table."""
    for table, statement in (("signals", SIGNALS), ("t", TABLE)):
        shop.execute(statement)
        shop.enable_cdc(f"dbo.{table}")
    rows = (
        f"({key}, N'nöte{key % 5}', {key / 4}, N'{'x' * (key % 50)}', '2024-05-01T10:11:12.{key:07}')"
        for key in range(ROWS)
    )
    shop.execute(f"INSERT INTO dbo.t (id, v, price, big, at) VALUES {', '.join(rows)}")


def wrong(event: dict[str, Any]) -> None:
    event["value"]["after"]["v"] = "wrong"


def strange(event: dict[str, Any]) -> None:
    event["key"]["id"] = event["value"]["after"]["id"] = -1 - event["key"]["id"]


def test_faults_are_found_under_writes_and_repaired(sqlserver, shop, tmp_path, spark):
    fill(shop)
    sqlserver.start_capture(0.02)
    copy = FaultyCopy(tmp_path, "tm.shop.dbo.t", wrong, strange)
    with driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN) as job:
        asked(job, shop, "incremental", "copy")
        copy.put(Random(7), 0.1)
        with writing(shop, "dbo.t", keys=ROWS, pause_s=0.02):
            asked(job, shop, "verify", "under writes")
            copy.check("under writes")
            repaired = asked(job, shop, "repair", "mend")
        after = asked(job, shop, "verify", "right")
        job.until_streamed(shop)
        held = replayed_rows(job.events("t"))
    sqlserver.stop_capture()

    assert repaired.outcome == "finished", repaired.text
    assert repaired.facts["deletes"] > 0
    assert after.outcome == "finished", after.text
    assert after.facts["equal"] == len(held)
    rows = dict(shop.query("SELECT id, v FROM dbo.t"))
    assert {key: row["v"] for key, row in held.items()} == rows
