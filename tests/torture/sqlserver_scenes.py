"""Short histories on SQL Server that exercise one guard each, with every step at the critical moment."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.torture.answers import Asked
from tests.torture.scene import Scene
from tests.torture.script import Fuse, Round, Script, Sent, Transaction, collections
from tests.torture.sqlserver_tables import statements
from tests.torture.tables import TableShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.sqlserver_site import SqlServerSite
    from tests.torture.statements import Step

_LATE_S = 10.0
"""How long the log stays behind: without its guard a window closes meanwhile, unless reading takes longer."""


@dataclass(slots=True)
class SqlServerScene(Scene):
    """What a scene can do on SQL Server, in addition to the general steps."""

    place: SqlServerSite | None = None

    def run(self, *steps: Step) -> None:
        """Run these steps, each in its own transaction."""
        assert self.place is not None
        tables = self.stage.script.tables
        for step in steps:
            with self.place.server.postgres.connect(tables[step[1]].database) as connection:
                for statement in statements(step, tables):
                    connection.execute(statement.encode())

    def ask(self, surrogate: str = "") -> None:
        """Request a snapshot of all tables."""
        assert not surrogate
        assert self.place is not None
        self.signals += 1
        names = [name for shape in self.stage.script.tables for name in collections(shape)]
        data = json.dumps({"type": "incremental", "data-collections": names})
        sent = Sent(0.0, f"scene{self.signals}", "execute-snapshot", data, "execute", names)
        self.stage.answers.asked[sent.id] = Asked(sent)
        self.place._run("alpha", f"INSERT INTO dbo.signals VALUES ('{sent.id}', '{sent.type}', '{data}')")

    @contextlib.contextmanager
    def no_capture(self) -> Iterator[None]:
        """Capture nothing meanwhile."""
        assert self.place is not None
        self.place.capturer.held.set()
        time.sleep(0.3)
        try:
            yield
        finally:
            self.place.capturer.held.clear()


def in_window(scene: SqlServerScene) -> None:
    """All kinds of changes after a window's rows were read, before they are emitted."""
    with scene.open_window():
        scene.until_read()
        scene.run(
            ["touch", 0, [1, 2, 3]],
            ["fatten", 0, [4]],
            ["move", 0, 5, 1005],
            ["swap", 0, 6, 7],
            ["remove", 0, [8]],
            ["respell", 0, 10],
        )
        time.sleep(1.0)


def late_capture(scene: SqlServerScene) -> None:
    """Rows are read that contain changes which the log does not have yet."""
    with scene.open_window(holding="read"), scene.no_capture():
        scene.run(["bulk", 0, 1, 0], ["move", 0, 5, 1005])
        scene.release("read")
        until = time.monotonic() + _LATE_S
        while time.monotonic() < until and not scene.journal.of("closed"):
            time.sleep(0.05)


def switched(scene: SqlServerScene) -> None:
    """A table has two capture instances, and both have its changes."""
    assert scene.place is not None
    scene.run(["touch", 0, [1, 2]])
    scene.place.clerk.define(["switch", 0, "ALTER TABLE {table} ADD c1 int NULL"])
    scene.run(["touch", 0, [1, 3]], ["move", 0, 5, 1005])


def shifted(scene: SqlServerScene) -> None:
    """Statements that give several rows the keys of their neighbours."""
    scene.run(["shift", 0, 3, 4], ["touch", 0, [4, 5]], ["shift", 0, 38, 3])


def only_rounds(_scene: SqlServerScene) -> None:
    """Nothing besides the script's transactions."""


_WORDS = TableShape("t0", "words", "-", 40, "alpha")
_ALPHA = {"databases": "alpha", "delay_s": "0.03"}
_SIGNAL_ROWS = {
    "snapshot.mode": "schema_only",
    "incremental.snapshot.watermarking.strategy": "insert_insert",
    "poll.interval.ms": "20",
}
_READ_ONLY = {**_SIGNAL_ROWS, "incremental.snapshot.watermarking.strategy": "visibility"}


def _script(scene: str, properties: dict[str, str], **more: Any) -> Script:
    return Script(f"scene {scene}", [_WORDS], [], scene=scene, properties=properties, database=_ALPHA, **more)


def _mid_commit() -> Script:
    """The job is dropped in the middle of commits that are larger than its spans."""
    fills: list[Step] = [["fill", 0, 1000 * place, 30] for place in (1, 2)]
    one = Round([[Transaction([*fills, ["bulk", 0, 2, 0]], pause_s=0.3)]], [])
    fuses = [Fuse("promote", after=True, passes=passes) for passes in (2, 1, 2)]
    script = _script("mid-commit", {**_SIGNAL_ROWS, "tidemark.span.max.rows": "15"}, fuses=fuses)
    return replace(script, rounds=[one])


def _locked() -> Script:
    """An initial snapshot with locks, beside writers."""
    writer = [Transaction([["touch", 0, [n % 40]], ["put", 0, [100 + n]]], pause_s=0.02) for n in range(200)]
    properties = {**_SIGNAL_ROWS, "snapshot.mode": "initial", "snapshot.isolation.mode": "exclusive"}
    return replace(
        _script("locked", properties, initial=True), scene="", rounds=[Round([writer, writer[::-1]], [])]
    )


SCENES: dict[str, tuple[Script, Callable[[SqlServerScene], None]]] = {
    "in-window": (_script("in-window", _SIGNAL_ROWS), in_window),
    "late-capture": (_script("late-capture", _SIGNAL_ROWS), late_capture),
    "late-capture-read-only": (_script("late-capture-read-only", _READ_ONLY), late_capture),
    "switched": (_script("switched", _SIGNAL_ROWS), switched),
    "mid-commit": (_mid_commit(), only_rounds),
    "shifted": (_script("shifted", _SIGNAL_ROWS), shifted),
    "locked": (_locked(), only_rounds),
}
"""By name: the script, and what happens."""


def play_scene(name: str, stage: Play, site: SqlServerSite, journal: JournalReader) -> None:
    """Play a scene once the job runs."""
    scene = SqlServerScene(stage, site, journal, place=site)  # type: ignore[arg-type]  # of its kind
    scene.until(lambda: journal.of("started"), "the job is started")
    SCENES[name][1](scene)
