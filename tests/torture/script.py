"""A history before it happens: its tables, transactions, signals, crashes and restarts, all from a seed.

A script is a plain value that JSON can hold, so that a failing one can be kept, cut down and played
again. What it does not decide is how the writers' sessions interleave: that is the machine's affair.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
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
    """What a history is to have in it.

    `hard`: a SIGKILL of the job. `restart`: one of the server. `broken`: a SIGKILL of the broker. `kafka`:
    events go there. `initial`: whether it begins with an initial snapshot; None: its seed decides. `moves`:
    what takes the server's place, if anything does. `blow`: which of skew, network, stall and disguise it
    must have; its seed decides about the others.
    """

    hard: bool = False
    restart: bool = False
    broken: bool = False
    kafka: bool = False
    initial: bool | None = None
    moves: str = ""
    blow: str = ""


ANYTHING = Wanted()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Steps of one transaction; those from `savepoint` on (None: none) are rolled back alone."""

    steps: list[Step]
    ending: Ending = "commit"
    savepoint: int | None = None
    asynchronous: bool = False
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A row for the signal table, and what it asks for in the oracle's words.

    `kind` is execute, unreadable (accepted, and refused once it is measured), stop, log or malformed;
    `collections` are those it names (none: all).
    """

    pause_s: float
    id: str
    type: str | None
    data: str | None
    kind: str
    collections: list[str] = field(default_factory=list)
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Fuse:
    """A blow when a step is passed for the n-th time: the job is dropped.

    `hard`: its process is killed instead. `sleeps`: the job stands still until another one has taken over.
    """

    step: str
    after: bool
    passes: int
    hard: bool = False
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class Strike:
    """A step on a collection, as soon as a window that reads it has opened.

    What `held` names is held back until then: `poll` the rows read, `take` the log; nothing else is.
    """

    step: Step
    held: str = ""


@dataclass(frozen=True, slots=True)
class Blow:
    """What befalls a history `at_s` seconds after a round has begun.

    `kind` says what, `amount` how much of it:

        skew       the driver's clock is set so many seconds ahead of the true time
        freeze     the network stands still so many seconds, and goes on
        cut        the same, and then all connections end
        lose       all connections end, and the job is not told
        disguise   a table gets another primary key while no job runs, so that its log can't be decoded;
                   `amount` is the table's place
        promote    a standby takes the server's place, that was stopped in order
        fail over  the same, and the server was killed
        lag        the same, and the standby has missed the last seconds
        restore    the server's files become what they were so many seconds ago
    """

    at_s: float
    kind: str
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """What happens between two quiet points: each writer's transactions, signals, blows by the clock.

    `kills` are SIGKILLs of the job, `restarts` those of the server, `breaks` SIGKILLs of the sink's broker,
    in seconds from the round's start. `aims` is how many changes are aimed at the rows of each window while
    it is open. `strikes` come one after the other, each while a window is open. `blows` are what the site
    does, `stalls` how often the sink is held back while somebody changes a table.
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


@dataclass(frozen=True, slots=True)
class Script:
    """A history. `lulls` holds how long, in seconds, log and windows may be held back now and then.

    With `via_root` a partitioned table is published as one, with `listed` each table by its name. A `scene`
    (`scenes.py`) is played before the rounds. With `initial` the job begins with an initial snapshot, beside
    the first round's writers. About `slice_bytes` of a window go out in a turn; 0: as many as in production.
    With `proxied` the job reaches the server through a proxy, and is patient for a moment only. `moves` says
    that the history has a server of its own, whose place something else will take: `standby` or `copy`.
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
        """Whether the job marks its windows in the signal table."""
        strategy = self.properties.get("incremental.snapshot.watermarking.strategy")
        return strategy not in {None, "visibility"}

    @property
    def size(self) -> int:
        """How many steps, signals and blows there are."""
        steps = sum(len(one.steps) for part in self.rounds for writer in part.writers for one in writer)
        others = sum(
            len(one.signals)
            + len(one.kills)
            + len(one.restarts)
            + len(one.breaks)
            + len(one.strikes)
            + len(one.blows)
            + one.stalls
            for one in self.rounds
        )
        return steps + others + len(self.fuses)

    def to_json(self) -> str:
        """The script as text."""
        return json.dumps(asdict(self), indent=1)


def from_json(text: str) -> Script:
    """Read a script."""
    found = json.loads(text)
    found["tables"] = [TableShape(**one) for one in found["tables"]]
    found["rounds"] = [_round(one) for one in found["rounds"]]
    found["fuses"] = [Fuse(**one) for one in found["fuses"]]
    return Script(**found)


def _round(found: dict[str, Any]) -> Round:
    writers = [[Transaction(**one) for one in writer] for writer in found["writers"]]
    restarts = [(at, mode) for at, mode in found["restarts"]]
    return Round(
        **{
            **found,
            "writers": writers,
            "signals": [Sent(**one) for one in found["signals"]],
            "restarts": restarts,
            "strikes": [Strike(**one) for one in found.get("strikes", [])],
            "blows": [Blow(**one) for one in found.get("blows", [])],
        }
    )


def collections(shape: TableShape, *, via_root: bool = False) -> list[str]:
    """The names by which a table's rows are published and can be asked for."""
    if shape.database:
        return [f"{shape.database}.dbo.{shape.name}"]
    schema = "shop" if shape.documents else "public"
    return [f"{schema}.{name}" for name in ((shape.name,) if via_root else shape.leaves)]
