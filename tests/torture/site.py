"""Where a history is played: a database and its server, whichever it is, as the play needs them."""

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
    """Who writes during a round.

    `done` counts what it has done that runs have floors for, `altered` has the tables that it gave other
    columns without a word in the script.
    """

    committed: int
    done: Counter[str]
    altered: set[str]

    def run(self) -> None:
        """Do everything, whatever comes of it."""


class Site(Protocol):
    """A database for one history; dropped by whoever made it."""

    signals: str
    """The collection of signals; of several, with commas in between."""
    begins_late: bool
    """Whether a log without an initial snapshot begins where the job does, not before."""

    @property
    def oracle(self) -> Oracle:
        """The judge."""

    @property
    def transactions(self) -> int:
        """How many were committed, by the log."""

    def prepare(self) -> None:
        """Make the tables and their rows, and tell the oracle of them."""

    def properties(self) -> dict[str, str]:
        """The properties of the job's source."""

    def act(self, scene: str, play: Play, journal: JournalReader) -> None:
        """Play a scene."""

    def writers(
        self, number: int, one: Round, stop: threading.Event, journal: JournalReader
    ) -> Sequence[Actor]:
        """Those who write in a round; `journal` is the job's."""

    def hit(self, strike: Strike, label: str, stop: threading.Event) -> bool:
        """Do what a strike says; whether it was done."""

    def send(self, sent: Sent, stop: threading.Event) -> None:
        """Insert a signal, for sure; again, should the server go away, but not twice."""

    def restart(self, how: str) -> None:
        """What becomes of the server: `fast`, `immediate`, or what else a script may say."""

    def deal(self, blow: Blow, play: Play, journal: JournalReader) -> str:
        """Deal a blow; what to count it as, empty if it did not strike."""

    def may_end(self, error: str) -> bool:
        """Whether what a job has died of may be right, which `judge_end` then says."""

    def judge_end(self, error: str, emitted: list[Emitted], journal: JournalReader) -> None:
        """Judge a job that went on no longer, by all that it has emitted; raises Violation."""

    def settle(self) -> None:
        """End what writers that were cut off have left behind."""

    def mark(self) -> Any:
        """Commit something, and tell where the log ends with it."""

    def passed(self, position: Sequence[Any], end: Any) -> bool:
        """Whether a job at this position has streamed all up to there."""

    def place_of(self, position: Sequence[Any]) -> int:
        """The place in the log, as entries' transactions name it, that a position stands behind."""

    def entries(self) -> list[Entry]:
        """What was committed since the last call, in the order of the log."""

    def begin(self, journal: JournalReader) -> Any:
        """Where the job's log begins; None: before everything."""

    def is_before(self, entry: Entry, begin: Any) -> bool:
        """Whether a log that begins there leaves the entry out."""

    def signal_id(self, row: Row) -> str | None:
        """The id of the signal in this row, as answers name it."""

    def marks_window(self, entry: Entry) -> bool:
        """Whether the job may have written this entry into the signal collection."""

    def emitted(self, turn: int, topic: str, key: Any, value: Any) -> Emitted | None:
        """Read an event; None for a tombstone."""

    def rows(self, name: str) -> list[Row]:
        """What a query of the table gives."""
