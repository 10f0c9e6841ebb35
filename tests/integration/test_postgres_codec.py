"""A row read by a query and the same row decoded from the log are the same bytes, for every type."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.decode import decode
from adapters.postgres.events.rows import row_expression, row_shape
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.pgoutput import parse_relation
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.server.questions.catalog import Catalog
from adapters.postgres.server.sql import quote_ident, quote_table
from adapters.postgres.server.table import relation_of
from adapters.postgres.server.text_settings import TEXT_SETTINGS, startup_options
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    EventSettings,
    HstoreMode,
    IntervalMode,
    TimeMode,
)
from engine.events.values.row_form import RowMode
from engine.events.values.row_texts import SeparatorInData, split_rows
from engine.model import CollectionId
from tests.golden.case import OWN_CASES

if TYPE_CHECKING:
    import psycopg

    from adapters.postgres.server.table import PgType, Table
    from tests.servers.postgres import Database

MODES = (RowMode.FAST, RowMode.EXACT)
"""The forms that PostgreSQL writes rows in."""
pytestmark = pytest.mark.integration

CASES = [
    "g1_types_stream_default",
    "g3_arrays_stream_default",
    "g6_exotic_stream_unknown_true",
    "g9_float_special_stream",
    "g11_numeric_values_precise_stream",
    "g12_time_infinity_adaptive_stream",
    "g12_time_odd_adaptive_stream",
    "g14_intervals",
    "g15_key_types",
    "k1_sanitize_default",
    "l1_toast_default",
]
SETTINGS = [
    EventSettings("p", "d", include_unknown_types=True),
    EventSettings(
        "p",
        "d",
        key_schemas=False,
        value_schemas=False,
        decimals=DecimalMode.STRING,
        binary=BinaryMode.HEX,
        times=TimeMode.CONNECT,
        intervals=IntervalMode.STRING,
        hstore=HstoreMode.MAP,
    ),
    EventSettings(
        "p",
        "d",
        decimals=DecimalMode.DOUBLE,
        binary=BinaryMode.BASE64_URL_SAFE,
        times=TimeMode.ADAPTIVE_TIME_MICROSECONDS,
    ),
]
_PEEK = (
    "SELECT lsn - '0/0', data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
    "'proto_version', '1', 'publication_names', 'p', 'messages', 'true')"
)


def session(database: Database) -> psycopg.Connection[tuple[Any, ...]]:
    return database.connect(options=startup_options())


def prepare(database: Database) -> None:
    database.execute(
        "CREATE PUBLICATION p FOR ALL TABLES", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')"
    )


@dataclass(frozen=True)
class Recorded:
    """A database's log, read once, and its types."""

    database: Database
    messages: list[bytes]
    types: dict[int, PgType]

    def rows(self, table: Table, settings: EventSettings, mode: RowMode) -> dict[str, str]:
        """The `after` text of every row read by a query, by the event's key."""
        relation = relation_of(table)
        codec = codec_for(relation, table, settings, self.types)
        shape = row_shape(relation, table, self.types)
        with session(self.database) as connection:
            query = f"SELECT {row_expression(shape, mode)} FROM {quote_table(table.schema, table.name)}"
            texts = pa.array([row[0] for row in connection.execute(query)], pa.string())
        columns = split_rows(texts, shape, mode)
        keys, rows = codec.reads(columns)
        assert keys is not None
        return dict(zip(keys.to_pylist(), rows.to_pylist(), strict=True))

    def inserts(self, table: Table, settings: EventSettings) -> dict[str, str]:
        """The `after` text of every insert in the log, by the event's key."""
        relations = [parse_relation(message[25:]) for message in self.messages if message[25:26] == b"R"]
        relation = next((relation for relation in relations if relation.oid == table.oid), None)
        if relation is None:  # a server without XML refuses some rows
            return {}
        codec = codec_for(relation, table, settings, self.types)
        part = SpanPart(pa.array(self.messages, pa.large_binary()), TransactionContext())
        decoded = decode(part, {table.oid: codec}, settings, Watch(frozenset({table.oid})), Moment(2))
        texts = [after(value) for value in decoded.events["value"].to_pylist()]
        return dict(zip(decoded.events["key"].to_pylist(), texts, strict=True))


def recorded(database: Database) -> Recorded:
    with session(database) as connection:
        rows = connection.execute(_PEEK).fetchall()
        types = Catalog(connection).types()
    messages = [b"w" + int(lsn).to_bytes(8, "big") * 2 + bytes(8) + bytes(data) for lsn, data in rows]
    return Recorded(database, messages, types)


def table_t(database: Database) -> Table:
    with database.connect() as connection:
        (table,) = Catalog(connection).describe([CollectionId(("public", "t"))]).values()
    return table


def after(value: str) -> str:
    found = re.search(r'"before":null,"after":(.*),"source":\{"version"', value, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", CASES)
def test_both_roads_give_the_same_bytes(each_database, name):
    database = each_database
    server = database.server
    folder = OWN_CASES / "postgres" / name
    server.psql(database.name, "--quiet", input_text=(folder / "setup.sql").read_text("utf-8"))
    prepare(database)
    change = (folder / "change.sql").read_text("utf-8")
    inserts = re.sub(r"^(UPDATE|DELETE)[^\n]*$", "", change, flags=re.MULTILINE)
    server.psql(database.name, "--quiet", input_text=inserts)
    with database.connect() as connection:
        catalog = Catalog(connection)
        tables = [table for table in catalog.describe(catalog.tables()).values() if table.primary_key]

    log = recorded(database)
    compared = 0
    for table in tables:
        for settings in SETTINGS:
            streamed = log.inserts(table, settings)
            compared += len(streamed)
            for mode in MODES:
                assert streamed == log.rows(table, settings, mode)
    assert compared >= len(SETTINGS)


def test_null_empty_and_separators_are_told_apart(database):
    with database.connect() as connection:
        connection.execute(
            "CREATE DOMAIN word AS text; CREATE TABLE t (id int PRIMARY KEY, a text, b varchar(9), c word, "
            "d char(3), e int, f bytea, g text NOT NULL, h text[], i bit varying(4))",
        )
        connection.execute("INSERT INTO t VALUES (1, NULL, '', NULL, NULL, NULL, NULL, '', NULL, B'')")
        connection.execute("INSERT INTO t VALUES (2, '', NULL, '', '', 0, '', 'x', '{}', NULL)")
        connection.execute("INSERT INTO t VALUES (3, '', 'b', '', 'é', 0, '', '', '{}', B'')")
        connection.execute("INSERT INTO t VALUES (4, E'\\x1f', NULL, E't\\x1f', 'é', 0, '', 'f', '{}', B'1')")
        connection.execute("INSERT INTO t VALUES (5, 'a', 'b', 'c', E'\\x1f', 0, '', '', '{}', B'')")
    table = table_t(database)

    expected = [
        ["1", None, "", None, None, None, None, "", None, ""],
        ["2", "", None, "", "   ", "0", "\\x", "x", "{}", None],
        ["3", "", "b", "", "é  ", "0", "\\x", "", "{}", ""],
        ["4", "\x1f", None, "t\x1f", "é  ", "0", "\\x", "f", "{}", "1"],
        ["5", "a", "b", "c", "\x1f  ", "0", "\\x", "", "{}", ""],
    ]
    assert split(database, table, RowMode.EXACT) == expected
    assert split(database, table, RowMode.FAST, "id < 4") == expected[:3]
    for holder in (4, 5):
        with pytest.raises(SeparatorInData):
            split(database, table, RowMode.FAST, f"id = {holder}")


def test_null_is_null_where_the_catalog_says_not_null(each_database):
    database = each_database
    with database.connect() as connection:
        connection.execute(
            "CREATE DOMAIN must AS int NOT NULL; CREATE TABLE t (id int PRIMARY KEY, a int, d must, v text);"
            "CREATE UNIQUE INDEX ON t (a); CREATE UNIQUE INDEX ON t (d)"
        )
        prepare(database)
        connection.execute(
            "INSERT INTO t SELECT g, b, d, NULL FROM generate_series(1, 3) g"
            " LEFT JOIN (SELECT 1 AS b, 5::must AS d) joined ON b = g"
        )
        if database.server.version >= 18:
            connection.execute("ALTER TABLE t ADD CONSTRAINT later NOT NULL a NOT VALID")
        table = table_t(database)
        columns = [(column.nullable, column.optional) for column in table.columns]

        assert columns == [(False, False), (True, True), (True, False), (True, True)]
        assert (table.unique_key, table.other_keys) == ((), ())
        rows = [["1", "1", "5", None], ["2", None, None, None], ["3", None, None, None]]
        assert [split(database, table, mode) for mode in MODES] == [rows, rows]
        log = recorded(database)
        streamed = log.inserts(table, SETTINGS[1])
        assert [log.rows(table, SETTINGS[1], mode) for mode in MODES] == [streamed, streamed]
        assert streamed['{"id":2}'] == '{"id":2,"a":null,"d":0,"v":null}'
        if database.server.version >= 18:
            connection.execute("DELETE FROM t WHERE a IS NULL; ALTER TABLE t VALIDATE CONSTRAINT later")

            assert table_t(database).unique_key == ("a",)


def test_bits_without_a_length_may_be_empty(database):
    with database.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, B'' AS a UNION ALL SELECT 2, NULL")
    table = table_t(database)

    assert [split(database, table, mode) for mode in MODES] == [[["1", ""], ["2", None]]] * 2


def test_a_type_with_elements_that_is_no_array_is_an_unknown_type(database):
    with database.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int2vector, b oidvector, c int2vector[])")
        prepare(database)
        connection.execute(
            "INSERT INTO t VALUES (1, '1 2 3', '7', '{1 2}'), (2, '', '', '{}'), (3, '5', NULL, NULL)"
        )
    table, log = table_t(database), recorded(database)
    streamed = log.inserts(table, SETTINGS[0])

    assert [log.rows(table, SETTINGS[0], mode) for mode in MODES] == [streamed, streamed]
    rows = [{name: shown(value) for name, value in orjson.loads(row).items()} for row in streamed.values()]
    assert rows == [
        {"id": 1, "a": "1 2 3", "b": "7", "c": ["1 2"]},
        {"id": 2, "a": "", "b": "", "c": []},
        {"id": 3, "a": "5", "b": None, "c": None},
    ]


def shown(value: Any) -> Any:
    """A value of an unknown type as text, instead of its bytes."""
    if isinstance(value, list):
        return [shown(item) for item in value]
    return b64decode(value).decode() if isinstance(value, str) else value


def split(database: Database, table: Table, mode: RowMode, where: str = "true") -> list[list[str | None]]:
    with session(database) as connection:
        shape = row_shape(relation_of(table), table, Catalog(connection).types())
        query = f"SELECT {row_expression(shape, mode)} FROM t WHERE {where} ORDER BY id"
        texts = pa.array([row[0] for row in connection.execute(query)])
    columns = [column.to_pylist() for column in split_rows(texts, shape, mode)]
    return [list(row) for row in zip(*columns, strict=True)]


def test_a_row_of_1000_columns_is_read(database):
    names = [f"c {number}" for number in range(1000)]
    with database.connect() as connection:
        columns = ", ".join(f"{quote_ident(name)} int" for name in names)
        connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        connection.execute(f"INSERT INTO t (id, {quote_ident(names[7])}) VALUES (1, 7)")
    table = table_t(database)

    for mode in MODES:
        assert split(database, table, mode) == [["1", *("7" if at == 7 else None for at in range(1000))]]


def test_the_catalog_says_what_a_table_is(database):
    with database.connect() as connection:
        connection.execute(
            "CREATE TYPE mood AS ENUM ('b', 'a'); CREATE DOMAIN small AS numeric(4,1) NOT NULL;"
            "CREATE TABLE p (k2 int, k1 text, v mood[], d small, x int DEFAULT 5, "
            "g int GENERATED ALWAYS AS (k2 * 2) STORED, i int GENERATED ALWAYS AS IDENTITY, gone int, "
            "PRIMARY KEY (k1, k2)) PARTITION BY LIST (k1);"
            "CREATE TABLE p1 PARTITION OF p DEFAULT;"
            "ALTER TABLE p DROP COLUMN gone;"
            "CREATE TABLE u (a int NOT NULL, b int NOT NULL, c int UNIQUE);"
            "CREATE UNIQUE INDEX ab ON u (b, a) INCLUDE (c); ALTER TABLE u REPLICA IDENTITY USING INDEX ab;"
            "CREATE TABLE heap (a int); ALTER TABLE heap REPLICA IDENTITY FULL;"
            "CREATE UNLOGGED TABLE fleeting (a int); CREATE VIEW seen AS SELECT 1",
        )
    with database.connect() as connection:
        catalog = Catalog(connection)
        listed = [str(table) for table in catalog.tables()]
        tables = {table.name: table for table in catalog.describe(catalog.tables()).values()}
        types = catalog.types()

    assert listed == ["public.heap", "public.p", "public.p1", "public.u"]
    p, u = tables["p"], tables["u"]
    assert (p.kind, p.primary_key, p.identity, p.identity_key) == ("p", ("k1", "k2"), "d", ("k1", "k2"))
    assert (p.children, tables["p1"].parents, tables["p1"].partition) == ((tables["p1"].oid,), (p.oid,), True)
    assert [(column.name, column.nullable) for column in p.columns] == [
        ("k2", False),
        ("k1", False),
        ("v", True),
        ("d", True),
        ("x", True),
        ("g", True),
        ("i", False),
    ]
    assert [column.default for column in p.columns] == [None, None, None, None, "5", None, None]
    assert (p.columns[5].generated, p.columns[6].identity) == ("s", "a")
    assert types[types[p.columns[2].type].element].labels == ("b", "a")
    assert (u.unique_key, u.primary_key, u.identity, u.identity_key) == (("b", "a"), (), "i", ("b", "a"))
    assert tables["heap"].identity == "f"
    assert [column.name for column in relation_of(p).columns] == ["k2", "k1", "v", "d", "x", "i"]


def test_the_session_settings_are_taken_by_the_server(database):
    with session(database) as connection:
        shown = {name: connection.execute(f"SHOW {name}").fetchall()[0][0] for name in TEXT_SETTINGS}

    assert shown == TEXT_SETTINGS


def test_defaults_are_printed_the_same_whatever_the_database_prefers(database):
    with database.connect() as connection:
        connection.execute(
            f"ALTER DATABASE {quote_ident(database.name)} SET IntervalStyle = 'iso_8601';"
            f"ALTER DATABASE {quote_ident(database.name)} SET TimeZone = 'America/New_York';"
            f"ALTER DATABASE {quote_ident(database.name)} SET DateStyle = 'German, DMY'",
        )
        connection.execute(
            "CREATE TABLE t (i interval DEFAULT '1 day', z timestamptz DEFAULT '2020-01-02 03:04:05+00', "
            "d date DEFAULT '2020-02-01')",
        )
    table = table_t(database)
    codec = codec_for(relation_of(table), table, EventSettings("p", "d"), {})

    assert [field.schema.default for field in codec.fields] == [
        "86400000000",
        '"2020-01-02T03:04:05.000000Z"',
        "18293",
    ]
