"""Where a history is played: a database and its server, of any kind, as the play needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import threading
    from collections import Counter
    from collections.abc import Sequence

    from tests.torture.emitted import Emitted
    from tests.torture.journal import JournalReader
    from tests.torture.oracle import Oracle
    from tests.torture.play import Play
    from tests.torture.script import Blow, Round, Sent, Strike
    from tests.torture.truth import Entry, Row


class Actor(Protocol):
    """A writer during a round.

    `done` counts actions that runs have floors for. `altered` has the tables whose columns it changed outside
    the script.
    """

    committed: int
    done: Counter[str]
    altered: set[str]

    def run(self) -> None:
        """Do everything, ignoring failures."""


class Lasting:
    """A site of which no error may end a job."""

    __slots__ = ()

    def may_end(self, error: str) -> bool:  # noqa: ARG002  the site's signature
        """No error may end the job."""
        return False

    def judge_end(self, error: str, emitted: list[Emitted], journal: JournalReader) -> None:
        """Never called: no error may end the job."""
        raise NotImplementedError(error)

    def sessions(self) -> str:
        """Not told: the threads of the job must do."""
        return ""

    def fill(self, place: int, number: int) -> None:
        """Never called: only jobs on PostgreSQL send to topics here."""
        raise NotImplementedError(place, number)


class Site(Protocol):
    """A database for one history. Its creator drops it."""

    signals: str
    """The signal collection; several are separated by commas."""
    begins_late: bool
    """Whether a log without an initial snapshot begins when the job does, not before."""

    @property
    def oracle(self) -> Oracle:
        """The judge."""

    @property
    def transactions(self) -> int:
        """The number of committed transactions, from the log."""

    def prepare(self) -> None:
        """Create the tables and their rows, and register them with the oracle."""

    def properties(self) -> dict[str, str]:
        """The properties of the job's source."""

    def act(self, scene: str, play: Play, journal: JournalReader) -> None:
        """Play a scene."""

    def writers(
        self, number: int, one: Round, stop: threading.Event, journal: JournalReader
    ) -> Sequence[Actor]:
        """The writers of a round. `journal` is the job's."""

    def hit(self, strike: Strike, label: str, stop: threading.Event) -> bool:
        """Carry out a strike; whether it succeeded."""

    def send(self, sent: Sent, stop: threading.Event) -> None:
        """Insert a signal exactly once, retrying if the server goes away."""

    def restart(self, how: str) -> None:
        """Restart the server: `fast`, `immediate`, or another way that a script names."""

    def deal(self, blow: Blow, play: Play, journal: JournalReader) -> str:
        """Deal a blow. Returns what to count it as, empty if it had no effect."""

    def fill(self, place: int, number: int) -> None:
        """Write one more row into a table, if the database lets us."""

    def may_end(self, error: str) -> bool:
        """Whether the error that ended the job may be legitimate. `judge_end` decides."""

    def judge_end(self, error: str, emitted: list[Emitted], journal: JournalReader) -> None:
        """Judge a job that has ended, by everything that it emitted. Raises Violation."""

    def sessions(self) -> str:
        """What the server's sessions do now, and what they wait for; empty if it does not tell."""

    def settle(self) -> None:
        """Clean up what interrupted writers have left behind."""

    def mark(self) -> Any:
        """Commit something, and return where the log ends with it."""

    def passed(self, position: Sequence[Any], end: Any) -> bool:
        """Whether a job at this position has streamed everything up to `end`."""

    def place_of(self, position: Sequence[Any]) -> int:
        """The place of a position in the log, comparable to entries' transactions."""

    def entries(self) -> list[Entry]:
        """What was committed since the last call, in log order."""

    def begin(self, journal: JournalReader) -> Any:
        """Where the job's log begins; None: before everything."""

    def is_before(self, entry: Entry, begin: Any) -> bool:
        """Whether a log that begins there lacks the entry."""

    def signal_id(self, row: Row) -> str | None:
        """The id of the signal in this row, as answers name it."""

    def marks_window(self, entry: Entry) -> bool:
        """Whether the job may have written this entry into the signal collection."""

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:
        """Read an event; None for a tombstone."""

    def rows(self, name: str) -> list[Row]:
        """The table's rows by a query."""
