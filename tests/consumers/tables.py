"""How a table's events must be read, whichever relational source they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from tests.consumers import libraries
from tests.consumers.readers import flink_rows, of_table, spark_rows
from tests.consumers.records import CONSUMER, answers
from tests.consumers.rows import REWRITE, differences, faults, of_topic, replayed, unwrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.consumers.rows import Produced, ShownColumn


class TableReaders:
    """The tests of each consumer that reads tables; `produced` is a fixture of the source's module."""

    table: ClassVar[str]
    columns: ClassVar[Sequence[ShownColumn]]

    @pytest.mark.parametrize("version", libraries.CONVERTERS)
    def test_the_converter_reads_what_it_would_have_written(self, produced: Produced, version: str) -> None:
        read = answers(CONSUMER, [libraries.converters(version)], produced.records)

        assert faults(read) == []
        rows = replayed(of_topic(self.table, produced.records, read))
        assert differences(rows, produced.rows, self.columns) == []

    @pytest.mark.parametrize("version", libraries.TRANSFORMS)
    def test_rows_are_extracted(self, produced: Produced, version: str) -> None:
        name = "io.debezium.transforms.ExtractNewRecordState"
        read = answers(CONSUMER, [libraries.transforms(version)], produced.records, name, *REWRITE[version])

        rows = unwrapped(of_topic(self.table, produced.records, read))
        assert differences(rows, produced.rows, self.columns) == []

    def test_flink_reads_the_changelog(self, produced: Produced, tmp_path: Path) -> None:
        rows = flink_rows(of_table(produced.records, self.table), tmp_path)

        assert differences(rows, produced.rows, self.columns) == []

    def test_spark_reads_the_events(self, produced: Produced, spark: SparkSession, tmp_path: Path) -> None:
        rows = spark_rows(of_table(produced.records, self.table), spark, tmp_path)

        assert differences(rows, produced.rows, self.columns) == []
