"""What Kafka Connect reads of our records: a sample of `make consumers`, which asks many more readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.consumers import libraries
from tests.consumers.postgres import TABLE, produce
from tests.consumers.postgres_types import COLUMNS
from tests.consumers.records import CONSUMER, answers
from tests.consumers.rows import differences, faults, of_topic, replayed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.mark.thorough
def test_connect_s_converters_read_what_they_would_have_written(
    database15: Database, kafka: KafkaBroker, tmp_path: Path, spark: SparkSession
) -> None:
    """Keys, values and headers of every type, read and streamed, are the converters' own bytes."""
    produced = produce(database15, kafka, f"consumed-{database15.name}", tmp_path, spark)

    read = answers(CONSUMER, [libraries.converters(libraries.CONVERTERS[0])], produced.records)
    assert faults(read) == []
    assert differences(replayed(of_topic(TABLE, produced.records, read)), produced.rows, COLUMNS) == []
