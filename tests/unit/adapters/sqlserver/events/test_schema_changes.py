"""Schema changes are told on the topic of the prefix."""

from __future__ import annotations

from dataclasses import replace

import orjson

from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange, schema_changes
from adapters.sqlserver.events.source_block import ReadPosition
from adapters.sqlserver.server.table import Column, Table
from engine.events.settings import EventSettings
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, PLAIN, shown

PLACE = ReadPosition(0, "00000025:00000d98:00a2", snapshot="true")
CHANGE = SchemaChange(ChangeType.CREATE, CUSTOMERS, PLACE, 1588252618953)


def test_changes_come_in_their_order_keyed_by_the_database():
    dropped = replace(CHANGE, type=ChangeType.DROP)

    events = shown(schema_changes([CHANGE, dropped], PLAIN))

    assert [event["topic"] for event in events] == ["server1", "server1"]
    assert [event["key"] for event in events] == [{"databaseName": "testDB"}] * 2
    changes = [event["value"]["tableChanges"][0] for event in events]
    assert [change["type"] for change in changes] == ["CREATE", "DROP"]
    assert [change["table"]["primaryKeyColumnNames"] for change in changes] == [["id"], ["id"]]
    assert {event["value"]["ddl"] for event in events} == {None}


def test_the_key_s_bytes_are_those_that_jackson_writes():
    table = replace(CUSTOMERS, id=CollectionId(("shop 😀\x1b", "dbo", "t")))

    keys = schema_changes([replace(CHANGE, table=table)], PLAIN).column("key").to_pylist()

    assert keys == [r'{"databaseName":"shop \uD83D\uDE00\u001B"}']


def test_names_are_quoted_and_defaults_told_as_the_server_has_them():
    table = Table(CollectionId(("d", "my schema", 'a"b')), (Column("c", 3, "nvarchar", 5, default="(N'x')"),))
    (event,) = shown(schema_changes([replace(CHANGE, table=table)], PLAIN))
    (change,) = event["value"]["tableChanges"]

    assert change["id"] == '"d"."my schema"."a""b"'
    assert change["table"]["columns"][0]["defaultValueExpression"] == "(N'x')"
    assert change["table"]["columns"][0]["position"] == 3
    assert (event["value"]["databaseName"], event["value"]["schemaName"]) == ("d", "my schema")


def test_members_are_those_of_their_schemas():
    events = schema_changes([CHANGE], EventSettings("server1", "testDB")).to_pylist()
    key, value = orjson.loads(events[0]["key"]), orjson.loads(events[0]["value"])

    assert key["schema"]["name"] == "io.debezium.connector.sqlserver.SchemaChangeKey"
    assert_fits(key["schema"], key["payload"])
    assert value["schema"]["name"] == "io.debezium.connector.sqlserver.SchemaChangeValue"
    assert_fits(value["schema"], value["payload"])


def assert_fits(schema, payload) -> None:
    """Every member that the schema has, in its order, and of its type."""
    if payload is None:
        assert schema["optional"]
        return
    if schema["type"] == "struct":
        assert list(payload) == [field["field"] for field in schema["fields"]]
        for field in schema["fields"]:
            assert_fits(field, payload[field["field"]])
    elif schema["type"] == "array":
        for item in payload:
            assert_fits(schema["items"], item)
    else:
        kinds = {"string": str, "boolean": bool, "int32": int, "int64": int}
        assert type(payload) is kinds[schema["type"]]
