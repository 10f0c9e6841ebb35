"""The whole road through Kafka on embedded servers: signal in, events out, the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kafka_road import assert_signal_to_topics

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_signal_from_a_topic_gives_the_tables_rows_in_a_topic(
    each_database: Database, kafka: KafkaBroker, topic: str, tmp_path: Path, spark: SparkSession
):
    assert_signal_to_topics(each_database, kafka, topic, tmp_path, spark)
