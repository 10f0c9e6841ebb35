"""Logs that are lost. With `tidemark.recovery=repair` a job makes its copy right again.

The log of a job ends in these ways, each while no job runs and writers write:

    drop slot         the slot is dropped
    advance slot      somebody else moves the slot behind changes that the job has not read
    invalidate slot   the server gives the slot up, since it keeps too much of the log
    lose state        the checkpoint is gone, beside a sink that has turns
    age state         the checkpoint is put back to an earlier one

Some histories have a server of their own, which another one replaces while the job runs (`moving.py`): a
copy of its files from an earlier time, or a standby that does not have the slot.

What was sent is no longer what the log says, so the files of the sink are judged as a consumer sees them that
has applied all of them. At rest they equal the tables, and a verification accepts them. Faults that are put
into them are found, and repaired.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import orjson

from tests.torture.blows import moved
from tests.torture.emitted import texts
from tests.torture.oracle import Violation
from tests.torture.script import Blow
from tests.torture.truth import PREFIX, UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import psycopg

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Script
    from tests.torture.truth import Row

RECOVERS: Final[dict[str, str]] = {"tidemark.recovery": "repair"}
LOSSES: Final = {
    "drop slot": "slot dropped",
    "advance slot": "slot moved by somebody else",
    "invalidate slot": "slot invalidated",
    "lose state": "checkpoint lost",
    "age state": "checkpoint put back",
}
"""The blows of this module, and how they are counted."""
_FREED_S: Final = 10.0
_SENT_S: Final = 60.0
_FAULTY: Final = 0.6
_PAUSES: Final = frozenset({"pause", "resume"})


def with_losses(script: Script, moves: str = "") -> Script:
    """The script with a job that recovers, and with a loss in each round. `moves` replaces its server, too.

    Nothing is paused: the signal to resume may be lost.
    """
    draw = Random(f"{script.seed}/losses")
    properties = {**script.properties, **RECOVERS}
    rounds = []
    for drawn in script.rounds:
        kind, missed_s = draw.choice([*LOSSES]), draw.choice([0.0, 0.3, 1.0])
        loss = Blow(round(draw.uniform(0.3, 2.0), 2), kind, missed_s)
        faults = draw.randint(1, 8) if draw.random() < _FAULTY else 0
        signals = [sent for sent in drawn.signals if sent.kind not in _PAUSES]
        rounds.append(replace(drawn, signals=signals, blows=[*drawn.blows, loss], faults=faults))
    script = replace(script, rounds=rounds, properties=properties)
    return replace(moved(script, moves), initial=script.initial) if moves else script


def recovers(script: Script) -> bool:
    """Whether the job repairs its copy once its log is lost."""
    return RECOVERS.items() <= script.properties.items()


def lose(blow: Blow, play: Play, journal: JournalReader, connection: psycopg.Connection[Any]) -> str:
    """Kill the job and lose its log. It starts again when it is next looked after."""
    play.child.kill()
    if blow.kind == "age state":
        return _put_back(play, journal)
    time.sleep(blow.amount)
    if blow.kind == "lose state":
        shutil.rmtree(play.folder / "state", ignore_errors=True)
        return LOSSES[blow.kind]
    if not _is_free(connection):
        return ""
    match blow.kind:
        case "drop slot":
            connection.execute("SELECT pg_drop_replication_slot('job')")
        case "advance slot":
            connection.execute("SELECT pg_replication_slot_advance('job', pg_current_wal_flush_lsn())")
        case _:
            _invalidate(connection)
    return LOSSES[blow.kind]


def _put_back(play: Play, journal: JournalReader) -> str:
    """Let the job go on until it has sent a turn, and give it its earlier checkpoint again."""
    state, earlier = play.folder / "state", play.folder / "earlier"
    if not state.exists():
        return ""
    shutil.copytree(state, earlier)
    sent, until = len(journal.of("committed")), time.monotonic() + _SENT_S
    while len(journal.of("committed")) == sent and time.monotonic() < until:
        play.watch(journal)
        time.sleep(0.02)
    play.child.kill()
    shutil.rmtree(state)
    earlier.rename(state)
    return LOSSES["age state"] if len(journal.of("committed")) > sent else ""


def _invalidate(connection: psycopg.Connection[Any]) -> None:
    """Make the server give up slots that keep more than the newest file of the log."""
    run = connection.execute
    run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    run("SELECT pg_reload_conf()")
    try:
        until = time.monotonic() + _FREED_S
        lost = "SELECT FROM pg_replication_slots WHERE slot_name = 'job' AND wal_status = 'lost'"
        while not run(lost).fetchall():
            run(f"SELECT pg_logical_emit_message(false, '{PREFIX}', ''), pg_switch_wal()".encode())
            run("CHECKPOINT")
            if time.monotonic() > until:
                raise Violation("the server does not give the slot up")
    finally:
        run("ALTER SYSTEM RESET max_slot_wal_keep_size")
        run("SELECT pg_reload_conf()")


def _is_free(connection: psycopg.Connection[Any]) -> bool:
    """Whether there is a slot of the job that nobody uses, which may take a moment."""
    until = time.monotonic() + _FREED_S
    while time.monotonic() < until:
        found = connection.execute(
            "SELECT active_pid, pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = 'job'"
        ).fetchone()
        if found is None:
            return False
        if found[0] is None:
            return True
        time.sleep(0.05)
    raise Violation("the slot of a killed job is not released")


@dataclass(slots=True)
class FilesTables:
    """The tables of a consumer that has applied all turns in the files of a sink. Implements `Tables`."""

    events: Path

    def properties(self) -> dict[str, str]:
        """The sink."""
        return {"tidemark.sink": "files", "tidemark.sink.files.dir": str(self.events)}

    def behind(self) -> bool:
        """Never: a turn that is committed shows."""
        return False

    @property
    def parts(self) -> list[Path]:
        """The files of all turns, in order."""
        return [part for turn in sorted(self.events.glob("turn-*")) for part in sorted(turn.glob("part-*"))]

    def rows(self, name: str, types: Mapping[str, str]) -> list[Row] | None:
        """By the events."""
        found: dict[str, Row] = {}
        for part in self.parts:
            for line in part.read_bytes().splitlines():
                event = orjson.loads(line)
                if event["topic"] == f"tm.{name}":
                    _apply(found, event, types)
        return list(found.values())

    def lacking(self, name: str, types: Mapping[str, str]) -> bool:
        """Whether a value of a row was never sent: an update left it out, under another key."""
        return any(UNCHANGED in row.values() for row in self.rows(name, types) or [])


def _apply(rows: dict[str, Row], event: dict[str, Any], types: Mapping[str, str]) -> None:
    value = event["value"]
    if value is not None and value["op"] == "t":
        rows.clear()
        return
    before, after = _keys(event)
    known = rows.pop(before, {}) if value is None or value["op"] in "ud" else rows.get(after, {})
    if value is not None and value["op"] != "d":
        row = texts(value["after"], types)
        rows[after] = {
            name: known.get(name, text) if text == UNCHANGED else text for name, text in row.items()
        }


def _keys(event: dict[str, Any]) -> tuple[str, str]:
    """A row's key before and after an event; of a table without one, its version, which no other row has."""
    if event["key"] is not None:
        return json.dumps(event["key"]), json.dumps(event["key"])
    before, after = (json.dumps((event["value"][side] or {}).get("ver")) for side in ("before", "after"))
    return before, after
