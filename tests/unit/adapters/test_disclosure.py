"""Which messages of others are repeated: by the class of an error, not by its words."""

from __future__ import annotations

import pytest

from adapters.disclosure import (
    java_message,
    mongodb_message,
    postgres_message,
    python_message,
    sqlserver_message,
)

OURS = {"SourceError"}
ROW = "the-value-of-a-row"


@pytest.mark.parametrize(
    "said",
    [
        postgres_message("22P02", f'invalid input syntax for type integer: "{ROW}"'),
        postgres_message("23505", f"Key (id)=({ROW}) already exists"),
        postgres_message("P0001", ROW),
        postgres_message("HV000", ROW),
        sqlserver_message(245, f"Conversion failed when converting the varchar value '{ROW}'"),
        sqlserver_message(2627, f"Violation of PRIMARY KEY. The duplicate key value is ({ROW})"),
        sqlserver_message(50_000, ROW),
        sqlserver_message(9420, ROW),
        mongodb_message(241, "ConversionFailure", f"Failed to parse number '{ROW}' in $convert"),
        mongodb_message(291, "NoQueryExecutionPlans", f'error processing query: a $eq "{ROW}"'),
        mongodb_message(11_000, "DuplicateKey", f"dup key: {ROW}"),
        mongodb_message(40_485, "", ROW),
        python_message("ValueError", f"invalid literal: '{ROW}'", OURS),
        python_message("pyarrow.lib.ArrowInvalid", ROW, OURS),
        java_message("java.lang.NumberFormatException", f'For input string: "{ROW}"'),
        java_message("org.postgresql.util.PSQLException", ROW),
    ],
)
def test_a_message_that_may_hold_a_value_is_not_repeated(said: str):
    assert said
    assert ROW not in said


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (postgres_message("42P01", 'relation "a" does not exist\n'), 'relation "a" does not exist'),
        (postgres_message("55P03", "canceling statement due to lock timeout"), "canceling statement due to"),
        (postgres_message("57014", "canceling statement due to statement timeout"), "statement timeout"),
        (postgres_message("P0001", "the reader is on snapshot 1:2:3"), "the reader is on snapshot 1:2:3"),
        (sqlserver_message(208, "Invalid object name 'a'."), "Invalid object name 'a'."),
        (sqlserver_message(1222, "Lock request time out period exceeded."), "Lock request time out"),
        (mongodb_message(13, "Unauthorized", "not authorized on db"), "not authorized on db"),
        (mongodb_message(10_107, "NotWritablePrimary", "not primary"), "not primary"),
        (python_message("OSError", "[Errno 28] No space left on device", OURS), "No space left on device"),
        (python_message("engine.errors.SourceError", "no such column", OURS), "no such column"),
        (java_message("java.net.ConnectException", "Connection refused"), "Connection refused"),
    ],
)
def test_what_tells_of_the_machine_and_of_names_is_repeated(said: str, expected: str):
    assert expected in said
