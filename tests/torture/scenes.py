"""Short histories that exercise one guard each, with every step at the critical moment.

Owns what happens in a scene, and when; the script beside it defines the tables. Between the steps, gates hold
back the log, the readers or the rows read. They are files that the job's ports look for.
"""

from __future__ import annotations

import contextlib
import json
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.servers.postgres_states import no_standby
from tests.torture.aim import EXPORTERS
from tests.torture.blocking_scenes import blocking, blocking_alone, unpublished_behind_view
from tests.torture.blows import HEARTBEATS, PATIENCE
from tests.torture.losses import RECOVERS
from tests.torture.new_columns import NEW, column_added
from tests.torture.oracle import Violation
from tests.torture.scene import Scene
from tests.torture.script import STEPS, Blow, Fuse, Round, Script, Sent, Transaction, collections
from tests.torture.statements import statements
from tests.torture.tables import TableShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.postgres import PostgresSite
    from tests.torture.statements import Step

_PROMPT_S = 8.0
"""Far more than a window on an idle server, or a DDL statement beside one, ever takes."""


def in_window(scene: Scene) -> None:
    """All kinds of changes after a window's rows were read, before they are emitted."""
    with scene.open_window():
        scene.run(
            ["touch", 0, [1, 2, 3]],
            ["fatten", 0, [4]],
            ["move", 0, 5, 1005],
            ["swap", 0, 6, 7],
            ["remove", 0, [8]],
            ["move", 0, 9, 8],
        )


def hidden(scene: Scene) -> None:
    """An update that is streamed but not yet visible when the window opens."""
    _hidden(scene, drop=False)


def hidden_dropped(scene: Scene) -> None:
    """Like `hidden`, with a restart of the job in between."""
    _hidden(scene, drop=True)


def _hidden(scene: Scene, *, drop: bool) -> None:
    scene.until_streamed()
    with no_standby(scene.site.server):
        waiting = scene.meanwhile(["renew", 0, [3]])
        scene.until(lambda: _committed(scene, 1), "the update is in the log")
        time.sleep(0.5)
        if drop:
            starts = len(scene.journal.of("started"))
            scene.stage.child.order(do="drop")
            scene.until(lambda: len(scene.journal.of("started")) > starts, "the job is begun anew")
        scene.ask()
        scene.until_finished()
    waiting.join(10)


def _committed(scene: Scene, events: int) -> bool:
    """Whether this many events have been emitted since the log began."""
    found: int = sum(turn["events"] for turn in scene.journal.of("turn"))
    return found >= events


def moved_past(scene: Scene) -> None:
    """A row with a large value gets a key beyond all that the snapshot will read."""
    with scene.open_window():
        scene.run(["move", 0, 35, 1035])


def hidden_move(scene: Scene) -> None:
    """Like `moved_past`, by a transaction that is not visible when the snapshot measures the table."""
    scene.until_streamed()
    with scene.held("poll"):
        with no_standby(scene.site.server):
            waiting = scene.meanwhile(["move", 0, 35, 1035])
            scene.until(lambda: _committed(scene, 2), "the move is in the log")
            time.sleep(0.3)
            scene.ask()
            scene.until_window()
        waiting.join(10)


def stalled_log(scene: Scene) -> None:
    """Windows open after changes that the stream has not reached."""
    with scene.open_window(), scene.held("take"):
        scene.run(["bulk", 0, 1, 0])
        scene.release("poll")
        time.sleep(2.5)


def wrap(scene: Scene) -> None:
    """A window is open while the 32-bit transaction ids wrap around."""
    _burn_until(scene, (8 << 32) - 12)
    with scene.open_window():
        _burn_until(scene, (8 << 32) + 5)
        scene.run(["touch", 0, [3]])
        scene.until_streamed()


def _burn_until(scene: Scene, xid: int) -> None:
    with scene.site.connect_again() as connection:
        while True:
            row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
            if row is None or row[0] >= xid:
                return


def open_writer(scene: Scene) -> None:
    """A log record that nobody flushes precedes a window's horizon."""
    scene.ask()
    scene.until_finished()
    # The server flushes its log every 15 s. If that helps one window, the next ones still have to wait.
    for row in (4, 5, 6):
        with scene.site.connect_again() as writer:
            writer.autocommit = False
            with scene.held("take"):
                scene.ask()
                for statement in statements(["touch", 0, [row]], scene.stage.script.tables):
                    writer.execute(statement.encode())
            scene.until_finished(_PROMPT_S)
            writer.rollback()


def late_readers(scene: Scene) -> None:
    """Rows change before a window's readers begin, and the stream has not reached the changes."""
    with scene.open_window(holding="read"):
        scene.until_streamed()
        with scene.held("take"):
            scene.run(["touch", 0, list(range(40))])
            scene.release("read")
            time.sleep(3.0)


def rewritten(scene: Scene) -> None:
    """A table is rewritten before a window's readers begin."""
    with scene.open_window(holding="read"):
        alter = scene.meanwhile(["sql", 0, "ALTER TABLE {table} ADD COLUMN c0 float8 DEFAULT random()"])
        time.sleep(0.7)
    alter.join(20)


def ddl_waits(scene: Scene) -> None:
    """DDL waits while a window takes long."""
    with scene.open_window(holding="read"):
        since = time.monotonic()
        alter = scene.meanwhile(["sql", 0, "ALTER TABLE {table} ADD COLUMN c0 int"])
        alter.join(_PROMPT_S)
        if alter.is_alive():
            raise Violation(f"ALTER TABLE has waited for {time.monotonic() - since:.1f} s for a window")


def other_key(scene: Scene) -> None:
    """The primary key moves to another column while the table is being read."""
    _new_key(scene, "alt")


def _new_key(scene: Scene, columns: str) -> None:
    with scene.held("poll"):
        scene.ask()
        scene.until_window()
    scene.until_window(2)
    scene.run(
        ["sql", 0, f"ALTER TABLE {{table}} DROP CONSTRAINT {{table}}_pkey, ADD PRIMARY KEY ({columns})"]
    )


def between_slices(scene: Scene) -> None:
    """Changes of rows that wait to be emitted, while a part of their window is being sent."""
    with _slice_on_its_way(scene):
        scene.run(["touch", 1, [5, 15]], ["remove", 2, [6]], ["move", 3, 7, 1007])


@contextmanager
def _slice_on_its_way(scene: Scene) -> Iterator[None]:
    """Hold the first slice of a window back in the sink, while the caller acts."""
    with scene.open_window():
        scene.until_streamed()
        with scene.held("commit"):
            scene.release("poll")
            scene.until(lambda: scene.journal.of("waits"), "a slice waits for the sink")
            yield
            time.sleep(1.0)


@contextmanager
def _open_and_streamed(scene: Scene, surrogate: str = "") -> Iterator[None]:
    """Open a window whose rows wait for nothing in the log any more, only for the release of `poll`."""
    with scene.open_window(surrogate):
        scene.until_streamed()
        yield


def beside_another_window(scene: Scene) -> None:
    """Changes of rows that a second window has read, while the first one waits for the log."""
    with _open_and_streamed(scene), scene.held("take"):
        scene.run(["bulk", 0, 1, 0])
        scene.release("poll")
        # The first window has nothing to wait for; the second one waits, and the third is read beside it.
        scene.until_window(3)
        time.sleep(1.0)
        scene.run(["touch", 0, [22, 23]], ["remove", 0, [24]], ["move", 0, 25, 1025])


def few_of_many(scene: Scene) -> None:
    """Changes of few rows out of many, some of them adjacent."""
    with scene.open_window():
        scene.run(["touch", 0, [50, 51, 150, 250]], ["remove", 0, [251, 252]])


def unpublished(scene: Scene) -> None:
    """Changes while a table is not published."""
    scene.ask()
    scene.until_finished()
    scene.run(["unpublish", 0])
    scene.run(["touch", 0, [3]], ["remove", 0, [4]])
    scene.run(["publish", 0])


def slid_past(scene: Scene) -> None:
    """A row moves to a surrogate key that was already read, its large value unchanged."""
    with scene.open_window(surrogate="n"):
        scene.run(["slide", 0, 35, -35])


def alike(scene: Scene) -> None:
    """One of several equal rows is changed, and one of others deleted, before a window's rows are emitted."""
    with scene.open_window(surrogate="n"):
        scene.run(["touch", 0, [1]], ["remove", 0, [2]], ["move", 0, 3, 4])


def alike_hidden(scene: Scene) -> None:
    """One of several equal rows is deleted in the log, but not yet in the window's snapshot."""
    scene.until_streamed()
    with no_standby(scene.site.server):
        waiting = scene.meanwhile(["remove", 0, [3]])
        scene.until(lambda: _committed(scene, 1), "the delete is in the log")
        time.sleep(0.5)
        scene.ask(surrogate="n")
        scene.until_finished()
    waiting.join(10)


def alike_beside_another(scene: Scene) -> None:
    """One of several equal rows is deleted after one window opened, and before the window that reads it."""
    with _open_and_streamed(scene, "n"), scene.held("take"):
        # Not the deleted rows, whose copies are counted.
        scene.run(["bulk", 0, 13, 0])
        with scene.held("read"):
            scene.release("poll")
            scene.until_window(2)
            scene.run(["remove", 0, [10]], ["remove", 0, [11]])
        scene.until_window(3)
        time.sleep(1.0)


def other_leaf(scene: Scene) -> None:
    """Rows are deleted from a partition whose log does not identify them as rows of the root."""
    with scene.held("poll"):
        scene.ask()
        scene.until(
            lambda: scene.journal.of("window") or _answered(scene, "rejected"), "the table is read or refused"
        )
        scene.run(["remove", 0, [1, 4, 7]])
        scene.until_streamed()


def leaves_by_index(scene: Scene) -> None:
    """Rows are deleted from partitions that all log an index of the root instead of its primary key."""
    with scene.open_window():
        scene.run(["remove", 0, [1, 2, 3]], ["touch", 0, [4, 5, 6]])


def key_gains(scene: Scene) -> None:
    """The primary key gains a column while the table is being read."""
    _new_key(scene, "k, n")


def relabelled(scene: Scene) -> None:
    """Enum labels are renamed after some of the table's rows have been read."""
    with scene.open_window():
        time.sleep(2.0)
        for label in ("sad", "calm", "glad"):
            scene.run(["sql", 0, f"ALTER TYPE mood RENAME VALUE '{label}_0' TO '{label}_1'"])
    scene.until_finished()
    events = [event for event in scene.emitted() if event.table == "public.t0"]
    last = {event.after["k"]: event.after["e"] for event in events if event.after}
    if old := sorted(key for key, label in last.items() if label.endswith("_0")):
        raise Violation(f"{len(old)} rows keep a label's name of before, one is {old[0]!r}")


def leaf_truncated(scene: Scene) -> None:
    """A partition is truncated while the table is being read; under its root that is not published."""
    with scene.open_window():
        scene.run(["empty", 0, 1])
    scene.until_finished()
    if not any("deleted in the gap" in note["text"] for note in scene.journal.of("answer")):
        raise Violation("the answer says nothing of the rows that were truncated")


def come_into_filter(scene: Scene) -> None:
    """A row enters the row filter in the part already read, its large value unchanged."""
    with scene.open_window():
        scene.run(["move", 0, 36, -3])


def _answered(scene: Scene, outcome: str) -> bool:
    return any(note["outcome"] == outcome for note in scene.journal.of("answer"))


def exporter_ends(scene: Scene) -> None:
    """The session behind a window ends between its slices, and two of its tables swap names."""
    with _slice_on_its_way(scene):
        with scene.site.connect_again() as connection:
            connection.execute(EXPORTERS.encode())
        # Until the log says more, a row read may precede the swap, so a change follows it.
        scene.run(["exchange", 1, 2], ["touch", 3, [1]])


def stalled_sink(scene: Scene) -> None:
    """DDL waits while a turn is stuck in the sink and a window holds the table."""
    with contextlib.ExitStack() as held:
        held.enter_context(scene.held("read"))
        scene.ask()
        scene.until_window()
        held.enter_context(scene.held("commit"))
        scene.run(["touch", 0, [1]])
        scene.until(lambda: scene.journal.of("waits"), "a turn waits for the sink")
        alter = scene.meanwhile(["sql", 0, "ALTER TABLE {table} ADD COLUMN c0 int"])
        alter.join(_PROMPT_S)
        if alter.is_alive():
            raise Violation(f"ALTER TABLE has waited for {_PROMPT_S} s while a turn stands in the sink")


def clock_ahead(scene: Scene) -> None:
    """The driver's clock is ahead, and changes keep coming."""
    scene.skew(3600.0)
    with scene.traffic():
        time.sleep(0.5)
        scene.ask()
        scene.until_finished(3 * _PROMPT_S)


def clock_set_back(scene: Scene) -> None:
    """The driver's clock is set back, and only heartbeats make turns."""
    scene.until_streamed()
    turns = len(scene.journal.of("turn"))
    scene.until(lambda: len(scene.journal.of("turn")) > turns + 2, "heartbeats are sent")
    scene.skew(-3600.0)
    time.sleep(0.5)
    turns = len(scene.journal.of("turn"))
    scene.until(lambda: len(scene.journal.of("turn")) > turns + 2, "heartbeats are sent", _PROMPT_S)


def lost_log(scene: Scene) -> None:
    """The server's end of the log's connection vanishes without notice; all others go on."""
    scene.ask()
    scene.until_finished()
    assert scene.site.proxy is not None
    with scene.site.connect_again() as connection:
        found = connection.execute(
            "SELECT client_port FROM pg_stat_replication JOIN pg_replication_slots ON pid = active_pid"
        )
        scene.site.proxy.lose({port for (port,) in found})
    scene.run(["touch", 0, [1, 2, 3]])


def lagging_standby(scene: Scene) -> None:
    """The promoted standby lacks what was sent last."""
    _moved(scene, Blow(0.0, "lag", 3.0))


def restored_copy(scene: Scene) -> None:
    """The same with a copy of the server's files that has continued past what was sent."""
    _moved(scene, Blow(0.0, "restore", 3.0))


def _moved(scene: Scene, blow: Blow) -> None:
    scene.ask()
    scene.until_finished()
    with scene.traffic():
        scene.deal(blow)
    scene.run(["bulk", 0, 1, 0], ["bulk", 0, 1, 0], ["bulk", 0, 1, 0])


def disguised(scene: Scene) -> None:
    """A table gets another key in a way that its entries can't be decoded; another table is written to."""
    scene.deal(Blow(0.0, "disguise", 0))
    scene.run(["touch", 1, [1, 2, 3]], ["fill", 0, 60_000, 3])
    scene.until_streamed()


def copied(scene: Scene) -> None:
    """All of a table is in the sink before the first round."""
    scene.ask()
    scene.until_finished()


def slot_moved(scene: Scene) -> None:
    """Somebody else moves the slot behind changes that the job, which is down, has not read."""
    copied(scene)
    scene.stage.child.kill()
    scene.run(["touch", 0, [1, 2, 3]], ["remove", 0, [4, 5]], ["fill", 0, 50_000, 3])
    scene.deal(Blow(0.0, "advance slot"))


def only_rounds(_scene: Scene) -> None:
    """Nothing besides the script's transactions."""


def _script(scene: str, *tables: TableShape, **more: Any) -> Script:
    return Script(f"scene {scene}", list(tables), [], scene=scene, **more)


_INT = TableShape("t0", "int", "d", 40)
_ALIKE = TableShape("t0", "alike", "f", 120)
_PARTS = TableShape("t0", "parts", "d", 60)
_FOUR = [replace(_INT, name=f"t{place}") for place in range(4)]
_CHUNKED = {"incremental.snapshot.chunk.size": "10", "tidemark.window.max.chunks": "1"}
_ODD = {
    "DateStyle": "German",
    "TimeZone": "Asia/Kolkata",
    "extra_float_digits": "-10",
    "bytea_output": "escape",
}


def _odd_settings() -> Script:
    kinds = ("float", "moment", "bytes")
    tables = [TableShape(f"t{place}", kind, "d", 40) for place, kind in enumerate(kinds)]
    steps: list[Step] = [["touch", place, [1, 2, 3]] for place in range(3)]
    names = [name for shape in tables for name in collections(shape)]
    sent = Sent(0.0, "s1", "execute-snapshot", json.dumps({"data-collections": names}), "execute", names)
    one = Round([[Transaction(steps, pause_s=0.1)] * 3], [sent])
    script = _script("odd-settings", *tables, database=_ODD, properties=_CHUNKED)
    return replace(script, rounds=[one])


def _mid_transaction() -> Script:
    fills: list[Step] = [["fill", place, 1000, 40] for place in (0, 1, 0)]
    one = Round([[Transaction([*fills, ["bulk", 0, 2, 0]], pause_s=0.3)] * 4], [])
    fuses = [Fuse("promote", after=True, passes=passes) for passes in (3, 2, 1, 4)]
    script = _script(
        "mid-transaction",
        _INT,
        replace(_INT, name="t1"),
        properties={"tidemark.span.max.rows": "7"},
        fuses=fuses,
    )
    return replace(script, rounds=[one])


def _every_step() -> Script:
    """A crash before and after each named step of a turn."""
    tables = [_INT, TableShape("t1", "uuid", "d", 40)]
    names = [name for shape in tables for name in collections(shape)]
    data = json.dumps({"data-collections": names})
    sent = [Sent(0.4, f"s{n}", "execute-snapshot", data, "execute", names) for n in range(6)]
    writer = [
        Transaction([["touch", n % 2, [n % 40]], ["put", n % 2, [100 + n]]], pause_s=0.05) for n in range(100)
    ]
    # Commands first: later all signals may have been processed.
    steps = sorted(STEPS, key=lambda step: step != "commands")
    fuses = [Fuse(step, after, 0) for step in steps for after in (False, True)]
    script = _script("every-step", *tables, fuses=fuses)
    return replace(script, rounds=[Round([writer], sent)])


SCENES: dict[str, tuple[Script, Callable[[Scene], None]]] = {
    "in-window": (_script("in-window", _INT), in_window),
    "hidden": (_script("hidden", _INT), hidden),
    "hidden-dropped": (_script("hidden-dropped", _INT), hidden_dropped),
    "moved-past": (_script("moved-past", _INT, properties=_CHUNKED), moved_past),
    "hidden-move": (_script("hidden-move", _INT, properties=_CHUNKED), hidden_move),
    "stalled-log": (_script("stalled-log", _INT, properties=_CHUNKED), stalled_log),
    "wrap": (_script("wrap", _INT), wrap),
    "open-writer": (_script("open-writer", _INT), open_writer),
    "late-readers": (_script("late-readers", _INT), late_readers),
    "rewritten": (_script("rewritten", _INT), rewritten),
    "ddl-waits": (_script("ddl-waits", _INT), ddl_waits),
    "other-key": (_script("other-key", _INT, properties=_CHUNKED), other_key),
    "between-slices": (_script("between-slices", *_FOUR, slice_bytes=1), between_slices),
    "beside-another": (_script("beside-another", _INT, properties=_CHUNKED), beside_another_window),
    "few-of-many": (_script("few-of-many", replace(_INT, rows=300)), few_of_many),
    "unpublished": (_script("unpublished", _INT, listed=True), unpublished),
    "slid-past": (_script("slid-past", _INT, properties=_CHUNKED), slid_past),
    "alike": (_script("alike", _ALIKE), alike),
    "alike-hidden": (_script("alike-hidden", _ALIKE), alike_hidden),
    "alike-beside": (_script("alike-beside", _ALIKE, properties=_CHUNKED), alike_beside_another),
    "other-leaf": (_script("other-leaf", replace(_PARTS, leaf="a"), via_root=True), other_leaf),
    "leaves-by-index": (
        _script("leaves-by-index", replace(_PARTS, identity="i"), via_root=True),
        leaves_by_index,
    ),
    "key-gains": (_script("key-gains", replace(_INT, key="text"), properties=_CHUNKED), key_gains),
    "relabelled": (_script("relabelled", replace(_INT, labels=True), properties=_CHUNKED), relabelled),
    "leaf-truncated": (
        _script("leaf-truncated", _PARTS, via_root=True, properties=_CHUNKED),
        leaf_truncated,
    ),
    "into-filter": (
        _script("into-filter", replace(_INT, filter="key"), listed=True, properties=_CHUNKED),
        come_into_filter,
    ),
    "exporter-ends": (_script("exporter-ends", *_FOUR, slice_bytes=1), exporter_ends),
    "stalled-sink": (_script("stalled-sink", _INT), stalled_sink),
    "clock-ahead": (_script("clock-ahead", _INT), clock_ahead),
    "clock-set-back": (_script("clock-set-back", _INT, properties=HEARTBEATS), clock_set_back),
    "lost-log": (_script("lost-log", _INT, proxied=True, properties=PATIENCE), lost_log),
    "lagging-standby": (
        _script("lagging-standby", _INT, proxied=True, properties=PATIENCE, moves="standby"),
        lagging_standby,
    ),
    "restored-copy": (
        _script("restored-copy", _INT, proxied=True, properties=PATIENCE, moves="copy"),
        restored_copy,
    ),
    "disguised": (_script("disguised", replace(_INT, identity="f"), _FOUR[1]), disguised),
    "odd-settings": (_odd_settings(), only_rounds),
    "mid-transaction": (_mid_transaction(), only_rounds),
    "every-step": (_every_step(), only_rounds),
    "column-added": (_script("column-added", _INT, initial=True, properties={NEW: "columns"}), column_added),
    "blocking": (_script("blocking", _INT, properties=_CHUNKED), blocking),
    "blocking-alone": (_script("blocking-alone", _INT, properties=_CHUNKED), blocking_alone),
    "verified": (
        replace(_script("verified", _INT, properties=_CHUNKED), rounds=[Round([], [], faults=20)]),
        copied,
    ),
    "slot-moved": (
        replace(
            _script("slot-moved", _INT, properties={**_CHUNKED, **RECOVERS}), rounds=[Round([], [], faults=9)]
        ),
        slot_moved,
    ),
    "unpublished-behind-view": (
        _script("unpublished-behind-view", _INT, listed=True, properties=_CHUNKED),
        unpublished_behind_view,
    ),
}
"""By name: the script, and what happens."""
WRAPS = frozenset({"wrap"})
"""Scenes on a server whose transaction ids are about to wrap around."""


def play_scene(name: str, stage: Play, site: PostgresSite, journal: JournalReader) -> None:
    """Play a scene once the job runs."""
    scene = Scene(stage, site, journal)
    scene.until(lambda: journal.of("started"), "the job is started")
    SCENES[name][1](scene)
