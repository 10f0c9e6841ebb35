"""A driver's exceptions are raised as ours: the first meaning of the server's codes counts."""

from __future__ import annotations

import pickle

import psycopg
import pytest

from adapters.postgres.server.failures import table_errors
from adapters.source.driver_errors import DriverErrors, ErrorMeaning, Fault, ServerRefused
from engine.config.text.refusals import refusal_count
from engine.errors import (
    ConfigError,
    LoginRefused,
    PositionLost,
    SchemaChanged,
    SourceError,
    TableBusy,
    TidemarkError,
)
from engine.model import CollectionId

T = CollectionId(("public", "t"))


class DriverError(Exception):
    """An exception with the server's code, None without an answer."""


def fault(error: DriverError) -> Fault:
    (code,) = error.args
    return Fault("the server says so", () if code is None else (code,), "Name", hint="ask the server")


ERRORS = DriverErrors(
    DriverError,
    fault,
    "the database",
    (
        ErrorMeaning(LoginRefused, (1,)),
        ErrorMeaning(PositionLost, {2, 3}, "the log is gone", where="the log", hint="begin anew"),
        ErrorMeaning(ConfigError, (4,)),
        ErrorMeaning(SourceError, {5}),
        ErrorMeaning(ServerRefused),
    ),
)
OF_TABLES = ERRORS.refined(ErrorMeaning(TableBusy, {3, 6}))


@pytest.mark.parametrize(
    ("errors", "code", "expected", "said"),
    [
        (ERRORS, 1, LoginRefused, "public.t: reading failed: the server says so; ask the server"),
        (ERRORS, 3, PositionLost, "the log: the log is gone: the server says so; begin anew"),
        (ERRORS, 4, ConfigError, "reading failed: the server says so; ask the server"),
        (ERRORS, 5, SourceError, "public.t: reading failed: the server says so; ask the server"),
        (ERRORS, 6, ServerRefused, "public.t: reading failed: the server says so; ask the server"),
        (ERRORS, None, SourceError, "public.t: reading failed: the server says so; ask the server"),
        (OF_TABLES, 3, TableBusy, "public.t: reading failed: the server says so; ask the server"),
        (OF_TABLES, 2, PositionLost, "the log: the log is gone: the server says so; begin anew"),
    ],
)
def test_the_first_meaning_of_a_code_counts(
    errors: DriverErrors[DriverError], code: int | None, expected: type[TidemarkError], said: str
):
    with pytest.raises(TidemarkError) as caught, errors("reading", T):
        raise DriverError(code)

    assert type(caught.value) is expected
    assert str(caught.value) == said
    assert isinstance(caught.value.__cause__, DriverError)


def test_an_error_says_its_collection_or_where_the_driver_leads():
    with pytest.raises(SourceError) as of_table, ERRORS("reading", T):
        raise DriverError(None)
    with pytest.raises(SourceError) as of_none, ERRORS("reading"):
        raise DriverError(None)

    assert of_table.value.collection == T
    assert (of_none.value.collection, of_none.value.where) == (None, "the database")


def test_a_refused_login_has_credentials_renewed():
    before = refusal_count()
    with pytest.raises(LoginRefused), ERRORS("connecting"):
        raise DriverError(1)
    with pytest.raises(SourceError), ERRORS("connecting"):
        raise DriverError(5)

    assert refusal_count() == before + 1


def test_a_refusal_keeps_what_the_server_said_on_its_way_from_a_task():
    with pytest.raises(ServerRefused) as caught, ERRORS("reading", T):
        raise DriverError(13)
    there = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  our own bytes

    assert there.fault == Fault("the server says so", (13,), "Name", "ask the server")
    assert there.fault.code == 13


def test_other_exceptions_pass():
    with pytest.raises(KeyError), ERRORS("reading"):
        raise KeyError("ours")


@pytest.mark.parametrize(
    ("sqlstate", "expected", "where"),
    [
        ("55P03", TableBusy, "public.t"),
        ("42P01", SchemaChanged, "public.t"),
        ("57014", SourceError, "postgresql"),
        ("08006", SourceError, "postgresql"),
        ("", SourceError, "postgresql"),
    ],
)
def test_postgresql_s_states_and_their_classes_decide_whose_fault_it_is(
    sqlstate: str, expected: type[TidemarkError], where: str
):
    kind = psycopg.errors.lookup(sqlstate) if sqlstate else psycopg.OperationalError
    with pytest.raises(TidemarkError) as caught, table_errors("measuring", T):
        raise kind("said")

    assert type(caught.value) is expected
    assert caught.value.where == where
