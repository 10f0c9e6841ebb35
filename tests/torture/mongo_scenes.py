"""Short histories on MongoDB that exercise one guard each, with every step at the critical moment."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pymongo import WriteConcern

from tests.servers.mongodb import MongoSet
from tests.torture.answers import Asked
from tests.torture.documents import DATABASE, act
from tests.torture.mongo_writers import DEFINITIONS
from tests.torture.oracle import Violation
from tests.torture.over import Over
from tests.torture.scene import Scene
from tests.torture.script import Script, Sent, collections
from tests.torture.tables import TableShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.mongodb import MongoServer
    from tests.torture.journal import JournalReader
    from tests.torture.mongo_site import MongoSite
    from tests.torture.play import Play
    from tests.torture.statements import Step

_PATIENCE_S, _TAKEN_S, _READ_S, _LATE_S, _PROMPT_S = 60.0, 0.6, 1.0, 2.5, 30.0
"""Limits for: the end of a step, a take, reading a window, an early emission, a healthy job."""


@dataclass(slots=True)
class MongoScene(Scene):
    """What a scene can do on MongoDB, in addition to the general steps."""

    place: MongoSite | None = None
    definitions: int = 0

    @property
    def ground(self) -> MongoSite:
        """The site that it is played on."""
        assert self.place is not None
        return self.place

    def run(self, *steps: Step) -> None:
        """Run these steps, each on its own."""
        for step in steps:
            if step[0] in DEFINITIONS:
                self.definitions += 1
                self.ground.define(f"scene{self.definitions}", step)
            else:
                self._act(step, None)

    def run_together(self, *steps: Step) -> None:
        """Run these steps in one transaction."""
        with self.ground.client.start_session() as session, session.start_transaction():
            for step in steps:
                self._act(step, session)

    def _act(self, step: Step, session: Any) -> None:
        shape = self.stage.script.tables[step[1]]
        act(step, shape, self.ground.client[DATABASE][shape.name], session)

    def ask(self, surrogate: str = "") -> None:  # noqa: ARG002  documents have only their own key
        """Request a snapshot of all collections."""
        self.stage.ask(self._signal(*self.stage.script.tables))

    def ask_blocking(self) -> None:
        """Request a blocking snapshot of all collections."""
        self.stage.oracle.blocks = True
        asked = self._signal(*self.stage.script.tables)
        self.stage.ask(replace(asked, data=(asked.data or "").replace("incremental", "blocking")))

    def ask_beside_the_log(self, *shapes: TableShape) -> None:
        """Request these collections by a signal outside the log: a line in a file."""
        sent = self._signal(*shapes)
        line = {"id": sent.id, "type": sent.type, "data": json.loads(sent.data or "")}
        with (self.stage.folder / "signals").open("a") as file:
            file.write(json.dumps(line) + "\n")
        turns = self.journal.of("turn")
        self.stage.answers.asked[sent.id] = Asked(sent, turn=turns[-1]["turn"] if turns else 0)

    def _signal(self, *shapes: TableShape) -> Sent:
        self.signals += 1
        names = [name for shape in shapes for name in collections(shape)]
        data = json.dumps({"type": "incremental", "data-collections": names})
        return Sent(0.0, f"scene{self.signals}", "execute-snapshot", data, "execute", names)

    @contextlib.contextmanager
    def held(self, what: str) -> Iterator[None]:
        """Hold something back.

        What was already requested of a log still comes, so wait for that to finish.
        """
        with Scene.held(self, what):
            if what == "take":
                time.sleep(_TAKEN_S)
            yield

    def until_streamed(self) -> None:
        """Wait until everything committed has been streamed."""
        end = self.ground.mark()
        self.until(
            lambda: any(self.ground.passed(turn["position"], end) for turn in self.journal.of("turn")[-1:]),
            "the log is streamed",
        )

    def until_initial(self, what: str) -> None:
        """Wait for the end of the initial snapshot of the first collection."""
        (name,) = collections(self.stage.script.tables[0])
        self.until(
            lambda: any(note["text"].startswith(f"{name} completed") for note in self.journal.of("answer")),
            what,
            _PROMPT_S,
        )

    def wait_for_window(self, most_s: float, count: int = 1) -> None:
        """Wait for the n-th window, but no longer than this: a healthy job may not open it yet."""
        until = time.monotonic() + most_s
        while time.monotonic() < until and len(self.journal.of("window")) < count:
            time.sleep(0.01)


# Windows and the log.


def in_window(scene: MongoScene) -> None:
    """All kinds of changes after a window's documents were read, before they are emitted."""
    with scene.open_window():
        time.sleep(_READ_S)
        scene.run(
            ["touch", 0, [1, 2, 3]],
            ["cut", 0, [4]],
            ["remove", 0, [8]],
            ["put", 0, [9, 41]],
            ["respell", 0, [10]],
            ["touch", 0, [10]],
        )
        time.sleep(_READ_S)


def giant_in_window(scene: MongoScene) -> None:
    """A document grows until its event has no room for it."""
    with scene.open_window():
        time.sleep(_READ_S)
        scene.run(["swell", 0, [3]])
        scene.until_streamed()


def within_a_time(scene: MongoScene) -> None:
    """A window contains a transaction of which only the first changes have been streamed."""
    with scene.open_window():
        scene.until_streamed()
        with scene.held("take"):
            scene.run_together(["touch", 0, list(range(40))])
            scene.release("poll")
            # The first window has nothing to wait for; later ones contain the transaction.
            scene.until_window(2)
            time.sleep(_LATE_S)


def dropped(scene: MongoScene) -> None:
    """A collection is dropped after its documents were read."""
    with scene.open_window():
        time.sleep(_READ_S)
        scene.run(["drop", 0])
        scene.until_streamed()


def renamed_onto(scene: MongoScene) -> None:
    """Another collection replaces one whose documents were read."""
    with scene.open_window():
        time.sleep(_READ_S)
        scene.run(["replace", 0, 30])
        scene.until_streamed()


def renamed_between(scene: MongoScene) -> None:
    """A rename lies between the times of two windows; only the later one reads that collection."""
    first, second = scene.stage.script.tables
    scene.until_streamed()
    with scene.held("take"):
        scene.run(["touch", 0, [1]])
        scene.ask_beside_the_log(first)
        scene.until_window()
        scene.run(["replace", 1, 30])
        scene.ask_beside_the_log(second)
        scene.until(lambda: _is_read(scene, "shop.t1"), "the second collection is read")
        time.sleep(_READ_S)


def _is_read(scene: MongoScene, name: str) -> bool:
    return any(run[0] == name for window in scene.journal.of("window") for run in window["runs"])


def read_late(scene: MongoScene) -> None:
    """A collection is read later than its window opened, and the stream has not reached that point."""
    with scene.open_window(holding="read"):
        scene.until_streamed()
        with scene.held("take"):
            scene.run(["touch", 0, list(range(40))])
            scene.release("read")
            time.sleep(_LATE_S)


def states_gone(scene: MongoScene) -> None:
    """The initial snapshot is read so late that the server no longer has the state of its time."""
    with scene.held("read"):
        for n in range(8):
            scene.run(["touch", 0, [n]])
            time.sleep(0.5)
    scene.until_initial("what is left of the initial snapshot is read in windows")


def undecodable(scene: MongoScene) -> None:
    """Documents of one collection can't be decoded for a while; a snapshot completes it again."""
    scene.run(["touch", 0, [1, 2]], ["spoil", 0, [3]], ["touch", 1, [1]])
    scene.until_streamed()
    scene.run(["touch", 0, [4]], ["remove", 0, [5]], ["put", 0, [41]], ["heal", 0, [3]], ["touch", 1, [2]])
    scene.until_streamed()
    with scene.open_window():
        scene.run(["touch", 0, [1, 6]], ["touch", 1, [3]])
        scene.until_streamed()
    scene.until_finished(_PROMPT_S)
    scene.run(["touch", 0, [7]])


# Members.


def lagging(scene: MongoScene) -> None:
    """A member in the connection string does not have the collections yet."""
    scene.until_initial("the initial snapshot is complete while a member lags")


def unacknowledged(scene: MongoScene) -> None:
    """The log begins after documents that no other member has yet."""
    scene.wait_for_window(_LATE_S)
    _set_of(scene).cut_off(on=False)


def rolled_back(scene: MongoScene) -> None:
    """A collection is measured on a primary without followers, whose own writes are rolled back."""
    server = _set_of(scene)
    with scene.held("take"):
        scene.ask()
        server.wait_until_whole()
        server.cut_off()
        shape = scene.stage.script.tables[0]
        with server.primary.connect_directly() as client:
            alone = client[DATABASE].get_collection(shape.name, write_concern=WriteConcern(w=1))
            alone.delete_many({"n": {"$gte": 20}})
    scene.wait_for_window(_LATE_S)
    time.sleep(_LATE_S)  # until the measurement is saved
    server.kill()
    server.cut_off(on=False)
    server.start()


def _set_of(scene: MongoScene) -> MongoSet:
    server = scene.ground.server
    assert isinstance(server, MongoSet)
    return server


def restored(scene: MongoScene) -> None:
    """Changes are streamed, nothing happens for a while, then the server's files revert to an older copy."""
    (server,) = scene.ground.server.members
    scene.run(["put", 0, [1, 2, 3]])
    scene.until_streamed()
    copy = server.put_aside()
    scene.run(["touch", 0, [1]], ["put", 0, [1001, 1002]], ["remove", 0, [2]])
    scene.until_streamed()
    note = scene.ground.client.admin.command("appendOplogNote", 1, data={"idle": True})["operationTime"]
    scene.until(lambda: _at(scene, note), "the idle time is saved")
    server.put_back(copy)
    scene.run(["put", 0, [2001]])
    _ended(server, scene.journal)
    scene.ground.oracle.happened["servers put back to older files"] += 1
    raise Over


def _ended(server: MongoServer, journal: JournalReader) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not journal.of("died"):
        if time.monotonic() > until:
            raise Violation("the job goes on with a log that is another one")
        time.sleep(0.05)
    (died,) = journal.of("died")
    if "put back to an older copy" not in died["error"] or not server.running:
        raise Violation(f"the job died otherwise than of older files: {died['error']}")


def _at(scene: MongoScene, stamp: Any) -> bool:
    end = (stamp.time << 32) + stamp.inc
    return any(scene.ground.passed(note["position"], end) for note in scene.journal.of("turn")[-1:])


_PLAIN = TableShape("t0", "int32", "-", 40)
_FULL = {"capture.mode": "change_streams_update_full"}
_CHUNKED = {**_FULL, "incremental.snapshot.chunk.size": "10", "tidemark.window.max.chunks": "1"}
_SIGNAL_DOCUMENTS = {"incremental.snapshot.watermarking.strategy": "insert_insert"}
_BY_FILE = {"signal.enabled.channels": "source,file", "signal.file": "{folder}/signals"}
_CHANGES_ALONE = '[{{"$match": {{"operationType": {{"$in": ["insert", "update", "replace", "delete"]}}}}}}]'
_THREE = {"members": "3"}


def _script(scene: str, *tables: TableShape, **more: Any) -> Script:
    properties = more.pop("properties", _FULL)
    return Script(f"scene {scene}", list(tables) or [_PLAIN], [], scene=scene, properties=properties, **more)


_HALVES = {**_CHUNKED, "tidemark.span.max.rows": "2"}


def blocking(scene: MongoScene) -> None:
    """Changes before the time of a blocking snapshot, not yet streamed, and changes after it."""
    scene.until_streamed()
    with scene.held("commit"):
        scene.ask_blocking()
        scene.until(lambda: scene.journal.of("waits"), "the turn that obeys the signal waits for the sink")
        with scene.held("take"):
            scene.run(["touch", 0, [1, 25]])
            scene.release("commit")
            scene.until_window()
            time.sleep(_LATE_S)
    with scene.held("poll"):
        scene.run(["touch", 0, [3, 35]])
        time.sleep(_LATE_S)
        if len([event for event in scene.emitted() if event.op == "u"]) > 2:
            raise Violation("the stream went on while a blocking snapshot is read")
    scene.until_finished()
    scene.run(["touch", 0, [5]])


SCENES: dict[str, tuple[Script, Callable[[MongoScene], None]]] = {
    "blocking": (_script("blocking", properties=_CHUNKED), blocking),
    "in-window": (_script("in-window"), in_window),
    "odd-ids": (
        _script("odd-ids", replace(_PLAIN, key="raw"), properties=_CHUNKED),
        in_window,
    ),
    "giant-in-window": (_script("giant-in-window"), giant_in_window),
    "within-a-time": (_script("within-a-time", properties=_HALVES), within_a_time),
    "behind-the-close": (
        _script("behind-the-close", properties={**_CHUNKED, **_SIGNAL_DOCUMENTS}),
        within_a_time,
    ),
    "dropped": (_script("dropped"), dropped),
    "renamed-onto": (
        _script("renamed-onto", properties={**_FULL, "cursor.pipeline": _CHANGES_ALONE}),
        renamed_onto,
    ),
    "renamed-between": (
        _script(
            "renamed-between",
            replace(_PLAIN, rows=10),
            replace(_PLAIN, name="t1"),
            properties={**_CHUNKED, **_BY_FILE},
        ),
        renamed_between,
    ),
    "capped": (_script("capped", replace(_PLAIN, key="capped")), read_late),
    "capped-first": (
        _script("capped-first", replace(_PLAIN, key="capped"), replace(_PLAIN, name="t1"), initial=True),
        lambda _scene: None,
    ),
    "states-gone": (
        _script(
            "states-gone",
            properties=_CHUNKED,
            initial=True,
            database={"history_s": "1"},
            lulls={"read": 0.6},
        ),
        states_gone,
    ),
    "undecodable": (_script("undecodable", _PLAIN, replace(_PLAIN, name="t1")), undecodable),
    "lagging": (_script("lagging", initial=True, database={**_THREE, "late": "lag"}), lagging),
    "unacknowledged": (
        _script("unacknowledged", properties=_CHUNKED, initial=True, database={**_THREE, "late": "cut off"}),
        unacknowledged,
    ),
    "rolled-back": (_script("rolled-back", properties=_CHUNKED, database=_THREE), rolled_back),
    "restored": (_script("restored"), restored),
}
"""By name: the script, and what happens."""


def play_scene(name: str, stage: Play, site: MongoSite, journal: JournalReader) -> None:
    """Play a scene once the job runs."""
    scene = MongoScene(stage, site, journal, place=site)  # type: ignore[arg-type]  # of its kind
    scene.until(lambda: journal.of("started"), "the job is started")
    SCENES[name][1](scene)
