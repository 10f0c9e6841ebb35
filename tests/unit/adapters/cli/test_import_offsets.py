"""`tidemark import-offsets` of written offsets, for each source: the state it makes, and what it refuses."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import bson
import orjson
import pytest

from adapters.source.debezium.offsets import StoredOffset
from adapters.sqlserver.commands.debezium_offset import position_behind
from adapters.sqlserver.commands.debezium_offset import state_of as sqlserver_state
from adapters.sqlserver.server.position import LogPosition
from adapters.storage.checkpoint_reader import CheckpointReader
from engine.config import parse
from engine.errors import StateError
from engine.job.saved.state import State
from engine.model import CollectionId, Position
from tests.unit.adapters.cli import test_status
from tests.unit.adapters.source.debezium.java_writer import ONE_AND_TWO, byte_map
from tests.unit.engine.config.least import SQLSERVER

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.storage.directory import LocalStorage

invoke, save = test_status.invoke, test_status.save
config, storage = test_status.config, test_status.storage
KEY = '["inventory-connector",{"server":"p"}]'
LEFT = orjson.dumps([{"incremental_snapshot_collections_id": "public.orders"}]).decode()
STREAMING = {"lsn": 24023128, "lsn_proc": 24023000, "lsn_commit": 24022000, "txId": 555, "ts_usec": 1}
TOKEN = "8263B0F9A1000000012B022C0100296E5A1004"


def written(tmp_path: Path, offset: dict[str, Any], key: str = KEY) -> Path:
    file = tmp_path / "offsets"
    file.write_bytes(key.encode() + b"\t" + orjson.dumps(offset) + b"\n")
    return file


def state_of(storage: LocalStorage) -> State:
    saved = CheckpointReader(storage.location).newest()
    assert saved is not None
    return saved.state


def test_a_job_goes_on_where_the_connector_stopped(config: Path, storage: LocalStorage, tmp_path: Path):
    result = invoke("import-offsets", config, written(tmp_path, STREAMING))

    assert result.exit_code == 0, result.output
    assert "keep slot.name" in result.stdout
    assert state_of(storage).position == Position((24023128, 0))
    assert state_of(storage).snapshot.tables == ()


def test_a_commit_behind_the_last_entry_counts(config: Path, storage: LocalStorage, tmp_path: Path):
    invoke("import-offsets", config, written(tmp_path, {**STREAMING, "lsn_commit": 24024000}))

    assert state_of(storage).position == Position((24024000, 0))


def test_a_file_of_offsets_is_read(config: Path, storage: LocalStorage, tmp_path: Path):
    file = tmp_path / "offsets.dat"
    file.write_bytes(byte_map({KEY.encode(): orjson.dumps(STREAMING)}))

    assert invoke("import-offsets", config, file).exit_code == 0
    assert state_of(storage).position == Position((24023128, 0))


def test_an_incremental_snapshot_goes_on(config: Path, storage: LocalStorage, tmp_path: Path):
    snapshot = {
        "incremental_snapshot_collections": LEFT,
        "incremental_snapshot_primary_key": ONE_AND_TWO.hex(),
        "incremental_snapshot_maximum_key": ONE_AND_TWO.hex(),
    }

    result = invoke("import-offsets", config, written(tmp_path, {**STREAMING, **snapshot}), "--json")

    assert orjson.loads(result.stdout)["snapshots"] == ["public.orders"]
    (table,) = state_of(storage).snapshot.tables
    assert table.target.collection == CollectionId(("public", "orders"))
    assert table.target.scope is not None


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        ({**STREAMING, "snapshot": True, "last_snapshot_record": False}, "a snapshot that has not finished"),
        ({"snapshot": "INITIAL", "snapshot_completed": False, "lsn": 5}, "a snapshot that has not finished"),
        ({"sec": 5, "ord": 1}, "names no lsn"),
        ({"lsn": "0/16B"}, "no position"),
        ({"lsn": -5}, "no position"),
        ({**STREAMING, "incremental_snapshot_collections": "orders"}, "can't be split"),
    ],
)
def test_what_can_not_go_on_is_refused_and_nothing_is_saved(
    config: Path, storage: LocalStorage, tmp_path: Path, offset: dict[str, Any], said: str
):
    result = invoke("import-offsets", config, written(tmp_path, offset))

    assert result.exit_code == 1
    assert said in result.stderr
    assert CheckpointReader(storage.location).newest() is None


def test_the_last_record_of_a_snapshot_is_enough(config: Path, tmp_path: Path):
    offset = {**STREAMING, "snapshot": True, "last_snapshot_record": True}

    assert invoke("import-offsets", config, written(tmp_path, offset)).exit_code == 0


def test_another_prefix_is_refused(config: Path, tmp_path: Path):
    result = invoke("import-offsets", config, written(tmp_path, STREAMING, KEY.replace('"p"', '"crm"')))

    assert result.exit_code == 1
    assert "topic prefix 'crm', not 'p'" in result.stderr


def test_a_state_is_never_replaced(config: Path, storage: LocalStorage, tmp_path: Path):
    save(storage, State(7, Position((5, 0))))

    result = invoke("import-offsets", config, written(tmp_path, STREAMING))

    assert result.exit_code == 1
    assert "there is a state already" in result.stderr
    assert state_of(storage).position == Position((5, 0))


def test_a_missing_file_is_an_error(config: Path, tmp_path: Path):
    result = invoke("import-offsets", config, tmp_path / "none")

    assert result.exit_code == 1
    assert "No such file" in result.stderr


def test_a_topic_is_read_from_the_configured_brokers(
    config: Path, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
):
    def records(topic: str, client: dict[str, str]) -> list[tuple[bytes, bytes]]:
        assert (topic, client["bootstrap.servers"]) == ("offsets", "broker:9092")
        return [(KEY.encode(), orjson.dumps(STREAMING))]

    monkeypatch.setattr("adapters.kafka.offsets_topic.records", records)
    more = "signal.kafka.topic=s\nsignal.kafka.bootstrap.servers=broker:9092\n"
    config.write_text(config.read_text() + more)

    assert invoke("import-offsets", config, "topic:offsets").exit_code == 0
    assert state_of(storage).position == Position((24023128, 0))


def test_a_topic_needs_brokers(config: Path):
    result = invoke("import-offsets", config, "topic:offsets")

    assert result.exit_code == 2
    assert "names no brokers" in result.stderr


class TestMongoDB:
    @pytest.fixture
    def config(self, tmp_path: Path) -> Path:
        path = tmp_path / "m.properties"
        path.write_text(
            "connector.class=io.debezium.connector.mongodb.MongoDbConnector\n"
            "mongodb.connection.string=mongodb://db/?replicaSet=rs0\ntopic.prefix=p\ntidemark.sink=null\n"
            f"tidemark.checkpoint={tmp_path / 'checkpoint'}\n"
        )
        return path

    KEY = '["c",{"rs":"rs0","server_id":"p"}]'

    def test_the_resume_token_is_the_position(self, config: Path, storage: LocalStorage, tmp_path: Path):
        offset = {"sec": 1672542625, "ord": 1, "transaction_id": None, "resume_token": TOKEN}
        offset["incremental_snapshot_collections"] = LEFT.replace("public.orders", "rs0.inventory.a.b")

        result = invoke("import-offsets", config, written(tmp_path, offset, self.KEY))

        assert result.exit_code == 0, result.output
        assert state_of(storage).position == Position((TOKEN, "", 0))
        assert state_of(storage).identity == {"replica_set": "rs0"}
        (table,) = state_of(storage).snapshot.tables
        assert table.target.collection == CollectionId(("inventory", "a.b"))

    def test_a_token_may_be_a_document_in_base64(self, config: Path, storage: LocalStorage, tmp_path: Path):
        offset = {"resume_token": base64.b64encode(bson.encode({"_data": TOKEN})).decode()}

        invoke("import-offsets", config, written(tmp_path, offset, self.KEY))

        assert state_of(storage).position == Position((TOKEN, "", 0))

    @pytest.mark.parametrize(
        ("offset", "said"),
        [
            ({"sec": 5, "ord": 1, "initsync": True}, "a snapshot that has not finished"),
            ({"sec": 5, "ord": 1}, "has streamed nothing yet"),
            ({"resume_token": "no token"}, "can't be read"),
        ],
    )
    def test_what_can_not_go_on_is_refused(
        self, config: Path, tmp_path: Path, offset: dict[str, Any], said: str
    ):
        result = invoke("import-offsets", config, written(tmp_path, offset, self.KEY))

        assert result.exit_code == 1
        assert said in result.stderr


class TestSqlServer:
    COMMIT = "00000027:00000758:0005"

    def test_the_last_commit_comes_again(self):
        offset = {"commit_lsn": self.COMMIT, "change_lsn": "00000027:00000758:0003", "event_serial_no": 2}

        assert position_behind(offset, "shop") == LogPosition("00000027:00000758:0004")

    @pytest.mark.parametrize("change", [None, "NULL"])
    def test_a_finished_snapshot_has_everything_up_to_its_commit(self, change: str | None):
        offset = {
            "commit_lsn": self.COMMIT,
            "change_lsn": change,
            "snapshot": True,
            "snapshot_completed": True,
        }

        assert position_behind(offset, "shop") == LogPosition(self.COMMIT)

    @pytest.mark.parametrize(
        ("offset", "said"),
        [
            ({"commit_lsn": COMMIT, "snapshot": True, "snapshot_completed": False}, "has not finished"),
            ({"commit_lsn": "5"}, "names no commit_lsn"),
            ({}, "names no commit_lsn"),
        ],
    )
    def test_what_can_not_go_on_is_refused(self, offset: dict[str, Any], said: str):
        with pytest.raises(StateError, match=said):
            position_behind(offset, "shop")

    def test_a_database_is_named_as_in_the_offsets(self):
        stored = [
            StoredOffset({"server": "server1", "database": name}, {}) for name in ("testdb1", "testDB2")
        ]

        with pytest.raises(StateError, match=r"databases 'testDB1'.*write testdb1 in database\.names"):
            sqlserver_state(parse(SQLSERVER), stored)


def test_an_incremental_snapshot_is_no_unfinished_first_one(
    config: Path, storage: LocalStorage, tmp_path: Path
):
    """Debezium 3 marks it as it marks an initial snapshot."""
    marks = {"snapshot": "INCREMENTAL", "snapshot_completed": False, "last_snapshot_record": False}
    offset = {**STREAMING, **marks, "incremental_snapshot_collections": LEFT}

    result = invoke("import-offsets", config, written(tmp_path, offset))

    assert result.exit_code == 0, result.output
    assert [str(table.target.collection) for table in state_of(storage).snapshot.tables] == ["public.orders"]
