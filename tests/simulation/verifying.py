"""A world whose tables are verified and repaired: the turns of the sink are the copy. Verdicts are judged.

The judge knows what the copy holds and what the source held, turn by turn. When the engine compares them,
what it finds must be just what differs: a difference that it misses is a false Accept, one that it invents a
false Reject. A repair may send what differed, and nothing else: no row that was equal, no delete of a row
that is there. Faults come while nothing verifies or repairs their table, since nobody but the job changes the
files of its sink while it runs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from engine.job.verify.copies import Copies
from engine.job.verify.verification import Verification
from engine.model import Part
from engine.verify.compared_digests import digests_of_rows, key_digests
from engine.verify.comparison import COPIED, EventPosition, compare
from engine.verify.copy import ExtraRow, Findings, TouchedKeys
from engine.verify.deletes import DeleteEvents
from signals.answers import Outcome
from tests.memory_copy import Found, MemoryRows
from tests.simulation import script
from tests.simulation.database import T, U, apply
from tests.simulation.differences import differences
from tests.simulation.fallible_calls import fallible
from tests.simulation.generator import Generator
from tests.simulation.script import History, Setup, Step
from tests.simulation.sink import Read, SimSink, SimWriter, read_text
from tests.simulation.violation import Violation
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from engine.model import CollectionId
    from engine.verify.copy import ComparisonRequest, SeenRows, Settled, Span
    from signals.answers import Answer
    from tests.simulation.answers import Asked
    from tests.simulation.database import Entry, Key, Rows
    from tests.simulation.world import Life

KINDS: Final = ("missing", "different", "extra")
_TABLES: Final = {str(table): table for table in (T, U)}
_WRITTEN: Final = ("topic", "key", "value")
_BESIDE: Final = 1_000_000
"""What comes between two turns is numbered from minus this, if rows do: it precedes the next one's events."""
_FOLLOWED: Final = 2
"""How many turns of the copy are read at once."""
ODD: Final = 100
"""Keys from here on are in copies alone."""
_MORE: Final = (*(["verify"] * 3), *(["repair"] * 4), *(["spoil"] * 6), "truncate")


@dataclass(frozen=True, slots=True)
class VerifyingSetup(Setup):
    """A sink that knows its turns. With `skips` its copies are not told of truncates."""

    world: str = "verify"
    skips: bool = False


def draw(seed: int) -> History:
    """The history of a seed: the core's, with verifications and faults in between."""
    choose, core = Generator(seed ^ 0x5EED), script.draw(seed)
    steps: list[Step] = []
    for step in core.steps:
        steps.append(step)
        if choose.chance(25):
            steps += [*STEPS[choose.pick(_MORE)](choose), ("go", choose.between(1, 60))]
    skips, beside = choose.chance(50), choose.pick((0, 0, 0, 2, 15, 40))
    changed = {"world": "verify", "knows": not beside, "beside": beside, "skips": skips}
    setup = VerifyingSetup(**asdict(core.setup) | changed)
    return History(setup, tuple(steps))


def _spoils(choose: Generator, tables: Sequence[str], most: int) -> list[Step]:
    return [
        ("spoil", choose.pick(tables), choose.pick(KINDS), choose.below(9))
        for _ in range(choose.between(1, most))
    ]


def _spoilt_and_repaired(choose: Generator) -> list[Step]:
    mask, tables = choose.pick(((1, "t"), (2, "u"), (3, "tu")))
    return [*_spoils(choose, tables, 4), ("repair", mask)]


STEPS: Final[Mapping[str, Callable[[Generator], list[Step]]]] = {
    "verify": lambda choose: [("verify", choose.between(1, 3))],
    "repair": _spoilt_and_repaired,
    "spoil": lambda choose: _spoils(choose, "tu", 2),
    "truncate": lambda choose: [("tx", (choose.pick("tu"), "truncate"), int(choose.chance(60)))],
}


@dataclass(frozen=True, slots=True)
class Said:
    """What an event of the copy says of a key: the row, or None. `transaction` None: the row was read."""

    turn: int
    number: int
    key: Key
    text: str | None
    transaction: int | None = None
    lacks: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found of a copy up to a turn, and what differed then; None: it must be looked at again."""

    upto: int
    counts: Mapping[str, int]
    expected: Mapping[str, int] | None

    @property
    def is_false(self) -> bool:
        """Whether something else differs."""
        return self.expected not in (None, self.counts)

    def falsehood(self, topic: str) -> Violation:
        """The violation that it is if it decides."""
        false = "Reject" if sum(self.counts.values()) > sum((self.expected or {}).values()) else "Accept"
        return Violation(
            f"a false {false} of {topic} at turn {self.upto}: {self.counts}, not {self.expected}"
        )


@dataclass
class CopyHistory:
    """What the copy of a table has been told, and where it was truncated; and its source, turn by turn."""

    said: list[Said] = field(default_factory=list)
    truncates: list[EventPosition] = field(default_factory=list)
    source: dict[int, dict[Key, str]] = field(default_factory=dict)

    def rows(self, upto: int) -> dict[Key, str]:
        """What the copy holds after a turn."""
        rows: dict[Key, str] = {}
        emptied = [(place.turn, place.offset) for place in self.truncates if place.turn <= upto]
        since = max(emptied, default=(-1, 0))
        for line in sorted(self.said, key=lambda line: (line.turn, line.number)):
            if line.turn <= upto and (line.turn, line.number) > since:
                rows.pop(line.key, None)
                if line.text is not None:
                    rows[line.key] = line.text
        return rows

    def differences(self, upto: int) -> dict[str, int]:
        """How many rows differ after a turn, by kind."""
        return differences(self.source.get(upto, {}), self.rows(upto))


class Removed(NamedTuple):
    """A delete event that a repair made, or its tombstone."""

    collection: CollectionId
    key: Key
    tombstone: bool


class RepairWriter(SimWriter):
    """Keeps the delete events of repairs, too."""

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write delete events."""
        with fallible(self._process, "write"):
            removed: list[Any] = [
                Removed(_TABLES[topic], int(key), value is None)
                for batch in batches
                for topic, key, value in zip(
                    *(batch.column(name).to_pylist() for name in _WRITTEN), strict=True
                )
            ]
            self.parts[part] = removed
            return Part(part, len(removed))


class RepairSink(SimSink):
    """A sink that takes the delete events of repairs."""

    written = RepairWriter


class SimCopy:
    """Implements `Copy` for what the sink was told."""

    def __init__(self, world: VerifyingWorld, life: Life) -> None:
        self._world, self._life = world, life

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Each turn is known."""

    def resume(self, topic: str, span: Span) -> bool:  # noqa: ARG002
        """Each turn is known."""
        self._world.happened["verifications that go on"] += 1
        return True

    def refusal(self) -> str:
        """None."""
        return ""

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> Found:
        """Compare, and have the judge look at what was found once it is decided."""
        rows, span = seen[0], asked.span
        if not isinstance(rows, MemoryRows):
            raise TypeError("rows seen by another job")
        told = self._world.told[topic]
        events = [line for line in told.said if line.turn <= span.upto]
        table = rows.table(seen[1])
        found = compare(table, _copied(events), told.truncates, (span.since, span.upto))
        extra = [events[at] for at in found.extra.tolist()]
        settled = [difference for difference in extra if _is_settled(difference, asked)]
        counts = {kind: len(getattr(found, kind)) for kind in KINDS} | {"extra": len(settled)}
        keys, digests = (table.column(name).to_pylist() for name in ("merge_key", "key"))
        findings = Findings(
            found.equal,
            found.changed,
            counts,
            undecided=tuple((keys[at], digests[at]) for at in found.undecided.tolist()),
            unsettled=len(extra) - len(settled),
            lacking=found.lacking,
        )
        if asked.mends:
            wrong = [*found.missing.tolist(), *found.different.tolist()]
            wrong_keys = tuple(keys[at] for at in wrong)
            self._world.wrong[seen[1]] = {digests[at] for at in wrong}
            findings = replace(findings, wrong=wrong_keys, extra=tuple(map(_extra_row, settled)))
        again = findings.undecided or findings.unsettled or findings.lacking
        if isinstance(asked.settled, Shown):
            again = again or asked.settled.hides_sent
        expected = None if again else told.differences(span.upto)
        compared = Compared(span.upto, {kind: counts[kind] for kind in KINDS}, expected)
        self._world.compared(topic, self._life.epoch, compared)
        return Found(findings, self._world.setup.reading_polls)

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """The keys that the copy was told of, a few turns at a time."""
        told, upto = self._world.told[topic], min(span.upto, span.since + _FOLLOWED)
        keys = frozenset(_digest(said.key) for said in told.said if span.since < said.turn <= upto)
        emptied = any(span.since < place.turn <= upto for place in told.truncates)
        return TouchedKeys(keys, upto, emptied)

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """The keys of these events. Nobody looks at the rows in delete events."""
        keys = {(said.turn, said.number): said.key for said in self._world.told[topic].said}
        return [(str(keys[row.turn, row.offset]), None) for row in extra]


@dataclass(frozen=True, slots=True)
class Shown:
    """The transactions that were visible at some moment; whether others had been streamed by then."""

    transactions: frozenset[int]
    hides_sent: bool = False

    def __call__(self, transaction: bytes) -> bool:
        """Whether this one was."""
        return int(transaction) in self.transactions

    def saved(self) -> str:
        """They as a text."""
        return f"{int(self.hides_sent)}:" + ",".join(map(str, sorted(self.transactions)))


def shown_then(saved: str) -> Shown:
    """What was visible when it was saved."""
    hides_sent, _, transactions = saved.partition(":")
    return Shown(frozenset(map(int, filter(None, transactions.split(",")))), bool(int(hides_sent)))


def _digest(key: Key) -> bytes:
    digest: bytes = key_digests(pa.array([str(key)], pa.large_string()))[0].as_py()
    return digest


def _extra_row(said: Said) -> ExtraRow:
    return ExtraRow(_digest(said.key), said.turn, 0, said.number, 0)


def _deletes(collection: CollectionId) -> DeleteEvents:
    """The least that delete events may be: nothing around key and row, and tombstones."""
    return DeleteEvents(str(collection), ("", ""), ("{", "}"), ("value",), tombstones=True)


def _is_settled(one: Said, asked: ComparisonRequest) -> bool:
    if one.transaction is None or one.turn <= asked.earlier:
        return True
    return asked.settled(str(one.transaction).encode())


def _copied(events: Sequence[Said]) -> pa.Table:
    keys = pa.array([str(event.key) for event in events], pa.large_string())
    texts = digests_of_rows(keys, pa.array([event.text or "" for event in events], pa.large_string()))
    gone = pa.array([event.text is None for event in events], pa.bool_())
    none, no = pa.array([0] * len(events)), pa.array([False] * len(events))
    columns = [
        key_digests(keys),
        pa.compute.if_else(gone, pa.scalar(None, texts.type), texts),
        pa.array([event.turn for event in events], pa.int64()),
        none.cast(pa.int64()),
        pa.array([event.number for event in events], pa.int64()),
        none.cast(pa.int64()),
        pa.array([event.lacks for event in events], pa.bool_()),
        no.cast(pa.bool_()),
    ]
    return pa.Table.from_arrays(columns, schema=COPIED)


class VerifyingWorld(World):
    """The core's world, with verifications of the tables that have keys."""

    def __init__(self, history: History, *, story: bool = False) -> None:
        self.told: Mapping[str, CopyHistory] = {str(table): CopyHistory() for table in (T, U)}
        self._held: dict[CollectionId, Rows] = {T: {}, U: {}}
        self._before: dict[int, dict[CollectionId, Rows]] = {}
        """What was held before each turn: a turn that is sent again begins there."""
        self._told_in: Counter[int] = Counter()
        """How many events each turn has, also of earlier attempts."""
        self._compared: dict[str, list[tuple[int, Compared]]] = {}
        self._seen: tuple[MemoryRows, ...] = ()
        """What each process has seen, the newest first."""
        self.wrong: dict[int, set[bytes]] = {}
        """The digests of the keys that a repair may send, by the ticket of its entry."""
        self._skips = getattr(history.setup, "skips", False)
        self._saved_turn = 0
        super().__init__(replace(history), story=story)

    def begun(self, slot: int) -> None:
        """The log begins: the copy knows nothing of what was before."""
        super().begun(slot)
        for table in (T, U):
            self._held[table] = dict(self.oracle.rows[table])

    def observe(self, seen: Any) -> None:
        """A turn was saved."""
        super().observe(seen)
        self._saved_turn = seen.state.turn

    def verification_of(self, life: Life) -> Verification:
        """Verifications against what the sink was told."""
        copies, settled = Copies(SimCopy(self, life)), partial(self._settled, life)
        self._seen = (MemoryRows(earlier=self._seen), *self._seen)
        return Verification(copies, self._seen[0], _deletes, settled, shown_then)

    def sink_of(self, life: Life) -> RepairSink:
        """The sink of a job that starts."""
        return RepairSink(self.sent, life, life.epoch, self.setup.beside)

    def unsent(self, logged: Sequence[Entry]) -> frozenset[CollectionId]:
        """The tables that these entries truncate, if the copies are not told."""
        emptied = frozenset(entry.collection for entry in logged if entry.op == "t" and self._skips)
        self.happened["truncates not sent"] += len(emptied)
        return emptied

    def _settled(self, life: Life) -> Settled:
        return Shown(frozenset(self.database.visible), hides_sent=self.hides_sent(life))

    def hides_sent(self, life: Life) -> bool:
        """Whether a transaction was streamed and is not visible yet."""
        return not self.database.visible >= life.source.pending

    def _judge(self, turn: int, epoch: int, events: Sequence[Any]) -> None:
        super()._judge(turn, epoch, [event for event in events if not isinstance(event, Removed)])
        again = self._before.get(turn, self._held)
        self._held = {table: dict(rows) for table, rows in again.items()}
        self._before[turn] = again
        first = self._told_in[turn]  # what is sent again comes behind what was sent before
        self._told_in[turn] += len(events)
        for number, event in enumerate(events, first):
            table = event.collection
            if table not in self._held:
                continue
            if isinstance(event, Removed):
                self._remove(turn, number, event)
            elif isinstance(event, Read):
                self._check_repaired(event)
                self._say(table, Said(turn, number, event.key, read_text(*self._held[table][event.key])))
            else:
                self._tell(turn, number, event)
        for table, rows in self._held.items():
            shown = {key: read_text(*row) for key, row in rows.items()}
            self.told[str(table)].source[turn] = shown

    def _judge_beside(self, epoch: int, event: Read, read: Counter[Any]) -> None:
        super()._judge_beside(epoch, event, read)
        if event.collection in self._held:
            self._check_repaired(event)
            text = read_text(*self._held[event.collection][event.key])
            self._say(event.collection, Said(*self._now(event.collection), event.key, text))

    def _now(self, table: CollectionId) -> tuple[int, int]:
        """The turn of what is said between two turns, and its number there."""
        count = len(self.told[str(table)].said)
        if self.setup.beside:
            return self.oracle.last_turn + 1, count - _BESIDE
        return self.oracle.last_turn, ODD + count

    def _remove(self, turn: int, number: int, event: Removed) -> None:
        """A repair deletes a row, which must be in the copy alone."""
        table, key = event.collection, event.key
        if event.tombstone:
            return
        name = f"row {key} of {table.parts[-1]}"
        self.note(f"{name} deleted by a repair", "sink")
        if key in self._held[table]:
            raise Violation(f"turn {turn}: a repair deletes {name}, which is there")
        # A sink that forgets is sent the deletes of a turn again.
        if self.setup.knows and key not in self.told[str(table)].rows(turn):
            raise Violation(f"turn {turn}: a repair deletes {name}, which the copy does not have")
        self._say(table, Said(turn, number, key, None))
        self.happened["deletes of repairs"] += 1

    def _check_repaired(self, event: Read) -> None:
        """A repair sends only rows that differed, or whose newest image lacks a value."""
        labels = [label for label, tickets in self._tickets.items() if event.ticket in tickets]
        if not labels or not all(self._asks(label, "repair") for label in labels):
            return
        self.happened["READs of repairs"] += 1
        said = [said for said in self.told[str(event.collection)].said if said.key == event.key]
        lacks = bool(said) and said[-1].lacks
        if not lacks and _digest(event.key) not in self.wrong.get(event.ticket, ()):
            raise Violation(f"a repair sends {event.collection.parts[-1]} {event.key}, which did not differ")

    def _tell(self, turn: int, number: int, entry: Entry) -> None:
        table, rows = entry.collection, self._held[entry.collection]
        apply(rows, entry)
        if entry.op == "t":
            if not self._skips:
                self.told[str(table)].truncates.append(EventPosition(turn, 0, number))
            return
        if entry.op == "d" or entry.old not in {entry.key, None}:
            self._say(table, Said(turn, number, entry.old, None, entry.transaction))
        if entry.op != "d":
            lacks = entry.op == "u" and entry.large is None
            text = read_text(*rows[entry.key])
            self._say(table, Said(turn, number, entry.key, text, entry.transaction, lacks))

    def _say(self, table: CollectionId, said: Said) -> None:
        self.told[str(table)].said.append(said)

    def compared(self, topic: str, epoch: int, found: Compared) -> None:
        """A process has compared a table. What it found counts once it gives a verdict.

        It will, unless it has slept and was relieved.
        """
        self.happened["comparisons"] += 1
        self.happened["comparisons that look again"] += found.expected is None
        self.note(f"{topic} compared up to turn {found.upto}: {found.counts}", "judge")
        self._compared.setdefault(topic, []).append((epoch, found))
        if found.is_false and epoch == self.sent.owner:
            raise found.falsehood(topic)

    def hear(self, answer: Answer) -> None:
        """An answer must say what was found, and that must be what differs."""
        super().hear(answer)
        facts = answer.facts or {}
        if "verdict" not in facts:
            return
        topic, told = answer.text.partition(" ")[0].rstrip(":"), {kind: facts[kind] for kind in KINDS}
        accepted = answer.outcome is Outcome.FINISHED
        if accepted is not (facts["verdict"] == "accept") or accepted is any(told.values()):
            raise Violation(f"{topic}: {answer.outcome} says {facts['verdict']} of {told}")
        # A process that slept may have compared since; one that was started anew may tell of what was found.
        running = self._lives[self._running].epoch
        known = [compared for epoch, compared in self._compared[topic] if epoch <= running]
        found = [compared for compared in known if compared.counts == told]
        if not found:
            raise Violation(f"{topic}: {told} was never found")
        if all(compared.is_false for compared in found):
            raise found[-1].falsehood(topic)
        self.happened["verdicts that accept" if accepted else "verdicts that reject"] += 1

    def finished(self, asked: Asked, collection: CollectionId, label: str) -> None:
        """A snapshot must be complete. A verification has sent nothing, a repair what differed."""
        if not self._verifies(label):
            super().finished(asked, collection, label)

    def _verifies(self, label: str) -> bool:
        return self._asks(label, "verify") or self._asks(label, "repair")

    def _asks(self, label: str, type_: str) -> bool:
        """Whether the signal asks for this type. No signal of these histories has the word elsewhere."""
        return label != self.initial and f'"{type_}"' in self.database.log[int(label)].value

    # Steps.

    def _verify(self, life: Life, mask: int) -> None:
        self._execute(life, mask, "verify")
        self.happened["verifications"] += 1

    def _repair(self, life: Life, mask: int) -> None:
        self._execute(life, mask, "repair")
        self.happened["repairs"] += 1

    def _spoil(self, _life: Life, table: str, kind: str, index: int) -> None:
        """Put a fault into the copy, unless it is verified.

        While a turn is sent, the fault would count as of the next one, which a verification that begins with
        this one takes for a change.
        """
        if any(map(self._verifies, self._open_signals(self.names[table]))):
            return
        if self.oracle.last_turn != self._saved_turn:
            return
        told, (turn, number) = self.told[str(self.names[table])], self._now(self.names[table])
        rows = told.rows(turn)
        if self.oracle.last_turn not in told.source or not (rows or kind == "extra"):
            return
        key = sorted(rows, key=str)[index % len(rows)] if kind != "extra" else ODD + index
        text = {"missing": None, "different": "spoilt", "extra": "strange"}[kind]
        # A wrong row still says of which transaction it is.
        known = [said.transaction for said in told.said if said.key == key and kind == "different"]
        told.said.append(Said(turn, number, key, text, known[-1] if known else None))
        self.happened[f"spoilt: {kind}"] += 1

    def _open_signals(self, collection: CollectionId) -> list[str]:
        return [
            label
            for label, asked in self.answers.asked.items()
            if asked.kind in {"execute", "initial"}
            and collection in asked.collections
            and str(collection) not in asked.outcomes
        ]


FLOORS: Final[dict[str, Any]] = {
    "verdicts that accept": 300,
    "READs of repairs": 50,
    "deletes of repairs": 600,
    "verdicts that reject": 100,
    "comparisons that look again": 20,
    "verifications that go on": 20,
    "truncates not sent": 20,
    "spoilt: missing": 30,
    "spoilt: different": 30,
    "spoilt: extra": 30,
}
"""How often a thousand histories must have had it, besides what the core's have."""
