from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from adapters.lake.change_rows import CHANGE_COLUMNS, ChangeRows, change_schema, places_in
from adapters.lake.event_lines import parsed_events
from adapters.lake.turn_files import Lines, Piece
from engine.errors import ConfigError, SourceError
from engine.events.record.schema import INT32, INT64, STRING, Schema, struct
from engine.events.values.times import INFINITY_DAYS
from tests.change_lines import ROW, TOPIC, envelope, line

PIECE = Piece("part", 42, 3, 0, 1000)
DATED = struct(
    "v", ("id", INT32), ("day", Schema("int32", optional=True, name="io.debezium.time.Date")), optional=True
)
OLD, NEW = {"id": 1, "note": "old"}, {"id": 1, "note": "new"}


def rows(
    *texts: str, columns: pa.Schema | None = None, row: Schema = ROW, ignores: bool = False
) -> list[Any]:
    columns = columns or change_schema(envelope(row), TOPIC)
    array = pa.array([text.rstrip("\n") + "\n" for text in texts], pa.large_string())
    lines = Lines(array, np.arange(len(texts)) * 100)
    made = ChangeRows(TOPIC, columns, ignores)
    return [
        found
        for events in parsed_events(lines, TOPIC)
        for found in made.rows(events, places_in(PIECE, events.begins)).to_pylist()
    ]


def test_each_operation_is_told_and_an_update_has_two_rows():
    found = rows(
        line("r", after=OLD),
        line("c", after=OLD),
        line("u", before=OLD, after=NEW),
        line("u", after=NEW),
        line("d", before=NEW),
        line("t"),
    )

    assert [(row["_change_type"], row["id"], row["note"]) for row in found] == [
        ("insert", 1, "old"),
        ("insert", 1, "old"),
        ("update_preimage", 1, "old"),
        ("update_postimage", 1, "new"),
        ("update_postimage", 1, "new"),
        ("delete", 1, "new"),
        ("truncate", None, None),
    ]
    assert [tuple(row["_sequence"].values()) for row in found] == [
        *[(42, 3, at, 1) for at in (0, 100)],
        *[(42, 3, 200, image) for image in (0, 1)],
        *[(42, 3, at, 1) for at in (300, 400, 500)],
    ]
    assert {row["_commit_version"] for row in found} == {42}
    assert {row["_commit_timestamp"] for row in found} == {datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)}


def test_microseconds_of_the_commit_are_used_where_the_event_has_them():
    text = line("c", after=OLD).replace(
        '"ts_ms":1700000000123', '"ts_ms":1700000000123,"ts_us":1700000000123456'
    )
    text = text.replace(
        '{"type":"int64","optional":false,"field":"ts_ms"}',
        '{"type":"int64","optional":false,"field":"ts_ms"},{"type":"int64","optional":false,"field":"ts_us"}',
    )

    (row,) = rows(text)

    assert row["_commit_timestamp"].microsecond == 123456


def test_a_value_beyond_its_type_is_text_beside_a_null():
    found = rows(
        line("c", after={"id": 1, "day": 0}, row=DATED),
        line("c", after={"id": 2, "day": INFINITY_DAYS}, row=DATED),
        row=DATED,
    )

    assert [(row["day"], row["day__text"]) for row in found] == [(date(1970, 1, 1), None), (None, "infinity")]


def test_a_value_beyond_its_type_is_refused_where_its_text_has_no_column():
    events = [line("c", after={"id": 1, "day": INFINITY_DAYS}, row=DATED)]

    with pytest.raises(ConfigError, match="does not fit"):
        rows(*events, columns=pa.schema([("id", pa.int32()), ("day", pa.date32())]))
    (row,) = rows(*events, columns=pa.schema([("id", pa.int32()), ("day", pa.int64())]))
    assert row == {"id": 1, "day": INFINITY_DAYS}


def test_a_column_of_the_table_named_like_a_text_stays_its_own():
    clashing = struct("v", *DATED.fields, ("day__text", STRING.nullable()), optional=True)
    good = {"id": 1, "day": 0, "day__text": "mine"}

    (row,) = rows(line("c", after=good, row=clashing), row=clashing)

    assert row["day__text"] == "mine"
    with pytest.raises(ConfigError, match="does not fit"):
        rows(line("c", after={**good, "day": INFINITY_DAYS}, row=clashing), row=clashing)


def test_older_and_newer_rows_have_the_columns_of_the_query():
    wide = struct("v", ("id", INT64), ("more", STRING.nullable()), optional=True)
    columns = pa.schema([("id", pa.int64()), ("more", pa.string()), ("note", pa.string())])
    texts = [line("c", after=OLD), line("c", after={"id": 2**40, "more": "m"}, row=wide)]

    assert rows(*texts, columns=columns) == [
        {"id": 1, "more": None, "note": "old"},
        {"id": 2**40, "more": "m", "note": None},
    ]


def test_a_column_that_the_query_lacks_is_never_left_out_unasked():
    columns = pa.schema([("id", pa.int32()), *CHANGE_COLUMNS])

    with pytest.raises(ConfigError, match="lacks the column 'note'"):
        rows(line("c", after=OLD), columns=columns)
    (row,) = rows(line("c", after=OLD), columns=columns, ignores=True)
    assert row["id"] == 1


def test_a_value_that_does_not_fit_a_named_type_is_refused_without_being_shown():
    wide = struct("v", ("id", INT64), ("note", STRING), optional=True)
    columns = pa.schema([("id", pa.int32()), ("note", pa.int32())])

    with pytest.raises(ConfigError, match="'id'") as raised:
        rows(line("c", after={"id": 2**40, "note": "1"}, row=wide), columns=columns)
    assert str(2**40) not in str(raised.value)


@pytest.mark.parametrize(
    "envelope_of",
    [
        envelope(STRING.nullable()),
        struct("e", ("after", ROW), ("op", STRING)),
        struct("heartbeat", ("ts_ms", INT64)),
    ],
)
def test_events_that_are_no_changes_of_rows_are_refused(envelope_of: Schema):
    with pytest.raises(ConfigError, match="no changes of a table's rows"):
        change_schema(envelope_of, TOPIC)


def test_a_table_with_a_column_of_the_change_table_is_refused():
    with pytest.raises(ConfigError, match="_sequence"):
        change_schema(envelope(struct("v", ("_sequence", INT32), optional=True)), TOPIC)


def test_an_unknown_operation_is_refused():
    with pytest.raises(SourceError, match="unknown operations"):
        rows(line("x", after=OLD))
