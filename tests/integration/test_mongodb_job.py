"""A MongoDB job from end to end: under writes, elections and crashes, compared with its source."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError
from pyspark.sql import SparkSession

from adapters.mongodb.documents.extended_json import STRICT, document_text
from adapters.mongodb.job import building
from adapters.mongodb.log.position import has_passed
from adapters.mongodb.server.connection import RAW
from engine.config import parse
from engine.errors import ConfigError, PositionLost, SourceError, StateError
from engine.job.loop import Job
from engine.job.saved.state import State
from engine.model import CollectionId, ExecuteSnapshot, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.extent import Extent
from engine.snapshot.pace.slices import Slices
from engine.snapshot.queue import Snapshot
from signals.answers import Answer
from tests.changed_parts import change_parts
from tests.driven import driving, files_sink, read_events
from tests.servers.mongodb import MongoServer, MongoSet

pytestmark = pytest.mark.integration

TIMEOUT_S = 120.0
SIGNALS = "inventory.signals"
KEPT_S = 300
"""How long a server keeps states of the data unless told otherwise."""


class HeldLog:
    """A log that nothing comes from."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def take(self, timeout_s: float) -> None:
        time.sleep(min(timeout_s, 0.01))


class Driven:
    """A job turned by hand, and what it has answered and emitted."""

    def __init__(self, job: Job, directory: Path, answers: list[Answer]) -> None:
        self.job, self.directory, self.answers = job, directory, answers

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"not in time; said: {self.answers}; state: {self.job.state}"
            try:
                self.job.start()
                self.job.turn()
            except PositionLost:
                raise
            except SourceError:  # as the job's own loop does
                self.job.close()
                self.job.settle()
                time.sleep(0.2)

    def until_answered(self, outcome: str, count: int = 1) -> None:
        self.until(lambda: len([answer for answer in self.answers if answer.outcome == outcome]) >= count)

    def until_seen(self, mark: str) -> None:
        """Turn until the document of collection `marks` with this `_id` has come."""
        self.until(lambda: any(event["key"] == {"id": f'"{mark}"'} for event in self.events("marks")))

    def turn(self, times: int = 1) -> None:
        """Turn so often, whatever comes of it."""
        for _ in range(times):
            self.job.start()
            self.job.turn()

    @contextmanager
    def log_held(self) -> Iterator[None]:
        """Nothing comes by the log meanwhile, and no window goes out that is read; then all comes at once."""
        self.job.start()
        log: Any = self.job._log
        windows: Any = self.job._windows
        self.job._log, windows._ready = HeldLog(log), lambda _state: None
        try:
            yield
            source: Any = self.job._parts.source
            end, deadline = source._questions.now(), time.monotonic() + TIMEOUT_S
            while not (log._thread.failure or has_passed(log._end, end)):
                assert time.monotonic() < deadline, f"the log stays at {log._end}"
                time.sleep(0.01)
        finally:
            self.job._log = log
            del windows._ready

    def read_window(self, count: int = 1) -> None:
        """Turn until so many windows are read, and wait for the log."""
        self.until(
            lambda: sum(window.staged is not None for window in self.job._windows.in_progress.opened) >= count
        )

    def events(self, collection: str | None = None) -> list[dict[str, Any]]:
        found = read_events(self.directory / "events")
        return [event for event in found if collection is None or event["topic"].endswith(f".{collection}")]


def properties(server: MongoServer | MongoSet, directory: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": server.uri,
        "mongodb.server.selection.timeout.ms": "2000",
        "topic.prefix": "tm",
        "snapshot.mode": "never",
        "signal.data.collection": SIGNALS,
        "tombstones.on.delete": "false",
        **files_sink(directory),
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def driven(
    server: MongoServer | MongoSet, directory: Path, spark: SparkSession, **more: str
) -> AbstractContextManager[Driven]:
    settings = parse(properties(server, directory, **more))
    return driving(Driven, directory, partial(building, settings, spark))


def signal(client: Any, *collections: str, **more: Any) -> None:
    data = {"data-collections": list(collections), "type": "incremental", **more}
    client["inventory"]["signals"].insert_one({"type": "execute-snapshot", "data": data})


def replayed(events: list[dict[str, Any]]) -> dict[str, str]:
    """What a consumer holds: the newest `after` by key."""
    held: dict[str, str] = {}
    for event in events:
        key, after = event["key"]["id"], event["value"]["after"]
        if after is None and event["value"]["op"] == "d":
            held.pop(key, None)
        elif after is not None:
            held[key] = after
    return held


def stands(client: Any, name: str) -> dict[str, str]:
    """What the collection holds."""
    documents: list[RawBSONDocument] = list(
        client["inventory"].get_collection(name, codec_options=RAW).find()
    )
    texts = [document_text(bytes(document.raw), 0, STRICT) for document in documents]
    return {str(orjson.loads(text)["_id"]): text for text in texts}


class Writer(threading.Thread):
    """Inserts, updates, replaces and deletes at random until stopped; failures are tried no more."""

    def __init__(self, server: MongoServer | MongoSet, seed: int) -> None:
        super().__init__(daemon=True)
        self._server, self._random = server, Random(seed)
        self.ending = threading.Event()
        self.writes = 0

    def run(self) -> None:
        with self._server.connect(serverSelectionTimeoutMS=500) as client:
            collection = client["inventory"]["t"]
            while not self.ending.is_set():
                with suppress(PyMongoError):
                    self._write(collection)
                    self.writes += 1
                time.sleep(0.002)

    def _write(self, collection: Any) -> None:
        key, value = self._random.randrange(3000), self._random.random()
        match self._random.randrange(4):
            case 0:
                collection.delete_one({"_id": key})
            case 1:
                collection.replace_one({"_id": key}, {"r": value}, upsert=True)
            case _:
                collection.update_one({"_id": key}, {"$set": {"u": value}}, upsert=True)


@contextmanager
def writing(server: MongoServer | MongoSet, seed: int) -> Iterator[Writer]:
    writer = Writer(server, seed)
    writer.start()
    try:
        yield writer
    finally:
        writer.ending.set()
        writer.join()


def keep_history(client: Any, *, seconds: int) -> None:
    """Make the server drop states of the data that are older."""
    client.admin.command("setParameter", 1, minSnapshotHistoryWindowInSeconds=seconds)


@contextmanager
def history_window(client: Any, *, seconds: int) -> Iterator[None]:
    """The same for a while; then what the server does by itself."""
    keep_history(client, seconds=seconds)
    try:
        yield
    finally:
        keep_history(client, seconds=KEPT_S)


def fill(client: Any, count: int = 2000) -> None:
    client["inventory"]["t"].insert_many([{"_id": at, "n": at} for at in range(count)])
    client["inventory"].create_collection("signals")


@pytest.mark.parametrize("mode", ["change_streams_update_full", "change_streams"])
def test_a_snapshot_under_writes_gives_the_collection(mongodb, tmp_path, spark, mode):
    with mongodb.connect() as client:
        fill(client)
        chunks = {"tidemark__window__max__chunks": "2", "incremental__snapshot__chunk__size": "200"}
        with driven(mongodb, tmp_path, spark, capture__mode=mode, **chunks) as job:
            with writing(mongodb, 1) as writer:
                signal(client, "inventory.t")
                job.until_answered("finished")
                assert writer.writes > 0
            signal(client, "inventory.t")
            job.until_answered("finished", 2)
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
            held = replayed(job.events("t"))

        assert held == stands(client, "t")


def test_an_initial_snapshot_under_writes_gives_the_collection(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client)
        with writing(mongodb, 2) as writer, driven(mongodb, tmp_path, spark, snapshot__mode="initial") as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            job.until(lambda: writer.writes > 100)
            writer.ending.set()
            writer.join()
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")
            events = job.events("t")

        assert replayed(events) == stands(client, "t")
        reads = [event for event in events if event["value"]["op"] == "r"]
        # What the writer deletes before the snapshot begins is not read; on a busy machine that is some.
        assert len(reads) >= 1900
        assert [event["value"]["source"]["snapshot"] for event in reads].count("last") <= 1


def test_the_lag_is_told_by_the_cluster_s_clock(mongodb, tmp_path, spark):
    with mongodb.connect() as client, driven(mongodb, tmp_path, spark) as job:
        change_parts(job.job, now=lambda: time.time() + 60)
        client["inventory"]["marks"].insert_one({"_id": "late"})
        job.until_seen("late")

        assert job.job._turns.lag_s < 30


def test_crashes_of_the_server_lose_nothing(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client)
    chunks = {"tidemark__window__max__chunks": "1", "incremental__snapshot__chunk__size": "400"}
    with driven(mongodb, tmp_path, spark, **chunks) as job:
        with writing(mongodb, 3):
            with mongodb.connect() as client:
                signal(client, "inventory.t")
            job.until(lambda: bool(job.events("t")))
            mongodb.kill()
            mongodb.start()
            job.until_answered("finished")
        with mongodb.connect() as client:
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

            assert replayed(job.events("t")) == stands(client, "t")


def test_a_primary_that_steps_down_is_waited_for(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client, 10)
        with driven(mongodb, tmp_path, spark) as job:
            with suppress(PyMongoError):
                client.admin.command({"replSetStepDown": 1, "force": True})
            with suppress(PyMongoError):
                client.admin.command({"replSetFreeze": 0})
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")


def test_a_dropped_collection_takes_its_window_with_it(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client, 50)
        with driven(mongodb, tmp_path, spark, tidemark__window__max__chunks="1") as job:
            signal(client, "inventory.t")
            job.until(lambda: bool(job.job.state.snapshot.tables))
            client["inventory"]["t"].drop()
            job.until(lambda: not job.job.state.snapshot.tables)

        assert {answer.outcome for answer in job.answers} >= {"accepted"}


def test_a_condition_is_a_filter_document(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client, 20)
        with driven(mongodb, tmp_path, spark) as job:
            signal(client, "inventory.t", **{"additional-condition": '{"n": {"$gte": 15}}'})
            job.until_answered("finished")
            signal(client, "inventory.t", **{"additional-condition": "n >= 15"})
            job.until_answered("rejected")

        reads = [event["key"]["id"] for event in job.events("t")]
        assert reads == ["15", "16", "17", "18", "19"]


ATTACKS = (
    *('{"n": 99999999999999999999}', '{"a\\u0000b": 1}', "[" * 60_000, '{"a":' * 900 + "1" + "}" * 900),
    *('{"$where": "sleep(60000)"}', '{"a": {"$elemMatch": {"$where": "1"}}}', '{"a": {"$nonsense": 1}}'),
    *(
        '{"$expr": {"$function": {"body": "while (true);", "args": [], "lang": "js"}}}',
        '{"a": {"$regex": "("}}',
    ),
    *('{"$text": {"$search": "x"}}', '{"' + "a" * 60_000 + '": 1}'),
)


def test_attacks_are_rejected_and_nothing_is_run_for_them(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client, 20)
        client["inventory"].command("profile", 2)
        with driven(mongodb, tmp_path, spark) as job:
            for attack in ATTACKS[:-1]:
                signal(client, "inventory.t", **{"additional-condition": attack})
            job.until_answered("rejected", len(ATTACKS) - 1)
            signal(client, "inventory.t", **{"additional-condition": ATTACKS[-1]})
            signal(client, "inventory.t", **{"additional-condition": '{"n": {"$lt": 2}}'})
            job.until_answered("finished", 2)

            assert sorted(event["key"]["id"] for event in job.events("t")) == ["0", "1"]
        explained = list(client["inventory"]["system.profile"].find({"command.explain": {"$exists": True}}))
        assert explained
        assert {command["command"]["verbosity"] for command in explained} == {"queryPlanner"}
        bounded = client["inventory"]["system.profile"].find({"command.maxTimeMS": 600_000})
        assert {command["command"]["find"] for command in bounded if "find" in command["command"]} == {"t"}


def test_a_view_is_refused_with_the_reason(mongodb, tmp_path, spark):
    with mongodb.connect() as client:
        fill(client, 5)
        client["inventory"].create_collection("v", viewOn="t", pipeline=[])
        with driven(mongodb, tmp_path, spark) as job:
            signal(client, "inventory.v")
            job.until_answered("rejected")


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (State(identity={"id": "of another replica set"}), StateError),
        (State(identity={"replica_set": "rs1"}), StateError),
    ],
    ids=["another id", "another name"],
)
def test_a_state_that_can_not_go_on_is_a_clear_stop(mongodb, tmp_path, spark, state, error):
    with driven(mongodb, tmp_path, spark) as job, pytest.raises(error) as told:
        job.job._parts.source.open_log(state)

    assert told.value.hint


@pytest.fixture(scope="module")
def overtaken(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[tuple[MongoServer, State]]:
    """A server whose oplog no longer reaches back to a state."""
    # Nothing is cut that the server may need after its last checkpoint.
    with MongoServer(oplog_mb=1, checkpoint_s=1) as server, server.connect() as client:
        with driven(server, tmp_path_factory.mktemp("began"), spark) as job:
            began = job.job.state
        oplog = client["local"]["oplog.rs"]
        first = oplog.find_one()
        deadline = time.monotonic() + TIMEOUT_S
        while oplog.find_one() == first:
            assert time.monotonic() < deadline, "the oplog is never cut"
            client["inventory"]["t"].insert_many([{"large": "x" * 100_000} for _ in range(100)])
        yield server, began


def test_a_position_that_the_oplog_has_lost_is_a_clear_stop(overtaken, tmp_path, spark):
    server, began = overtaken
    with (
        driven(server, tmp_path, spark) as job,
        pytest.raises(PositionLost, match="does not reach back") as told,
    ):
        job.job._parts.source.open_log(began)

    assert "take snapshots again" in told.value.hint


def test_a_signalled_collection_begins_anew_where_a_lost_log_may(overtaken, tmp_path, spark):
    server, began = overtaken
    asked = execute(Snapshot(), ExecuteSnapshot("signal", (Target(CollectionId(("inventory", "t"))),)))
    progress = asked.with_extent(1, Extent(100, 1000, greatest=("100",)), 5)
    with driven(server, tmp_path, spark, snapshot__mode="when_needed") as job:
        state, log = job.job._parts.source.open_log(replace(began, snapshot=progress))
        log.close()

    assert [table.progress for table in state.snapshot.tables] == [None] * len(state.snapshot.tables)
    assert not state.snapshot.tables[-1].initial


def test_a_connection_string_that_can_not_be_read_is_told_without_its_password(mongodb, tmp_path, spark):
    more = {"mongodb__connection__string": "mongodb://u:s3cr3t@host:port/"}
    with pytest.raises(ConfigError) as told, driven(mongodb, tmp_path, spark, **more):
        pass

    assert "s3cr3t" not in str(told.value)


def test_a_snapshot_that_is_stopped_amid_its_slices_sends_no_more_and_the_next_one_all(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    chunks = {"tidemark.window.max.chunks": "8", "incremental.snapshot.chunk.size": "50"}
    stop = {"type": "incremental", "data-collections": ["inventory.t"]}
    with mongodb.connect() as client:
        fill(client, 400)
        with driven(mongodb, tmp_path, spark, **chunks) as job:
            windows: Any = job.job._windows
            windows._emitter._slices = Slices(0.0, 1)  # a run of keys at a time
            signal(client, "inventory.t")
            job.until(lambda: bool(job.events("t")))
            amid = windows.in_progress.opened[0].sent
            # The other slices wait until the signal has come.
            windows._ready = lambda _state: None
            client["inventory"]["t"].update_many({"n": {"$gte": 200}}, {"$set": {"changed": True}})
            client["inventory"]["signals"].insert_one({"type": "stop-snapshot", "data": stop})
            job.until_answered("stopped")
            del windows._ready
            read = [event for event in job.events("t") if event["value"]["op"] == "r"]
            job.turn(5)
            later = [event for event in job.events("t") if event["value"]["op"] == "r"]
            signal(client, "inventory.t")
            job.until_answered("finished")
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

        assert 0 < amid < 8
        assert 0 < len(read) < 400
        assert later == read
        assert replayed(job.events("t")) == stands(client, "t")
