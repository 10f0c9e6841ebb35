"""`schema-changes` signals on the stand-in: announced and recorded once, while events keep to the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine.errors import SinkError
from tests.driven_sqlserver import driven_sqlserver

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.driven import Driven
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

COLUMNS = [
    {"name": "id", "typeName": "int", "position": 1, "length": 10, "scale": 0, "optional": False},
    {"name": "v", "typeName": "nvarchar", "position": 2, "length": 50, "optional": True},
]
HISTORY = "io.debezium.storage.file.history.FileSchemaHistory"


@pytest.fixture
def table(shop: StandInDatabase) -> StandInDatabase:
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.enable_cdc("dbo.t")
    return shop


def options(directory: Path, **more: str) -> dict[str, str]:
    (directory / "signals").touch()
    return {
        "signal__enabled__channels": "file",
        "signal__file": str(directory / "signals"),
        "include__schema__changes": "true",
        **more,
    }


def signal(directory: Path, *columns: str, **more: Any) -> None:
    """State that the table has a key of these columns."""
    stated = {"columns": COLUMNS, "primaryKeyColumnNames": list(columns)}
    change = {"type": "ALTER", "id": '"shop"."dbo"."t"', "table": stated}
    data = {"database": "shop", "changes": [change], **more}
    with (directory / "signals").open("ab") as file:
        file.write(orjson.dumps({"id": "s", "type": "schema-changes", "data": data}) + b"\n")


def told(driven: Driven) -> list[tuple[str, list[str]]]:
    """The type and the key of each change in the schema change topic."""
    changes = [event["value"]["tableChanges"][0] for event in driven.events() if event["topic"] == "tm"]
    return [(change["type"], change["table"]["primaryKeyColumnNames"]) for change in changes]


def test_a_stated_schema_is_announced_and_recorded_and_the_next_start_tells_the_catalogs(
    sqlserver: SqlServer, table: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    file = tmp_path / "history"
    more = {"schema__history__internal": HISTORY, "schema__history__internal__file__filename": str(file)}
    given = options(tmp_path, **more)
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as driven:
        table.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        table.capture()
        driven.until_streamed(table)
        signal(tmp_path, "id", "v")
        driven.until_answered("accepted")
        table.execute("INSERT INTO dbo.t VALUES (2, N'b')")
        table.capture()
        driven.until_streamed(table)

        assert driven.answers[-1].text == (
            "ALTER of shop.dbo.t is announced, but its events keep the columns of its capture instance"
        )
        assert told(driven) == [("CREATE", ["id"]), ("ALTER", ["id", "v"])]
        assert [event["key"] for event in driven.events("t")] == [{"id": 1}, {"id": 2}]
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as driven:
        driven.until(lambda: len(told(driven)) == 3)

        assert told(driven)[-1] == ("ALTER", ["id"])
    recorded = [orjson.loads(line)["tableChanges"][0] for line in file.read_bytes().splitlines()]
    assert [change["table"]["primaryKeyColumnNames"] for change in recorded] == [["id"], ["id", "v"], ["id"]]


def test_a_turn_that_has_to_be_repeated_announces_it_once(
    sqlserver: SqlServer,
    table: StandInDatabase,  # noqa: ARG001  there is a table
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
):
    with driven_sqlserver(sqlserver, tmp_path, spark, **options(tmp_path)) as driven:
        driven.until(lambda: told(driven))
        failures = [SinkError("full")]
        sink: Any = driven.job._parts.sink
        commit = sink.commit

        def failing(turn: int, parts: Any) -> None:
            if failures:
                raise failures.pop()
            commit(turn, parts)

        monkeypatch.setattr(sink, "commit", failing)
        signal(tmp_path, "id")
        with pytest.raises(SinkError):
            driven.until_answered("accepted")
        driven.job.close()
        driven.job.settle()
        driven.until_answered("accepted")

        assert told(driven) == [("CREATE", ["id"]), ("ALTER", ["id"])]


@pytest.mark.parametrize(
    ("more", "data", "said"),
    [
        ({"include__schema__changes": "false"}, {}, "nobody would learn of it"),
        ({}, {"database": "other"}, "no database 'other'"),
        ({"table__include__list": "dbo.u"}, {}, "shop.dbo.t is not captured"),
    ],
)
def test_what_can_not_be_done_is_rejected_with_the_reason(
    sqlserver: SqlServer,
    table: StandInDatabase,  # noqa: ARG001  there is a table
    tmp_path: Path,
    spark: SparkSession,
    more: dict[str, str],
    data: dict[str, Any],
    said: str,
):
    with driven_sqlserver(sqlserver, tmp_path, spark, **options(tmp_path, **more)) as driven:
        signal(tmp_path, "id", **data)
        driven.until_answered("rejected")

        assert said in driven.answers[-1].text
