"""What a saved state keeps for PostgreSQL, read strictly: a value, or a StateError. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.postgres.log import pending_visibility
from adapters.postgres.log.timeline import TransactionContext
from adapters.postgres.server.membership import Members
from adapters.postgres.server.position import LAST_LSN, checked
from engine.saved import read_integer, read_mapping, read_text, read_texts, reading_saved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.log.pending_visibility import PendingVisibility
    from engine.job.state import State


@dataclass(frozen=True, slots=True)
class Saved:
    """What opening the log restores: see `PostgresSource.memory`."""

    pending: PendingVisibility
    last_commit_end: int | None
    last_commit: tuple[int, int, int] | None
    context: TransactionContext | None
    keys: dict[int, tuple[str, ...]]


def saved_of(state: State) -> Saved:
    """What the state remembers of the log. Raises StateError for anything that was never saved that way."""
    memory = state.memory
    with reading_saved("what the saved state keeps of the log"):
        if state.position is not None:
            checked(state.position)
        _check_beside(state.identity, memory)
        commit = memory.get("last_commit")
        return Saved(
            pending_visibility.from_json(memory.get("unsettled", ())),
            _lsn(memory.get("last_commit_end")),
            None if commit is None else _commit(*commit),
            _context(memory.get("transaction")),
            {int(oid): read_texts(key) for oid, key in read_mapping(memory.get("keys", {})).items()},
        )


def _check_beside(identity: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Check the parts that other modules read; errors become a StateError in `reading_saved`."""
    if identity:
        for name in ("system", "database"):
            read_text(identity[name])
    int(read_text(identity.get("timeline", "1")))
    _lsn(read_mapping(memory.get("first", {})).get("begins_at"))
    published = memory.get("published")
    if published is not None:
        read_text(published["marks"])
        read_integer(published["xmax"])
    members = Members.from_json(memory.get("members"))
    if members is not None:
        read_text(members.publication)
        for oid, entry in members.entries.items():
            read_integer(oid)
            read_text(entry)
    for root, digest in read_mapping(memory.get("partitions", {})).items():
        int(root)
        read_text(digest)


def _lsn(value: object) -> int | None:
    return None if value is None else read_integer(value, most=LAST_LSN)


def _commit(end: object, xid: object, time_us: object) -> tuple[int, int, int]:
    if not isinstance(time_us, int):
        raise TypeError("not a time")
    return read_integer(end, most=LAST_LSN), read_integer(xid), time_us


def _context(saved: Mapping[str, Any] | None) -> TransactionContext | None:
    if saved is None:
        return None
    context = TransactionContext(
        **{
            **saved,
            "collections": tuple(
                (read_text(name), read_integer(count)) for name, count in saved["collections"]
            ),
        }
    )
    if context.xid is not None:
        read_integer(context.xid)
    if not isinstance(context.commit_ts_us, int):
        raise TypeError("not a time")
    _lsn(context.last_commit_end)
    read_integer(context.commit_lsn, most=LAST_LSN)
    read_integer(context.sequence)
    read_integer(context.events)
    return context
