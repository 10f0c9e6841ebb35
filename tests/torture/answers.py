"""The judge of signals: each is answered once, and every row read was requested.

An answer is given once its turn is saved, and none is lost. After a crash the last answers may be repeated,
since the process that gave them could not record that. These repeats are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.torture.oracle import Violation
from tests.torture.script import Sent
from tests.torture.verified import COMPARES, rejects

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tests.torture.oracle import Table

_About: TypeAlias = tuple[str, str]
"""A signal's id, and the collection that an answer is about; empty for the signal as a whole."""
_FINAL = {
    "execute": ("finished", "stopped", "failed", "rejected"),
    "unreadable": ("stopped", "rejected"),
    "plan": ("planned", "rejected"),
    **dict.fromkeys(COMPARES, ("finished", "stopped", "failed", "rejected")),
}
"""The possible outcomes for each collection of an accepted signal, by the signal's kind."""
_READS = frozenset({"execute", "repair"})
_NEW = "tidemark-new-"
"""Begins the id of a snapshot that the job takes by itself of a collection that is captured from now on."""
_SUPERSEDED = re.compile(r"(\d+) of them superseded")
_MEANT, _QUOTED = re.compile(r"\(did you mean [^)]*\)"), re.compile(r"'([^']*)'")
_WAITS = ("not read: waits for transactions that were writing to it", "another session holds it locked")
"""What a dry run answers, which asks once, where a snapshot would wait."""
_ONLY = {
    "malformed": "rejected",
    **dict.fromkeys(("log", "stop", "pause", "resume", "schemas"), "accepted"),
}


@dataclass(slots=True)
class Asked:
    """A committed signal, the turn in which it was streamed, and its answers.

    `finals` are the answers about single collections: outcome and turn, in order. `unmatched` are collections
    that the job does not know, since nothing captures them. `rests` are the turns from which single
    collections were paused, up to and without the ones that resumed them; None: not yet. `said` is the last
    answer about each collection: its outcome and its text. `right` are collections whose copies were right
    when a verification was asked for, and stay so by all that is known.
    """

    sent: Sent
    turn: int | None = None
    outcomes: list[str] = field(default_factory=list)
    finals: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    unmatched: set[str] = field(default_factory=set)
    rests: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    said: dict[str, tuple[str, str]] = field(default_factory=dict)
    right: frozenset[str] = frozenset()

    def rested(self, collection: str, turn: int) -> bool:
        """Whether a collection was paused in a turn."""
        return any(
            first <= turn and (end is None or turn < end) for first, end in self.rests.get(collection, ())
        )

    def note_rest(self, collection: str, outcome: str, turn: int) -> None:
        """Note that a collection was paused or resumed, which may be told twice."""
        rests = self.rests.setdefault(collection, [])
        if outcome == "paused" and (not rests or rests[-1][1] is not None):
            rests.append((turn, None))
        elif outcome == "resumed" and rests and rests[-1][1] is None:
            rests[-1] = (rests[-1][0], turn)

    @property
    def refused(self) -> bool:
        """Whether it was rejected as a whole."""
        return self.outcomes == ["rejected"] and not self.finals


@dataclass(slots=True)
class Answers:
    """Judges the answers of one history. While there are two jobs, either may give a missing answer.

    `judges_pauses` is off where rows may go out later than they were read, or are read by no signal.
    """

    asked: dict[str, Asked] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    superseded: int = 0
    failures: list[str] = field(default_factory=list)
    judges_pauses: bool = True
    announced: int = 0
    _sent: bool = False
    _two: bool = False
    _last: tuple[int, set[_About]] = (0, set())
    _may_repeat: set[_About] = field(default_factory=set)
    _wrong: list[str] = field(default_factory=list)

    def hear(self, notes: Iterable[Mapping[str, Any]]) -> None:
        """Process the job's notes, in order."""
        for note in notes:
            match note["what"]:
                case "committed":
                    self._sent = True
                case "told":
                    self._told_in(note["turn"])
                    self._may_repeat.clear()
                    self._sent = False
                case "crash" | "killed" | "sleep" | "relieved":
                    # A job that ends right after an answer has not saved that it gave it.
                    self._may_repeat |= self._last[1]
                    self._sent = False
                    self._two = note["what"] == "sleep"
                case "answer":
                    self._answered(note)

    def trusts(self, names: Collection[str]) -> None:
        """Hold verdicts only about these collections against the job from now on."""
        for asked in self.asked.values():
            asked.right &= frozenset(names)

    def _told_in(self, turn: int) -> set[_About]:
        """The answers of this turn, which is the last one with any."""
        if self._last[0] != turn:
            self._last = (turn, set())
        return self._last[1]

    def _answered(self, note: Mapping[str, Any]) -> None:
        self._welcome(note)
        asked = self.asked.get(note["id"])
        if asked is None:
            return
        outcome, text = note["outcome"], note["text"]
        self.outcomes[outcome] += 1
        if not (self._sent or self._two):
            self._wrong.append(f"signal {asked.sent.id} was answered {outcome!r} before its turn was sent")
        if found := _SUPERSEDED.search(text):
            self.superseded += int(found[1])
        lacking = _MEANT.sub("", text.partition("no collection matches")[2])
        asked.unmatched |= set(_QUOTED.findall(lacking))
        if outcome == "failed":
            self.failures.append(text)
            if asked.sent.kind == "plan" and any(why in text for why in _WAITS):
                # After a crash, the same dry run may be planned.
                outcome = "planned"
        collection = next(
            (name for name in asked.sent.collections if text.startswith((f"{name} ", f"{name}: "))), None
        )
        if outcome in {"paused", "resumed"}:
            asked.note_rest(collection or "", outcome, note["turn"])
            return
        if collection is None or outcome == "accepted" or asked.sent.kind not in _FINAL:
            asked.outcomes.append(outcome)
            times, about = len(asked.outcomes), (asked.sent.id, "")
        else:
            asked.said[collection] = outcome, text
            finals = asked.finals.setdefault(collection, [])
            finals.append((outcome, note["turn"]))
            times, about = len(finals), (asked.sent.id, collection)
        self._told_in(note["turn"]).add(about)
        if times > 1:
            self.repeated += 1
            if about not in self._may_repeat and not self._two:
                self._wrong.append(f"signal {asked.sent.id} was answered {outcome!r} again")

    def _welcome(self, note: Mapping[str, Any]) -> None:
        """Take the announcement of a collection that is captured from now on as a request for it."""
        label = str(note["id"])
        if note["outcome"] != "accepted" or not label.startswith(_NEW) or (label, "") in self._may_repeat:
            return
        if label in self.asked:
            self.asked[f"{label} {len(self.asked)}"] = self.asked[label]
        name, _, _column = label.removeprefix(_NEW).partition("-")
        sent = Sent(0.0, label, None, None, "execute", [name])
        self.asked[label] = Asked(sent, note["turn"])
        self.announced += 1

    def fills(self, collection: str) -> bool:
        """Whether every snapshot that the job took of a collection by itself was finished."""
        return all(
            _ended_well(asked.finals.get(collection, []))
            for asked in self.asked.values()
            if asked.sent.id.startswith(_NEW) and collection in asked.sent.collections
        )

    def happened(self) -> Counter[str]:
        """How often each kind of snapshot was finished."""
        finished = [
            asked.sent for asked in self.asked.values() for said in asked.finals.values() if _ended_well(said)
        ]
        verdicts = [
            (asked.sent.kind, outcome)
            for asked in self.asked.values()
            if asked.sent.kind in COMPARES
            for outcome, _text in asked.said.values()
        ]
        return Counter(
            {
                "blocking snapshots": sum(sent.blocks for sent in finished),
                "snapshots of given rows": sum(sent.ordinals is not None for sent in finished),
                "snapshots with a priority": sum('"priority"' in (sent.data or "") for sent in finished),
                "snapshots with a limit": sum('"max-' in (sent.data or "") for sent in finished),
                "collections paused": sum(map(len, (asked.rests for asked in self.asked.values()))),
                "pauses by name": self._given("pause", named=True),
                "pauses and resumes": min(self._given("pause"), self._given("resume")),
                "stops": self._given("stop"),
                "messages logged": self._given("log"),
                "schemas stated": self._given("schemas"),
                "dry runs": self.outcomes["planned"],
                "verifications that accept": verdicts.count(("verify", "finished")),
                "verifications that reject": verdicts.count(("verify", "failed")),
                "repairs": verdicts.count(("repair", "finished")),
                "collections announced and read": self.announced,
            }
        )

    def _given(self, kind: str, *, named: bool = False) -> int:
        """How many signals of a kind were taken; `named`: those that name collections."""
        return sum(
            asked.sent.kind == kind and "accepted" in asked.outcomes
            for asked in self.asked.values()
            if not named or asked.sent.collections
        )

    def settle(self, tables: Mapping[str, Table]) -> None:
        """Judge at a quiet point, when nothing is queued. Also notes which tables were read completely."""
        if self._wrong:
            raise Violation(self._wrong[0])
        for asked in self.asked.values():
            self._settle_one(asked)
            if asked.sent.kind not in COMPARES:
                self._coverage(asked, tables)
            for name in asked.right:
                if rejects(text := asked.said.get(name, ("", ""))[1]):
                    raise Violation(f"{asked.sent.id} rejects a copy that is right: {text}")
        for table in tables.values():
            self._asked_for(table)
            if self.judges_pauses:
                self._obeyed(table)
                self._rested(table)

    def _settle_one(self, asked: Asked) -> None:
        sent = asked.sent
        if asked.turn is None:
            raise Violation(f"signal {sent.id} was committed and is in no turn")
        if sent.kind not in _FINAL:
            # Nothing is to be stopped of a table that is neither captured nor queued, and it has no name.
            unknown = (
                sent.kind == "stop" and sent.collections and asked.unmatched.issuperset(sent.collections)
            )
            self._count(sent, "", asked.outcomes, "rejected" if unknown else _ONLY[sent.kind])
            return
        if asked.refused:
            return
        self._count(sent, "", asked.outcomes, "accepted")
        for name in sent.collections:
            if name in asked.unmatched and name not in asked.finals:
                continue
            finals = [outcome for outcome, _turn in asked.finals.get(name, [])]
            self._count(sent, f" about {name}", finals, *_FINAL[sent.kind])

    def _count(self, sent: Sent, about: str, outcomes: list[str], *expected: str) -> None:
        what = f"{sent.id}{about}"
        # A verification that begins anew after a crash may find something else.
        one = sent.kind not in COMPARES
        if set(outcomes) - set(expected) or (one and len(set(outcomes)) > 1):
            raise Violation(f"signal {what} was answered {outcomes!r}, not one of {expected!r}")
        if not outcomes:
            raise Violation(f"signal {what} was not answered, expected one of {expected!r}")

    @staticmethod
    def _coverage(asked: Asked, tables: Mapping[str, Table]) -> None:
        """A finished snapshot has read every row that existed all the time and never changed."""
        partial = asked.sent.ordinals is not None
        for name, finals in asked.finals.items():
            if name not in tables:
                continue  # its topic was recreated
            if not (finals[0][0] == "finished" and asked.turn is not None):
                continue
            if not (asked.sent.whole or partial):
                continue
            table, last = tables[name], finals[0][1]
            if last <= table.exchanged_in:
                continue  # it read the rows of a table that has another name now
            if not partial:
                table.whole = True
                table.finished.add((asked.turn, last))
            for key in table.steady:
                if partial and not asked.sent.asks_for(table.ordinal_of(table.rows[key])):
                    continue
                if not any(asked.turn <= turn <= last for turn in table.read_in.get(key, ())):
                    raise Violation(
                        f"signal {asked.sent.id} is finished with {name}, but row {key!r} was not read"
                        f" in turns {asked.turn} to {last}"
                    )

    def _obeyed(self, table: Table) -> None:
        """No row is read from the turn that obeys a pause until the one that obeys the next resume."""
        turns = {
            kind: sorted(
                asked.turn
                for asked in self.asked.values()
                if asked.turn and asked.sent.kind == kind and not asked.sent.collections
            )
            for kind in ("pause", "resume")
        }
        for pause in turns["pause"]:
            resume = next((turn for turn in turns["resume"] if turn >= pause), 1 << 60)
            for turn in {turn for turns in table.read_in.values() for turn in turns}:
                if pause <= turn < resume:
                    raise Violation(f"{table.name} was read in turn {turn}, paused from {pause} to {resume}")

    def _rested(self, table: Table) -> None:
        """No row is read in a turn in which every signal that asks for its table is paused by name."""
        asking = [
            asked
            for asked in self.asked.values()
            if asked.sent.kind in _READS and table.name in asked.sent.collections and not asked.refused
        ]
        for turn in {turn for turns in table.read_in.values() for turn in turns}:
            due = [asked for asked in asking if _covers(_turns_of(asked, table.name), turn)]
            if due and all(asked.rested(table.name, turn) for asked in due):
                raise Violation(f"{table.name} was read in turn {turn}, and all that ask for it are paused")

    def _scoped(self, table: Table) -> None:
        """Each row read was one that a signal of that time asked for."""
        spans = [
            (*_turns_of(asked, table.name), asked.sent)
            for asked in self.asked.values()
            if asked.sent.kind in _READS and table.name in asked.sent.collections and not asked.refused
        ]
        for turn, ordinal in table.ordinals:
            if not any(first <= turn <= last and sent.asks_for(ordinal) for first, last, sent in spans):
                raise Violation(f"row {ordinal} of {table.name} was read in turn {turn}, and not asked for")

    def _asked_for(self, table: Table) -> None:
        spans = [
            _turns_of(asked, table.name)
            for asked in self.asked.values()
            if asked.sent.kind in _READS and table.name in asked.sent.collections and not asked.refused
        ]
        self._scoped(table)
        table.check_reads(spans)
        for turn in {turn for turns in table.read_in.values() for turn in turns}:
            if not any(first <= turn <= last for first, last in spans):
                raise Violation(f"{table.name} was read in turn {turn}, which no signal asked for")


def _ended_well(finals: list[tuple[str, int]]) -> bool:
    return bool(finals) and finals[0][0] == "finished"


def _covers(turns: tuple[int, int], turn: int) -> bool:
    return turns[0] <= turn <= turns[1]


def _turns_of(asked: Asked, collection: str) -> tuple[int, int]:
    """The turns in which a collection may be read for a signal."""
    finals = asked.finals.get(collection)
    return asked.turn or 0, finals[-1][1] if finals else 1 << 60
