"""Scenes of blocking snapshots: what is in their view, what the stream brings, and where it waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.servers.postgres_states import no_standby
from tests.torture.oracle import Violation

if TYPE_CHECKING:
    from tests.torture.scene import Scene

_WAITS_S, _FINISHED_S = 1.5, 90.0
_ON_STANDBY = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


def blocking(scene: Scene) -> None:
    """Changes before, beside and behind the view of a blocking snapshot, which takes several windows.

    Rows 4 and 27 change in the log before the view is opened, rows 2 and 26 before its position: neither is
    in the view, since their commits wait for a standby. Rows 1 and 25 are in the view, and not streamed when
    the first windows are read. Rows 3 and 35 change while the stream waits.
    """
    scene.until_streamed()
    with no_standby(scene.site.server):
        early = scene.meanwhile(["touch", 0, [4, 27]])
        _until_on_standby(scene, 1)
        scene.until(lambda: _changed(scene, 27), "the early change is streamed")
        with scene.held("commit"):
            scene.ask_blocking()
            scene.until(
                lambda: scene.journal.of("waits"), "the turn that obeys the signal waits for the sink"
            )
            with scene.held("take"):
                scene.run_locally(["touch", 0, [1, 25]])
                late = scene.meanwhile(["touch", 0, [2, 26]])
                _until_on_standby(scene, 2)
                scene.release("commit")
                scene.until_window()
                time.sleep(_WAITS_S)
        _until_waiting(scene)
    # Rows whose large values nobody has sent are read again once their changes are visible.
    early.join(10)
    late.join(10)
    scene.until_finished(_FINISHED_S)


def blocking_alone(scene: Scene) -> None:
    """A change after a blocking snapshot of which nothing has to be read again."""
    scene.ask_blocking()
    scene.until_finished()
    scene.run(["touch", 0, [1]])


def unpublished_behind_view(scene: Scene) -> None:
    """A table is changed while it is not published. The view of a blocking snapshot is older than that."""
    with scene.held("poll"):
        scene.ask_blocking()
        scene.until_window()
        scene.run(["unpublish", 0])
        scene.run(["touch", 0, [3]])
        scene.run(["publish", 0])
        scene.until(lambda: scene.journal.of("turn")[-1]["incomplete"], "the job knows of the gap")
    scene.until_finished(_FINISHED_S)


def _until_waiting(scene: Scene) -> None:
    """Let the stream come to the view, and see that it waits there while the rest is read."""
    with scene.held("poll"):
        scene.until(lambda: _changed(scene, 26), "the stream comes to the view")
        scene.run_locally(["touch", 0, [3, 35]])
        time.sleep(_WAITS_S)
        if _changed(scene, 35):
            raise Violation("the stream went on while a blocking snapshot is read")


def _changed(scene: Scene, row: int) -> bool:
    """Whether an update of the row was emitted."""
    return any(
        event.op == "u" and event.after and event.after["n"] == row and event.table == "public.t0"
        for event in scene.emitted()
    )


def _until_on_standby(scene: Scene, sessions: int) -> None:
    def waiting() -> bool:
        with scene.site.connect_again() as connection:
            row = connection.execute(_ON_STANDBY).fetchone()
        return row is not None and row[0] >= sessions

    scene.until(waiting, f"{sessions} commits wait for a standby")
