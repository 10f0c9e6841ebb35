"""What a saved state keeps for PostgreSQL: its form, and how it is read strictly. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

from adapters.postgres.log import pending_visibility
from adapters.postgres.log.timeline import TransactionContext
from adapters.postgres.server.position import LAST_LSN, checked
from engine.saved import Natural, read_as, read_integer, read_text, reading_saved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.log.pending_visibility import PendingVisibility
    from engine.job.saved.state import State


class SnapshotOrigin(TypedDict):
    """Which run began the initial snapshot, and at which LSN its log began."""

    run: str
    begins_at: int | None


class OpenTransaction(TypedDict):
    """`TransactionContext`."""

    xid: int | None
    commit_lsn: int
    commit_ts_us: int
    last_commit_end: int | None
    sequence: Natural
    events: Natural
    collections: tuple[tuple[str, Natural], ...]


class PublicationMark(TypedDict):
    """Which tables are published how (a digest), and the newest transaction when that was noted."""

    marks: str
    xmax: Natural


class SavedMembers(TypedDict):
    """The publication, and the tables by their entry in it. Older states lack some.

    - `names`: schema and name by oid, of tables that have an entry of their own
    - `visible`: the snapshot that they were seen in
    """

    publication: str
    entries: dict[str, list[Natural]]
    names: NotRequired[dict[str, tuple[str, str]]]
    visible: NotRequired[str]


SavedColumns: TypeAlias = dict[str, list[Natural]]
"""Tables by how many columns they have or have had."""


class StreamedMemory(TypedDict):
    """How far the log was streamed. Older states lack some.

    - `last_commit`: end, transaction and time of the last commit that was sent
    - `unsettled`: what transactions touched that may not be visible yet; `pending_visibility` has its form
    """

    last_commit_end: NotRequired[int | None]
    last_commit: NotRequired[tuple[int, Natural, int] | None]
    unsettled: NotRequired[list[dict[str, Any]]]
    transaction: NotRequired[OpenTransaction | None]


class Memory(StreamedMemory):
    """The form in the state. Older states lack some.

    - `keys`: the key columns by the table's oid, as the log has them
    - `columns`: only where new columns are read
    - `partitions`: a digest of the partitions by their root's oid
    """

    subscription: NotRequired[str]
    keys: NotRequired[dict[str, tuple[str, ...]]]
    first: NotRequired[SnapshotOrigin]
    published: NotRequired[PublicationMark | None]
    members: NotRequired[SavedMembers | None]
    columns: NotRequired[SavedColumns | None]
    partitions: NotRequired[dict[str, str]]


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """What opening the log restores: see `PostgresSource.memory`."""

    pending: PendingVisibility
    last_commit_end: int | None
    last_commit: tuple[int, int, int] | None
    context: TransactionContext | None
    keys: dict[int, tuple[str, ...]]


def saved_of(state: State) -> SavedMemory:
    """What the state remembers of the log. Raises StateError for anything that was never saved that way."""
    with reading_saved("what the saved state keeps of the log"):
        memory = read_as(state.memory, Memory)
        if state.position is not None:
            checked(state.position)
        _check_identity(state.identity)
        _check_lsns(memory)
        for number in (*memory.get("partitions", {}), *(memory.get("columns") or ())):
            int(number)
        return SavedMemory(
            pending_visibility.from_json(memory.get("unsettled", ())),
            memory.get("last_commit_end"),
            memory.get("last_commit"),
            _context(memory.get("transaction")),
            {int(oid): key for oid, key in memory.get("keys", {}).items()},
        )


def _check_identity(identity: Mapping[str, Any]) -> None:
    if identity:
        for name in ("system", "database"):
            read_text(identity[name])
    int(read_text(identity.get("timeline", "1")))


def _check_lsns(memory: Memory) -> None:
    """Check the bounds of positions in the log, which have 64 bits without a sign."""
    commit, transaction, began = memory.get("last_commit"), memory.get("transaction"), memory.get("first")
    found = [memory.get("last_commit_end"), commit and commit[0], began and began["begins_at"]]
    if transaction is not None:
        found += [transaction["commit_lsn"], transaction["last_commit_end"]]
    for lsn in found:
        if lsn is not None:
            read_integer(lsn, most=LAST_LSN)


def _context(saved: OpenTransaction | None) -> TransactionContext | None:
    if saved is None:
        return None
    context = TransactionContext(**saved)
    if context.xid is not None:
        read_integer(context.xid)
    return context
