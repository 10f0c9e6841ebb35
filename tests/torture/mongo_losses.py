"""Logs of MongoDB that are lost, while writers write.

    pass log    the oplog has lost what the job has not read, while no job runs
    restore     the server goes on from older files, while the job runs or not

Nothing tells consumers that a collection was dropped or renamed, and events can't have every document
(`verified.py`). Histories with losses do none of that: what a consumer has is to be right whenever all is at
rest.
"""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.servers.mongodb import MongoServer
from tests.torture.losses import STATE_LOSSES, lose_state, sends, with_losses
from tests.torture.oracle import Violation
from tests.torture.verified import INCOMPLETE_FOR_A_WHILE, UNTOLD

if TYPE_CHECKING:
    from pymongo import MongoClient

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Blow, Script

LOG_LOSSES: Final = {"pass log": "oplog passed", "restore": "servers put back to older files", **STATE_LOSSES}
"""The losses on MongoDB, and how they are counted."""
SMALL_OPLOG_MB: Final = 4
_MODES: Final = ("change_streams_update_full", "change_streams_update_full_with_pre_image")
_PASSED_S: Final = 120.0


def with_lost_logs(script: Script, first: int) -> Script:
    """The script on one server, with losses from this one on, and without what no event tells of."""
    draw = Random(f"{script.seed}/lossy")
    left_out = UNTOLD | INCOMPLETE_FOR_A_WHILE
    rounds = [
        replace(
            drawn,
            writers=[
                [act for act in acts if not any(step[0] in left_out for step in act.steps)]
                for acts in drawn.writers
            ],
            strikes=[],
            restarts=[],
        )
        for drawn in script.rounds
    ]
    properties = {**script.properties, "capture.mode": draw.choice(_MODES)}
    script = replace(script, rounds=rounds, properties=properties, database={})
    return with_losses(script, LOG_LOSSES, first)


def lose_log(
    blow: Blow,
    play: Play,
    journal: JournalReader,
    server: MongoServer,
    client: MongoClient[dict[str, Any]],
) -> str:
    """Lose the job's log or its checkpoint. A job that was killed starts when it is next looked after."""
    if blow.kind in STATE_LOSSES:
        return lose_state(blow, play, journal)
    if blow.kind == "restore":
        copy = server.put_aside()
        sent = sends(play, journal)
        if not blow.amount:
            play.child.kill()
        server.put_back(copy)
        return LOG_LOSSES["restore"] if sent else ""
    play.child.kill()
    time.sleep(blow.amount)
    _pass(client)
    return LOG_LOSSES["pass log"]


def _pass(client: MongoClient[dict[str, Any]]) -> None:
    """Write until the oplog has lost what is its end now."""
    oplog = client["local"]["oplog.rs"]
    newest = next(oplog.find().sort("$natural", -1).limit(1))
    until = time.monotonic() + _PASSED_S
    while oplog.find_one({"ts": newest["ts"]}):
        if time.monotonic() > until:
            raise Violation("the server keeps all of its oplog")
        client["other"]["t"].insert_many([{"large": "x" * 100_000} for _ in range(20)])
        client["other"]["t"].drop()
