"""Keys in headers as Kafka Connect's converters write them; the converters are asked in tests/consumers."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from adapters.postgres.events.codec import codec_for
from adapters.postgres.server.table import Column, Relation, RelationColumn, Table
from engine.events.record.field import Field
from engine.events.record.headers import simple_texts
from engine.events.record.schema import DOUBLE, FLOAT, INT32, INT64, STRING, Schema, array
from engine.events.settings import EventSettings, HeaderConverter
from engine.events.values.conversions import bare, decimal
from engine.model import CollectionId

DATA = "org.apache.kafka.connect.data."


def field(schema: Schema) -> Field:
    return Field("k", 0, bare(schema), schema, "null")


def simple(schema: Schema, *payloads: str) -> list[str | None]:
    texts: list[str | None] = simple_texts(pa.array(payloads, pa.large_string()), [field(schema)]).to_pylist()
    return texts


def test_numbers_and_common_texts_are_the_json_that_they_are() -> None:
    payloads = ['{"k":5}', '{"k":null}', '{"k":"a\\"b\\\\c é"}', '{"k":true}']

    assert simple(STRING, *payloads) == payloads


def test_of_a_text_only_quotes_and_backslashes_are_escaped() -> None:
    assert simple(STRING, r'{"k":"\n\u0001\t\\n\uD83D\uDE00\""}') == ['{"k":"\n\x01\t\\\\n😀\\""}']


@pytest.mark.parametrize("schema", [FLOAT, DOUBLE])
def test_numbers_that_json_quotes_are_bare(schema: Schema) -> None:
    assert simple(schema, '{"k":"NaN"}', '{"k":"-Infinity"}', '{"k":1.0E7}') == [
        '{"k":NaN}',
        '{"k":-Infinity}',
        '{"k":1.0E7}',
    ]
    assert simple(STRING, '{"k":"NaN"}') == ['{"k":"NaN"}']


@pytest.mark.parametrize(
    ("scale", "value", "shown"),
    [
        (2, "BOI=", "12.50"),
        (7, "AA==", "0E-7"),
        (0, "ew==", "123"),
        (3, "/w==", "-0.001"),
        (-3, "AQ==", "1E+3"),
    ],
)
def test_decimals_are_shown_by_value_as_big_decimal_shows_them(scale: int, value: str, shown: str) -> None:
    assert simple(decimal(scale, None).schema, f'{{"k":"{value}"}}') == [f'{{"k":{shown}}}']


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("Timestamp", 1_500_000_000_123, "2017-07-14T02:40:00.123Z"),
        ("Timestamp", 86_400_000 * 365, "1971-01-01"),
        ("Timestamp", 5, "00:00:00.005Z"),
        ("Timestamp", -1, "23:59:59.999Z"),
        ("Date", 365, "1971-01-01"),
        ("Date", 0, "00:00:00.000Z"),
        ("Time", 3_600_005, "01:00:00.005Z"),
    ],
)
def test_connects_own_dates_are_shown_by_what_they_mean(name: str, value: int, shown: str) -> None:
    schema = replace(INT32 if name != "Timestamp" else INT64, name=DATA + name, version=1)

    assert simple(schema, f'{{"k":{value}}}') == [f'{{"k":{shown}}}']
    assert simple(array(schema), f'{{"k":[{value},null]}}') == [f'{{"k":[{shown},null]}}']


RELATION = Relation(5, "public", "t", "d", (RelationColumn("é", 1700, 0x50006, key=True),))
TABLE = Table(5, RELATION.id, "r", (Column("é", 1700, 0x50006, nullable=False),), primary_key=("é",))
PAYLOAD = '{"é":"BOI="}'


@pytest.mark.parametrize("key_schemas", [True, False])
@pytest.mark.parametrize(
    ("converter", "schemas", "expected"),
    [
        (HeaderConverter.SIMPLE, True, '{"é":12.50}'),
        (HeaderConverter.JSON, False, PAYLOAD),
        (HeaderConverter.JSON, True, None),
    ],
)
def test_a_header_has_the_form_of_its_converter_whatever_the_key_s_is(
    *, converter: HeaderConverter, schemas: bool, expected: str | None, key_schemas: bool
) -> None:
    settings = EventSettings(
        "p", "d", key_schemas=key_schemas, header_converter=converter, header_schemas=schemas
    )
    codec = codec_for(RELATION, TABLE, settings, {})
    whole = codec_for(RELATION, TABLE, replace(settings, key_schemas=True), {}).key_affixes

    keys = codec.row([pa.array(["12.50"], pa.large_string())]).key

    assert codec.collection == CollectionId(("public", "t"))
    assert codec.key_headers(keys).to_pylist() == [expected or f"{whole[0]}{PAYLOAD}{whole[1]}"]
