"""The rows that mark windows: Debezium's JSON to the byte, and no more than a signal table has room for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model import CollectionId, Run, Target, Window
from signals.window_rows import ROOM, WindowRow, WindowRows, rows_of

OPENED_MS = 1767225600000
TARGETS = [Target(CollectionId(("public", name))) for name in ("a", "b")]


def test_the_rows_carry_what_debezium_writes():
    rows = WindowRows("w", OPENED_MS, ("signal-1",), ("public.my_table",))

    assert rows.opening() == WindowRow(
        "w-open",
        "snapshot-window-open",
        '{"openWindowTimestamp": "2026-01-01T00:00:00Z", "correlationId": "signal-1",'
        ' "dataCollectionId": "public.my_table"}',
    )
    assert rows.closing(OPENED_MS + 5_250) == WindowRow(
        "w-close",
        "snapshot-window-close",
        '{"openWindowTimestamp": "2026-01-01T00:00:00Z", "closeWindowTimestamp": "2026-01-01T00:00:05.250Z",'
        ' "correlationId": "signal-1", "dataCollectionId": "public.my_table"}',
    )


def test_what_is_unknown_is_left_out():
    assert WindowRows("w", OPENED_MS).opening().data == '{"openWindowTimestamp": "2026-01-01T00:00:00Z"}'


def test_a_window_names_its_signals_and_its_collections_each_once():
    runs = tuple(Run(ticket, TARGETS[ticket % 2], None, None) for ticket in range(4))

    data = json.loads(rows_of(Window("w", runs, ("s", "t", "s")), OPENED_MS).opening().data)

    assert (data["correlationId"], data["dataCollectionId"]) == ("s,t", "public.a,public.b")


@pytest.mark.parametrize(
    "text", ['id-with-"quote"', "id\nwith\tcontrols\r\f\b", "schema.table\\odd", "ünïcode"]
)
def test_special_characters_survive(text):
    data = json.loads(WindowRows("w", OPENED_MS, (text,), (text,)).opening().data)

    assert (data["correlationId"], data["dataCollectionId"]) == (text, text)


@given(st.lists(st.text(max_size=700), max_size=30), st.lists(st.text(max_size=700), max_size=30))
def test_the_data_fits_into_the_column_whatever_is_named(signals, collections):
    data = WindowRows("w", OPENED_MS + 1, tuple(signals), tuple(collections)).closing(OPENED_MS + 2).data

    assert len(data.encode(errors="surrogatepass")) <= ROOM


def test_names_are_left_out_from_the_first_that_has_no_room():
    names = ("a" * 600, "b" * 600, "c")

    data = json.loads(WindowRows("w", OPENED_MS, (), names).opening().data)

    assert data["dataCollectionId"] == names[0]
