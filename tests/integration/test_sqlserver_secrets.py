"""The login of SQL Server is nowhere to be seen: not in logs, errors, Spark's plans, nor in files."""

from __future__ import annotations

import logging
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from adapters.sqlserver.server.connection import Server
from engine.errors import SourceError
from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase
from tests.servers.sqlserver.asked import asked

pytestmark = pytest.mark.integration

OURS = ("engine", "signals", "adapters", "sqlalchemy")


def test_what_a_job_logs_and_writes_holds_no_password(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    for logger in OURS:
        caplog.set_level(logging.DEBUG, logger)
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute(SIGNALS)
    shop.execute("INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b')")
    for table in ("dbo.t", "dbo.signals"):
        shop.enable_cdc(table)
    told = orjson.dumps({"data-collections": ["shop.dbo.t"]}).decode()
    far = {"signal__data__collection": "shop.dbo.signals", "tidemark__window__local__rows": "0"}
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **far) as driven:
        shop.execute(f"INSERT INTO dbo.signals VALUES ('s', 'execute-snapshot', '{told}')")
        driven.until(lambda: len([op for op, _row in driven.ops("t") if op == "r"]) == 2)

    secret = sqlserver.postgres.password
    assert caplog.records
    assert secret not in caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [file for file in files if secret.encode() in file.read_bytes()]


@pytest.mark.usefixtures("shop")
def test_spark_shows_no_password_in_plans_and_errors(sqlserver: SqlServer, spark: SparkSession):
    jdbc, secret = sqlserver.reach.jdbc("shop", "SELECT 1 AS [one]"), sqlserver.postgres.password
    options = {**jdbc.properties, "driver": jdbc.driver}

    frame = spark.read.jdbc(jdbc.url, f"({jdbc.query}) AS q", properties=options)
    with pytest.raises(Exception, match="nothing") as caught:
        spark.read.jdbc(jdbc.url, "(SELECT 1 FROM nothing) AS q", properties=options)

    assert frame.collect()[0][0] == 1
    assert secret not in frame._jdf.queryExecution().toString()
    assert secret not in str(caught.value)
    assert secret not in repr(jdbc)
    with pytest.raises(SourceError) as failed:
        asked(Server(sqlserver.reach), "shop", "SELECT [x] FROM [nothing]")
    assert secret not in str(failed.value)
