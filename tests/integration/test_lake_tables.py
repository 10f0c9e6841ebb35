"""Tables of Delta Lake and Iceberg by themselves: turns, crashes between tables, evolution, upkeep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.lake.table_name import TableName
from tests.lake import CrashError, Dying, lake, send
from tests.lake_spark import FORMATS, Lake
from tests.turns import Turns
from tests.typed_batches import MISSING, change, typed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.config.sinks.settings import SinkKind

pytestmark = pytest.mark.integration
TOPICS = ("a", "b", "c")
FIRST = tuple(typed(*(change("c", n) for n in range(1, 6)), topic=topic) for topic in TOPICS)
SECOND = tuple(
    typed(
        *(change("u", 1, "b", MISSING), change("d", 2), change("d", 3), change("c", 30, "moved", MISSING)),
        change("c", 6, f"of {topic}"),
        headers=[None, None, "new", "old", None],
        topic=topic,
    )
    for topic in TOPICS
)


def then(topic: str) -> list[tuple[Any, ...]]:
    rows = [(1, "b", "t"), (4, "n", "t"), (5, "n", "t"), (6, f"of {topic}", "t"), (30, "moved", "t")]
    return sorted(rows, key=repr)


@pytest.fixture(params=FORMATS)
def tables(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    kind: SinkKind = request.param
    return Lake(spark, kind, tmp_path)


def test_a_turn_is_in_all_tables_once_though_a_process_dies_between_two_of_them(tables: Lake, tmp_path: Path):
    send(lake(tmp_path / "journal", tables.tables(), 1), 1, *FIRST)
    dying = Dying(tables.tables(), iter(range(3)), frozenset({"write"}))
    sink = Turns(lake(tmp_path / "journal", dying, 2))
    writer = sink.writer(2)
    for number, batch in enumerate(SECOND):
        writer.write(number, [batch])
    sink.commit(2)
    with pytest.raises(CrashError):
        sink.drain()
    again = lake(tmp_path / "journal", tables.tables(), 3)

    assert again.applied(2)
    again.drain()
    assert [tables.rows(TableName("", topic)) for topic in TOPICS] == [then(topic) for topic in TOPICS]
    assert [tables.tables().look(TableName("", topic)).turn for topic in TOPICS] == [2, 2, 2]  # type: ignore[union-attr]
