from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from adapters.lake.event_lines import newest_schema, parsed_events
from adapters.lake.turn_files import Lines
from engine.errors import ConfigError, SourceError
from engine.events.record.schema import DOUBLE, INT32, INT64, STRING, struct, text_map
from engine.events.record.schema_json import schema_from_json
from tests.change_lines import TOPIC, envelope, line, tombstone

WIDER = struct("tm.public.t.Value", ("id", INT64), ("note", STRING), ("more", DOUBLE), optional=True)


def lines(*texts: str) -> Lines:
    array = pa.array([text.rstrip("\n") + "\n" for text in texts], pa.large_string())
    return Lines(array, np.arange(len(texts)) * 100)


def test_events_of_a_topic_are_parsed_and_tombstones_and_others_left_out():
    row = {"id": 1, "note": 'é€😀 "q" \\ \n'}
    events = lines(
        line("c", after=row),
        line("c", after=row, topic="tm.public.t2"),
        tombstone(row),
        line("d", before=row, headers=[{"key": "__debezium.newkey", "value": '{"id":2},"value":null'}]),
    )

    (parsed,) = parsed_events(events, TOPIC)

    assert parsed.schema == envelope()
    assert parsed.begins.tolist() == [0, 300]
    assert [(event["op"], event["before"], event["after"]) for event in parsed.envelopes.to_pylist()] == [
        ("c", None, row),
        ("d", row, None),
    ]


def test_text_that_looks_like_structure_stays_a_value():
    row = {"id": 1, "note": ',"value":null,"headers":[]} ,"value":{"schema":{},"payload":'}

    (parsed,) = parsed_events(lines(line("c", after=row), tombstone(row)), TOPIC)

    assert parsed.envelopes.field("after").to_pylist() == [row]


def test_each_schema_is_a_batch_of_its_own():
    old, new = {"id": 1, "note": None}, {"id": 2**40, "note": "n", "more": 0.5}
    events = lines(line("c", after=old), line("c", after=new, row=WIDER), line("u", after=old))

    first, second = parsed_events(events, TOPIC)

    assert (first.begins.tolist(), second.begins.tolist()) == ([0, 200], [100])
    assert second.envelopes.field("after").to_pylist() == [new]
    assert newest_schema(events, TOPIC) == envelope()


def test_no_events_have_no_schema():
    assert newest_schema(lines(tombstone({"id": 1})), TOPIC) is None
    assert list(parsed_events(lines(), TOPIC)) == []


def test_events_without_schemas_are_refused():
    bare = f'{{"topic":"{TOPIC}","key":{{"id":1}},"value":{{"before":null,"op":"c"}},"headers":[]}}'

    with pytest.raises(ConfigError, match=r"value\.converter\.schemas\.enable"):
        list(parsed_events(lines(line("c", after={"id": 1, "note": None}), bare), TOPIC))


def test_a_damaged_line_is_said_without_its_values():
    damaged = line("c", after={"id": 1, "note": "secret"}).replace('"optional":', '"optional', 1)
    at = damaged.index('"value":')
    damaged = damaged[:at] + damaged[at:].replace('"type":', '"type', 1)

    with pytest.raises(SourceError, match="can't be read") as raised:
        list(parsed_events(lines(damaged), TOPIC))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("schema", [envelope(), text_map(), INT32.nullable(), WIDER])
def test_a_schema_is_read_as_it_was_written(schema):
    assert schema_from_json(schema.json()) == schema


@pytest.mark.parametrize("text", ["{}", "[]", "1", '{"type":"struct","fields":[{}]}', "{"])
def test_what_is_no_schema_is_refused(text: str):
    with pytest.raises(ValueError, match=r".+"):
        schema_from_json(text)
