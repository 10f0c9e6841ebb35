"""Questions about replication slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.failures import source_errors
from adapters.postgres.server.sql import quote_ident
from adapters.postgres.server.visibility import format_lsn, parse_lsn

if TYPE_CHECKING:
    import psycopg

_SLOT: LiteralString = (
    "SELECT plugin, database, active_pid, wal_status, confirmed_flush_lsn::text,"
    " to_jsonb(s) ->> 'invalidation_reason',"
    " (SELECT application_name FROM pg_stat_activity WHERE pid = active_pid),"
    " coalesce((to_jsonb(s) ->> 'two_phase')::bool, false)"
    " FROM pg_replication_slots s WHERE slot_name = %s"
)
_KEPT: LiteralString = (
    "SELECT coalesce(wal_status, 'reserved'),"
    " coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, safe_wal_size"
    " FROM pg_replication_slots WHERE slot_name = %s"
)
_XMIN: LiteralString = "SELECT catalog_xmin::text::bigint FROM pg_replication_slots WHERE slot_name = %s"
_FAILOVER: LiteralString = (
    "SELECT coalesce((to_jsonb(s) ->> 'failover')::boolean, false)"
    " FROM pg_replication_slots s WHERE slot_name = %s"
)
_DROP: LiteralString = (
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
)
_MORE: LiteralString = (
    "SELECT EXISTS (SELECT FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
    " 'publication_names', %s) WHERE lsn > %s::pg_lsn AND xid::text::int8 <> %s)"
)
_ADVANCE: LiteralString = "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)"
_STATUSES = ("reserved", "extended", "unreserved", "lost")
"""From good to bad, as in `pg_replication_slots.wal_status`."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class FoundSlot:
    """A slot as the server shows it. `confirmed` is an LSN; `reader` is the process that reads it, if any.

    One with `two_phase` sends transactions when they are prepared, before anybody knows whether they commit.
    """

    plugin: str | None
    database: str | None
    reader: int | None
    wal_status: str | None
    confirmed: str | None
    reason: str | None
    application: str | None
    two_phase: bool = False

    @property
    def confirmed_lsn(self) -> int:
        """Where its changes begin."""
        return parse_lsn(self.confirmed or "0/0")


@dataclass(frozen=True, slots=True)
class SlotRetention:
    """What the server keeps for a slot. After `left` more bytes it invalidates the slot (None: never)."""

    status: str
    bytes: int
    left: int | None = None

    @property
    def rank(self) -> int:
        """How bad the status is; an unknown status counts as the worst."""
        return _STATUSES.index(self.status) if self.status in _STATUSES else len(_STATUSES)

    def __str__(self) -> str:
        until = "" if self.left is None else f"; the server gives the slot up after {size(self.left)} more"
        return f"{size(self.bytes)} of log, status {self.status!r}{until}"


def size(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / _GIB:.1f} GiB" if count >= _GIB // 10 else f"{count / (1 << 20):.1f} MiB"


class Slots:
    """Questions about replication slots, over one connection."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def find(self, name: str) -> FoundSlot | None:
        """The slot of this name, if there is one."""
        with source_errors("replication slot"):
            row = self._connection.execute(_SLOT, [name]).fetchone()
        return None if row is None else FoundSlot(*row)

    def kept(self, name: str) -> SlotRetention | None:
        """What the server keeps for the slot; None if there is no slot."""
        with source_errors("looking at the replication slot"):
            row = self._connection.execute(_KEPT, [name]).fetchone()
        return None if row is None else SlotRetention(*row)

    def xmin(self, name: str) -> int | None:
        """The oldest transaction whose catalog rows the slot keeps."""
        with source_errors("the slot's xmin"):
            row = self._connection.execute(_XMIN, [name]).fetchone()
        return row[0] if row else None

    def fails_over(self, name: str) -> bool:
        """Whether standbys may synchronise the slot, or it came here as a synchronised one."""
        with source_errors("replication slot"):
            row = self._connection.execute(_FAILOVER, [name]).fetchone()
        return bool(row and row[0])

    def has_more(self, name: str, publication: str, lsn: int, but: int = 0) -> bool:
        """Whether the slot holds transactions that end after an LSN. Nobody may read it meanwhile.

        The transaction with the 32-bit id `but` does not count.
        """
        arguments = [name, quote_ident(publication), format_lsn(lsn), but]
        with source_errors("looking into the replication slot"):
            row = self._connection.execute(_MORE, arguments).fetchone()
        return bool(row and row[0])

    def advance(self, name: str, lsn: int) -> None:
        """Move the slot up to an LSN: what comes before is acknowledged."""
        with source_errors("moving the replication slot"):
            self._connection.execute(_ADVANCE, [name, format_lsn(lsn)])

    def end_reader(self, pid: int) -> None:
        """End the process that reads a slot."""
        with source_errors("replication slot"):
            self._connection.execute("SELECT pg_terminate_backend(%s)", [pid])

    def drop(self, name: str) -> bool:
        """Drop the slot; returns whether there was one."""
        with source_errors("dropping the replication slot"):
            return bool(self._connection.execute(_DROP, [name]).rowcount)

    def reader_timeout_s(self) -> float:
        """How long the server tolerates a silent reader of its log; 0: for ever."""
        with source_errors("asking for wal_sender_timeout"):
            row = self._connection.execute(
                "SELECT setting::float8 / 1000 FROM pg_settings WHERE name = 'wal_sender_timeout'"
            ).fetchone()
        return float(row[0]) if row else 0.0
