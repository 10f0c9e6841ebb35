"""A world whose tables are verified: the turns of the sink are the copy. Faults come, verdicts are judged.

The judge knows what the copy holds and what the source held, turn by turn. When the engine compares them,
what it finds must be just what differs: a difference that it misses is a false Accept, one that it invents a
false Reject. Faults come while nothing is verified, since nobody but the job changes the files of its sink
while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.job.verify.copies import Copies
from engine.job.verify.verification import Verification
from engine.verify.compared_digests import digests_of_rows, key_digests
from engine.verify.comparison import COPIED, EventPosition, compare
from engine.verify.copy import Findings
from signals.answers import Outcome
from tests.memory_copy import Found, MemoryRows
from tests.simulation import script
from tests.simulation.database import T, U, apply
from tests.simulation.generator import Generator
from tests.simulation.script import History, Setup, Step
from tests.simulation.sink import Read, read_text
from tests.simulation.violation import Violation
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from engine.model import CollectionId
    from engine.verify.copy import ComparisonRequest, ExtraRow, SeenRows, Settled, Span, TouchedKeys
    from signals.answers import Answer
    from tests.simulation.answers import Asked
    from tests.simulation.database import Entry, Key, Rows
    from tests.simulation.sink import Event
    from tests.simulation.world import Life

_KINDS: Final = ("missing", "different", "extra")
_ODD: Final = 100
"""Keys from here on are in copies alone."""
_MORE: Final = (*(["verify"] * 5), *(["spoil"] * 10), *(["truncate"] * 2))


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
            verb = choose.pick(_MORE)
            steps += [_STEPS[verb](choose), ("go", choose.between(1, 60))]
    known = {name: getattr(core.setup, name) for name in Setup.__dataclass_fields__}
    skips = choose.chance(50)
    setup = VerifyingSetup(**known | {"world": "verify", "knows": True, "beside": 0, "skips": skips})
    return History(setup, tuple(steps))


_STEPS: Final[Mapping[str, Callable[[Generator], Step]]] = {
    "verify": lambda choose: ("verify", choose.between(1, 3)),
    "spoil": lambda choose: ("spoil", choose.pick(("t", "u")), choose.pick(_KINDS), choose.below(9)),
    "truncate": lambda choose: ("tx", (choose.pick(("t", "u")), "truncate"), int(choose.chance(60))),
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
        for line in self.said:
            if line.turn <= upto and (line.turn, line.number) > since:
                rows.pop(line.key, None)
                if line.text is not None:
                    rows[line.key] = line.text
        return rows

    def differences(self, upto: int) -> dict[str, int]:
        """How many rows differ after a turn, by kind."""
        copy, source = self.rows(upto), self.source.get(upto, {})
        return {
            "missing": len(source.keys() - copy.keys()),
            "different": sum(source[key] != copy[key] for key in source.keys() & copy.keys()),
            "extra": len(copy.keys() - source.keys()),
        }


class SimCopy:
    """Implements `Copy` for what the sink was told. Repairs are not played."""

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
        counts = {kind: len(getattr(found, kind)) for kind in _KINDS} | {"extra": len(settled)}
        keys, digests = (table.column(name).to_pylist() for name in ("merge_key", "key"))
        findings = Findings(
            found.equal,
            found.changed,
            counts,
            undecided=tuple((keys[at], digests[at]) for at in found.undecided.tolist()),
            unsettled=len(extra) - len(settled),
        )
        again = findings.undecided or findings.unsettled
        if isinstance(asked.settled, Shown):
            again = again or asked.settled.hides_sent
        expected = None if again else told.differences(span.upto)
        compared = Compared(span.upto, {kind: counts[kind] for kind in _KINDS}, expected)
        self._world.compared(topic, self._life.epoch, compared)
        return Found(findings, self._world.setup.reading_polls)

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """Repairs are not played."""
        raise NotImplementedError

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """Repairs are not played."""
        raise NotImplementedError


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


def _is_settled(one: Said, asked: ComparisonRequest) -> bool:
    return one.transaction is None or asked.settled(str(one.transaction).encode())


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
        self._compared: dict[str, list[tuple[int, Compared]]] = {}
        self._seen = MemoryRows()
        self._skips = getattr(history.setup, "skips", False)
        super().__init__(replace(history), story=story)

    def begun(self, slot: int) -> None:
        """The log begins: the copy knows nothing of what was before."""
        super().begun(slot)
        for table in (T, U):
            self._held[table] = dict(self.oracle.rows[table])

    def verification_of(self, life: Life) -> Verification:
        """Verifications against what the sink was told."""
        copies, settled = Copies(SimCopy(self, life)), partial(self._settled, life)
        return Verification(copies, self._seen, settled=settled, settled_then=shown_then)

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

    def _judge(self, turn: int, epoch: int, events: Sequence[Event]) -> None:
        super()._judge(turn, epoch, events)
        for number, event in enumerate(events):
            table = event.collection
            if table not in self._held:
                continue
            if isinstance(event, Read):
                self._say(table, Said(turn, number, event.key, read_text(*self._held[table][event.key])))
            else:
                self._tell(turn, number, event)
        for table, rows in self._held.items():
            shown = {key: read_text(*row) for key, row in rows.items()}
            self.told[str(table)].source[turn] = shown

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
        topic, told = answer.text.partition(" ")[0].rstrip(":"), {kind: facts[kind] for kind in _KINDS}
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
        """A snapshot must be complete; a verification has sent nothing."""
        if not self._verifies(label):
            super().finished(asked, collection, label)

    def _verifies(self, label: str) -> bool:
        return label != self.initial and "verify" in self.database.log[int(label)].value

    # Steps.

    def _verify(self, life: Life, mask: int) -> None:
        self._execute(life, mask, "verify")
        self.happened["verifications"] += 1

    def _spoil(self, _life: Life, table: str, kind: str, index: int) -> None:
        """Put a fault into the copy, unless something is verified."""
        if any(map(self._verifies, self._open_signals())):
            return
        told, turn = self.told[str(self.names[table])], self.oracle.last_turn
        rows = told.rows(turn)
        if turn not in told.source or not (rows or kind == "extra"):
            return
        key = sorted(rows, key=str)[index % len(rows)] if kind != "extra" else _ODD + index
        text = {"missing": None, "different": "spoilt", "extra": "strange"}[kind]
        # A wrong row still says of which transaction it is.
        known = [said.transaction for said in told.said if said.key == key and kind == "different"]
        told.said.append(Said(turn, _ODD + len(told.said), key, text, known[-1] if known else None))
        self.happened[f"spoilt: {kind}"] += 1

    def _open_signals(self) -> list[str]:
        return [
            label
            for label, asked in self.answers.asked.items()
            if asked.kind == "execute"
            and any(str(collection) not in asked.outcomes for collection in asked.collections)
        ]


FLOORS: Final[dict[str, Any]] = {
    "verdicts that accept": 300,
    "verdicts that reject": 100,
    "comparisons that look again": 20,
    "verifications that go on": 20,
    "truncates not sent": 20,
    "spoilt: missing": 30,
    "spoilt: different": 30,
    "spoilt: extra": 30,
}
"""How often a thousand histories must have had it, besides what the core's have."""
