"""What the sources' worlds share whose job recovers: a lost log ends no history, and copies are repaired.

The sink's events are written into the directory of a files sink, and the engine compares it as it would
anywhere: with the real `FilesCopy`, and with what the source itself says of its events. The judge knows what
a consumer of these events has, and what the source held, turn by turn. A verdict that says anything else is
false. Faults come while nothing verifies or repairs their table.

Where a new log begins, the judge takes the tables as they are, and consumers keep what they have: the repair
of each table must make up for what the lost log had left to say.
"""

from __future__ import annotations

import os
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from adapters.verify.events.files_copy import FilesCopy
from adapters.verify.seen_rows import SeenRowsFiles
from engine.errors import SinkRefused, SourceError, StateError
from engine.job.saved.recovery import PREFIX
from engine.job.verify.copies import Copies
from engine.job.verify.verification import Verification
from engine.snapshot.merge_key import key_of
from engine.verify.copy import HidesSent
from signals.answers import Outcome
from tests.memory_copy import Found
from tests.simulation.answers import Asked
from tests.simulation.event_files import EventFiles
from tests.simulation.generator import Generator
from tests.simulation.record_sink import collection_of
from tests.simulation.source_world import SourceWorld
from tests.simulation.verifying import KINDS, ODD, STEPS, Compared
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.source.assembly.verifying import Verifiable
    from adapters.verify.events.copied_events import Traits
    from engine.errors import TidemarkError
    from engine.job.loop import Job
    from engine.model import CollectionId, Scope
    from engine.verify.copy import ComparisonRequest, Findings, SeenRows, Span, TouchedKeys
    from signals.answers import Answer
    from tests.simulation.record_sink import Record
    from tests.simulation.script import History, Step
    from tests.simulation.world import Life, Played

_MEMORY: Final = "/dev/shm"  # noqa: S108  # mkdtemp makes a directory of its own there
_IN_MEMORY: Final = _MEMORY if os.access(_MEMORY, os.W_OK) else None
"""Where the few small files of a history cost least; None: where temporary files are."""
_MORE: Final = (*(["verify"] * 3), *(["repair"] * 4), *(["spoil"] * 6))


def with_repairs(choose: Generator, steps: Sequence[Step], losses: Sequence[Sequence[Step]]) -> list[Step]:
    """The steps with verifications, repairs and faults in between, and with one to three losses."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        if choose.chance(15):
            found += [*STEPS[choose.pick(_MORE)](choose), ("go", choose.between(1, 60))]
    for _ in range(choose.between(1, 3)):
        at = choose.between(len(found) // 4, len(found))
        for step in choose.pick(losses):
            found[at:at] = [step, ("go", choose.between(1, 60))]
            at = choose.between(at + 2, len(found))
    return found


class _InPlace:
    """Tasks that run at once. Tasks that die are played by what stages rows.

    A job that was relieved may find that a newer one has removed its files.
    """

    def map(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        try:
            return [task(item) for item in items]
        except OSError as error:
            raise SourceError(f"a task failed: {error.strerror}") from error


class JudgedCopy:
    """Implements `Copy` for the directory of a files sink. What comparisons find is judged.

    A comparison is over at once, so that a history is the same each time, and does not say so yet.
    """

    def __init__(self, world: RecoveringSourceWorld, life: Life, traits: Traits) -> None:
        self._world, self._life = world, life
        self._files = FilesCopy(
            world.files.directory, f"{world.work}/process-{life.number}", _InPlace(), traits
        )
        self.follow, self.refusal = self._files.follow, self._files.refusal
        self.resume, self.rows = self._files.resume, self._files.rows

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> Found:
        """Compare, and have the judge look at what was found once it is decided."""
        self._world.files.write()
        comparison = self._files.compare(topic, seen, asked)
        findings = comparison._found.result()
        comparison.close()
        collection = collection_of(topic)
        if asked.mends:
            self._world.wrong[collection, seen[1]] = {str(key_of(key)[0]) for key in findings.wrong}
        self._world.compared(collection, self._life.epoch, self._judged(collection, findings, asked))
        return Found(findings, self._world.setup.reading_polls)

    def _judged(self, collection: CollectionId, findings: Findings, asked: ComparisonRequest) -> Compared:
        found, upto = findings.counts, asked.span.upto
        settled: object = asked.settled
        counts = {kind: found[kind] for kind in KINDS}
        counts["different"] += found["older"]
        hides_sent = isinstance(settled, HidesSent) and settled.hides_sent
        if findings.undecided or findings.unsettled or findings.lacking or hides_sent:
            return Compared(upto, counts, None)
        return Compared(upto, counts, self._world.differences[upto].get(collection))

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """Read the events of the next turns."""
        self._world.files.write()
        return self._files.touched_keys(topic, span)


class RecoveringSourceWorld(SourceWorld):
    """Plays one history over an adapter whose job recovers.

    `told_of` is each source's own. `captured` are all tables whose events are sent, `keyed` those that can be
    repaired, by the column `key_name`.
    """

    key_name: ClassVar[str] = "id"
    captured: ClassVar[tuple[CollectionId, ...]]
    keyed: ClassVar[tuple[CollectionId, ...]]

    def __init__(self, history: History, *, story: bool = False) -> None:
        self._directory = TemporaryDirectory(prefix="tidemark-simulated-", dir=_IN_MEMORY)
        self.work = self._directory.name
        self.files = EventFiles(f"{self.work}/events")
        self.differences: dict[int, Mapping[CollectionId, Mapping[str, int]]] = {}
        """How many rows differed after each turn, by table and kind. What is not judged is left out."""
        self.wrong: dict[tuple[CollectionId, int], set[str]] = {}
        """The keys that repairs may send, by table and the ticket of their entry."""
        self._damaged: set[CollectionId] = set()
        """Tables whose copies only a repair makes whole."""
        self._lost: set[CollectionId] = set()
        """Tables whose copies may lack what a lost log had, and nobody has made up for it."""
        self._types: dict[str, str] = {}
        self._seen: list[SeenRowsFiles] = []
        self._awaits_repairs = False
        self._read_anyway: set[CollectionId] = set()
        """Tables that are queued for a snapshot, which sends all rows."""
        super().__init__(history, story=story)
        self.pace = replace(self.pace, recovers=True)

    def play(self) -> Played:
        """Play the history to its end."""
        try:
            return super().play()
        finally:
            for rows in self._seen:
                rows.close()
            self._directory.cleanup()

    def told_of(self, life: Life) -> Verifiable:
        """What the source of a process says of its events."""
        raise NotImplementedError

    def streamed(self) -> Sequence[CollectionId]:
        """The tables with keys that are captured now, or of which the state knows that they were."""
        return self.keyed

    def key_of_event(self, event: Record) -> Any:
        """The key of a row, from an event about it."""
        return (event.key or event.value["after"])["id"]

    def spoiling(self, collection: CollectionId, key: Any, row: Mapping[str, Any] | None) -> bytes:
        """The line of an event that says of a key that there is this row, or none."""
        return line_of(self.topic(collection), {"id": key}, row)

    def verification_of(self, life: Life) -> Verification:
        """Verifications against the files of the sink."""
        told = self.told_of(life)
        self._seen.append(SeenRowsFiles(f"{self.work}/seen"))
        return Verification(
            Copies(JudgedCopy(self, life, told.traits)),
            self._seen[-1],
            deletes=told.deletes,
            settled=told.settled,
            settled_then=told.settled_then,
        )

    def excused(self, error: TidemarkError) -> bool:
        """A job must end only where its checkpoint was replaced by an old one."""
        if isinstance(error, StateError | SinkRefused) and self.blow == "stale states":
            return super().excused(error)
        return False

    # A new log.

    @property
    def _replaced(self) -> bool:
        """Whether an older copy has taken the server's place since the log began."""
        return self._next_log is not None or bool(self._lacks)

    @property
    def _relieved(self) -> bool:
        """Whether the running job has slept while another one took over, and does not know it yet."""
        return self._lives[self._running].epoch != self.sent.owner

    def begun(self, slot: int) -> None:
        """A log begins: the first one, or a new one."""
        if not self.sent.turns:
            super().begun(slot)
            return
        if self._relieved:
            return  # nothing that the job makes lasts
        first = min(self.oracle.position, self._common if self._replaced else slot)
        if self._next_log is not None:
            self.oracle.follow(self._next_log)
            self._next_log = None
        for label, asked in self.answers.asked.items():
            if label == self.initial or first <= self.signalled_at(label) < slot:
                asked.lose()
        self._lost = set(self.streamed())
        # Only what the state knows tells of a table that had left before a new log began.
        self.oracle.told |= set(self.captured) - self._lost
        self._lacks, self.blow, self._undone, self._copy = "", "", (), None
        self.database.delivered = max(self.database.delivered, slot)
        self.oracle.begin_anew(slot)
        self._awaits_repairs = True
        self._damaged |= set(self.tables)
        self.happened["logs begun anew"] += 1
        self.note(f"a new log begins at {slot}", "job")

    def _lose_state(self, life: Life) -> None:
        super()._lose_state(life)
        if self.blow == "lost states":
            self._awaits_repairs = True
            self._forget_signals()

    def _stale_state(self, life: Life) -> None:
        super()._stale_state(life)
        if self.blow == "stale states":
            self._forget_signals()
            # What the old state has left is answered again.
            self.answers.ambiguous |= set(self.answers.asked)
            self._lost.clear()

    def _forget_signals(self) -> None:
        """Nothing tells any more what was asked for."""
        for asked in self.answers.asked.values():
            asked.lose()

    def observe(self, seen: Any) -> None:
        """A turn was saved: its state may have the repairs of a recovery."""
        super().observe(seen)
        # An old checkpoint that was put back may ask again for what was answered.
        self._read_anyway = {
            table.target.collection for table in seen.state.snapshot.tables if not table.target.judged
        }
        recovery = seen.state.recovery
        if recovery is not None and recovery.begun:
            self._awaits_repairs = False

    def at_rest(self, job: Job) -> bool:
        """Whether everything was sent and answered, and every loss was made up for, or is told."""
        if self._relieved or not super().at_rest(job) or self._awaits_repairs:
            return False
        if untold := self._lost - {fault.collection for fault in job.state.incomplete}:
            raise Violation(f"{min(untold)} may lack what a lost log had, and nobody is told")
        self.oracle.whole -= self.oracle.unjudged
        return True

    # What is sent, and what the copy has.

    def _judge(self, turn: int, epoch: int, events: Sequence[Any]) -> None:
        super()._judge(turn, epoch, [event for event in events if not _of_repair(event)])
        for event in events:
            if _of_repair(event):
                self._remove(turn, event)
            elif event.op == "r":
                self._check_repaired(event)
        self.files.add(turn, [event.line for event in events])
        self.keep_differences(turn)

    def keep_differences(self, turn: int) -> None:
        """Keep how many rows differ after a turn. None is judged while the copy has what no log has."""
        self.differences[turn] = {} if self._lacks else self.oracle.differences()

    def _remove(self, turn: int, event: Record) -> None:
        """A repair deletes a row, which must be in the copy alone."""
        collection, key = event.collection, self.key_of_event(event)
        self.happened["deletes of repairs"] += 1
        if collection not in self.keyed:
            return
        name = f"row {key} of {collection.parts[-1]}"
        if collection not in self.oracle.unjudged:
            if key in self.oracle.rows_of(collection):
                raise Violation(f"turn {turn}: a repair deletes {name}, which is there")
            if key not in self.oracle.consumer[collection]:
                raise Violation(f"turn {turn}: a repair deletes {name}, which the copy does not have")
        self.oracle.consumer[collection].pop(key, None)

    def _check_repaired(self, event: Record) -> None:
        """A repair sends only rows that differed."""
        collection = event.collection
        labels = self._open_signals(collection)
        if (
            collection not in self.keyed
            or collection in self._read_anyway
            or not labels
            or not all(self._asks(label, "repair") for label in labels)
        ):
            return
        self.happened["READs of repairs"] += 1
        key = self.key_of_event(event)
        if not any(
            str(key) in wrong for (table, _ticket), wrong in self.wrong.items() if table == collection
        ):
            raise Violation(f"a repair sends row {key} of {collection.parts[-1]}, which did not differ")

    def compared(self, collection: CollectionId, epoch: int, found: Compared) -> None:
        """A process has compared a table: what it found must be what differs, unless it was relieved."""
        self.happened["comparisons"] += 1
        self.happened["comparisons that look again"] += found.expected is None
        self.note(f"{collection} compared up to turn {found.upto}: {found.counts}", "judge")
        if found.is_false and epoch == self.sent.owner:
            raise found.falsehood(str(collection))

    def hear(self, answer: Answer) -> None:
        """An answer must say what was found, and that must be what differs."""
        if answer.label.startswith(PREFIX) and answer.outcome is Outcome.ACCEPTED:
            self._announced(answer)
            return
        if answer.label not in self.answers.asked and self.signalled_at(answer.label) >= 0:
            # A new log may begin before what the first one had.
            self.answers.ask(answer.label, Asked("lost", self.captured, 0, outcomes={"": []}))
        super().hear(answer)
        if answer.label.startswith(PREFIX) and answer.outcome is not Outcome.FINISHED:
            self._lost -= {name for name in self.keyed if answer.text.startswith((f"{name} ", f"{name}:"))}
        facts = answer.facts or {}
        if "verdict" not in facts:
            return
        told = {kind: facts[kind] for kind in KINDS}
        told["different"] += facts["older"]
        accepted = answer.outcome is Outcome.FINISHED
        if accepted is not (facts["verdict"] == "accept") or accepted is any(told.values()):
            raise Violation(f"{answer.text}: {answer.outcome} says {facts['verdict']} of {told}")
        self.happened["verdicts that accept" if accepted else "verdicts that reject"] += 1

    def _announced(self, answer: Answer) -> None:
        """The repair of a table is announced. Like an initial snapshot it has an answer for each table."""
        self.note(f"{answer.label} {answer.outcome}: {answer.text}", "answer")
        known = self.answers.asked.setdefault(
            answer.label, Asked("initial", (), self.oracle.begun_at, self.oracle.last_turn)
        )
        named = next(name for name in self.captured if f"of {name}," in answer.text)
        if named not in known.collections:
            known.collections += (named,)

    def finished(self, asked: Asked, collection: CollectionId, label: str) -> None:
        """A snapshot must be complete, unless it only covers what a repair has to mend."""
        if self._asks(label, "repair"):
            self._damaged.discard(collection)
        if asked.scope is None:  # also a verification, which ends like this only if it accepts
            self._lost.discard(collection)
        if collection in self.tables and collection not in self._damaged | self.oracle.unjudged:
            super().finished(asked, collection, label)

    def _asks(self, label: str, type_: str) -> bool:
        """Whether a signal asks for this type."""
        if label.startswith(PREFIX):
            return type_ == "repair"
        return self._types.get(label) == type_

    def _open_signals(self, collection: CollectionId) -> list[str]:
        return [
            label
            for label, asked in self.answers.asked.items()
            if asked.kind in {"execute", "initial", "lost"}
            and collection in asked.collections
            and str(collection) not in asked.outcomes
        ]

    # Steps.

    def _signal(
        self, kind: str, chosen: tuple[CollectionId, ...], text: str, scope: Scope | None = None
    ) -> None:
        known = len(self.answers.asked)
        super()._signal(kind, chosen, text, scope)
        if len(self.answers.asked) > known:
            types = [type_ for type_ in ("verify", "repair") if f'"type":"{type_}"' in text]
            self._types[next(reversed(self.answers.asked))] = "".join(types)

    def _verify(self, life: Life, mask: int) -> None:
        self._execute(life, mask, "verify")
        self.happened["verifications"] += 1

    def _repair(self, life: Life, mask: int) -> None:
        self._execute(life, mask, "repair")
        self.happened["repairs"] += 1

    def _spoil(self, _life: Life, table: str, kind: str, index: int) -> None:
        """Put a fault into the copy, unless it is verified, or will be."""
        collection, turn = self.names[table], self.oracle.last_turn
        verified = [
            label
            for label in self._open_signals(collection)
            if self._asks(label, "verify") or self._asks(label, "repair")
        ]
        copy = self.oracle.consumer[collection]
        if verified or self._awaits_repairs or turn not in self.differences or not copy:
            return
        key = sorted(copy)[index % len(copy)] if kind != "extra" else ODD + index
        like = copy.get(key) or next(iter(copy.values()))
        row = None if kind == "missing" else {**like, self.key_name: key, "value": "odd"}
        copy.pop(key, None)
        if row is not None:
            copy[key] = row
        self.files.add(turn, [self.spoiling(collection, key, row)])
        self.oracle.whole.discard(collection)
        self._damaged.add(collection)
        self.differences[turn] = self.oracle.differences()
        self.happened[f"spoilt: {kind}"] += 1
        self.note(f"row {key} of {collection.parts[-1]} spoilt in the copy: {kind}", "judge")


def _of_repair(event: Record) -> bool:
    """Whether an event is a delete that a repair has made."""
    return event.op == "d" and event.value["source"].get("snapshot") not in {None, "false"}


def line_of(topic: str, key: Any, after: Any) -> bytes:
    """The line of an event that nobody has sent."""
    value = {"op": "d" if after is None else "r", "after": after, "source": {}}
    return orjson.dumps({"topic": topic, "key": key, "value": value}) + b"\n"


FLOORS: Final[Mapping[str, int]] = {
    "logs begun anew": 300,
    "lost states": 100,
    "verdicts that accept": 2000,
    "verdicts that reject": 60,
    "comparisons that look again": 200,
    "deletes of repairs": 250,
    "READs of repairs": 10,
    "spoilt: missing": 80,
    "spoilt: different": 100,
    "spoilt: extra": 80,
}
"""How often a thousand histories must have had it."""
