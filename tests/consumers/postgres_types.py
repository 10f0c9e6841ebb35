"""A column of every type of PostgreSQL that events carry, and how the server shows what a consumer reads.

The server's text is that of `Consumer.java`: floats by their bits, bytes in hexadecimal digits, decimals by
their digits, times as the numbers that Debezium makes of them. A SELECT makes it of the value, with nothing
of ours. Left out are -0, NaN and the infinities: Kafka's converter writes them, and reads them as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

SETUP = (
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    "CREATE EXTENSION ltree",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s \"fine\", really')",
    "CREATE DOMAIN price AS numeric(8, 3)",
    """CREATE FUNCTION octets(value varbit) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN value IS NOT NULL THEN regexp_replace(coalesce(string_agg(lpad(to_hex(
            substring(lpad(value::text, 8 * n, '0') FROM 1 + 8 * (n - i) FOR 8)::bit(8)::int), 2, '0'),
            '' ORDER BY i), ''), '(00)+$', '') END
        FROM (SELECT (length(value) + 7) / 8) AS bytes (n), generate_series(1, n) AS i $$""",
    """CREATE FUNCTION little_endian(value float8) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT string_agg(lpad(to_hex(get_byte(float8send(value), i)), 2, '0'), '' ORDER BY i DESC)
        FROM generate_series(0, 7) AS i $$""",
)
_MICROS = "(extract(epoch FROM {0}) * 1000000)::bigint::text"
_MILLIS = "(extract(epoch FROM {0}) * 1000)::bigint::text"
_OUTPUT = "CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END"
_INTERVAL = (
    "((extract(year FROM {0}) * 12 + extract(month FROM {0})) * 2629800000000"
    " + extract(day FROM {0}) * 86400000000"
    " + (extract(hour FROM {0}) * 3600 + extract(minute FROM {0}) * 60) * 1000000"
    " + extract(microseconds FROM {0}))::bigint::text"
)
_POINT = (
    "CASE WHEN {0} IS NOT NULL THEN jsonb_build_object('x', encode(float8send({0}[0]), 'hex'),"
    " 'y', encode(float8send({0}[1]), 'hex'), 'srid', NULL,"
    " 'wkb', '0101000000' || little_endian({0}[0]) || little_endian({0}[1])) END"
)
_ITEMS = (
    "CASE WHEN {0} IS NOT NULL THEN coalesce((SELECT jsonb_agg({item} ORDER BY place)"
    " FROM unnest({0}) WITH ORDINALITY AS items (item, place)), '[]') END"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type, some values as SQL, and the expression of what a consumer reads.

    `parsed`: the text is JSON, whose order is not the server's. `key` is false where the type has no order.
    What a JDBC sink makes of the column is compared by the `sink` expression on both sides; None: it can't
    take it, or loses some of it. `agrees` is false where Debezium 2.1.4 loses values or has another schema.
    """

    name: str
    type: str
    values: tuple[str, ...]
    shown: str = "{0}::text"
    parsed: bool = False
    key: bool = True
    sink: str | None = "{0}::text"
    agrees: bool = True


def _array(
    name: str, kind: str, values: str, item: str, *, sink: str | None = "{0}::text", agrees: bool = True
) -> Column:
    return Column(
        name,
        kind,
        (values, "'{}'"),
        _ITEMS.replace("{item}", item.replace("{0}", "item")),
        sink=sink,
        agrees=agrees,
    )


_FLOAT4, _FLOAT8 = "encode(float4send({0}), 'hex')", "encode(float8send({0}), 'hex')"
_STAMP = "to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
_FLOATS4 = tuple(
    f"'{text}'" for text in ("1e6", "9999999", "-1234567", "1e7", "3e10", "1.1754944e-38", "1e-45", "0.1")
)
_FLOATS8 = tuple(
    f"'{text}'"
    for text in ("1e6", "1e23", "2e-3", "5e-324", "1.7976931348623157e308", "6.602055686667299e17")
)
COLUMNS = (
    Column("c_int2", "int2", ("-32768", "0")),
    Column("c_int4", "int4", ("2147483647", "-1")),
    Column("c_int8", "int8", ("-9223372036854775808", "9223372036854775807")),
    Column("c_oid", "oid", ("4294967295",)),
    Column("c_float4", "float4", _FLOATS4, _FLOAT4, sink=_FLOAT4),
    Column("c_float8", "float8", _FLOATS8, _FLOAT8, sink=_FLOAT8),
    Column("c_numeric", "numeric(12, 2)", ("-1234567890.12", "0.05")),
    Column(
        "c_any_numeric",
        "numeric",
        ("1.10", "1000000.000", "-0.000000123"),
        "trim_scale({0})::text",
        sink="{0}::float8::text",
    ),
    Column("c_price", "price", ("12.5",)),
    Column(
        "c_money", "money", ("'-12345.67'",), "{0}::numeric::numeric(20, 2)::text", sink="{0}::numeric::text"
    ),
    Column("c_bool", "bool", ("true", "false")),
    Column("c_char", "char(5)", ("'ab'", "'é'"), "rpad({0}::text, 5)", sink="rpad({0}::text, 5)"),
    Column("c_varchar", "varchar(20)", ("'it''s \"x\"\\'", "''")),
    Column("c_text", "text", ("E'a\\x1f\\x01\\t\\nb'", "'é€😀\U0010ffff'", "''", "'\u2028'")),
    Column("c_name", "name", ("'a_name'",)),
    Column("c_citext", "citext", ("'CamelCase'",)),
    Column("c_bytea", "bytea", ("'\\xdeadbeef00'", "''"), "encode({0}, 'hex')", sink="encode({0}, 'hex')"),
    Column(
        "c_date", "date", ("'2024-02-29'", "'0001-01-01'", "'9999-12-31'"), "({0} - date '1970-01-01')::text"
    ),
    Column("c_time", "time", ("'23:59:59.999999'", "'00:00:00'"), _MICROS),
    Column("c_time3", "time(3)", ("'12:34:56.789'",), _MILLIS),
    Column(
        "c_timetz",
        "timetz",
        ("'12:34:56.789012+02'", "'00:00:01-05'"),
        "replace(({0} AT TIME ZONE 'UTC')::text, '+00', 'Z')",
        sink="({0} AT TIME ZONE 'UTC')::text",
    ),
    Column("c_timestamp", "timestamp", ("'2023-03-15 12:34:56.789012'", "'1969-12-31 23:59:59'"), _MICROS),
    Column("c_timestamp3", "timestamp(3)", ("'2023-03-15 12:34:56.789'",), _MILLIS),
    Column("c_timestamptz", "timestamptz", ("'2023-03-15 12:34:56.789012+02'",), _STAMP),
    Column(
        "c_interval",
        "interval",
        ("'1 year 2 months 3 days 04:05:06.789012'", "'-00:00:01'"),
        _INTERVAL,
        sink=None,
    ),
    Column("c_uuid", "uuid", ("'123e4567-e89b-12d3-a456-426614174000'",)),
    Column("c_json", "json", ('\'{"b": 1,  "a":[1,2.50,null]}\'',), key=False, sink="{0}::jsonb::text"),
    Column("c_jsonb", "jsonb", ('\'{"b": 1,  "a":"😀"}\'',)),
    Column("c_xml", "xml", ("'<a b=\"c\">d</a>'",), key=False),
    Column("c_inet", "inet", ("'192.168.1.5'", "'2001:db8::/32'"), _OUTPUT, sink=_OUTPUT),
    Column("c_cidr", "cidr", ("'192.168.1.0/24'",), _OUTPUT, sink=_OUTPUT),
    Column("c_macaddr", "macaddr", ("'08:00:2b:01:02:03'",)),
    Column("c_bit1", "bit(1)", ("B'1'", "B'0'"), "({0} = B'1')::text", sink="{0}::text::bool::text"),
    Column(
        "c_bits", "bit(20)", ("B'10000000000000000001'", "B'00000000000000000000'"), "octets({0})", sink=None
    ),
    Column("c_varbit", "varbit(10)", ("B'101'", "B''"), "octets({0})", sink=None),
    Column("c_int4range", "int4range", ("'[1,10]'", "'empty'")),
    Column("c_numrange", "numrange", ("'[1.5,2.50]'",)),
    Column("c_tsrange", "tsrange", ("'[2023-01-01,2023-02-01 12:30:00.5)'",)),
    Column("c_tstzrange", "tstzrange", ("'[2023-01-01 00:00:00+02,2023-02-01 12:30:00.5+02)'",)),
    Column("c_daterange", "daterange", ("'[2023-01-01,2023-02-01]'",)),
    Column("c_enum", "mood", ("'ok'", "'it''s \"fine\", really'")),
    Column("c_point", "point", ("'(1.5,-2)'", "'(1e23,1e-7)'"), _POINT, key=False, sink=None),
    Column("c_ltree", "ltree", ("'a.b.c'",)),
    Column(
        "c_hstore",
        "hstore",
        ("'a=>1, \"😀\"=>NULL'",),
        "hstore_to_json({0})::text",
        parsed=True,
        key=False,
        sink=None,
    ),
    _array("a_int4", "int4[]", "'{1,NULL,-3}'", "{0}::text"),
    _array("a_int8", "int8[]", "'{9223372036854775807}'", "{0}::text"),
    _array("a_float4", "float4[]", "'{1e6,9999999,NULL,1e-7}'", _FLOAT4),
    _array("a_float8", "float8[]", "'{1e23,0.1,-5e-324}'", _FLOAT8),
    _array("a_numeric", "numeric(10, 2)[]", "'{1.50,-0.01}'", "{0}::text", sink=None),
    _array("a_bool", "bool[]", "'{t,f,NULL}'", "{0}::text"),
    _array("a_text", "text[]", "ARRAY['a', NULL, 'x,\"y\"\\', '😀', '']", "{0}::text"),
    _array("a_date", "date[]", "'{2024-02-29}'", "({0} - date '1970-01-01')::text", sink=None),
    _array("a_time", "time[]", "'{12:34:56.789012}'", _MICROS, sink=None, agrees=False),
    _array("a_timestamp", "timestamp[]", "'{2023-03-15 12:34:56.789012}'", _MICROS, sink=None),
    _array("a_timestamptz", "timestamptz[]", "'{2023-03-15 12:34:56.789012+02}'", _STAMP, sink=None),
    _array("a_uuid", "uuid[]", "'{123e4567-e89b-12d3-a456-426614174000}'", "{0}::text"),
    _array("a_jsonb", "jsonb[]", "ARRAY['{\"a\": 1}'::jsonb]", "{0}::text"),
    _array("a_inet", "inet[]", "'{192.168.1.5}'", _OUTPUT),
    _array("a_enum", "mood[]", "'{ok,NULL,sad}'", "{0}::text", agrees=False),
    _array("a_int4range", "int4range[]", "'{\"[1,2]\"}'", "{0}::text"),
)
ROWS = max(len(column.values) for column in COLUMNS)


def create(table: str, columns: tuple[Column, ...] = COLUMNS) -> str:
    """The table with an integer key and these columns."""
    described = ", ".join(f"{column.name} {column.type}" for column in columns)
    return f"CREATE TABLE {table} (id int PRIMARY KEY, {described})"


def insert(table: str, key: int, row: int, columns: tuple[Column, ...] = COLUMNS) -> str:
    """A row of the values at this place; NULL where a column has no more, and behind the last."""
    values = [column.values[row] if row < len(column.values) else "NULL" for column in columns]
    return f"INSERT INTO {table} VALUES ({key}, {', '.join(values)})"


def select(table: str, columns: tuple[Column, ...] = COLUMNS) -> str:
    """What a consumer must read, by key."""
    shown = ", ".join(column.shown.format(column.name) for column in columns)
    return f"SELECT id::text, {shown} FROM {table} ORDER BY id"
