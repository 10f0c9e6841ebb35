"""Verifying and repairing the files of a job on MongoDB, while documents come, change and go."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from bson import Decimal128, ObjectId
from pymongo import DeleteOne, ReplaceOne

from tests.against import kept, last_answer
from tests.faulty_copy import FaultyCopy
from tests.integration.test_mongodb_job import driven, replayed, signal, stands, writing

if TYPE_CHECKING:
    from pathlib import Path

    from signals.answers import Answer
    from tests.integration.test_mongodb_job import Driven

pytestmark = pytest.mark.integration

SMALL = {"incremental__snapshot__chunk__size": "100", "tidemark__window__max__chunks": "4"}


def asked(job: Driven, client: Any, type_: str, id_: str, **more: str) -> Answer:
    """The last answer to a signal of this type, which is sent now."""
    data = {"data-collections": ["inventory.t"], "type": type_, **more}
    client["inventory"]["signals"].insert_one({"_id": id_, "type": "execute-snapshot", "data": data})
    return last_answer(job, id_)


def documents() -> list[dict[str, Any]]:
    """Documents with keys and values of several kinds."""
    few: list[dict[str, Any]] = [
        {"_id": 'nöte\t"', "v": "é\u2028\\"},
        {"_id": ObjectId(), "v": [1, {"a": None}]},
        {"_id": 2.5, "v": Decimal128("1.10")},
        {"_id": {"a": 1, "b": "x"}, "v": {}},
    ]
    return few + [{"_id": key, "u": key / 7, "s": f"ü{key}"} for key in range(1500)]


def copied(client: Any, job: Driven, tmp_path: Path) -> FaultyCopy:
    """A copy of the collection, sent by a snapshot."""
    client["inventory"]["t"].insert_many(documents())
    client["inventory"].create_collection("signals")
    signal(client, "inventory.t")
    job.until_answered("finished")

    def wrong(event: dict[str, Any]) -> None:
        after = orjson.loads(event["value"]["after"])
        after["u"] = "wrong"
        event["value"]["after"] = orjson.dumps(after).decode()

    def strange(event: dict[str, Any]) -> None:
        after = orjson.loads(event["value"]["after"])
        after["_id"] = {"no document has": after["_id"]}
        event["key"]["id"] = orjson.dumps(after["_id"]).decode()
        event["value"]["after"] = orjson.dumps(after).decode()

    return FaultyCopy(tmp_path, "tm.inventory.t", wrong, strange)


def test_faults_are_found_under_writes_and_repaired(mongodb, tmp_path, spark):
    with mongodb.connect() as client, driven(mongodb, tmp_path, spark, **SMALL) as job:
        copy = copied(client, job, tmp_path)
        accepted = asked(job, client, "verify", "right")
        copy.put(Random(5), 0.05)
        with writing(mongodb, 11):
            asked(job, client, "verify", "under writes")
            copy.check("under writes")
            repaired = asked(job, client, "repair", "mend")
        client["inventory"]["marks"].insert_one({"_id": "end"})
        job.until_seen("end")

        assert sorted(replayed(job.events("t")).values()) == sorted(stands(client, "t").values())
    assert accepted.outcome == "finished", accepted.text
    assert accepted.facts["equal"] == len(documents())
    assert repaired.outcome == "finished", repaired.text
    assert repaired.facts["deletes"] > 0


def test_documents_that_the_log_did_not_delete_are_extra_and_deleted(mongodb, tmp_path, spark):
    """A drop has no delete events."""
    with mongodb.connect() as client, driven(mongodb, tmp_path, spark, **SMALL) as job:
        copied(client, job, tmp_path)
        client["inventory"]["t"].drop()
        client["inventory"]["t"].insert_one({"_id": 7, "u": 1})
        rejected = asked(job, client, "verify", "dropped")
        repaired = asked(job, client, "repair", "mend")

        assert replayed(job.events("t")) == stands(client, "t")
    assert rejected.facts["extra"] == len(documents()) - 1
    assert (repaired.outcome, repaired.facts["deletes"]) == ("finished", len(documents()) - 1)


def test_updates_without_their_document_can_not_be_compared(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        client["inventory"]["t"].insert_one({"_id": 1})
        client["inventory"].create_collection("signals")
        with driven(mongodb, tmp_path, spark, capture__mode="change_streams") as job:
            answer = asked(job, client, "verify", "plain")

    assert (answer.outcome, "leaves the document out" in answer.text) == ("rejected", True)


@pytest.mark.thorough
def test_a_collection_that_somebody_else_keeps_is_verified_once_it_has_settled(mongodb, tmp_path, spark):
    """Somebody copies the documents late. The first verification comes while they are written."""
    more = {
        **SMALL,
        "collection__include__list": "inventory.t,inventory.signals",
        "tidemark__verify__settle__ms": "2000",
        "tidemark__verify__against__there__connection__url": mongodb.uri,
        "tidemark__verify__against__there__collection__name__format": "warehouse.copy_${source.table}",
        "tidemark__verify__against__tables__connection__url": "jdbc:postgresql://localhost/nowhere",
    }
    faults = [2.5, 'nöte\t"', "odd"]

    def keep(client: Any) -> None:
        copy, there = client["warehouse"]["copy_t"], client["inventory"]["t"]
        found = [document for document in there.find() if document["_id"] not in faults]
        present = {repr(document["_id"]) for document in found}
        kept = copy.find({"_id": {"$nin": faults}}, {"_id": 1})
        gone = [DeleteOne(document) for document in kept if repr(document["_id"]) not in present]
        copy.bulk_write([*(ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in found), *gone])

    with mongodb.connect() as client, driven(mongodb, tmp_path, spark, **more) as job:
        client["inventory"]["t"].insert_many(documents())
        client["inventory"].create_collection("signals")
        client["warehouse"]["copy_t"].insert_many([{"_id": 2.5, "v": 1.1}, {"_id": "odd", "v": 1}])
        keep(client)
        with kept(partial(keep, client)), writing(mongodb, 11):
            rejected = asked(job, client, "verify", "wrong", against="there")
        client["warehouse"]["copy_t"].delete_one({"_id": "odd"})
        faults.clear()
        keep(client)
        accepted = asked(job, client, "verify", "right", against="there")
        refused = asked(job, client, "verify", "tables", against="tables")

    found = {kind: rejected.facts[kind] for kind in ("missing", "different", "extra")}
    assert found == {"missing": 1, "different": 1, "extra": 1}, rejected.text
    assert rejected.facts["first"]["extra"] == ['{"id":"\\"odd\\""}']
    assert rejected.facts["basis"] == "settled"
    assert accepted.outcome == "finished", accepted.text
    assert accepted.facts["changed"] == 0
    assert (refused.outcome, "with collections of MongoDB only" in refused.text) == ("rejected", True)
