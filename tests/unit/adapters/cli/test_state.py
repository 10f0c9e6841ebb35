"""`tidemark state`: what it shows, what it changes, and when it refuses."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from adapters.cli import checkpoint_change
from adapters.cli.checkpoint_change import changing
from adapters.sqlserver.server.position import LogPosition, position_of
from adapters.storage.checkpoint_reader import CheckpointReader
from adapters.storage.lease import FileLease
from adapters.storage.owner import Claim
from adapters.storage.state import FileStateStore
from engine.config import read
from engine.errors import LeaseLost
from engine.job.saved.state import State
from engine.job.saved.state_document import from_json, to_json
from engine.model import CollectionId, Position, Target
from engine.snapshot.extent import FailedSnapshot, Gap
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.hand_clock import HandClock
from tests.unit.adapters.cli.test_status import config, entry, invoke, reading, save, storage

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.storage.directory import LocalStorage

__all__ = ["config", "storage"]
TABLES = (entry("orders", progress=reading()), entry("lines", ticket=2))
FAILED = FailedSnapshot(Target(CollectionId(("public", "orders"))), ("id",), (Gap(None, (("1",),)),))
STATE = State(7, Position((5, 0)), Snapshot(TABLES, 3, (FAILED,)))


def test_the_newest_state_is_shown_as_it_was_saved(config: Path, storage: LocalStorage):
    save(storage, STATE)

    shown = orjson.loads(invoke("state", "show", config).stdout)

    assert shown == orjson.loads(to_json(STATE))


def test_an_export_has_everything_in_one_document(config: Path, storage: LocalStorage, tmp_path: Path):
    tables = tuple(entry(f"t{ticket}", ticket=ticket) for ticket in range(60))
    state = State(7, Position((5, 0)), Snapshot(tables, 61), beside="yes")
    save(storage, state)
    file = tmp_path / "out.json"

    assert invoke("state", "export", config, file).exit_code == 0
    assert from_json(file.read_bytes()).snapshot == state.snapshot


def test_only_its_owner_may_read_an_export(config: Path, storage: LocalStorage, tmp_path: Path):
    """It has keys of rows, as the checkpoint has, which nobody else may read."""
    save(storage, STATE)
    file = tmp_path / "out.json"

    assert invoke("state", "export", config, file).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_export_replaces_nothing(config: Path, storage: LocalStorage, tmp_path: Path):
    save(storage, STATE)
    file = tmp_path / "out.json"
    file.write_text("mine")

    result = invoke("state", "export", config, file)

    assert result.exit_code == 1
    assert file.read_text() == "mine"


def test_a_reset_forgets_a_tables_snapshots_and_keeps_the_state_before(config: Path, storage: LocalStorage):
    save(storage, STATE)

    result = invoke("state", "reset-table", config, "public.orders")

    assert result.exit_code == 0, result.output
    newest = CheckpointReader(storage.location).newest()
    assert newest is not None
    assert [str(table.target.collection) for table in newest.state.snapshot.tables] == ["public.lines"]
    assert newest.state.snapshot.failed == ()
    assert newest.state.position == STATE.position
    (kept,) = (name for name in storage.names() if name.startswith("backup-"))
    assert kept in result.stdout
    assert to_json(STATE) in storage.read(kept)


def test_two_changes_within_a_second_keep_two_states(
    config: Path, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
):
    save(storage, STATE)
    monkeypatch.setattr(checkpoint_change, "system_clock", lambda: HandClock().clock)

    first = orjson.loads(invoke("state", "reset-table", config, "public.orders", "--json").stdout)
    second = orjson.loads(invoke("state", "reset-table", config, "public.lines", "--json").stdout)

    assert first["backup"] != second["backup"]
    assert to_json(STATE) in storage.read(first["backup"])


def test_a_change_that_has_lost_the_lease_is_not_written(config: Path, storage: LocalStorage):
    """As where the command stood still for longer than the lease lives, and a job has begun meanwhile."""
    save(storage, STATE)

    with changing(read(str(config))) as change:
        storage.create("lease-000000000099.json", storage.read("lease-000000000001.json"))
        with pytest.raises(LeaseLost):
            change.write(replace(STATE, position=Position((9, 0))))

    assert state_of(storage) == STATE
    assert not any(name.startswith("backup-") for name in storage.names())


@pytest.mark.parametrize("name", ["shop.fs.files", '"shop"."fs.files"', 'shop."fs.files"'])
def test_a_reset_finds_a_name_that_contains_dots(config: Path, storage: LocalStorage, name: str):
    files, others = CollectionId(("shop", "fs.files")), CollectionId(("shop", "fs.chunks"))
    tables = tuple(Table(ticket, "0/1", Target(each)) for ticket, each in enumerate((files, others), 1))
    save(storage, State(7, Position((5, 0)), Snapshot(tables, 3, (replace(FAILED, target=Target(files)),))))

    result = invoke("state", "reset-table", config, name)

    snapshot = state_of(storage).snapshot
    assert "forgot" in result.stdout
    assert [table.target.collection for table in snapshot.tables] == [others]
    assert snapshot.failed == ()


def test_a_reset_of_a_misspelt_name_suggests_another(config: Path, storage: LocalStorage):
    save(storage, STATE)

    result = invoke("state", "reset-table", config, "public.order")

    assert "(did you mean 'public.orders'?); nothing was changed" in result.stdout


def test_a_job_goes_on_from_the_changed_state(config: Path, storage: LocalStorage):
    save(storage, STATE)
    invoke("state", "reset-table", config, "public.orders")

    states = FileStateStore(storage, epoch=9).load()

    assert states.pending is None
    assert states.promoted is not None
    assert len(from_json(states.promoted.document).snapshot.tables) == 1


def test_a_table_without_snapshots_changes_nothing(config: Path, storage: LocalStorage):
    save(storage, STATE)

    result = invoke("state", "reset-table", config, "public.other")

    assert result.exit_code == 0
    assert "nothing was changed" in result.stdout
    assert not any(name.startswith("backup-") for name in storage.names())


def test_a_running_job_is_not_changed_under_its_feet(config: Path, storage: LocalStorage):
    save(storage, STATE)
    config.write_text(config.read_text() + "tidemark.lease.ttl.ms=1000\n")
    lease = FileLease(storage, Claim("orders", 1000))
    lease.try_take()
    renewed = Renewing(lease)

    result = invoke("state", "reset-table", config, "public.orders")
    renewed.end()

    assert result.exit_code == 3
    assert "held by job 'orders'" in result.stderr
    assert not any(name.startswith("backup-") for name in storage.names())


def test_a_turn_that_only_the_sink_knows_is_settled_first(config: Path, storage: LocalStorage):
    save(storage, STATE)
    FileStateStore(storage).save_pending(8, to_json(STATE.next_turn()))

    result = invoke("state", "reset-table", config, "public.orders")

    assert result.exit_code == 1
    assert "only the sink knows whether it ended" in result.stderr


def test_a_checkpoint_on_an_object_store_is_only_looked_at(config: Path):
    config.write_text(config.read_text().replace("tidemark.checkpoint=", "tidemark.checkpoint=mock://b"))

    result = invoke("state", "reset-table", config, "public.orders")

    assert result.exit_code in {1, 2}
    assert "Traceback" not in result.stderr


class Renewing:
    """Renews a lease beside a test, as a running job does."""

    def __init__(self, lease: FileLease) -> None:
        self._ended = threading.Event()

        def renew() -> None:
            while not self._ended.wait(0.1):
                lease.renew()

        self._thread = threading.Thread(target=renew)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def state_of(storage: LocalStorage) -> State:
    newest = CheckpointReader(storage.location).newest()
    assert newest is not None
    return newest.state


def test_a_position_is_set_and_what_was_known_of_the_log_is_forgotten(config: Path, storage: LocalStorage):
    memory = {"last_commit": (5, 1, 1), "last_commit_end": 5, "subscription": "debezium p ()"}
    save(storage, replace(STATE, memory=memory))

    result = invoke("state", "set-position", config, "16/B374D848")

    assert result.exit_code == 0, result.output
    assert state_of(storage).position == Position((0x16_B374_D848, 0))
    assert state_of(storage).memory == {"subscription": "debezium p ()"}
    assert state_of(storage).snapshot == STATE.snapshot
    (kept,) = (name for name in storage.names() if name.startswith("backup-"))
    assert kept in result.stdout


MONGODB = """\
connector.class=io.debezium.connector.mongodb.MongoDbConnector
mongodb.connection.string=mongodb://db/?replicaSet=rs0
"""
SQLSERVER = """\
connector.class=io.debezium.connector.sqlserver.SqlServerConnector
database.hostname=db
database.user=u
database.password=p
database.names=shop,crm
"""
TOKEN = "8263B0F9A1000000012B022C0100296E5A1004"
LSN = "00000025:00000d98:00a2"


def of_source(config: Path, said: str) -> None:
    kept = [line for line in config.read_text().splitlines() if not line.startswith("database.")]
    config.write_text(said + "\n".join(kept) + "\n")


def test_a_resume_token_is_set(config: Path, storage: LocalStorage):
    of_source(config, MONGODB)
    save(storage, State(7, Position((TOKEN, "", 1)), memory={"event": [TOKEN, "", 0]}))

    assert invoke("state", "set-position", config, TOKEN.replace("01", "02", 1)).exit_code == 0
    assert state_of(storage).position == Position((TOKEN.replace("01", "02", 1), "", 0))
    assert state_of(storage).memory == {}


def test_a_place_in_each_database_is_set(config: Path, storage: LocalStorage):
    of_source(config, SQLSERVER)
    save(storage, State(7, Position(("x",) * 8), memory={"names": ["shop", "crm"]}))

    result = invoke("state", "set-position", config, f"{LSN},{LSN.upper()}")

    assert result.exit_code == 0, result.output
    assert state_of(storage).position == position_of([LogPosition(LSN), LogPosition(LSN)])


@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        ("", "yesterday", "no LSN"),
        ("", "16", "no LSN"),
        (MONGODB, "16/B374D848", "no resume token"),
        (SQLSERVER, "16/B374D848", "no LSN"),
        (SQLSERVER, LSN, "2 databases, and 1 positions"),
    ],
)
def test_what_is_no_position_is_refused(
    config: Path, storage: LocalStorage, source: str, text: str, said: str
):
    if source:
        of_source(config, source)
    save(storage, replace(STATE, memory={"names": ["shop", "crm"]}))

    result = invoke("state", "set-position", config, text)

    assert result.exit_code == 2
    assert said in result.stderr
    assert state_of(storage).position == STATE.position


def test_only_jobs_on_postgresql_are_moved(config: Path, storage: LocalStorage):
    of_source(config, MONGODB)
    save(storage, STATE)

    result = invoke("state", "move", config)

    assert result.exit_code == 2
    assert "can't be done for this source" in result.stderr


def test_programs_get_what_was_done(config: Path, storage: LocalStorage, tmp_path: Path):
    save(storage, State(3, snapshot=Snapshot((entry("orders"),), 2)))

    exported = orjson.loads(invoke("state", "export", config, tmp_path / "out.json", "--json").stdout)
    nothing = orjson.loads(invoke("state", "reset-table", config, "public.other", "--json").stdout)
    reset = orjson.loads(invoke("state", "reset-table", config, "public.orders", "--json").stdout)

    assert exported == {"turn": 3, "file": str(tmp_path / "out.json")}
    assert nothing == {"changed": False, "backup": None}
    assert reset["changed"]
    assert (tmp_path / "checkpoint" / reset["backup"]).exists()
