"""Refuses Spark Connect, whose clients have no driver: a job's tasks and blocks need one of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HINT: Final = (
    "run the job where Spark's driver runs: with a spark://, yarn or k8s:// master, or by spark-submit; over"
    " Spark Connect the format tidemark reads what a job has written"
)


def refuse_connect(master: str | None, spark: SparkSession | None) -> None:
    """Raise ConfigError if a master, or a session that somebody has made, is Spark Connect's."""
    if master is not None and master.startswith("sc://"):
        raise ConfigError("tidemark.spark.master is a Spark Connect server", hint=_HINT)
    if spark is not None and type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError("the session is Spark Connect's", hint=_HINT)
