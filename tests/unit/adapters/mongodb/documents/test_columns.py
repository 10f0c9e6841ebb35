"""Documents written column by column are what they are one by one, letter for letter."""

from __future__ import annotations

import datetime as dt
import struct
from dataclasses import replace
from typing import Any

import bson
import numpy as np
import orjson
import pytest
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from adapters.mongodb.documents.bson_walk import concatenated, document_starts, documents, fields
from adapters.mongodb.documents.columns import written
from adapters.mongodb.documents.extended_json import STRICT, document_text
from adapters.mongodb.documents.selection import FieldRule, FieldRules
from adapters.mongodb.events.codec import Rules, codec_of
from adapters.mongodb.events.rows import ReadEvents
from adapters.mongodb.events.source_block import read_source
from engine.config.sources.selection import CaptureSettings
from engine.events.batch import EventForm
from engine.events.settings import EventSettings
from engine.events.values.json_strings import escape
from engine.events.values.text import join
from engine.model import CollectionId
from tests.raw_ids import document, int32, invalid
from tests.typed_records import parsed, records

COLLECTION = CollectionId(("inventory", "t"))
VALUES = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1).map(Int64),
    "double": st.floats() | st.sampled_from([1e7, 9999999.999, 1e-3, 9e-4, 5.0, -0.0, 2e23]),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "ascii": st.text('ab"\\ \x1b\x7f', max_size=6),
    "oid": st.binary(min_size=12, max_size=12).map(ObjectId),
    "bool": st.booleans(),
    "date": st.integers(-(2**60), 2**60).map(DatetimeMS),
    "null": st.none(),
    "binary": st.binary(max_size=3).map(Binary),
    "decimal": st.sampled_from([Decimal128("1.5"), Decimal128("1E+10")]),
    "array": st.lists(st.integers(0, 9), min_size=2, max_size=3),
    "document": st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.text(max_size=2)}),
    "loose": st.dictionaries(st.sampled_from("pq"), st.integers(0, 9)),
}


def places(documents: list[bytes]) -> tuple[bytes, Any]:
    raw = b"".join(documents)
    return raw, np.array(concatenated(raw)[:-1], np.int64)


def texts(documents: list[bytes]) -> list[str]:
    """Column by column where that is possible, in the documents' order."""
    raw, starts = places(documents)
    found, others = written(raw, starts)
    all_of_them = {row: document_text(raw, int(starts[row]), STRICT) for row in others}
    for part in found:
        all_of_them |= dict(zip(part.rows.tolist(), part.texts.to_pylist(), strict=True))
    return [all_of_them[row] for row in range(len(documents))]


@given(data=st.data(), names=st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=6))
def test_columns_give_the_text_of_single_documents(data: st.DataObject, names: list[str]):
    shape = st.fixed_dictionaries({"_id": st.integers(0, 9), **{name: VALUES[name] for name in names}})
    some = data.draw(st.lists(shape, min_size=1, max_size=8))
    documents = [bson.encode(doc) for doc in some] * 40

    assert texts(documents) == [document_text(doc, 0, STRICT) for doc in documents]


@given(some=st.lists(st.binary(max_size=3), min_size=1, max_size=8))
def test_strings_that_are_not_utf8_are_written_as_in_single_documents(some: list[bytes]):
    documents = [bytes(document(int32(1), s=invalid(doc)).raw) for doc in some] * 40

    assert texts(documents) == [document_text(doc, 0, STRICT) for doc in documents]


def test_ids_that_are_not_utf8_are_text_in_events_and_have_keys_of_their_own():
    ids = [invalid(f"{n}".encode() + end) for n in range(25) for end in (b"\xff", b"\xfe", b"")]
    raw, starts = places([bytes(document(identifier, n=int32(1)).raw) for identifier in ids])
    events = ReadEvents(
        codec_of(COLLECTION, Rules(EventSettings("tm", ""), CaptureSettings(), "rs0", FieldRules())), "{}", 0
    )
    rows = [row for batch in events.batches(raw, starts) for row in batch.to_pylist()]

    assert len({row["merge_key"] for row in rows}) == 75
    assert orjson.loads(rows[0]["key"])["payload"]["id"] == '"0\ufffd"'


def test_several_shapes_are_told_apart_and_odd_ones_left_over():
    shapes: list[dict[str, Any]] = [{"_id": 1, "a": 1}, {"_id": 1, "b": "x"}, {"_id": 1, "a": 1.5}]
    documents = [bson.encode(shape) for shape in shapes * 50] + [
        bson.encode({"z": Regex("a", "i"), "_id": 5})
    ]
    found, others = written(*places(documents))

    assert [len(part.rows) for part in found] == [50, 50, 50]
    assert others == [150]
    assert texts(documents) == [document_text(doc, 0, STRICT) for doc in documents]


def test_a_name_that_comes_twice_is_written_once():
    inner = b"".join(bson.encode({name: value})[4:-1] for name, value in [("a", 1), ("b", 2), ("a", 3)])
    raw = struct.pack("<i", len(inner) + 5) + inner + b"\0"

    assert texts([raw] * 50) == ['{"a": 3,"b": 2}'] * 50


IDS = [
    5,
    Int64(5),
    'é\u0301"',
    ObjectId(b"123456789012"),
    1.5,
    Decimal128("2.50"),
    True,
    {"a": 1.0},
    Timestamp(1, 2),
]


@pytest.mark.parametrize("value", [*IDS, dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], ids=repr)
def test_both_roads_give_the_same_events(value: object):
    rules = Rules(EventSettings("tm", ""), CaptureSettings(), "rs0", FieldRules())
    events = ReadEvents(codec_of(COLLECTION, rules), "{}", 7)
    raw, starts = places([bson.encode({"_id": value, "n": n, "s": 'q"\\'}) for n in range(50)])
    (together,) = events.batches(raw, starts)
    single = [batch for start in starts for batch in events.batches(raw, np.array([start]))]

    assert together.to_pylist() == [row for batch in single for row in batch.to_pylist()]


@pytest.mark.parametrize("value", [1, "é", {"a": 1.0}], ids=repr)
def test_typed_documents_are_the_records(value: object):
    settings = EventSettings("tm", "", key_schemas=False, value_schemas=False)
    source = read_source(settings, COLLECTION, "rs0", (5, 6), "true")
    raw, starts = places([bson.encode({"_id": value, "n": n, "s": 'q"\\'}) for n in range(3)])
    found = []
    for form in EventForm:
        rules = Rules(replace(settings, form=form), CaptureSettings(), "rs0", FieldRules())
        events = ReadEvents(codec_of(COLLECTION, rules), source, 7)
        found += events.batches(raw, starts)
    shown, typed = found
    values = join([events.affixes.before, shown.column("value"), events.affixes.after], 3)
    wanted = parsed(shown.select(["topic", "key", "value", "headers"]).set_column(2, "value", values))

    assert records([typed.drop_columns("merge_key")]) == wanted
    assert typed.column("merge_key") == shown.column("merge_key")


@pytest.mark.parametrize("schemas", [False, True])
def test_what_is_around_documents_makes_a_value_of_each(schemas):
    rules = Rules(EventSettings("tm", "", value_schemas=schemas), CaptureSettings(), "rs0", FieldRules())
    events = ReadEvents(codec_of(COLLECTION, rules), '{"db":"é"}', 7)
    (batch,) = events.batches(*places([bson.encode({"_id": 1, "s": 'q"\\'})] * 2))
    before, after = events.affixes.before, events.affixes.after
    value = orjson.loads(before + batch.column("value")[1].as_py() + after)
    payload = value["payload"] if schemas else value

    assert ("schema" in value) == schemas
    assert orjson.loads(payload.pop("after")) == {"_id": 1, "s": 'q"\\'}
    assert {name: part for name, part in payload.items() if part is not None} == {
        "source": {"db": "é"},
        "op": "r",
        "ts_ms": 7,
    }


def test_fields_are_left_out_of_what_is_read_too():
    rule = FieldRule("*", "t", ("secret",))
    rules = Rules(EventSettings("tm", ""), CaptureSettings(), "rs0", FieldRules((rule,)))
    raw, starts = places([bson.encode({"_id": 1, "secret": 2})] * 50)
    (batch,) = ReadEvents(codec_of(COLLECTION, rules), "{}", 7).batches(raw, starts)

    assert set(batch.column("value").to_pylist()) == {'{\\"_id\\": 1}'}


def test_the_documents_of_an_array_are_found_by_their_numbers():
    some = [{"_id": n, "t": "x" * (n % 7)} for n in range(1203)]
    raw = bson.encode({"cursor": {"firstBatch": some}})
    start = fields(raw, fields(raw)["cursor"].start)["firstBatch"].start

    assert document_starts(raw, start) == [begin for begin, _end in documents(raw, start)]


def test_texts_with_quotes_are_embedded_as_they_would_be_escaped():
    raw, starts = places([bson.encode({"_id": n, "s": 'q"\\\n', "d": Decimal128("1.5")}) for n in range(50)])
    (found,), _others = written(raw, starts)

    assert join(found.embedded(), 50).equals(escape(found.texts))


@given(
    numbers=st.lists(st.integers(-(10**19), 10**19), min_size=1, max_size=9),
    exponent=st.integers(-19, 2),
    odd=st.sampled_from([None, "NaN", "-0", "1E+3", "-0.00"]),
)
def test_decimals_of_one_exponent_are_written_together(numbers: list[int], exponent: int, odd: str | None):
    values = [Decimal128(f"{number}E{exponent}") for number in numbers] * 40
    values += [Decimal128(odd)] if odd else []
    documents = [bson.encode({"_id": 1, "d": value}) for value in values]

    assert texts(documents) == [document_text(doc, 0, STRICT) for doc in documents]
