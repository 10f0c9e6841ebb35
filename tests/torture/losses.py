"""Logs that are lost. With `tidemark.recovery=repair` a job makes its copy right again.

The log of a job ends while writers write. On every source its checkpoint may be lost:

    lose state        the checkpoint is gone, beside a sink that has turns
    age state         the checkpoint is put back to an earlier one

What else can happen is the source's: see `slot_losses.py`, `mongo_losses.py` and `sqlserver_losses.py`.

What was sent is no longer what the log says, so the files of the sink are judged as a consumer sees them that
has applied all of them (`files_tables.py`). At rest they equal the tables, and a verification accepts them.
Faults that are put into them are found, and repaired.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from tests.torture.blows import moved
from tests.torture.script import Blow

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Script

RECOVERS: Final[dict[str, str]] = {"tidemark.recovery": "repair"}
STATE_LOSSES: Final = {"lose state": "checkpoint lost", "age state": "checkpoint put back"}
"""The losses that every source has, and how they are counted."""
_SENT_S: Final = 60.0
_FAULTY: Final = 0.6
_PAUSES: Final = frozenset({"pause", "resume"})


def with_losses(script: Script, kinds: Collection[str], first: int, moves: str = "") -> Script:
    """The script with a job that recovers, and with a loss in each round.

    The kinds of loss take turns, beginning with number `first`. `moves` replaces the script's server, too.
    Nothing is paused: the signal to resume may be lost.
    """
    draw = Random(f"{script.seed}/losses")
    properties = {**script.properties, **RECOVERS}
    rounds, turns = [], [*kinds]
    for number, drawn in enumerate(script.rounds):
        kind = turns[(first + number) % len(turns)]
        loss = Blow(round(draw.uniform(0.3, 2.0), 2), kind, draw.choice([0.0, 0.3, 1.0]))
        faults = draw.randint(1, 8) if draw.random() < _FAULTY else 0
        signals = [sent for sent in drawn.signals if sent.kind not in _PAUSES]
        rounds.append(replace(drawn, signals=signals, blows=[*drawn.blows, loss], faults=faults))
    script = replace(script, rounds=rounds, properties=properties)
    return replace(moved(script, moves), initial=script.initial) if moves else script


def recovers(script: Script) -> bool:
    """Whether the job repairs its copy once its log is lost."""
    return RECOVERS.items() <= script.properties.items()


def lose_state(blow: Blow, play: Play, journal: JournalReader) -> str:
    """Kill the job and lose its checkpoint. It starts again when it is next looked after."""
    play.child.kill()
    if blow.kind == "age state":
        return _put_back(play, journal)
    time.sleep(blow.amount)
    shutil.rmtree(play.folder / "state", ignore_errors=True)
    return STATE_LOSSES[blow.kind]


def _put_back(play: Play, journal: JournalReader) -> str:
    """Let the job go on until it has sent a turn, and give it its earlier checkpoint again."""
    state, earlier = play.folder / "state", play.folder / "earlier"
    if not state.exists():
        return ""
    shutil.copytree(state, earlier)
    sent = sends(play, journal)
    play.child.kill()
    shutil.rmtree(state)
    earlier.rename(state)
    return STATE_LOSSES["age state"] if sent else ""


def sends(play: Play, journal: JournalReader) -> bool:
    """Whether the job sends a turn within a minute. It is looked after meanwhile."""
    sent, until = len(journal.of("committed")), time.monotonic() + _SENT_S
    while len(journal.of("committed")) == sent and time.monotonic() < until:
        play.watch(journal)
        time.sleep(0.02)
    return len(journal.of("committed")) > sent
