"""What pyodbc says only in its text, as it has said it."""

from __future__ import annotations

from adapters.sqlserver.server.known_messages import not_loaded, number_in, plain

VENDOR = "[Microsoft][ODBC Driver 18 for SQL Server]"
MISSING = f"[42S02] {VENDOR}[SQL Server]Invalid object name 'a'. (208) (SQLExecDirectW)"
NOT_LOADED = (
    "[01000] [unixODBC][Driver Manager]Can't open lib 'No Such' : file not found (0) (SQLDriverConnect)"
)


def test_the_servers_number_stands_before_the_call():
    assert (number_in(MISSING), number_in(NOT_LOADED), number_in("year (2020)")) == (208, 0, 0)


def test_messages_are_told_once_without_who_says_them():
    expired = f"[HYT00] {VENDOR}Login timeout expired (0) (SQLDriverConnect)"

    assert plain(MISSING) == "Invalid object name 'a'."
    assert plain(f"{expired}; {expired}; {MISSING}") == "Login timeout expired; Invalid object name 'a'."


def test_a_library_that_can_not_be_loaded_is_told_from_other_warnings():
    assert not_loaded(NOT_LOADED)
    assert not not_loaded("[01000] [Microsoft]Changed database context to 'shop'. (5701) (SQLDriverConnect)")
