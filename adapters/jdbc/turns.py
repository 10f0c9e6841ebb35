"""The table of turns in the target: which turn each job has committed there, and which process may commit.

    tidemark_turns     job        name of the job
                       sink       distinguishes these tables from all others
                       turn       the newest turn, null before the first
                       owner      the process that may commit the next one
                       checkpoint, epoch   whose it is, and its lease

A turn's number is written by the transaction that writes its rows. That transaction locks the job's row
first, so whoever asks for the turn waits until it has ended. A process that takes over writes its own name
as the owner. What an earlier one has begun can't be committed from then on. Epochs are compared within a
checkpoint: a process that was overtaken before its first turn doesn't take anything back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, LiteralString

from engine.errors import LeaseLost

if TYPE_CHECKING:
    from psycopg import Connection

TABLE: Final = "tidemark_turns"
_EXISTS: LiteralString = "SELECT to_regclass('tidemark_turns') IS NOT NULL"
_CREATE: LiteralString = """CREATE TABLE IF NOT EXISTS tidemark_turns (
    job text PRIMARY KEY,
    sink uuid NOT NULL DEFAULT gen_random_uuid(),
    turn bigint,
    owner text NOT NULL DEFAULT '',
    checkpoint text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    committed_at timestamptz NOT NULL DEFAULT now())"""
_ENTER: LiteralString = "INSERT INTO tidemark_turns (job) VALUES (%s) ON CONFLICT DO NOTHING"
_OURS: LiteralString = "(checkpoint <> %(checkpoint)s OR epoch <= %(epoch)s)"
_END_SESSIONS: LiteralString = f"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %(session)s AND datname = current_database() AND usename = current_user
        AND pid <> pg_backend_pid() AND EXISTS (SELECT FROM tidemark_turns WHERE job = %(job)s AND {_OURS})"""
_CLAIM: LiteralString = f"""UPDATE tidemark_turns
    SET owner = %(owner)s, checkpoint = %(checkpoint)s, epoch = %(epoch)s
    WHERE job = %(job)s AND {_OURS}"""
_LOOK: LiteralString = "SELECT sink::text, turn FROM tidemark_turns WHERE job = %s"
_AWAIT: LiteralString = "SELECT turn FROM tidemark_turns WHERE job = %s FOR UPDATE"
_LOCK: LiteralString = "SELECT turn FROM tidemark_turns WHERE job = %s AND owner = %s FOR UPDATE"
_SAVE: LiteralString = "UPDATE tidemark_turns SET turn = %s, committed_at = now() WHERE job = %s"


@dataclass(frozen=True, slots=True)
class Claimant:
    """A process that writes for a job. `session` is the name of its sessions, and of its predecessors'."""

    job: str
    owner: str
    checkpoint: str
    epoch: int
    session: str


class Turns:
    """The turns of a job, asked over connections in autocommit mode."""

    def __init__(self, claimant: Claimant) -> None:
        self._us = claimant

    def enter(self, connection: Connection) -> None:
        """Make the job known. Only the first time of all it needs the right to create a table."""
        row = connection.execute(_EXISTS).fetchone()
        if row is None or not row[0]:
            connection.execute(_CREATE)
        connection.execute(_ENTER, [self._us.job])

    def claim(self, connection: Connection) -> None:
        """Take over from the job's earlier processes. Raises LeaseLost if a later one has."""
        us = self._us
        given = {
            "job": us.job,
            "owner": us.owner,
            "checkpoint": us.checkpoint,
            "epoch": us.epoch,
            "session": us.session,
        }
        # A process that is frozen in the middle of a turn would hold the row for as long as it is.
        connection.execute(_END_SESSIONS, given)
        if not connection.execute(_CLAIM, given).rowcount:
            raise LeaseLost("another job has taken over", where=TABLE)

    def newest_turn(self, connection: Connection) -> tuple[str, int | None]:
        """What distinguishes the sink, and its newest turn."""
        row = connection.execute(_LOOK, [self._us.job]).fetchone()
        return (row[0], row[1]) if row else ("", None)

    def settle(self, connection: Connection) -> int | None:
        """Wait until no commit is in progress any more; returns the newest turn."""
        row = connection.execute(_AWAIT, [self._us.job]).fetchone()
        return row[0] if row else None

    def lock(self, connection: Connection) -> int | None:
        """Begin a commit, inside of a transaction; returns the newest turn.

        Raises LeaseLost if another process has taken over.
        """
        row = connection.execute(_LOCK, [self._us.job, self._us.owner]).fetchone()
        if row is None:
            raise LeaseLost("another job has taken over", where=TABLE)
        turn: int | None = row[0]
        return turn

    def save(self, connection: Connection, turn: int) -> None:
        """Note the turn, inside of the transaction that writes its rows."""
        connection.execute(_SAVE, [turn, self._us.job])
