"""A history before it is played: its tables, transactions, signals, crashes and restarts, all from a seed.

A script is a plain value that fits into JSON, so that a failing one can be kept, shrunk and replayed. It does
not decide how the writers' sessions interleave: that depends on the machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tests.torture.tables import TableShape

if TYPE_CHECKING:
    from tests.torture.statements import Step

Ending: TypeAlias = Literal["commit", "rollback", "prepare", "prepare-rollback", "apart"]
"""`apart`: each step is a transaction of its own."""
STEPS = (
    "take",
    "encode",
    "commands",
    "open_window",
    "poll",
    "reached",
    "writer",
    "save_pending",
    "commit",
    "promote",
    "tell",
    "acknowledge",
)
"""The named steps of a turn, as the ports name them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a history must contain.

    `hard`: a SIGKILL of the job. `restart`: a restart of the server. `broken`: a SIGKILL of the broker.
    `kafka`: events go to Kafka. `tables`: into tables. `losses`: a log is lost in each round, by the
    kinds of loss in turn from this one on; None: no log is. `initial`: whether it begins with an initial
    snapshot; None: its seed decides. `moves`: what replaces the server, if anything. `asks`: blocking, scope,
    pause or verify, what it must request.
    `blow`: what it must have; its seed decides about the others.

        PostgreSQL  skew, network, stall, disguise, freeze job, administration (`wild.py`)
        MongoDB     skew, freeze job, giants, wipe, restored, members (three of them), disguise (a collection
                    that can't be decoded), slices (small windows, two at once), capped (a capped
                    collection and an initial snapshot)
        SQL Server  skew, freeze job, slices, sleep (another job takes over)
        Kafka       refuse, freeze broker, recreate
    """

    hard: bool = False
    restart: bool = False
    broken: bool = False
    kafka: bool = False
    initial: bool | None = None
    moves: str = ""
    blow: str = ""
    asks: str = ""
    tables: bool = False
    losses: int | None = None


ANYTHING = Wanted()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Steps of one transaction. Those from `savepoint` on are rolled back alone (None: there is none)."""

    steps: list[Step]
    ending: Ending = "commit"
    savepoint: int | None = None
    asynchronous: bool = False
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A row for the signal table, and what it requests in the oracle's terms.

    `kind` is execute, plan (a dry run), unreadable (accepted, then rejected when it is measured), stop,
    pause, resume, log, schemas, verify, repair or malformed.
    `collections` are those that it names (none: all). `ordinals` are the rows that it asks for, if not all:
    stretches from a first ordinal, up to and without a last one; None: no bound.
    """

    pause_s: float
    id: str
    type: str | None
    data: str | None
    kind: str
    collections: list[str] = field(default_factory=list)
    whole: bool = True
    ordinals: list[list[int | None]] | None = None

    def asks_for(self, ordinal: int) -> bool:
        """Whether it asks for the row with this ordinal."""
        return self.ordinals is None or any(
            (first is None or first <= ordinal) and (last is None or ordinal < last)
            for first, last in self.ordinals
        )

    @property
    def blocks(self) -> bool:
        """Whether it requests a blocking snapshot."""
        return self.kind == "execute" and '"blocking"' in (self.data or "")


@dataclass(frozen=True, slots=True)
class Fuse:
    """Drops the job when a step is passed for the n-th time.

    `hard`: its process is killed instead. `sleeps`: the job pauses until another one has taken over.
    """

    step: str
    after: bool
    passes: int
    hard: bool = False
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Strike:
    """A step on a collection, as soon as a window that reads it has opened.

    `held` names what is held back until then: `poll` the rows read, `take` the log, empty for nothing.
    """

    step: Step
    held: str = ""


@dataclass(frozen=True, slots=True)
class Blow:
    """An incident `at_s` seconds after the start of a round.

    `kind` says what happens, `amount` how much:

        skew       the driver's clock is set this many seconds ahead of the true time
        freeze     the network stands still for this many seconds, then continues
        cut        like freeze, then all connections end
        lose       all connections end, and the job is not told
        freeze job the job's processes are stopped (SIGSTOP) for this many seconds
        disguise   a table gets another primary key while no job runs, so that its log can't be decoded;
                   `amount` is the table's place
        promote    a standby replaces the server, which was shut down properly
        fail over  like promote, but the server was killed
        lag        like fail over, and the standby has missed the last seconds
        restore    the server's files revert to those of this many seconds ago
        refuse, freeze broker, recreate
                   a topic refuses events for a moment, Kafka's broker is frozen for a moment, a topic is
                   deleted and created again
    """

    at_s: float
    kind: str
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """What happens between two quiet points: each writer's transactions, signals, timed blows.

    `kills` are SIGKILLs of the job, `restarts` restarts of the server, `breaks` SIGKILLs of the sink's
    broker, in seconds from the round's start. `aims` is how many changes are aimed at the rows of each open
    window. `strikes` come in sequence, each while a window is open. `blows` are dealt by the site. `stalls`
    is how often the sink is held back while a table is altered. `faults` are put into the sink's files at the
    end, to be found and repaired (`verified.py`).
    """

    writers: list[list[Transaction]]
    signals: list[Sent]
    kills: list[float] = field(default_factory=list)
    restarts: list[tuple[float, str]] = field(default_factory=list)
    breaks: list[float] = field(default_factory=list)
    aims: int = 0
    strikes: list[Strike] = field(default_factory=list)
    blows: list[Blow] = field(default_factory=list)
    stalls: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """A history. `lulls` are the longest occasional delays of log and windows, in seconds.

    With `via_root` a partitioned table is published as one; with `listed` each table is published by name. A
    `scene` (`scenes.py`) is played before the rounds. With `initial` the job begins with an initial snapshot,
    beside the first round's writers. About `slice_bytes` of a window are sent per turn; 0: as many as in
    production. With `proxied` the job reaches the server through a proxy, and gives up a silent server soon.
    `moves` gives the history its own server, which a `standby` or a `copy` will replace.
    """

    seed: str
    tables: list[TableShape]
    rounds: list[Round]
    fuses: list[Fuse] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    database: dict[str, str] = field(default_factory=dict)
    lulls: dict[str, float] = field(default_factory=dict)
    via_root: bool = False
    listed: bool = False
    scene: str = ""
    initial: bool = False
    slice_bytes: int = 0
    proxied: bool = False
    moves: str = ""

    @property
    def marks_windows(self) -> bool:
        """Whether the job writes watermarks into the signal table."""
        strategy = self.properties.get("incremental.snapshot.watermarking.strategy")
        return strategy not in {None, "visibility"}

    @property
    def steps(self) -> list[Step]:
        """All steps of the writers."""
        return [
            step
            for round_ in self.rounds
            for writer in round_.writers
            for transaction in writer
            for step in transaction.steps
        ]

    def upto(self, number: int) -> Script:
        """The script with its rounds up to this one, counted from 0."""
        return replace(self, rounds=self.rounds[: number + 1])

    @property
    def size(self) -> int:
        """The number of steps, signals and blows."""
        others = sum(
            len(round_.signals)
            + len(round_.kills)
            + len(round_.restarts)
            + len(round_.breaks)
            + len(round_.strikes)
            + len(round_.blows)
            + round_.stalls
            + round_.faults
            for round_ in self.rounds
        )
        return len(self.steps) + others + len(self.fuses)

    def to_json(self) -> str:
        """The script as text."""
        return json.dumps(asdict(self), indent=1)


def from_json(text: str) -> Script:
    """Read a script."""
    found = json.loads(text)
    found["tables"] = [TableShape(**table) for table in found["tables"]]
    found["rounds"] = [_round(round_) for round_ in found["rounds"]]
    found["fuses"] = [Fuse(**fuse) for fuse in found["fuses"]]
    return Script(**found)


def _round(found: dict[str, Any]) -> Round:
    writers = [[Transaction(**transaction) for transaction in writer] for writer in found["writers"]]
    restarts = [(at, mode) for at, mode in found["restarts"]]
    return Round(
        **{
            **found,
            "writers": writers,
            "signals": [Sent(**signal) for signal in found["signals"]],
            "restarts": restarts,
            "strikes": [Strike(**strike) for strike in found.get("strikes", [])],
            "blows": [Blow(**blow) for blow in found.get("blows", [])],
        }
    )


def collections(shape: TableShape, *, via_root: bool = False) -> list[str]:
    """The names by which a table's rows are published and can be requested."""
    if shape.database:
        return [f"{shape.database}.dbo.{shape.name}"]
    schema = "shop" if shape.documents else "public"
    return [f"{schema}.{name}" for name in ((shape.name,) if via_root else shape.leaves)]
