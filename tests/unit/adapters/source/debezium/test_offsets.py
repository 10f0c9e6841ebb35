"""Where connectors stopped, in the forms that Kafka Connect stores it."""

from __future__ import annotations

import orjson
import pytest

from adapters.source.debezium.offsets import StoredOffset, for_prefix, newest, offsets_in
from engine.errors import StateError
from tests.unit.adapters.source.debezium.java_writer import byte_map

KEY = b'["shop-connector",{"server":"shop"}]'
VALUE = b'{"transaction_id":null,"lsn":23024128}'
EXPECTED = [StoredOffset({"server": "shop"}, {"transaction_id": None, "lsn": 23024128})]


@pytest.mark.parametrize(
    "data",
    [
        KEY + b"\t" + VALUE + b"\n",
        KEY + b" " + VALUE,
        b"[" + KEY + b"," + VALUE + b"]",
        b"[" + KEY + b"," + VALUE + b"]\n[" + KEY + b", " + VALUE + b"]\n",
        KEY + b'\t{"lsn":1}\n' + KEY + b"\tnull\n" + KEY + b"\t" + VALUE,
        byte_map({KEY: VALUE}),
        b'{"offsets": [{"partition": {"server": "shop"}, "offset": ' + VALUE + b"}]}",
    ],
)
def test_each_form_says_the_same(data: bytes):
    assert offsets_in(data, "file") == EXPECTED


def test_an_offset_alone_belongs_to_whoever_asks():
    (found,) = for_prefix(offsets_in(VALUE, "file"), "shop")

    assert found.offset["lsn"] == 23024128


def test_a_null_removes_an_offset():
    assert newest([(KEY, VALUE), (KEY, None)]) == []


def test_brackets_inside_of_names_end_no_key():
    key = orjson.dumps(['a "]} b', {"server": "shop"}])

    assert offsets_in(key + b"\t" + VALUE, "file") == EXPECTED


def test_a_line_separator_inside_of_a_name_ends_no_line():
    key = '["a\u2028b\x85",{"server":"shop"}]'.encode()

    assert offsets_in(key + b"\t" + VALUE + b"\r\n" + key + b"\t" + VALUE, "file") == EXPECTED


def test_other_connectors_are_left_alone():
    other = b'["other",{"server":"other"}]'

    assert for_prefix(newest([(other, VALUE), (KEY, VALUE)]), "shop") == EXPECTED


@pytest.mark.parametrize("data", [KEY + b"\t" + VALUE, KEY.replace(b"server", b"server_id") + b"\t" + VALUE])
def test_another_topic_prefix_is_refused(data: bytes):
    with pytest.raises(StateError, match="topic prefix 'shop', not 'crm'"):
        for_prefix(offsets_in(data, "file"), "crm")


@pytest.mark.parametrize(
    "data", [b"", b"42", b"[1]", b"lsn=5", KEY, KEY + b"\t5", b'[[], {"a": 1}]', b"\xff"]
)
def test_anything_else_is_refused_with_its_place(data: bytes):
    with pytest.raises(StateError) as caught:
        for_prefix(offsets_in(data, "the file"), "shop")

    assert "the file" in str(caught.value) or "no offset" in str(caught.value)
