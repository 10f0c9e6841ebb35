"""The last commit before version 2 of the state continues a state that this one saved, and back.

`make older-release` runs it: it takes that commit from git, which a test of every change should not need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from engine.job.saved.state_document import beside_to_json, from_json, to_json
from engine.model import NO_LIMIT
from engine.verify.certificate import Chain
from tests.demo import source
from tests.demo.tidemark import Folder, Tidemark, write_properties
from tests.integration.test_restart import (
    assert_read_once_and_equal,
    progress,
    rows_read,
    streaming,
)
from tests.strategies import states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.job.saved.state import State
    from engine.model import Target
    from engine.snapshot.extent import FailedSnapshot, Gap, Progress
    from engine.snapshot.queue_entry import Table
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

OLDER = "f5f61d9"
ROOT = Path(__file__).parents[2]
ROWS = 120_000
SIGNAL = '{"data-collections": ["public.orders"]}'
STATES = ("postgres", "postgres-snapshot", "mongodb", "sqlserver")
COPY = """
import sys
from engine.state import beside_to_json, from_json, to_json
for line in sys.stdin:
    path, beside = line.rstrip("\\n").split("\\t")
    load = (lambda name: open(path + ".beside", "rb").read()) if beside else None
    state = from_json(open(path, "rb").read(), load)
    open(path, "wb").write(to_json(state))
    if beside:
        open(path + ".beside", "wb").write(beside_to_json(state))
    print("copied", flush=True)
"""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The older commit's files."""
    tree = tmp_path_factory.mktemp("older")
    packed = subprocess.run(["git", "archive", OLDER], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(tree, filter="data")
    return tree


class Copying:
    """The older commit reads documents and writes them back."""

    def __init__(self, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COPY],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def copy(self, path: Path, *, beside: bool = False) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{path}\t{'beside' if beside else ''}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "copied\n"

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def copying(older: Path) -> Iterator[Copying]:
    process = Copying(older)
    yield process
    process.close()


@pytest.mark.parametrize("name", STATES)
def test_a_saved_state_passes_through_the_older_release(name: str, copying: Copying, tmp_path: Path):
    state = from_json((ROOT / f"tests/unit/states/{name}.json").read_bytes())
    path = tmp_path / "state.json"
    path.write_bytes(to_json(state))
    copying.copy(path)

    assert from_json(path.read_bytes()) == state


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states)
def test_any_state_passes_through_the_older_release(copying: Copying, tmp_path: Path, state):
    path, beside = tmp_path / "state.json", tmp_path / "state.json.beside"
    tables = tuple(replace(table, ticket=ticket) for ticket, table in enumerate(state.snapshot.tables))
    for tried in (state, replace(state, snapshot=replace(state.snapshot, tables=tables), beside="b")):
        path.write_bytes(to_json(tried))
        beside.write_bytes(beside_to_json(tried))
        copying.copy(path, beside=bool(tried.beside))

        assert from_json(path.read_bytes(), lambda _name: beside.read_bytes()) == as_the_older_knows_it(tried)


def as_the_older_knows_it(state: State) -> State:
    """The state without what the older release drops.

    `tests/unit/engine/job/saved/test_state_forms.py` says of each field why that does no harm.
    """
    snapshot = state.snapshot
    plain = replace(
        snapshot,
        tables=tuple(plain_entry(table) for table in snapshot.tables),
        failed=tuple(plain_failed(failed) for failed in snapshot.failed if failed.target.scope is None),
        paused=False,
    )
    return replace(state, snapshot=plain, certificates=Chain(), recovery=None, attempt=None)


def plain_entry(table: Table) -> Table:
    """An entry without pause, priority, limit and scope; one with a scope has no progress."""
    begun = table.target.scope is None
    return replace(
        table,
        target=plain_target(table.target),
        progress=plain_progress(table.progress) if begun and table.progress else None,
        resumes=plain_failed(table.resumes) if begun and table.resumes else None,
        paused=False,
        priority=0,
        limit=NO_LIMIT,
    )


def plain_target(target: Target) -> Target:
    return replace(target, scope=None, blocking=False)


def plain_progress(progress: Progress) -> Progress:
    """Progress without certificates, comparisons, and what only entries with a scope have."""
    extent, missing = replace(progress.extent, scoped=None, schema=""), plain_gaps(progress.missing)
    return replace(progress, extent=extent, missing=missing, points=(), found=0, certified=None, noted=None)


def plain_failed(failed: FailedSnapshot) -> FailedSnapshot:
    return replace(failed, target=plain_target(failed.target), gaps=plain_gaps(failed.gaps))


def plain_gaps(gaps: tuple[Gap, ...]) -> tuple[Gap, ...]:
    return tuple(replace(gap, points=()) for gap in gaps)


def job(folder: Folder, tree: Path, module: str) -> Tidemark:
    command = [sys.executable, "-m", module]
    return Tidemark(folder, command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)})


def test_a_snapshot_begun_here_is_continued_by_the_older_release_and_finished_here(
    older: Path, database: Database, tmp_path: Path
):
    source.fill(database, orders=ROWS, stock=10)
    folder = Folder(tmp_path)
    write_properties(folder, database, source.Login(database.server.user, database.server.password))
    with folder.properties.open("a", encoding="utf-8") as file:
        file.write("tidemark.window.max.chunks=1\nincremental.snapshot.chunk.size=2000\n")
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())

    with job(folder, ROOT, "adapters.cli.app") as running:
        running.until(lambda: streaming(database))
        change(database, f"INSERT INTO {source.SIGNALS} VALUES ('s', 'execute-snapshot', '{SIGNAL}')")
        running.until(lambda: rows_read(running) >= 4_000)
        running.stop()
        begun = progress(running)
    assert begun is not None

    change(database, "UPDATE public.orders SET note = 'beside' WHERE id % 1000 = 1")
    with job(folder, older, "engine.cli") as running:
        running.until(lambda: rows_read(running) > begun.rows + 4_000)
        running.stop()
        continued = progress(running)
    assert continued is not None
    assert begun.rows < continued.rows < ROWS

    change(database, "DELETE FROM public.orders WHERE id % 1000 = 2")
    with job(folder, ROOT, "adapters.cli.app") as running:
        running.until(lambda: running.said("completed: "))
        end = database.value("SELECT pg_current_wal_insert_lsn()::text FROM pg_current_xact_id()")
        reached = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots"
        running.until(lambda: database.value(f"{reached} WHERE slot_name = '{source.SLOT}'"))
        running.stop()

    assert_read_once_and_equal(folder, database)


def change(database: Database, statement: str) -> None:
    with database.connect() as connection:
        connection.execute(statement.encode())
