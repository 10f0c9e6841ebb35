"""A process of the simulated world: every call of a port is a step, between which anything may happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from engine.errors import (
    GaveWay,
    LoginRefused,
    SchemaChanged,
    SinkError,
    SnapshotGone,
    SourceError,
    StateNotSaved,
    TableBusy,
)
from tests.simulation.database import T

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.errors import TidemarkError

ERRORS: dict[str, Callable[[], TidemarkError]] = {
    "take": lambda: SourceError("the log's session ended"),
    "mark": lambda: SourceError("the signal table takes no row"),
    "open_log": lambda: SourceError("the server does not answer"),
    "open_window": lambda: SourceError("no connection for a window"),
    "measure": lambda: SourceError("no connection for the catalog"),
    "boundaries": lambda: SourceError("no connection for boundaries"),
    "executors": lambda: SourceError("an executor died"),
    "writer": lambda: SinkError("the sink does not begin a turn"),
    "write": lambda: SinkError("the sink takes no part"),
    "commit": lambda: SinkError("the sink does not commit"),
    "beside": lambda: SinkError("the sink takes no rows beside the turns"),
    "create": lambda: StateNotSaved("no space left for the state"),
    "rename": lambda: StateNotSaved("no space left for a name"),
    "failed": lambda: SourceError("rows could not be read"),
    "gone": lambda: SnapshotGone("the state at that time is gone"),
    "busy": lambda: TableBusy("another session holds a lock", where=T),
    "login": lambda: LoginRefused("the credential has expired"),
    "yield": lambda: GaveWay("a session waits for the table"),
    "changed": lambda: SchemaChanged("the table has changed"),
    "ask": lambda: SourceError("the connection broke"),
    "connect": lambda: SourceError("no connection"),
    "reading": lambda: SourceError("a reader's connection broke"),
    "room": lambda: SinkError("no room to stage rows"),
}
"""What each armed fault raises. The last eight are of a window that is polled."""


class Process(Protocol):
    """What the ports know of the process that they belong to."""

    dead: bool
    epoch: int
    renewing: bool

    def step(self, port: str) -> None:
        """Let time pass, and whatever the script wants to happen here. Raises Killed."""

    def fault(self, port: str) -> str:
        """How an armed fault strikes this call: before its effect, after it or torn. Empty for none."""


class fallible:  # noqa: N801  used like a function
    """A step whose effect is the block; gives how it fails, so that a torn one can do half of it."""

    __slots__ = ("_how", "_port", "_process")

    def __init__(self, process: Process, port: str) -> None:
        self._process, self._port, self._how = process, port, ""

    def __enter__(self) -> str:
        self._process.step(self._port)
        self._how = self._process.fault(self._port)
        if self._how == "before":
            raise ERRORS[self._port]()  # noqa: RSE102  it makes the error
        return self._how

    def __exit__(self, failed: object, *_rest: object) -> None:
        if self._how and failed is None:
            raise ERRORS[self._port]()  # noqa: RSE102  it makes the error
