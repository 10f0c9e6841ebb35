"""`tidemark status`: what it says of a checkpoint, while a job runs there and when none does."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from typer.testing import CliRunner

from adapters.cli import app, status
from adapters.storage.directory import LocalStorage
from adapters.storage.figures import FILE
from adapters.storage.lease import FileLease
from adapters.storage.owner import Claim
from adapters.storage.state import FileStateStore
from engine.config.findings import Distance
from engine.isolation.incomplete import Cause, Incomplete
from engine.job.saved.state import State
from engine.job.saved.state_document import beside_to_json, to_json
from engine.model import CollectionId, Position, Range, Target
from engine.snapshot.extent import Extent, FailedSnapshot, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = CollectionId(("public", "orders"))
LEAST = """\
database.hostname=db
database.user=u
database.password=p
database.dbname=inventory
topic.prefix=p
tidemark.sink=null
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.properties"
    path.write_text(f"{LEAST}tidemark.checkpoint={tmp_path / 'checkpoint'}\n")
    return path


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "checkpoint")


def save(storage: LocalStorage, state: State) -> None:
    store = FileStateStore(storage)
    if state.beside:
        state = replace(state, beside=store.save_beside(state.turn, beside_to_json(state)))
    store.save_pending(state.turn, to_json(state))
    store.promote(state.turn)


def entry(name: str, **changed: Any) -> Table:
    table = Table(1, "0/1A", Target(CollectionId(("public", name))), id="mine")
    return replace(table, **changed)


def reading() -> Progress:
    extent = Extent(1000, 10_000, greatest=("1000",), span=(1, 1000))
    since_ms = int(time.time() * 1000) - 10_000
    return Progress(extent, since_ms, (Range(("250",), ("1000",)),), rows=250, emitted=240, chunks=2)


def invoke(*arguments: object):
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def told(config: Path) -> dict[str, Any]:
    result = invoke("status", config, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = orjson.loads(result.stdout)
    return found


def test_a_job_that_never_ran(config: Path):
    result = invoke("status", config)

    assert result.exit_code == 0
    assert "has never run" in result.stdout
    assert "none was saved yet" in result.stdout


def test_each_collection_stands_where_its_entry_says(config: Path, storage: LocalStorage):
    tables = (
        entry("orders", progress=reading()),
        entry("lines", ticket=2, paused=True),
        entry("stock", ticket=3),
    )
    failed = FailedSnapshot(
        Target(CollectionId(("public", "lost"))), ("id",), (Gap(Range(("1",), ("9",)), (), "no"),)
    )
    save(storage, State(7, Position((5, 0)), Snapshot(tables, 4, (failed,))))

    overview = told(config)["overview"]

    assert overview["turn"] == 7
    stages = {snapshot["collection"]: snapshot["stage"] for snapshot in overview["snapshots"]}
    assert stages == {
        "public.orders": "reading",
        "public.lines": "paused",
        "public.stock": "queued",
        "public.lost": "failed",
    }
    orders, *_others, lost = overview["snapshots"]
    assert (orders["percent"], orders["rows"], orders["emitted"], orders["id"]) == (25.0, 250, 240, "mine")
    assert 20 < orders["rows_per_s"] <= 25
    assert 25 < orders["eta_s"] < 40
    assert lost["lacks"] == ["keys after (1) up to (9): no"]


def test_the_text_has_a_line_for_each_collection(config: Path, storage: LocalStorage):
    save(storage, State(7, Position((5, 0)), Snapshot((entry("orders", progress=reading()),), 2)))

    lines = invoke("status", config).stdout.splitlines()

    start = "snapshot of public.orders: reading, 25.0% (250 rows read, 240 emitted), "
    assert any(line.startswith(start) for line in lines)


@pytest.mark.parametrize("terminal", [False, True])
def test_keys_of_rows_can_not_steer_a_terminal(
    config: Path, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, *, terminal: bool
):
    """Whoever may write rows chooses their keys, and so what is told of those that can't be read."""
    monkeypatch.setattr("rich.console.Console.is_terminal", terminal)
    monkeypatch.setenv("COLUMNS", "500")
    gap = Gap(Range(("\x1b]0;owned\x07\n[/b]",), ("[link=x]",)), (), "no")
    failed = FailedSnapshot(Target(CollectionId(("public", "\x1b[2J"))), ("id",), (gap,))
    aside = Incomplete(CollectionId(("public", "\x1b[8m")), Cause.UNDECODABLE, "0/1A", "a type\nis gone")
    save(storage, State(7, Position((5, 0)), Snapshot((), 4, (failed,)), incomplete=(aside,)))

    result = invoke("status", config)

    assert result.exit_code == 0, result.output
    for harmful in ("\x1b]", "\x1b[2J", "\x1b[8m", "\x07", "\nis gone"):
        assert harmful not in result.stdout
    assert "[/b]" in result.stdout


def test_what_is_set_aside_is_said(config: Path, storage: LocalStorage):
    aside = Incomplete(ORDERS, Cause.UNDECODABLE, "0/1A", "a type is gone")
    save(storage, State(7, Position((5, 0)), incomplete=(aside,)))

    assert (
        "incomplete: public.orders is set aside since 0/1A: a type is gone" in invoke("status", config).stdout
    )


def test_a_queue_in_a_document_of_its_own_is_read(config: Path, storage: LocalStorage):
    tables = tuple(entry(f"t{ticket}", ticket=ticket) for ticket in range(60))
    save(storage, State(7, Position((5, 0)), Snapshot(tables, 61), beside="yes"))

    assert len(told(config)["overview"]["snapshots"]) == 60


@pytest.mark.parametrize("released", [False, True])
def test_whoever_holds_the_lease_runs(config: Path, storage: LocalStorage, *, released: bool):
    lease = FileLease(storage, Claim("orders"))
    lease.try_take()
    if released:
        lease.release()

    found = told(config)

    assert found["running"] is not released
    assert found["holder"].startswith(f"job 'orders', process {os.getpid()} on ")


def test_lag_and_kept_log_are_those_that_the_job_wrote(config: Path, storage: LocalStorage):
    save(storage, State(7, Position((5, 0))))
    figures = {"at_s": 1.0, "turn": 7, "position": "0/5", "lag_s": 0.25, "kept_bytes": 4096, "unknown": 1}
    storage.create(FILE, orjson.dumps(figures))

    found = told(config)

    assert (found["position"], found["lag_s"], found["kept_bytes"]) == ("0/5", 0.25, 4096)
    assert found["figures_age_s"] > 1000
    assert "the server keeps 4,096 bytes of log" in invoke("status", config).stdout


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (
            Distance("0/20", 4096, kept="slot 's' keeps 16.0 MiB of log, status 'reserved'"),
            "server: its log ends at 0/20, 4,096 bytes after what was saved; slot 's' keeps 16.0 MiB of log",
        ),
        (
            Distance("cluster time 9, 1", behind_s=4.0),
            "server: its log ends at cluster time 9, 1, 4 s after what",
        ),
        (Distance("00000025:00000d98:00a2"), "server: its log ends at 00000025:00000d98:00a2\n"),
    ],
)
def test_the_server_is_asked_if_that_is_wanted(
    config: Path, storage: LocalStorage, monkeypatch, server: Distance, line: str
):
    save(storage, State(7, Position((5, 0))))
    asked = []

    def distance_of(_settings: object, position: Position) -> Distance:
        asked.append(position)
        return server

    monkeypatch.setattr(status, "distance_of", distance_of)

    quiet = invoke("status", config).stdout
    found = invoke("status", config, "--connect").stdout

    assert asked == [Position((5, 0))]
    assert "server:" not in quiet
    assert line in found


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"at_s":',
        b'{"at_s": 1.5, "turn": 7, "position": "\xf0("}',
        b'{"at_s": 1.5, "turn": 7, "kept_bytes": 99999999999999999999}',
    ],
)
def test_figures_that_are_damaged_are_as_none(config: Path, storage: LocalStorage, damaged: bytes):
    storage.create(FILE, damaged)

    assert told(config)["lag_s"] is None


def test_a_damaged_state_is_an_error_that_names_its_file(config: Path, storage: LocalStorage):
    storage.create("turn-000000000007.json", b"{}")

    result = invoke("status", config)

    assert result.exit_code == 1
    assert "turn-000000000007.json" in result.stderr


def test_without_a_checkpoint_there_is_nothing_to_look_at(tmp_path: Path):
    path = tmp_path / "c.properties"
    path.write_text(LEAST)

    result = invoke("status", path)

    assert result.exit_code == 2
    assert "'tidemark.checkpoint' is not set" in result.stderr


def test_nothing_is_created_by_looking(config: Path, tmp_path: Path):
    invoke("status", config)

    assert not (tmp_path / "checkpoint").exists()


def test_a_login_in_the_checkpoint_s_address_is_not_shown(config: Path):
    address = "s3://an-id:a-s3cret@bucket/x?no_such_option=1"
    config.write_text(f"{LEAST}tidemark.checkpoint={address}\n")

    for command in ("status", "state show", "state reset-table"):
        result = invoke(*command.split(), config, *(["public.t"] if "reset" in command else []))
        assert result.exit_code == 1, result.output
        assert "a-s3cret" not in result.output
