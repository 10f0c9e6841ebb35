"""Documents of every `_id` type, mixed in one collection, are read once: against a full scan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import bson
import pyarrow as pa
import pytest
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from adapters.mongodb.documents.keys import id_text
from adapters.mongodb.documents.selection import FieldRules
from adapters.mongodb.events.codec import Rules, codec_of
from adapters.mongodb.events.rows import ReadEvents
from adapters.mongodb.server.connection import RAW, Server, connection_of, shared_client
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.settings import MongoSettings
from adapters.mongodb.snapshot.chunk_reader import ReadRuns, RunRead
from adapters.mongodb.snapshot.tables import MongoCollections
from engine.config.sources.selection import CaptureSettings
from engine.config.text.refusals import note_refusal
from engine.events.settings import EventSettings
from engine.model import CollectionId, Key, Range, Run, StagedRun, Target
from engine.snapshot.extent import Extent
from engine.snapshot.merge_key import key_of
from engine.staging.event_rows import StagedEvents
from tests.integration.test_mongodb_job import driven, replayed, signal, stands
from tests.raw_ids import ODD, Raw, document, double, int32, invalid, nested
from tests.servers.mongodb import MongoServer
from tests.staged import files_in

pytestmark = pytest.mark.integration

COLLECTION = CollectionId(("inventory", "mixed"))
TARGET = Target(COLLECTION)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1).map(Int64)
    | st.integers(-5, 5)
    | st.floats(allow_nan=True)
    | st.decimals(-10, 10, places=1).map(lambda number: Decimal128(str(number)))
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    | st.binary(max_size=4)
    | st.binary(min_size=12, max_size=12).map(ObjectId)
    | st.integers(-(2**50), 2**50).map(DatetimeMS)
    | st.builds(Timestamp, st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
    | st.sampled_from([MinKey(), MaxKey()])
)
IDS = SCALARS | st.dictionaries(st.sampled_from("abc"), SCALARS | st.lists(SCALARS, max_size=2), max_size=2)
"""Values of every type that the server takes as an `_id`."""
_LEAVES = st.binary(max_size=3).map(invalid) | st.sampled_from(
    [*ODD.values(), int32(1), double(1.0), double(1.5)]
)
RAW_IDS = _LEAVES | st.lists(_LEAVES, max_size=2).map(
    lambda values: (0x03, nested(*((b"a", value) for value in values)))
)
"""Such as Python has no values for."""


class Reader:
    """The collection, cut and read as windows do, without Spark."""

    def __init__(self, mongodb: MongoServer, directory: Path) -> None:
        self._connection = connection_of(MongoSettings(connection_string=mongodb.uri))
        self._directory = directory
        self._server = Server(self._connection)
        self._questions = Questions(self._server)
        self.extents = MongoCollections(self._questions, lambda _one: True, monotonic=time.monotonic)
        rules = Rules(EventSettings("tm", ""), CaptureSettings(), "rs0", FieldRules())
        self._events = ReadEvents(codec_of(COLLECTION, rules), "{}", 0)

    def fill(self, ids: list[Any], **options: Any) -> list[Key]:
        """Make the collection anew; gives its keys in the server's order, by a full scan."""
        database = self._server.client[COLLECTION.parts[0]]
        database.drop_collection(COLLECTION.parts[1])
        collection = database.create_collection(COLLECTION.parts[1], **options)
        for identifier in ids:
            update = {"q": {"_id": identifier}, "u": {}, "upsert": True}
            # The answer names the id, and not every date is one of Python's.
            answer = database.command("update", COLLECTION.parts[1], updates=[update], codec_options=RAW)
            assert b"writeErrors" not in answer.raw
        return self._scanned(collection)

    def fill_raw(self, ids: Sequence[Raw]) -> list[Key]:
        """The same with ids given as their bytes; equal ones are passed over."""
        database = self._server.client[COLLECTION.parts[0]]
        database.drop_collection(COLLECTION.parts[1])
        collection = database.create_collection(COLLECTION.parts[1])
        for identifier in ids:
            # The answer for one that is there quotes it, and the driver can't read that.
            database.command(
                "insert", COLLECTION.parts[1], documents=[document(identifier)], codec_options=RAW
            )
        return self._scanned(collection)

    @staticmethod
    def _scanned(collection: Any) -> list[Key]:
        scanned = collection.with_options(codec_options=RAW).find().sort("_id", 1)
        return [(id_text(bytes(document.raw)),) for document in scanned]

    def cut(self, step: int) -> list[Run]:
        (extent,) = self.extents.measure([TARGET], bounded=True)
        assert isinstance(extent, Extent)
        if extent.greatest is None:
            return []
        found = self.extents.boundaries(TARGET, Range(None, extent.greatest), step, 1000)
        bounds = [*found, extent.greatest]
        return [Run(1, TARGET, after, upto) for after, upto in pairwise([None, *bounds])]

    def read(self, runs: list[Run], fetched: int = 3) -> list[list[Key]]:
        """The merge keys that each run reads, in the order read; so many documents are fetched at a time."""
        task = ReadRuns(self._connection, self._questions.now(), files_in(self._directory), fetched)
        staged = dict(task([RunRead(at, run, self._events) for at, run in enumerate(runs)]))
        return [_keys(staged[at]) if at in staged else [] for at in range(len(runs))]

    def close(self) -> None:
        self._server.close()
        shared_client(self._connection).close()
        note_refusal()  # the next one connects anew


def _keys(staged: StagedRun) -> list[Key]:
    block = cast("StagedEvents", staged.content).block
    with block.open("rows") as content, pa.ipc.open_stream(content) as stream:
        return [key_of(key) for batch in stream for key in batch.column("merge_key").to_pylist()]


@pytest.fixture
def reader(mongodb: MongoServer, tmp_path: Path):
    made = Reader(mongodb, tmp_path)
    yield made
    made.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(IDS, max_size=25), step=st.integers(1, 6))
@example(ids=[DatetimeMS(-62135596800001), DatetimeMS(2**50)], step=1)
def test_ranges_of_mixed_ids_cover_every_document_once(reader: Reader, ids: list[Any], step: int):
    every = reader.fill(ids)
    read = reader.read(reader.cut(step))

    assert [key for keys in read for key in keys] == every
    assert all(len(keys) <= step for keys in read)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(RAW_IDS, max_size=25), step=st.integers(1, 6))
@example(ids=list(ODD.values()), step=1)
@example(ids=list(ODD.values()), step=3)
def test_ranges_of_ids_that_are_no_text_cover_every_document_once(reader: Reader, ids: list[Raw], step: int):
    every = reader.fill_raw(ids)
    read = reader.read(reader.cut(step))

    assert [key for keys in read for key in keys] == every
    assert len(set(every)) == len(every)


def test_single_keys_are_found_that_are_no_text(reader: Reader):
    every = reader.fill_raw([*ODD.values(), int32(7)])
    (found,) = reader.read([Run(1, TARGET, None, None, keys=tuple(every))])

    assert len(every) == len(ODD)  # two of them are NaN
    assert found == every


def test_many_ids_that_are_no_text_have_keys_and_events_of_their_own(reader: Reader):
    # As many as are written together.
    every = reader.fill_raw([invalid(f"{n:03}".encode() + b"\xff") for n in range(50)])
    read = reader.read([Run(1, TARGET, None, None)], fetched=50)

    assert len(set(every)) == 50
    assert read == [every]


def test_single_keys_are_found_whatever_their_type(reader: Reader):
    every = reader.fill([None, 1, 2.5, "1", {"a": 1}, True, b"x"])
    (found,) = reader.read([Run(1, TARGET, None, None, keys=tuple(every[::2]))])

    assert found == every[::2]


def test_a_collation_orders_the_ranges_too(reader: Reader):
    every = reader.fill(["b", "B", "a", "Z", "c", 1], collation={"locale": "en", "strength": 1})
    read = reader.read(reader.cut(1))

    assert [key for keys in read for key in keys] == every
    assert len(every) == 5  # b and B are one


@pytest.mark.parametrize("mode", ["change_streams_update_full", "change_streams"])
def test_an_id_that_is_written_otherwise_leaves_nothing_under_its_old_key(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, mode: str
):
    with mongodb.connect() as client:
        database = client["inventory"]
        database.create_collection("signals")
        database["t"].insert_many([{"_id": n, "pad": "x" * 500} for n in range(60)])
        with driven(mongodb, tmp_path, spark, **{"capture.mode": mode}) as job:
            signal(client, "inventory.t")
            job.until_answered("finished")
            for n in range(20):
                database["t"].replace_one({"_id": n}, {"_id": float(n), "n": 1})
            for n in range(20, 40):  # large enough to be told of as an update
                database["t"].update_one({"_id": n}, [{"$set": {"_id": {"$toDouble": "$_id"}, "n": 1}}])
            for n in range(0, 40, 2):
                database["t"].delete_one({"_id": n})
            database["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
            held = replayed(job.events("t"))
            lacking = [str(entry.collection) for entry in job.job.state.incomplete]
            signal(client, "inventory.t")
            job.until_answered("finished", 2)

        assert held.keys() <= stands(client, "t").keys()
        assert (held == stands(client, "t")) is (mode == "change_streams_update_full")
        assert lacking == ([] if mode == "change_streams_update_full" else ["inventory.t"])
        assert replayed(job.events("t")) == stands(client, "t")
        assert not job.job.state.incomplete


def test_documents_inserted_with_ids_that_encode_alike_are_one():
    assert id_text(bson.encode({"_id": 1})) == id_text(bson.encode({"_id": 1.0}))
