"""Events that the server split come whole, and nobody goes on amid one."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from adapters.mongodb.log.split_events import Parts
from engine.errors import SourceError


def part(number: int, of: int, **fields: Any) -> bytes:
    return bson.encode(
        {"_id": {"_data": f"82{number}"}, "splitEvent": {"fragment": number, "of": of}, **fields}
    )


WHOLE = bson.encode({"_id": {"_data": "81"}, "operationType": "insert", "fullDocument": {"_id": 1}})


def test_events_that_are_whole_pass():
    parts = Parts()

    assert parts.joined([WHOLE, WHOLE]) == (WHOLE, WHOLE)
    assert not parts.open


def test_parts_are_joined_over_batches_under_the_last_one_s_token():
    parts = Parts()
    before = parts.joined([WHOLE, part(1, 3, operationType="update", fullDocument={"_id": 1})])
    amid = parts.joined([part(2, 3, fullDocumentBeforeChange={"_id": 1})])
    amid_one = parts.open
    after = parts.joined([part(3, 3, updateDescription={"updatedFields": {}}), WHOLE])

    assert (before, amid, amid_one) == ((WHOLE,), (), True)
    assert not parts.open
    assert after[1] == WHOLE
    assert bson.decode(after[0]) == {
        "_id": {"_data": "823"},
        "operationType": "update",
        "fullDocument": {"_id": 1},
        "fullDocumentBeforeChange": {"_id": 1},
        "updateDescription": {"updatedFields": {}},
    }


def test_a_document_that_speaks_of_parts_is_no_part():
    mine = bson.encode({"_id": {"_data": "81"}, "fullDocument": {"splitEvent": {"fragment": 1, "of": 2}}})

    assert Parts().joined([mine]) == (mine,)


def test_a_part_that_is_missing_is_an_error():
    with pytest.raises(SourceError, match="part 2 of a large event"):
        Parts().joined([part(2, 3)])
