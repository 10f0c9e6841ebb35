"""Spark Connect is refused before anything is started."""

from __future__ import annotations

from typing import Any, cast

import pytest

from adapters.spark.connect import refuse_connect
from engine.errors import ConfigError


def session(module: str) -> Any:
    return cast("Any", type("SparkSession", (), {"__module__": module})())


def test_a_connect_server_is_no_master():
    with pytest.raises(ConfigError, match="Spark Connect server"):
        refuse_connect("sc://gateway:15002", None)


def test_a_connect_session_runs_no_job():
    with pytest.raises(ConfigError, match="session is Spark Connect's"):
        refuse_connect(None, session("pyspark.sql.connect.session"))


@pytest.mark.parametrize("master", [None, "local[*]", "spark://m:7077", "yarn", "k8s://https://c:6443"])
def test_others_are_taken(master):
    refuse_connect(master, session("pyspark.sql.session"))
    refuse_connect(master, None)
