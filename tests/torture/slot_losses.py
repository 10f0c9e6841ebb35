"""Slots of PostgreSQL that are lost, while no job runs and writers write.

    drop slot         the slot is dropped
    advance slot      somebody else moves the slot behind changes that the job has not read
    invalidate slot   the server gives the slot up, since it keeps too much of the log

Some histories have a server of their own, which another one replaces while the job runs (`moving.py`): a
copy of its files from an earlier time, or a standby that does not have the slot.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from tests.torture.losses import STATE_LOSSES, lose_state
from tests.torture.oracle import Violation
from tests.torture.truth import PREFIX

if TYPE_CHECKING:
    import psycopg

    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Blow

SLOT_LOSSES: Final = {
    "drop slot": "slot dropped",
    "advance slot": "slot moved by somebody else",
    "invalidate slot": "slot invalidated",
    **STATE_LOSSES,
}
"""The losses on PostgreSQL, and how they are counted."""
_FREED_S: Final = 10.0


def lose_slot(blow: Blow, play: Play, journal: JournalReader, connection: psycopg.Connection[Any]) -> str:
    """Kill the job and lose its slot or its checkpoint. It starts again when it is next looked after."""
    if blow.kind in STATE_LOSSES:
        return lose_state(blow, play, journal)
    play.child.kill()
    time.sleep(blow.amount)
    if not _is_free(connection):
        return ""
    match blow.kind:
        case "drop slot":
            connection.execute("SELECT pg_drop_replication_slot('job')")
        case "advance slot":
            connection.execute("SELECT pg_replication_slot_advance('job', pg_current_wal_flush_lsn())")
        case _:
            _invalidate(connection)
    return SLOT_LOSSES[blow.kind]


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
