"""A history's PostgreSQL that another server replaces: a promoted standby, or a restored copy.

What was committed after the place where the two diverge, the *fork*, is lost. A job that has sent any of it
must report its position as lost. One that has not must continue exactly. The old server, unreachable for
everyone else, is asked what it had committed before it ended.

    the old one  ────── fork ─ ─ a ─ ─ b          if a was sent, the job ends
    the new one           └──────── c ───►        if neither was, the job continues with c

A job that recovers (`losses.py`) never ends. A standby that replaces its server does not have its slot.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.errors import LogRemoved, OtherHistory, PositionLost
from tests.servers.postgres import Database, PostgresServer
from tests.torture.grounds import PostgresGround
from tests.torture.losses import recovers
from tests.torture.oracle import Violation
from tests.torture.postgres import PLAIN, PostgresSite

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from tests.torture.emitted import Emitted
    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.script import Blow, Script
    from tests.torture.truth import Entry

_STANDBY, _SLOTS = "standby", ("job", "truth")
_PROMOTIONS = frozenset({"promote", "fail over", "lag"})
_SETTINGS = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1"}
_SYNCHRONISED_S = 60.0
_LOST = tuple(f"{kind.__name__}:" for kind in (PositionLost, LogRemoved, OtherHistory))


@dataclass(slots=True)
class MovingSite(PostgresSite):
    """A database on a server of its own.

    `lost` are the entries after the `fork`, which exist only in the old server.
    """

    others: list[PostgresServer] = field(default_factory=list)
    fork: int | None = None
    lost: list[Entry] = field(default_factory=list)
    _journal: JournalReader | None = None
    _before: int = 0
    _old: list[Entry] = field(default_factory=list)

    def prepare(self) -> None:
        """Prepare as usual; add a standby with the slots if one is to replace the server."""
        PostgresSite.prepare(self)
        if self.script.moves == "standby":
            self._make_standby(self.server, lags=self._kind == "lag")

    @property
    def _kind(self) -> str:
        kinds = (blow.kind for round_ in self.script.rounds for blow in round_.blows)
        return next((kind for kind in kinds if kind in _PROMOTIONS), "lag")

    def _make_standby(self, primary: PostgresServer, *, lags: bool) -> None:
        standby = primary.standby(_STANDBY)
        self.others.append(standby)
        standby.settings |= {
            "primary_conninfo": primary.dsn(self.database.name),
            "primary_slot_name": _STANDBY,
        }
        standby.start()
        if self._truth is None:
            return
        with primary.connect(self.database.name) as there, standby.connect(self.database.name) as here:
            there.execute("SELECT pg_log_standby_snapshot()")
            for name in _SLOTS:
                # A slot can be synchronized once it has reached what the standby has seen.
                there.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [name])
            _synchronise(there, here)
            if not lags:
                # The log is sent to the job only once the standby has it.
                there.execute(f"ALTER SYSTEM SET synchronized_standby_slots = '{_STANDBY}'".encode())
                there.execute("SELECT pg_reload_conf()")

    # Meanwhile.

    def deal(self, blow: Blow, play: Play, journal: JournalReader) -> str:
        """Replace this server with another."""
        self._journal = journal
        match blow.kind:
            case "promote" | "fail over" | "lag":
                self._promote(blow)
                play.figures.kinds["standby promoted"] += 1
            case "restore":
                self._restore(blow.amount)
            case _:
                return PostgresSite.deal(self, blow, play, journal)
        return {"promote": "switched over", "fail over": "failed over", "lag": "lagging standby"}.get(
            blow.kind, "volume restored"
        )

    def _promote(self, blow: Blow) -> None:
        (standby,) = self.others
        if blow.kind == "promote":
            self.server.stop("fast")
        elif blow.kind == "fail over":
            self.server.kill()
        else:
            standby.stop("fast")
            time.sleep(blow.amount)
            self.server.kill()
            standby.start()
        with standby.connect() as connection:
            # What has arrived is replayed before the promotion.
            connection.execute("SELECT pg_promote(true, 30)")
        self._replace(standby, _fork(standby))

    def _restore(self, age_s: float) -> None:
        self.server.stop("fast")
        copy = self.server.copy()
        self.others.append(copy)
        located = copy.run_tool("pg_controldata", str(copy.pgdata))
        self.server.start()
        time.sleep(age_s)
        self.server.kill()
        copy.start()
        self._replace(copy, _checkpoint(located))

    def _replace(self, other: PostgresServer, fork: int) -> None:
        """Redirect all clients to the other server, and read what the old one had."""
        _exchange(self.server, other)
        assert self.proxy is not None
        assert self._journal is not None
        self.fork, self._before = fork, len(self._journal.read())
        self.proxy.aim(self.server.host, self.server.port)
        self.proxy.cut()
        if self._truth is None:
            return
        other.settings |= {"synchronized_standby_slots": ""} if self.script.moves == "standby" else {}
        other.start()
        with other.connect(self.database.name, options=PLAIN) as connection:
            found = list(self._truth.read(connection))
        other.stop("immediate")
        self._old += [entry for entry in found if entry.end <= fork]
        self.lost = [entry for entry in found if entry.end > fork]
        self._truth.passed = fork

    # At rest.

    def passed(self, position: Sequence[Any], end: int) -> bool:
        """By the place in the log. A place in the old server's log counts for nothing."""
        if self._journal and not self._journal.streams_since(self._before):
            return False
        return PostgresSite.passed(self, position, end)

    def entries(self) -> list[Entry]:
        """From `test_decoding`: of the old server up to the fork, then of the new one."""
        old, self._old = self._old, []
        entries = [*old, *PostgresSite.entries(self)]
        if self.lost:
            kept = {self.signal_id(entry.new) for entry in entries}
            self.oracle.unheard += [entry for entry in self.lost if self.signal_id(entry.new) not in kept]
        return entries

    def may_end(self, error: str) -> bool:
        """Once there is another server, the position may be lost."""
        lost = self.fork is not None and error.startswith(_LOST)
        return (lost and not recovers(self.script)) or PostgresSite.may_end(self, error)

    def judge_end(self, error: str, emitted: list[Emitted], journal: JournalReader) -> None:
        """Everything sent is in the old server's log, and some of it only there."""
        if PostgresSite.may_end(self, error):
            PostgresSite.judge_end(self, error, emitted, journal)
            return
        assert self.fork is not None
        lost = [known_table for entry in self.lost for known_table in self.oracle.known_tables(entry)]
        self.oracle.follow([*self._old, *self.lost], emitted)
        left = [entry for entry in self.oracle.left() if entry.end > self.fork]
        turns = journal.of("turn")
        ahead = bool(turns) and turns[-1]["position"][0] > self.fork and self.script.moves == "copy"
        if len(left) == len(lost) and not ahead:
            raise Violation(f"nothing was sent that the server lacks now, and the job says: {error}")
        self.oracle.happened["ended with a lost position"] += 1

    def close(self) -> None:
        """Stop all servers."""
        PostgresSite.close(self)
        for server in [self.server, *self.others]:
            server.close()


@dataclass(slots=True)
class MovingGround(PostgresGround):
    """A server for one history, since its fate affects all its databases."""

    def __post_init__(self) -> None:
        PostgresGround.__post_init__(self)
        self.server.settings |= _SETTINGS

    def site(self, number: int, script: Script) -> MovingSite:
        """A new database."""
        site = MovingSite(script, self.server, Database(self.server, f"history_{number}"))
        self.server.create_database(site.database.name)
        self._sites[number] = site
        return site

    def clear(self, number: int) -> None:
        """Stop the servers."""
        self._sites.pop(number).close()


def _synchronise(there: psycopg.Connection[Any], here: psycopg.Connection[Any]) -> None:
    """Wait until the standby has caught up with the primary, including slots."""
    until = time.monotonic() + _SYNCHRONISED_S
    while True:
        end = there.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        row = here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end).fetchone()
        if row and row[0]:
            here.execute("SELECT pg_sync_replication_slots()")
            found = here.execute(
                "SELECT count(*) FROM pg_replication_slots WHERE slot_name = ANY (%s) AND NOT temporary",
                [list(_SLOTS)],
            ).fetchone()
            if found and found[0] == len(_SLOTS):
                return
        there.execute("SELECT pg_log_standby_snapshot()")
        if time.monotonic() > until:
            raise RuntimeError("the slots are not synchronised to the standby")
        time.sleep(0.05)


def _fork(standby: PostgresServer) -> int:
    """Where a promoted server's timeline begins, from its history file."""
    history = max((standby.pgdata / "pg_wal").glob("*.history"))
    return _lsn(history.read_text().splitlines()[-1].split()[1])


def _checkpoint(told: str) -> int:
    """Where the checkpoint of a server's shutdown is, from pg_controldata."""
    line = next(line for line in told.splitlines() if line.startswith("Latest checkpoint location:"))
    return _lsn(line.split()[-1])


def _lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def _exchange(one: PostgresServer, other: PostgresServer) -> None:
    """Swap the two objects' processes and files. Connections are made by object."""
    for name in ("_folder", "_process", "port", "settings"):
        mine, its = getattr(one, name), getattr(other, name)
        setattr(one, name, its)
        setattr(other, name, mine)
