"""Kafka records as the rows of a change table, from the frames of Spark's own Kafka source.

Spark's source owns the offsets, and with them what is read once. Here its records become rows, in the tasks.
A record's place is its partition and its offset: all changes of a key are in one partition.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema

from adapters.lake.change_rows import ChangeRows, EventPositions, change_schema
from adapters.lake.event_lines import newest_schema, parsed_events
from adapters.lake.spark_schema import arrow_schema
from adapters.lake.turn_files import Lines
from engine.errors import ConfigError
from engine.events.values.text import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from engine.events.values.text import Text


def record_schema(records: DataFrame, topic: str) -> StructType:
    """The columns of a topic's change table, by the newest of these records. Raises ConfigError."""
    newest = expr("max_by(value, struct(timestamp, partition, offset))")
    events = records.where(records["value"].isNotNull()).where(records["topic"] == topic)
    (value,) = events.select(newest).first() or (None,)
    found = None if value is None else newest_schema(_lines(pa.array([bytes(value)]), topic), topic)
    if found is None:
        raise ConfigError(f"there are no events of {topic!r} yet, so its columns are unknown")
    return from_arrow_schema(change_schema(found, topic), prefer_timestamp_ntz=True)


def record_rows(records: DataFrame, topic: str, schema: StructType) -> DataFrame:
    """The changes in records of a topic, as rows with the columns of `schema`."""
    rows = ChangeRows(topic, arrow_schema(schema))
    placed = records.select("topic", "partition", "offset", "value")
    return placed.mapInArrow(partial(_changes, rows), schema)


def _changes(rows: ChangeRows, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        events = batch.filter(pc.and_(pc.equal(batch["topic"], rows.topic), batch["value"].is_valid()))
        offsets = events["offset"].to_numpy().astype(np.int64)
        parts = events["partition"].to_numpy().astype(np.int64)
        for parsed in parsed_events(_lines(events["value"], rows.topic), rows.topic):
            at = parsed.begins
            yield rows.rows(
                parsed, EventPositions(offsets[at], np.zeros(len(at), np.int64), parts[at], offsets[at])
            )


def _lines(values: pa.Array, topic: str) -> Lines:
    """Values as lines of the files sink would have them; each begins at its number."""
    texts: Text = pc.cast(values, pa.large_string())
    before = '{"topic":' + orjson.dumps(topic).decode() + ',"key":null,"value":'
    lines = join([before, texts, ',"headers":[]}\n'], len(texts))
    return Lines(lines, np.arange(len(texts), dtype=np.int64))
