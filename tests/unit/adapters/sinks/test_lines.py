"""Events to lines of text."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sinks.lines import json_lines, readable_lines
from engine.events.batch import EVENTS
from tests.batches import batch

HEADERS = '[{"key":"__debezium.newkey","value":{"id":2}}]'


def lines(rows):
    return [text.removesuffix("\n") for text in json_lines(rows).to_pylist()]


def test_what_stands_around_a_value_is_put_there_by_the_way():
    rows = batch(("p.t", "1", '"é"', None), ("p.t", "2", "{}", None), ("p.t", "3", "{}", HEADERS))
    affixes = ('{"schema":{},"payload":', "}")
    wrapped = batch(
        *((t, k, affixes[0] + v + affixes[1], h) for t, k, v, h in map(dict.values, rows.to_pylist()))
    )

    assert json_lines(rows, affixes) == json_lines(wrapped)
    assert json_lines(rows[:2], affixes) == json_lines(wrapped[:2])


def test_a_line_holds_the_event_as_it_came():
    rows = batch(("p.public.t", '{"id": 1}', '{"op":"c"}', HEADERS))

    assert lines(rows) == [
        '{"topic":"p.public.t","key":{"id": 1},"value":{"op":"c"},"headers":' + HEADERS + "}"
    ]


def test_missing_parts_are_null_and_missing_headers_an_empty_list():
    rows = batch(("p.t", None, None, None), ("p.t", '{"id":1}', "{}", None))

    assert lines(rows) == [
        '{"topic":"p.t","key":null,"value":null,"headers":[]}',
        '{"topic":"p.t","key":{"id":1},"value":{},"headers":[]}',
    ]


def test_headers_here_and_there():
    rows = batch(("a", "1", "{}", None), ("b", "2", "{}", HEADERS), ("a", "3", "{}", None))

    assert [json.loads(line)["headers"] for line in lines(rows)] == [[], json.loads(HEADERS), []]


def test_topics_are_quoted_as_json():
    rows = batch(('p."t\\\n', "1", "{}", None), ("p.é", "2", "{}", None))

    assert [json.loads(line)["topic"] for line in lines(rows)] == ['p."t\\\n', "p.é"]


def test_a_slice_of_a_batch_gives_its_own_rows():
    rows = batch(*((f"t{number % 3}", str(number), "{}", None) for number in range(10)))

    assert lines(rows.slice(3, 4)) == lines(rows)[3:7]


def test_unused_topics_of_a_dictionary_are_not_written():
    topics = pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.int32()), pa.array(["unused", "used"]))
    column = pa.array(["1", "2"], pa.large_string())
    rows = pa.RecordBatch.from_arrays([topics, column, column, pa.nulls(2, pa.large_string())], schema=EVENTS)

    assert [json.loads(line)["topic"] for line in lines(rows)] == ["used", "used"]


@pytest.mark.parametrize("render", [json_lines, readable_lines])
def test_no_rows_are_no_text(render):
    assert render(batch()).to_pylist() == []


def test_readable_lines_leave_out_what_is_not_there():
    rows = batch(("p.t", '{"id":1}', '{"op":"d"}', HEADERS), ("p.t", '{"id":1}', None, None))

    assert "".join(readable_lines(rows).to_pylist()).splitlines() == [
        'p.t {"id":1} {"op":"d"} ' + HEADERS,
        'p.t {"id":1} null',
    ]


json_texts = st.none() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
).map(json.dumps)


@given(st.lists(st.tuples(st.text(), json_texts, json_texts, st.none() | st.just(HEADERS)), max_size=8))
def test_every_line_reads_back(events):
    expected = [
        {
            "topic": topic,
            "key": json.loads(key or "null"),
            "value": json.loads(value or "null"),
            "headers": json.loads(headers or "[]"),
        }
        for topic, key, value, headers in events
    ]

    text = "".join(json_lines(batch(*events)).to_pylist())

    assert [json.loads(line) for line in text.split("\n")[:-1]] == expected
