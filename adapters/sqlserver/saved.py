"""What a saved state keeps for SQL Server: its form, and how it is read strictly. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from adapters.source.log.open_transaction import SavedTransaction  # noqa: TC001  likewise
from adapters.sqlserver.log.capture_instances import marks_of
from adapters.sqlserver.server.position import began_at, check_lsn, positions_of
from adapters.sqlserver.server.table import Column  # noqa: TC001  the form is read at run time
from engine.saved import Natural, read_as, read_text, reading_saved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.job.saved.state import State


class SnapshotOrigin(TypedDict):
    """Which run began the initial snapshot, and where its log began.

    That is a position by database; in older states the positions in the order of the databases.
    """

    run: NotRequired[str]
    begins_at: NotRequired[dict[str, str] | list[int | str] | None]


class SavedTable(TypedDict):
    """A table's schema as it was last seen in the stream."""

    name: tuple[str, str, str]
    columns: list[Column]
    primary_key: list[str]
    unique_key: list[str]


class SavedDatabase(TypedDict):
    """The capture instances, each by name, object id and first LSN; the recovery fork that was streamed.

    The fork is not known where the server does not show it, nor in older states.
    """

    instances: NotRequired[list[tuple[str, Natural, str]]]
    fork: NotRequired[str]


class StreamedMemory(TypedDict):
    """What was seen in the stream. Older states lack some."""

    transactions: NotRequired[dict[str, SavedTransaction | None]]
    shapes: NotRequired[list[SavedTable] | None]


class Memory(StreamedMemory):
    """The form in the state. Older states lack some."""

    names: NotRequired[list[str] | None]
    databases: NotRequired[dict[str, SavedDatabase]]
    first: NotRequired[SnapshotOrigin]


def saved_names(memory: Mapping[str, Any]) -> list[str]:
    """The databases in the order of the saved positions; none if an older state does not name them.

    The state that is saved before the first turn has them only with their capture instances.
    """
    return list(memory.get("names") or memory.get("databases", ()))


def check_saved(state: State) -> None:
    """Raise StateError where the state's part about the change tables can't be read."""
    with reading_saved("what the saved state keeps of the change tables"):
        memory = read_as(state.memory, Memory)
        positions = positions_of(state.position) if state.position is not None else ()
        names = memory.get("names")
        if names is not None and len(names) != len(positions):
            raise ValueError("not as many places as databases")
        for value in state.identity.values():
            read_text(value)
        began_at(memory)
        for transaction in memory.get("transactions", {}).values():
            if transaction is not None:
                check_lsn(transaction["id"])
        for database in memory.get("databases", {}).values():
            _check_instances(database.get("instances", ()))


def _check_instances(instances: Sequence[tuple[str, int, str]]) -> None:
    for mark in marks_of(instances):
        check_lsn(mark.start)
