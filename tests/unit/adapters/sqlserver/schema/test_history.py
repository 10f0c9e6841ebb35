"""The schema history gives tables back as they were at a place, and keeps them through a crash."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange
from adapters.sqlserver.events.source_block import ReadPosition
from adapters.sqlserver.schema.history import FileStore, History, history, history_record
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.tsql import READABLE
from adapters.sqlserver.settings import HistoryKind, HistorySettings
from engine.errors import SourceError, StateError
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, lsn

WIDER = replace(CUSTOMERS, columns=(*CUSTOMERS.columns, Column("phone", 4, "varchar", 20, default="('')")))
OTHER = replace(CUSTOMERS, id=CollectionId(("otherDB", "dbo", "customers")))
DEBEZIUMS = (
    '{"source":{"server":"server1","database":"testDB"},"position":{"commit_lsn":"00000025:00000d98:00a2",'
    '"snapshot":true,"snapshot_completed":false},"ts_ms":1588252618953,"databaseName":"testDB",'
    '"schemaName":"dbo","tableChanges":[{"type":"CREATE","id":"\\"testDB\\".\\"dbo\\".\\"t\\"","table":{'
    '"defaultCharsetName":null,"primaryKeyColumnNames":["id"],"columns":['
    '{"name":"id","jdbcType":4,"typeName":"int identity","typeExpression":"int identity","charsetName":null,'
    '"length":10,"scale":0,"position":1,"optional":false,"autoIncremented":false,"generated":false,'
    '"comment":null,"hasDefaultValue":false,"enumValues":[]},'
    '{"name":"note","jdbcType":-9,"typeName":"nvarchar","typeExpression":"nvarchar","charsetName":null,'
    '"length":1073741823,"position":2,"optional":true,"autoIncremented":false,"generated":false,'
    '"comment":null,"hasDefaultValue":true,"defaultValueExpression":"(N\'x\')","enumValues":[]}],'
    '"attributes":[]},"comment":null}]}'
)


def change(table: Table = CUSTOMERS, commit: int = 7, kind: ChangeType = ChangeType.CREATE) -> SchemaChange:
    return SchemaChange(kind, table, ReadPosition(1, lsn(commit), snapshot="false"), 2)


def kept(tmp_path, *changes: SchemaChange) -> History:
    made = History(FileStore(tmp_path / "deep" / "history.dat"), "server1")
    made.record(changes)
    return made


def at(commit: int, *databases: str) -> dict[str, LogPosition]:
    return {name: LogPosition(lsn(commit)) for name in databases or ("testDB",)}


def test_tables_are_what_they_were_at_the_place(tmp_path):
    made = kept(tmp_path, change(), change(WIDER, 9, ChangeType.ALTER), change(WIDER, 11, ChangeType.DROP))

    assert made.recover(at(6)) == {}
    assert made.recover(at(8)) == {CUSTOMERS.id: CUSTOMERS}
    assert made.recover(at(9)) == {CUSTOMERS.id: WIDER}
    assert made.recover(at(11)) == {}


def test_each_database_has_its_own_place_and_each_server_its_own_records(tmp_path):
    made = kept(tmp_path, change(), change(OTHER, 9))

    assert set(made.recover({**at(7), **at(8, "otherDB")})) == {CUSTOMERS.id}
    assert set(made.recover(at(9, "testDB", "otherDB"))) == {CUSTOMERS.id, OTHER.id}
    assert set(made.recover(at(9, "otherDB"))) == {OTHER.id}
    assert replace(made, server="server2").recover(at(9)) == {}


def test_a_record_of_debeziums_is_read_and_written_as_it_is():
    record = orjson.loads(DEBEZIUMS)
    found = recovered(DEBEZIUMS.encode())
    position = ReadPosition(0, "00000025:00000d98:00a2", snapshot="true")

    assert found == Table(
        CollectionId(("testDB", "dbo", "t")),
        (
            Column("id", 1, "int", nullable=False, identity=True),
            Column("note", 2, "nvarchar", -1, default="(N'x')"),
        ),
        ("id",),
    )
    written = history_record(SchemaChange(ChangeType.CREATE, found, position, 1588252618953), "server1")
    assert orjson.loads(written) == record


def recovered(raw: bytes) -> Table:
    (table,) = (
        History(Fixed(raw), "server1").recover({"testDB": LogPosition("ffffffff:ffffffff:ffff")}).values()
    )
    return table


class Fixed:
    """A store that has these records."""

    def __init__(self, *records: bytes) -> None:
        self._records = records

    def append(self, records) -> None:
        self._records += tuple(records)

    def read(self):
        yield from self._records

    def close(self) -> None:
        pass


KINDS = st.sampled_from(sorted(READABLE))


@given(st.lists(st.tuples(st.text(min_size=1), KINDS, st.booleans(), st.none() | st.text()), min_size=1))
def test_any_table_comes_back_as_it_was(drawn):
    columns = tuple(
        column(name, number, kind, null=null, default=default)
        for number, (name, kind, null, default) in enumerate(drawn, 1)
    )
    table = Table(CollectionId(("testDB", 's"x', "t.y")), columns, (columns[0].name,))

    assert recovered(history_record(change(table), "server1")) == table


def column(name: str, place: int, kind: str, *, null: bool, default: str | None) -> Column:
    length = 40 if kind in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"} else 0
    exact = kind in {"decimal", "numeric"}
    scale = 3 if exact or kind in {"time", "datetime2", "datetimeoffset"} else 0
    return Column(name, place, kind, length, 9 if exact else 0, scale, nullable=null, default=default)


def test_what_a_crash_has_cut_is_no_record(tmp_path):
    made = kept(tmp_path, change())
    path = tmp_path / "deep" / "history.dat"
    path.write_bytes(path.read_bytes() + b'{"source":{"ser')

    assert set(made.recover(at(9))) == {CUSTOMERS.id}
    made.record([change(WIDER, 9, ChangeType.ALTER)])
    assert made.recover(at(9)) == {CUSTOMERS.id: WIDER}


def test_no_file_is_no_history_and_a_broken_one_is_an_error(tmp_path):
    empty = History(FileStore(tmp_path / "none"), "server1")
    (tmp_path / "broken").write_bytes(b"not json\n")
    (tmp_path / "array").write_bytes(b"[]\n")

    assert empty.recover(at(9)) == {}
    for name in ("broken", "array"):
        with pytest.raises(StateError, match="record of the schema history"):
            History(FileStore(tmp_path / name), "server1").recover(at(9))
    with pytest.raises(SourceError, match="can't be read"):
        History(FileStore(tmp_path), "server1").recover(at(9))
    with pytest.raises(SourceError, match="can't be written"):
        History(FileStore(tmp_path), "server1").record([change()])


def test_the_settings_say_where_it_is_kept(tmp_path):
    path = tmp_path / "history.dat"

    assert history(HistorySettings(), "server1") is None
    made = history(HistorySettings(HistoryKind.FILE, file=str(path)), "server1")
    assert made == History(FileStore(path), "server1")
