"""Logs of SQL Server that are lost, while writers write.

    clean up     retention removes changes that the job has not read, while no job runs
    take over    an older copy of a database goes on in its place, while the job runs or not

Tables keep their columns and captures: which of them a copy has, the history does not know.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.torture.losses import STATE_LOSSES, lose_state, sends, with_losses
from tests.torture.sqlserver_writers import DEFINITIONS

if TYPE_CHECKING:
    from tests.servers.sqlserver.server import StandInDatabase
    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Blow, Script

CHANGE_LOSSES: Final = {
    "clean up": "change tables cleaned up",
    "take over": "databases put back to older copies",
    **STATE_LOSSES,
}
"""The losses on SQL Server, and how they are counted."""


def with_lost_changes(script: Script, first: int) -> Script:
    """The script with losses from this one on, and without definitions."""
    rounds = [
        replace(
            drawn,
            writers=[[act for act in acts if act.steps[0][0] not in DEFINITIONS] for acts in drawn.writers],
        )
        for drawn in script.rounds
    ]
    return with_losses(replace(script, rounds=rounds), CHANGE_LOSSES, first)


def lose_changes(blow: Blow, play: Play, journal: JournalReader, database: StandInDatabase) -> str:
    """Lose the job's log or its checkpoint. A job that was killed starts when it is next looked after."""
    if blow.kind in STATE_LOSSES:
        return lose_state(blow, play, journal)
    if blow.kind == "take over":
        copied = database.back_up()
        sent = sends(play, journal)
        if not blow.amount:
            play.child.kill()
        database.take_over(copied)
        return CHANGE_LOSSES["take over"] if sent else ""
    play.child.kill()
    time.sleep(blow.amount)
    database.capture()
    if newest := database.max_lsn():
        database.cleanup(newest)
    return CHANGE_LOSSES["clean up"] if newest else ""
