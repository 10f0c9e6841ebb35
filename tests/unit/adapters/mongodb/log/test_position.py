"""Positions are ordered as the change stream is, and tell what has been streamed wholly."""

from __future__ import annotations

import bson
import pytest
from bson.binary import Binary

from adapters.mongodb.documents.bson_walk import fields
from adapters.mongodb.log.position import has_passed, marked, position_of, shown, time_of, token_of
from engine.model import Position

EVENT = "826B013C8E000000022B022C0100296E5A100452CE0A82610A4FACB699EFC227DE2B93461E5F6964002B020004"
HIGH_WATER = "826B013C8E000000022B0429296E1404"
TIME = (0x6B013C8E, 2)


def position(token: dict[str, object], *, whole: bool = False) -> Position:
    raw = bson.encode({"token": token})
    return marked(position_of(raw, fields(raw)["token"]), whole=whole)


@pytest.mark.parametrize("token", [{"_data": EVENT}, {"_data": EVENT, "_typeBits": Binary(b"\x81\x80")}])
def test_a_token_goes_to_the_server_as_it_came(token: dict[str, object]):
    assert token_of(position(token)) == token


def test_a_position_knows_its_cluster_time():
    assert time_of(position({"_data": EVENT})) == TIME
    assert shown(position({"_data": EVENT})) == "Timestamp(1795243150, 2)"


def test_the_last_of_several_events_at_a_time_is_known_by_the_silence_after_it():
    some, all_of_them = position({"_data": EVENT}), position({"_data": EVENT}, whole=True)

    assert some < all_of_them
    assert [has_passed(reached, TIME) for reached in (some, all_of_them)] == [False, True]
    assert has_passed(some, (TIME[0], TIME[1] - 1))
    assert not has_passed(all_of_them, (TIME[0] + 1, 0))
