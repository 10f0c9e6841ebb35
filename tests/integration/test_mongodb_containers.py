"""Every supported MongoDB, from images; only where there is Docker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from testcontainers.core.container import DockerContainer

from engine.errors import ConfigError
from tests.golden.case import OWN_CASES
from tests.servers.images import docker_answers
from tests.servers.mongodb import REPLICA_SET, clear, initiate
from tests.servers.port import free_port

if TYPE_CHECKING:
    from tests.servers.mongodb import MongoServer

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(
        not docker_answers(), reason="there is no Docker here; an embedded server runs instead"
    ),
]

VERSIONS = ("5.0", "6.0", "7.0", "8.0")
CASES = ("a3_crud_default_mode", "d1_snapshot_initial", "e4_incremental_id_mixed", "h2_transactions_metadata")


@dataclass(frozen=True)
class Contained:
    """A replica set in a container, as the recorded cases' runner takes one."""

    port: int
    host = "127.0.0.1"

    def connect(self, **options: Any) -> MongoClient[dict[str, Any]]:
        return MongoClient(self.uri, **options)

    @property
    def uri(self) -> str:
        return f"mongodb://{self.host}:{self.port}/?replicaSet={REPLICA_SET}"

    def clear(self) -> None:
        with self.connect() as client:
            clear(client)


@pytest.fixture(scope="module", params=VERSIONS)
def contained(request: pytest.FixtureRequest) -> Iterator[Contained]:
    # the same port on both sides: members are found by the name that the set has for them
    server = Contained(free_port())
    command = f"mongod --replSet {REPLICA_SET} --bind_ip_all --port {server.port}"
    command += " --setParameter enableTestCommands=1"
    image = DockerContainer(f"mongo:{request.param}").with_command(command)
    with image.with_bind_ports(server.port, server.port):
        begin(server)
        yield server


def begin(server: Contained) -> None:
    deadline = time.monotonic() + 60
    with MongoClient[dict[str, Any]](server.host, server.port, directConnection=True) as client:
        while True:
            with contextlib.suppress(PyMongoError):
                initiate(client, f"{server.host}:{server.port}")
                if client.admin.command("hello")["isWritablePrimary"]:
                    return
            assert time.monotonic() < deadline, "the replica set does not begin"
            time.sleep(0.2)


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gives_its_events_on_every_version(contained: Contained, name: str):
    # imported here, since it starts Spark: only where there is Docker
    from tests.golden.engine_under_test import start_mongodb  # noqa: PLC0415
    from tests.golden.mongo_runner import MongoRunner  # noqa: PLC0415
    from tests.golden.verdict import verdict  # noqa: PLC0415

    assert verdict(OWN_CASES / "mongodb" / name, MongoRunner(contained, start_mongodb).run).fault is None


def test_a_snapshot_under_writes_gives_the_collection_on_every_version(
    contained: Contained, tmp_path: Path, request: pytest.FixtureRequest
):
    # imported here, since they start Spark: only where there is Docker
    from tests.integration import test_mongodb_job as jobs  # noqa: PLC0415

    server, spark = cast("MongoServer", contained), request.getfixturevalue("spark")
    with contained.connect() as client:
        contained.clear()
        jobs.fill(client)
        with jobs.driven(server, tmp_path, spark) as job:
            with jobs.writing(server, 1):
                jobs.signal(client, "inventory.t")
                job.until_answered("finished")
            with contextlib.suppress(PyMongoError):
                client.admin.command({"replSetStepDown": 1, "force": True})
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until_seen("end")

        assert jobs.replayed(job.events("t")) == jobs.stands(client, "t")


def test_pre_images_are_had_from_6_0_on(contained: Contained, tmp_path: Path, request: pytest.FixtureRequest):
    # imported here, since they start Spark: only where there is Docker
    from tests.integration import test_mongodb_job as jobs  # noqa: PLC0415

    server, spark = cast("MongoServer", contained), request.getfixturevalue("spark")
    mode = {"capture.mode": "change_streams_with_pre_image"}
    with contained.connect() as client:
        contained.clear()
        old = client.server_info()["versionArray"][0] < 6
        refused = pytest.raises(ConfigError, match="pre-images") if old else contextlib.nullcontext()
        images: dict[str, Any] = {} if old else {"changeStreamPreAndPostImages": {"enabled": True}}
        client["inventory"].create_collection("t", **images)
        with refused, jobs.driven(server, tmp_path, spark, **mode) as job:
            client["inventory"]["t"].insert_one({"_id": 1, "v": "first"})
            client["inventory"]["t"].update_one({"_id": 1}, {"$set": {"v": "second"}})
            job.until(lambda: len(job.events("t")) == 2)

            assert job.events("t")[1]["value"]["before"] == '{"_id": 1,"v": "first"}'


def test_events_above_16_mb_come_in_parts_where_the_server_splits_them(
    contained: Contained, tmp_path: Path, request: pytest.FixtureRequest
):
    # imported here, since they start Spark: only where there is Docker
    from tests.integration import test_mongodb_job as jobs  # noqa: PLC0415
    from tests.integration.test_mongodb_large import LARGE_ID, NINE_MB  # noqa: PLC0415

    server, spark = cast("MongoServer", contained), request.getfixturevalue("spark")
    mode = {
        "cursor.oversize.handling.mode": "split",
        "capture.mode": "change_streams_update_full_with_pre_image",
        "tidemark.span.max.rows": "1",
    }
    with contained.connect() as client:
        contained.clear()
        if tuple(client.server_info()["versionArray"][:3]) < (6, 0, 9):
            with pytest.raises(ConfigError, match="6\\.0\\.9"), jobs.driven(server, tmp_path, spark, **mode):
                pass
            return
        database = client["inventory"]
        database.create_collection("t", changeStreamPreAndPostImages={"enabled": True})
        with jobs.driven(server, tmp_path, spark, **mode) as job:
            database["t"].insert_one({"_id": 1, "a": "x" * NINE_MB})
            # Document, image and description have no room in one event.
            database["t"].update_one({"_id": 1}, {"$set": {"a": "y" * NINE_MB, "n": 1}})
            job.until(lambda: len(job.events("t")) >= 2)
        database["marks"].insert_one({"_id": "end"})
        with jobs.driven(server, tmp_path, spark, **mode) as job:
            job.until_seen("end")
            inserted, updated = job.events("t")
            # A part has no room for the document beside a token that holds its _id.
            database["t"].insert_one({"_id": LARGE_ID, "x": "y" * (13 << 20)})
            with pytest.raises(ConfigError, match="over 16 MB") as told:
                job.until(lambda: False)

        assert updated["value"]["before"] == inserted["value"]["after"]
        assert len(updated["value"]["updateDescription"]["updatedFields"]) > NINE_MB
        assert len(updated["value"]["after"]) > NINE_MB
        assert told.value.hint == "set 'cursor.oversize.handling.mode' to 'skip'"
