"""SINKS.md's types of tables in a lake, line by line, read back by Spark SQL. `make lake`.

Each value is read twice: once by a snapshot, and once from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from adapters.lakehouse.settings import LakeFormat
from tests.driven import SIGNAL_TABLE, driven, properties
from tests.integration.check_lake_job import Tables, drained, lake_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


class Kind(NamedTuple):
    """A type of the source, Spark's for it, and values: as the source takes them, and as Spark shows them.

    A value that stands in `<column>__text` is a pair: null, and its text there.
    """

    source: str
    spark: str
    values: dict[str, Any]
    iceberg: str = ""


KINDS = (
    Kind("boolean", "boolean", {"true": "true", "false": "false"}),
    Kind("smallint", "smallint", {"-32768": "-32768"}, "int"),
    Kind("int", "int", {"-2147483648": "-2147483648"}),
    Kind("bigint", "bigint", {"-9223372036854775808": "-9223372036854775808"}),
    Kind("real", "float", {"1.5": "1.5", "NaN": "NaN", "-Infinity": "-Infinity"}),
    Kind("double precision", "double", {"0.1": "0.1", "NaN": "NaN", "Infinity": "Infinity"}),
    Kind("numeric(12, 2)", "decimal(12,2)", {"-1.5": "-1.50", "NaN": (None, "NaN")}),
    Kind("numeric(38, 10)", "decimal(38,10)", {f"{10**27}.5": f"{10**27}.5000000000"}),
    Kind("numeric", "string", {f"{10**45}.25": f"{10**45}.25", "NaN": "NaN", "-Infinity": "-Infinity"}),
    Kind("numeric(50, 2)", "string", {f"{10**45}.25": f"{10**45}.25", "NaN": "NaN"}),
    Kind("text", "string", {"é\t\\'": "é\t\\'", "": ""}),
    Kind("varchar(9)", "string", {"a ": "a "}),
    Kind("char(3)", "string", {"a": "a  "}),
    Kind("mood", "string", {"sad": "sad"}),
    Kind("int4range", "string", {"[1,5)": "[1,5)", "empty": "empty"}),
    Kind("uuid", "string", {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    Kind("json", "string", {'{"a":  1}': '{"a":  1}'}),
    Kind("jsonb", "string", {'{"a":  1e400}': f'{{"a": 1{"0" * 400}}}'}),
    Kind("bytea", "binary", {"\\x00ff": "00FF", "\\x": ""}),
    Kind(
        "date",
        "date",
        {
            "0001-01-01": "0001-01-01",
            "9999-12-31": "9999-12-31",
            "10000-01-01": (None, "10000-01-01"),
            "0044-03-15 BC": (None, "-0043-03-15"),
            "-infinity": (None, "-infinity"),
        },
    ),
    Kind(
        "timestamp",
        "timestamp_ntz",
        {
            "2024-02-29 12:34:56.123456": "2024-02-29 12:34:56.123456",
            "10000-01-01": (None, "10000-01-01T00:00:00.000000"),
            "infinity": (None, "infinity"),
        },
    ),
    Kind(
        "timestamptz",
        "string",
        {"2024-02-29 12:34:56.123456+05:30": "2024-02-29T07:04:56.123456Z", "infinity": "infinity"},
    ),
    Kind("timetz", "string", {"12:34:56.5+02": "10:34:56.5Z"}),
    Kind("time", "bigint", {"24:00": "86400000000", "12:34:56.000001": "45296000001"}),
    Kind("interval", "bigint", {"1 day 1 microsecond": "86400000001"}),
    Kind("int[]", "array<int>", {"{1,NULL}": "[1, null]", "{}": "[]"}),
    Kind("text[]", "array<string>", {'{"a,b",NULL}': "[a,b, null]"}),
    Kind(
        "date[]",
        "array<date>",
        {"{2024-02-29}": "[2024-02-29]", "{2024-02-29,infinity}": (None, '["2024-02-29","infinity"]')},
    ),
    Kind("hstore", "map<string,string>", {"a=>1": "{a -> 1}"}),
)


@pytest.mark.parametrize("format_", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_each_type_is_the_one_that_the_table_names_and_keeps_its_values(
    database: Database, tmp_path: Path, lake_spark: SparkSession, format_: LakeFormat
):
    settings = lake_settings(format_, tmp_path, hstore__handling__mode="map")
    tables = Tables(lake_spark, properties(database, tmp_path, **settings))
    longest = max(len(kind.values) for kind in KINDS)
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TYPE mood AS ENUM ('sad')")
        connection.execute("CREATE EXTENSION hstore")
        defined = ", ".join(f"c{number} {kind.source}" for number, kind in enumerate(KINDS))
        connection.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {defined})".encode())
        given = [[*kind.values, *[None] * (longest - len(kind.values))] for kind in KINDS]
        insert = f"INSERT INTO kinds VALUES ({', '.join(['%s'] * (len(KINDS) + 1))})".encode()
        connection.cursor().executemany(insert, [[n, *(row[n] for row in given)] for n in range(longest)])
        with driven(database, tmp_path, lake_spark, **settings) as job:
            job.until(lambda: not job.job.state.snapshot.tables, 300)
            more = [[longest + n, *(row[n] for row in given)] for n in range(longest)]
            connection.cursor().executemany(insert, more)
            job.until_drained(database)
            drained(job, tmp_path)
    frame = tables.read("tm_public_kinds")
    types = dict(frame.dtypes)
    del types["id"]
    texts = frame.selectExpr("id", *(_text(name, kind) for name, kind in types.items()))
    shown = {row["id"]: row for row in texts.collect()}

    for number, kind in enumerate(KINDS):
        name = f"c{number}"
        wanted = kind.iceberg if kind.iceberg and format_ is LakeFormat.ICEBERG else kind.spark
        assert types[name] == wanted, kind.source
        for place, value in enumerate(kind.values.values()):
            for row in (shown[place], shown[longest + place]):
                found = row[name] if isinstance(value, str) else (row[name], row[f"{name}__text"])
                assert found == value, kind.source
    assert len(shown) == 2 * longest


def _text(name: str, kind: str) -> str:
    return f"hex({name}) AS {name}" if kind == "binary" else f"CAST({name} AS STRING) AS {name}"
