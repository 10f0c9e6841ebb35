from __future__ import annotations

from typing import Any

import pytest

from adapters.jdbc.placeholders import Placeholders, placeholders_of
from adapters.jdbc.settings import JdbcSettings
from engine.config import parse
from engine.config.sinks.settings import SchemaEvolution
from engine.errors import ConfigError
from tests.unit.engine.config.least import POSTGRES

URL = "tidemark.sink.jdbc.connection.url"
FORMAT = "tidemark.sink.jdbc.collection.name.format"
GIVEN = {
    **{name: value for name, value in POSTGRES.items() if name != "tidemark.sink.files.dir"},
    "tidemark.sink": "jdbc",
    URL: "jdbc:postgresql://target:5433/reports",
}


def parameters(url: str, **more: str) -> dict[str, Any]:
    given = {
        **GIVEN,
        URL: url,
        **{f"tidemark.sink.jdbc.connection.{name}": text for name, text in more.items()},
    }
    return dict(parse(given).sink_as(JdbcSettings).database.parameters)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://h/d", {"host": "h", "port": "5432", "dbname": "d"}),
        (
            "postgresql://u:p%40@h:1/my%20db",
            {"host": "h", "port": "1", "dbname": "my db", "user": "u", "password": "p@"},
        ),
        (
            "jdbc:postgresql://[::1]:1/d?user=u&password=p&ssl=true&currentSchema=my copy",
            {
                "host": "::1",
                "port": "1",
                "dbname": "d",
                "user": "u",
                "password": "p",
                "sslmode": "verify-full",
                "options": "-c search_path=my\\ copy",
            },
        ),
        (
            "jdbc:postgresql://h/d?sslmode=require&loginTimeout=3",
            {"host": "h", "port": "5432", "dbname": "d", "sslmode": "require", "connect_timeout": "3"},
        ),
    ],
)
def test_an_address_is_read_as_pgjdbc_reads_it(url: str, expected: dict[str, str]):
    assert parameters(url) == expected


def test_a_login_of_its_own_wins():
    found = parameters("jdbc:postgresql://u:p@h/d", username="other", password="secret")

    assert (found["user"], found["password"]) == ("other", "secret")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({URL: ""}, f"missing '{URL}'"),
        ({URL: "jdbc:mysql://h/d"}, "it must be jdbc:postgresql://"),
        ({URL: "jdbc:postgresql://h"}, "it must be jdbc:postgresql://"),
        ({URL: "jdbc:postgresql://a,b/d"}, "of one host"),
        ({URL: "jdbc:postgresql://h/d?prepareThreshold=0"}, "unknown parameter 'prepareThreshold'"),
        ({FORMAT: "a.b.c"}, "it must be a name, or schema.name"),
        ({FORMAT: "${source.id}"}, "it must be a name, or schema.name"),
        ({"tidemark.sink.jdbc.schema.evolution": "full"}, "one of basic, none"),
        ({"tidemark.checkpoint": ""}, "missing 'tidemark.checkpoint'"),
    ],
)
def test_what_the_sink_can_t_use_is_a_problem(more: dict[str, str], problem: str):
    with pytest.raises(ConfigError) as caught:
        parse({**GIVEN, **more})

    assert problem in str(caught.value)


def test_a_job_does_not_write_into_the_tables_that_it_reads():
    host, database = POSTGRES["database.hostname"], POSTGRES["database.dbname"]
    itself = {**GIVEN, URL: f"jdbc:postgresql://{host}/{database}"}
    found = parse({**itself, FORMAT: "copies.${topic}"}).sink_as(JdbcSettings)
    assert found.database.table_format == "copies.${topic}"

    with pytest.raises(ConfigError, match="the source's own database"):
        parse({**itself, FORMAT: "${source.schema}.${source.table}"})


def test_defaults():
    settings = parse(GIVEN).sink_as(JdbcSettings)

    assert (settings.database.table_format, settings.evolution) == ("${topic}", SchemaEvolution.BASIC)
    assert settings.database.address == "target:5433/reports"


def test_what_stands_for_missing_values_is_known_from_the_events():
    events = parse({**GIVEN, "unavailable.value.placeholder": "gone"}).events

    assert placeholders_of(events) == Placeholders("gone", b"gone")


def test_operations_that_are_skipped_are_warned_about():
    assert any("leaves out t" in warning for warning in parse(GIVEN).warnings)
    assert not any(
        "leaves out" in warning for warning in parse({**GIVEN, "skipped.operations": "none"}).warnings
    )


def test_another_sink_s_job_is_told_that_these_settings_have_no_effect():
    found = parse({**POSTGRES, URL: "jdbc:postgresql://h/d"})

    assert f"{URL} (tidemark.sink is not jdbc)" in found.warnings[0]
    assert not isinstance(found.sink.own, JdbcSettings)


def test_no_secret_is_shown():
    settings = parse({**GIVEN, URL: "jdbc:postgresql://u:pa55@h/d?sslpassword=pa55"})

    assert "pa55" not in repr(settings)
    with pytest.raises(ConfigError) as caught:
        parse({**GIVEN, URL: "jdbc:mysql://u:pa55@h/d?password=pa55"})
    assert "pa55" not in str(caught.value)
