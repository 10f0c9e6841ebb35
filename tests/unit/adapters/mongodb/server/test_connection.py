"""Which servers are taken, by what they say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from adapters.mongodb.server.connection import check_capture, replica_set
from adapters.mongodb.server.failures import source_errors
from adapters.mongodb.settings import CaptureMode
from engine.errors import ConfigError, PositionLost

PRIMARY = {"setName": "rs0", "isWritablePrimary": True, "maxWireVersion": 17}
"""Of MongoDB 6.0."""


@pytest.mark.parametrize("version", [13, 17, 21, 25], ids=["5.0", "6.0", "7.0", "8.0"])
def test_members_of_replica_sets_are_taken(version: int):
    assert replica_set({**PRIMARY, "maxWireVersion": version}) == "rs0"


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ({"msg": "isdbgrid", "maxWireVersion": 17, "topologyVersion": {}}, "leads to a mongos"),
        ({"isWritablePrimary": True, "maxWireVersion": 17}, "in no replica set"),
        ({"isreplicaset": True, "isWritablePrimary": False, "maxWireVersion": 17}, "in no replica set"),
        ({**PRIMARY, "maxWireVersion": 9}, "older than MongoDB 5.0"),
    ],
    ids=["mongos", "single server", "not initiated", "4.4"],
)
def test_others_are_refused_with_what_they_are(hello: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        replica_set(hello)


@pytest.mark.parametrize("mode", [mode for mode in CaptureMode if mode.pre_images])
def test_pre_images_are_asked_of_servers_that_have_them(mode: CaptureMode):
    check_capture(PRIMARY, mode)

    with pytest.raises(ConfigError, match=r"older than MongoDB 6\.0") as told:
        check_capture({**PRIMARY, "maxWireVersion": 13}, mode)
    assert "change_streams_update_full" in told.value.hint


def test_other_modes_need_no_images():
    check_capture({**PRIMARY, "maxWireVersion": 13}, CaptureMode.FULL)


@pytest.mark.parametrize(
    ("code", "said", "unsaid"),
    [
        (280, "put back to an older copy of its files", "reach back"),
        (286, "the oplog does not reach back", "older copy"),
        (222, "the oplog does not reach back", "older copy"),
    ],
)
def test_a_log_that_can_not_go_on_says_why(code: int, said: str, unsaid: str):
    found = source_errors.error(OperationFailure("no", code, {"errmsg": "no"}), "reading", "change stream")

    assert isinstance(found, PositionLost)
    assert said in str(found)
    assert unsaid not in str(found)
    assert ("replSetResizeOplog" in found.hint) is (code != 280)


def test_an_error_that_says_nothing_is_told_by_its_name():
    assert "AutoReconnect" in str(source_errors.error(AutoReconnect(""), "reading", "change stream"))
