"""Plays a history: a database, the job, the writers, signals and blows of a script, and the judges.

Owns the order of events. Between two rounds everything comes to rest, and the oracle judges.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.torture.answers import Answers, Asked
from tests.torture.aside import Aside
from tests.torture.emitted import Events
from tests.torture.figures import Figures
from tests.torture.files_tables import FilesTables
from tests.torture.initial import Initial
from tests.torture.journal import Journal, JournalReader
from tests.torture.losses import recovers
from tests.torture.new_columns import NEW
from tests.torture.oracle import Oracle, Violation
from tests.torture.over import Over
from tests.torture.recreated import SAYS, SETTING, recreate
from tests.torture.replicas import judge
from tests.torture.script import Blow, Sent, collections
from tests.torture.topics import TopicEvents, Topics
from tests.torture.truth import UnexpectedWrite
from tests.torture.verified import keyless_deletes, signal, trusted
from tests.torture.verifier import Verifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.kafka import KafkaBroker
    from tests.torture.process import Child
    from tests.torture.replicas import Tables
    from tests.torture.script import Round, Script, Strike
    from tests.torture.site import Site
    from tests.torture.truth import Entry

_REST_S, _MOST_S = 180.0, 600.0
_MISSING_S = 40.0
"""Without a guard the job may never come to rest. This long is enough to say so."""
_STILLBORN = 4
_PATIENT_S = 2.0
"""How long a server reached through a proxy may be silent."""
_ENDS_S = 10.0
_STRUCK_S, _BY_ITSELF_S, _SECOND_WINDOW_S = 20.0, 1.0, 0.6
"""How long to wait for a window, when to request one, and how long to hold the log back after it."""
_BREAKS = {
    "killed": "broker killed",
    "frozen": "broker frozen",
    "slow": "quota",
    "refused": "topic refused",
}
BROKER_BLOWS = {
    "kill broker": "killed",
    "freeze broker": "frozen",
    "slow broker": "slow",
    "refuse": "refused",
}
_BLOWS = {
    "succeed": "renamed onto",
    "replace": "renamed onto",
    "away": "away and back",
    "out": "replaced by $out",
    "drop": "dropped",
    "wipe": "wiped",
    "stop": "stopped",
}


@dataclass(slots=True)
class Play:
    """Plays one script once. `figures` are its counts, `prefix` begins the topics' names.

    With a `broker` the job's sink is Kafka, with `replicas` it keeps those, else it is files. `ahead_s` is
    how far the driver's clock is ahead.
    """

    script: Script
    site: Site
    child: Child
    folder: Path
    prefix: str = "tm"
    mutant: str | None = None
    broker: KafkaBroker | None = None
    replicas: Tables | None = None
    figures: Figures = field(default_factory=Figures)
    answers: Answers = field(default_factory=Answers)
    altered: set[str] = field(default_factory=set)
    topics: Topics = field(init=False)
    ahead_s: float = 0.0
    _gone: str = ""
    _number: int = 0
    _right: frozenset[str] = frozenset()

    def run(self) -> None:
        """Play it. Raises Violation."""
        self.folder.mkdir(parents=True)
        self.topics = Topics(self.oracle)
        self.oracle.blocks = any(sent.blocks for drawn in self.script.rounds for sent in drawn.signals)
        self.answers.judges_pauses = self.broker is None and not self.script.initial
        journal = JournalReader(self.folder / "journal")
        self.site.prepare()
        events = (
            TopicEvents(self.broker, self.prefix, journal)
            if self.broker
            else Events(self._events, self.site.emitted)
        )
        heard, verifier = 0, Verifier(self, journal)
        self.figures.histories = 1
        try:
            if self._begins_first:
                self._order()
                self._let_begin(journal)
            if self.script.scene:
                self.site.act(self.script.scene, self, journal)
            if not self.script.rounds:
                self.come_to_rest(journal)
                heard = self.judge(events, journal, heard)
            for number, round_ in enumerate(self.script.rounds):
                self._number = number
                self._right = verifier.right_for(round_, events)
                self._round(number, round_, journal)
                self.come_to_rest(journal)
                heard = self.judge(events, journal, heard)
                if isinstance(self.replicas, FilesTables):
                    heard = verifier.verify_copy(f"f{number}", round_.faults, self.replicas, heard)
                elif round_.faults and isinstance(events, Events):
                    heard = verifier.verify(f"f{number}", round_.faults, events, heard)
        except Over:
            if self._gone:
                self.site.judge_end(self._gone, list(events.read()), journal)
        except UnexpectedWrite as error:
            raise Violation(str(error)) from error
        finally:
            self._stop(journal)
            self._count(journal)

    # Before.

    @property
    def oracle(self) -> Oracle:
        """The judge."""
        return self.site.oracle

    @property
    def _signals(self) -> list[str]:
        return self.site.signals.split(",")

    @property
    def _events(self) -> Path:
        return self.folder / "events"

    def _properties(self) -> dict[str, str]:
        return {
            **self.site.properties(),
            "topic.prefix": self.prefix,
            "snapshot.mode": "initial" if self.script.initial else "never",
            "signal.data.collection": self.site.signals,
            "skipped.operations": "none",
            # Windows must not wait because the machine is slow.
            "tidemark.max.lag.ms": "60000",
            "retriable.restart.connector.wait.ms": "500",
            "tidemark.lease.ttl.ms": "1000",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "tidemark.checkpoint": str(self.folder / "state"),
            # Otherwise a partitioned table published as one would also be read as its partitions.
            "snapshot.include.collection.list": ",".join(self.oracle.tables),
            **self._sink(),
            **{name: value.format(folder=self.folder) for name, value in self.script.properties.items()},
        }

    def _sink(self) -> dict[str, str]:
        if self.replicas is not None:
            return self.replicas.properties()
        if self.broker is None:
            return {"tidemark.sink": "files", "tidemark.sink.files.dir": str(self._events)}
        return {
            "tidemark.sink": "kafka",
            "producer.bootstrap.servers": self.broker.bootstrap,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        }

    @property
    def _begins_first(self) -> bool:
        """Whether the job begins before the writers do. It does where it has a log to lose."""
        return not (self.script.initial and self.script.rounds) or recovers(self.script)

    def _let_begin(self, journal: JournalReader) -> None:
        """If the log begins with the job, wait for it, so that most of the history is not before it."""
        begun = time.monotonic()
        late = self.site.begins_late or recovers(self.script)
        while late and not journal.of("opened"):
            self.watch(journal)
            time.sleep(0.02)
            if time.monotonic() - begun > _REST_S:
                self._tell_where_it_hangs()
                raise Violation(f"the job has not begun in {_REST_S} s")

    def _order(self, burnt: int = 0) -> None:
        self.child.order(
            do="play",
            properties=self._properties(),
            journal=str(self.folder / "journal"),
            fuses=[asdict(fuse) for fuse in self.script.fuses[burnt:]],
            slice_bytes=self.script.slice_bytes,
            silence_s=_PATIENT_S if self.script.proxied else 0.0,
            ahead_s=self.ahead_s,
            lulls=self.script.lulls,
            seed=self.script.seed,
            mutant=self.mutant,
        )

    # Meanwhile.

    def _round(self, number: int, one: Round, journal: JournalReader) -> None:
        stop = threading.Event()
        writers = self.site.writers(number, one, stop, JournalReader(self.folder / "journal"))
        threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
        threads.append(threading.Thread(target=self._signal, args=(one.signals, stop), daemon=True))
        if one.strikes:
            threads.append(
                threading.Thread(target=self._strike, args=(number, one.strikes, stop), daemon=True)
            )
        for thread in threads:
            thread.start()
        if number == 0 and not self._begins_first:
            time.sleep(Random(self.script.seed).uniform(0.0, 0.3))
            self._order()
        try:
            self._see_through(one, threads, journal)
        except BaseException:
            stop.set()
            for thread in threads:
                thread.join(_ENDS_S)
            raise
        self.figures.transactions += sum(writer.committed for writer in writers)
        for writer in writers:
            self.figures.kinds.update(writer.done)
            self.altered |= writer.altered

    def _see_through(self, one: Round, threads: list[threading.Thread], journal: JournalReader) -> None:
        """Deal the blows of a round until its writers have ended."""
        begun = time.monotonic()
        kills = [(at, "kill") for at in one.kills]
        strokes = [(blow.at_s, blow) for blow in one.blows]
        blows: list[tuple[float, str | Blow]] = [*kills, *one.restarts, *strokes]
        blows += [(at, "break") for at in one.breaks]
        blows.sort(key=lambda blow: blow[0])
        while blows or any(thread.is_alive() for thread in threads):
            self.watch(journal)
            if blows and time.monotonic() - begun >= blows[0][0]:
                what = blows.pop(0)[1]
                if isinstance(what, Blow):
                    self.deal(what, journal)
                else:
                    self._blow(what)
            time.sleep(0.02)
            if time.monotonic() - begun > _REST_S:
                raise Violation(f"the writers did not end in {_REST_S} s")

    def deal(self, blow: Blow, journal: JournalReader) -> None:
        """Deal a blow, and count it if it took effect."""
        if blow.kind == "skew":
            self.ahead_s = blow.amount
            self.child.order(do="skew", ahead_s=blow.amount)
            struck = "clock set ahead" if blow.amount > 0 else "clock set back"
        elif blow.kind == "freeze job":
            self.child.freeze(blow.amount)
            struck = "job frozen"
        elif blow.kind == "recreate":
            recreate(self, journal, Random(f"{self.script.seed}/recreated"))
            struck = ""
        elif blow.kind in BROKER_BLOWS:
            assert self.broker is not None
            self._break(self.broker, Random(f"{self.script.seed}/{blow.kind}"), BROKER_BLOWS[blow.kind])
            struck = ""
        else:
            struck = self.site.deal(blow, self, journal)
        if struck:
            self.figures.kinds[struck] += 1

    def _blow(self, what: str) -> None:
        if what == "kill":
            self.child.kill()
            return
        if what == "freeze":
            self.child.freeze(Random(f"{self.script.seed}/frozen").uniform(0.5, 3.0))
            self.figures.kinds["job frozen"] += 1
            return
        if what == "break" and self.broker is not None:
            self.figures.broker_kills += 1
            draw = Random(f"{self.script.seed}/down{self.figures.broker_kills}")
            kinds = ["killed", "frozen", "slow"]
            if self._topics() and not self.script.initial and SETTING not in self.script.properties:
                kinds += ["refused", "refused"]
            self._break(self.broker, draw, draw.choice(kinds))
            return
        self.figures.restarts += 1
        self.site.restart(what)

    def _topics(self) -> list[str]:
        """The tables' topics that exist."""
        assert self.broker is not None
        names = self.broker.topics()
        return [name for name in names if name.removeprefix(f"{self.prefix}.") in self.oracle.tables]

    def _break(self, broker: KafkaBroker, draw: Random, kind: str) -> None:
        """Kill, freeze or slow down the broker, or make one topic refuse events, for a moment.

        A topic to be refused is waited for; a history that sends nothing has none.
        """
        seconds, until_s = draw.uniform(0.1, 2.0), time.monotonic() + _STRUCK_S
        topics = self._topics()
        while kind == "refused" and not topics:
            if time.monotonic() > until_s:
                return
            time.sleep(0.2)
            topics = self._topics()
        self.figures.kinds[_BREAKS[kind]] += 1
        match kind:
            case "killed":
                broker.kill()
                time.sleep(seconds)
                broker.start()
            case "frozen":
                broker.freeze(seconds)
            case "slow":
                broker.slow_down("tidemark", draw.choice([5_000, 50_000]))
                time.sleep(seconds)
                broker.slow_down("tidemark", 0)
            case "refused":
                with broker.refusing(draw.choice(topics)):
                    time.sleep(seconds)

    def watch(self, journal: JournalReader) -> None:
        """Restart the job after a kill. If it died by itself, that is a violation."""
        for note in journal.of("died"):
            if SAYS in note["error"] and self.script.properties.get(SETTING) == "stop" and self.topics.new:
                self.figures.kinds.update(["topic recreated", "stopped by a recreated topic"])
                raise Over
            if self.site.may_end(note["error"]):
                self._gone = note["error"]
                raise Over
            raise Violation(f"the job died: {note['error']}")
        for note in journal.of("wrong"):
            raise Violation(note["text"])
        if not self.child.alive:
            notes = journal.read()
            if [note["what"] for note in notes[-_STILLBORN:]] == ["killed"] * _STILLBORN:
                raise RuntimeError(f"the job's process does not start:\n{self.child.last_lines()}")
            if not (notes and notes[-1]["what"] == "crash"):
                own = Journal(self.folder / "journal")
                own.note("killed")
                own.close()
            self._order(burnt=len(journal.of("fuse")))

    def _signal(self, sent: list[Sent], stop: threading.Event) -> None:
        for event in sent:
            stop.wait(event.pause_s)
            self.ask(event, stop)

    # Blows at open windows.

    def _strike(self, number: int, strikes: list[Strike], stop: threading.Event) -> None:
        """Carry out the strikes in sequence, each during a window that reads its collection."""
        journal = JournalReader(self.folder / "journal")
        for at, strike in enumerate(strikes):
            with self.gate("poll") if strike.held else contextlib.nullcontext():
                window = self._window_of(strike, f"strike{number}n{at}", journal, stop)
                if window is None:
                    continue
                if strike.held != "take":
                    self._hit(strike, f"{number}a{at}", window, journal, stop)
            if strike.held == "take":
                with self.gate("take"):
                    stop.wait(_SECOND_WINDOW_S)
                    self._hit(strike, f"{number}a{at}", window, journal, stop)

    @contextlib.contextmanager
    def gate(self, what: str) -> Iterator[None]:
        """Hold something back meanwhile."""
        gate = self.folder / f"hold-{what}"
        gate.touch()
        try:
            yield
        finally:
            gate.unlink(missing_ok=True)

    def _window_of(
        self, strike: Strike, label: str, journal: JournalReader, stop: threading.Event
    ) -> dict[str, Any] | None:
        """The next window that reads the collection. Requests one if none opens by itself."""
        names = collections(self.script.tables[strike.step[1]])
        seen, since_s, asked = len(journal.of("window")), time.monotonic(), False
        while not stop.is_set() and time.monotonic() - since_s < _STRUCK_S:
            for note in journal.of("window")[seen:]:
                if set(names) & {name for name, *_bounds in note["runs"]}:
                    return note
            if not asked and time.monotonic() - since_s > _BY_ITSELF_S:
                data = json.dumps({"type": "incremental", "data-collections": names})
                self.ask(Sent(0.0, label, "execute-snapshot", data, "execute", names), stop)
                asked = True
            time.sleep(0.02)
        return None

    def _hit(
        self,
        strike: Strike,
        label: str,
        window: dict[str, Any],
        journal: JournalReader,
        stop: threading.Event,
    ) -> None:
        """Carry out the strike, and count whether the window stayed open throughout."""
        if strike.step[0] == "stop":
            names = collections(self.script.tables[strike.step[1]])
            data = json.dumps({"type": "incremental", "data-collections": names})
            self.ask(Sent(0.0, f"stop{label}", "stop-snapshot", data, "stop", names), stop)
        elif not self.site.hit(strike, label, stop):
            return
        later = journal.read()[journal.read().index(window) :]
        ended = any(
            note["what"] in {"crash", "killed", "sleep", "lost", "relieved"}
            or (note["what"], note.get("id")) == ("closed", window["id"])
            for note in later
        )
        self.figures.kinds[f"{_BLOWS[strike.step[0]]} in an open window"] += not ended
        self.figures.kinds["blows at open windows"] += not ended

    def ask(self, sent: Sent, stop: threading.Event | None = None) -> None:
        """Send a signal, a repair only of what is right. `stop` ends the attempts."""
        right = self._right.intersection(sent.collections)
        if sent.kind == "repair":
            if not right:
                return
            sent = replace(signal(sent.id, "repair", sorted(right)), pause_s=sent.pause_s)
        self.site.send(sent, stop or threading.Event())
        self.answers.asked[sent.id] = Asked(sent, right=right)

    # At rest.

    def come_to_rest(self, journal: JournalReader) -> None:
        """Wait until the job has streamed everything and has nothing queued."""
        self.site.settle()
        begun, marked_s, seen, seen_s = time.monotonic(), 0.0, 0, time.monotonic()
        end: Any = None
        marks = 0
        while marks < self._least_marks or not self._rests(journal, end):
            self.watch(journal)
            now = time.monotonic()
            if len(journal.of("window", "crash", "killed", "started")) > seen:
                seen, seen_s = len(journal.of("window", "crash", "killed", "started")), now
            # A lake's merges run at a lower priority than all else.
            most_s = _MOST_S if self.replicas is not None else _REST_S
            if now - seen_s > (_MISSING_S if self.mutant else most_s) or now - begun > _MOST_S:
                self._tell_where_it_hangs()
                raise Violation(
                    f"the job does not come to rest in {now - begun:.0f} s: {journal.of('turn')[-1:]}"
                )
            if now - marked_s > 1.0:
                marked_s = now
                mark = self.site.mark()
                marks += 1
                end = mark if end is None else min(end, mark)
            time.sleep(0.02)

    def _tell_where_it_hangs(self) -> None:
        """Keep what the job's threads do, and what the server's sessions wait for, beside the journal."""
        stacks, sessions = self.child.tell_stacks(), self.site.sessions()
        (self.folder / "hanging.txt").write_text(f"{stacks}\n{sessions}\n")

    @property
    def _fills(self) -> bool:
        """Whether the job reads tables that get a column with a default."""
        return self.script.initial and self.script.properties.get(NEW) == "columns"

    @property
    def _least_marks(self) -> int:
        """How many signals must have come to rest. New columns take the job two looks, in turns apart."""
        return 5 if self._fills else 0

    def _rests(self, journal: JournalReader, end: Any) -> bool:
        turns = journal.of("turn", "crash", "killed")
        if end is None or not turns or turns[-1]["what"] != "turn":
            return False
        if self.replicas is not None and self.replicas.behind():
            return False
        aside = self.broker is not None and turns[-1].get("aside")
        return bool(turns[-1]["queued"] == 0 and not aside and self.site.passed(turns[-1]["position"], end))

    @property
    def trusted(self) -> list[str]:
        """The collections of which the sink has every row as it is."""
        played = self.script.upto(self._number)
        return trusted(played, self.oracle.tables, self.oracle.incomplete, self.altered)

    def judge(self, events: Events | TopicEvents, journal: JournalReader, heard: int) -> int:
        """Judge everything since then. Returns how many notes of the job were heard by now."""
        if self.replicas is not None:
            return self.judge_tables(self.replicas, journal, heard)
        emitted = list(events.read())
        entries = self._since_begin(list(self._ours(self.site.entries())), journal)
        self.oracle.aside = self._aside(journal)
        if self.broker:
            ahead = self.topics.follow(entries, self._streamed(emitted), journal)
        else:
            self.oracle.follow(entries, self._streamed(emitted))
            ahead = self.oracle.left()
        if left := [entry for entry in ahead if entry.tables[0] not in self._signals]:
            raise Violation(f"{len(left)} entries of the log were not emitted, the first is {left[0]}")
        for entry in self.oracle.unheard:
            self.answers.asked.pop(self.site.signal_id(entry.new) or "", None)
        notes = journal.read()
        self.oracle.incomplete = frozenset(journal.of("turn")[-1]["incomplete"])
        self.oracle.letters = journal.of("turn")[-1]["letters"]
        self.answers.hear(notes[heard:])
        self.answers.trusts(self.trusted)
        tables = {n: t for n, t in self.oracle.tables.items() if n not in self._signals}
        for name, new in self.topics.new.items():
            new.settle(self.site.rows(name), incomplete=name in self.oracle.incomplete)
            # A table without a key can't be read again by itself; its answer says so.
            said = any(str(note["text"]).startswith(f"{name} not read: ") for note in journal.of("answer"))
            asked = self.script.properties.get(SETTING) == "snapshot"
            if asked and not said and name in self.oracle.incomplete:
                raise Violation(f"{name}, whose topic was recreated, was not read again")
            del tables[name]
        Initial(self.script, self.oracle, self.altered, exact=self.broker is None).settle(tables, journal)
        self.answers.settle(tables)
        for name in tables:
            if self._fills and self.answers.fills(name):
                self.oracle.check_columns(name, self.site.rows(name))
            self.oracle.settle(name, self.site.rows(name))
            self.topics.settle(name)
        return len(notes)

    def judge_tables(self, tables: Tables, journal: JournalReader, heard: int) -> int:
        """Judge the tables that a sink keeps, whatever was sent to it."""
        list(self.site.entries())
        heard = self.hear(journal, heard)
        self.oracle.incomplete = frozenset(journal.of("turn")[-1]["incomplete"])
        without = keyless_deletes(self.script) if isinstance(tables, FilesTables) else set()
        names = [name for name in self.oracle.tables if name not in {*self._signals, *without}]
        judge(tables, self.site, names, self.figures.kinds)
        return heard

    def hear(self, journal: JournalReader, heard: int) -> int:
        """Hear the answers since then. Returns how many notes of the job were heard by now."""
        notes = journal.read()
        self.answers.hear(notes[heard:])
        return len(notes)

    def _aside(self, journal: JournalReader) -> Aside:
        return Aside.of(journal.of("turn"), self.site.place_of)

    def _since_begin(self, entries: list[Entry], journal: JournalReader) -> list[Entry]:
        """The entries in the job's log. Earlier ones, including signals, are applied as preceding."""
        begin = self.site.begin(journal)
        if begin is None:
            return entries
        before = [entry for entry in entries if self.site.is_before(entry, begin)]
        self.oracle.precede(before)
        for entry in before:
            if entry.tables[0] in self._signals:
                self.answers.asked.pop(self.site.signal_id(entry.new) or "", None)
        return [entry for entry in entries if not self.site.is_before(entry, begin)]

    def _ours(self, entries: list[Entry]) -> Iterator[Entry]:
        """The entries.

        Raises Violation for one in the signal table that neither a writer nor the job wrote.
        """
        steps = [strike.step[0] for round_ in self.script.rounds for strike in round_.strikes]
        for entry in entries:
            marks = self.script.marks_windows and self.site.marks_window(entry)
            marks |= entry.op == "t" and "wipe" in steps  # the whole database was dropped
            name = self.site.signal_id(entry.new) or ""
            sent = name.startswith("mark") or name in self.answers.asked
            if entry.tables[0] in self._signals and not sent and not marks:
                raise Violation(f"somebody wrote to the signal table: {entry}")
            yield entry

    def _streamed(self, emitted: list[Any]) -> Iterator[Any]:
        """The events. Notes the turns in which signals came."""
        for event in emitted:
            row = event.after if event.op == "c" and event.table in self._signals else None
            name = self.site.signal_id(row) if row else None
            if name and (asked := self.answers.asked.get(name)) and asked.turn is None:
                asked.turn = event.turn
            yield event

    # After.

    def _stop(self, journal: JournalReader) -> None:
        self.child.order(do="stop")
        until = time.monotonic() + 20
        while self.child.alive and not journal.of("stopped"):
            if time.monotonic() > until:
                self.child.kill()
            time.sleep(0.02)

    def _count(self, journal: JournalReader) -> None:
        figures = self.figures
        # What writers have committed counts where nobody follows the log.
        figures.transactions = self.site.transactions or figures.transactions
        figures.kinds += self.oracle.happened
        figures.events, figures.reads = self.oracle.events, self.oracle.reads
        windows = journal.of("window")
        figures.windows = len(windows)
        figures.kinds["two windows"] += sum(bool(note["beside"]) for note in windows)
        figures.kinds["windows sent in tiny slices"] += len(windows) * bool(self.script.slice_bytes)
        by_executors = self.script.properties.get("tidemark.window.local.rows") == "0"
        figures.kinds["windows read by executors alone"] += len(windows) * by_executors
        figures.kinds["taken over"] += len(journal.of("sleep"))
        aside = self._aside(journal)
        figures.kinds["tables set aside"] += aside.begun
        figures.kinds["tables taken up again"] += aside.ended
        fenced = self.script.properties.get("tidemark.sink.kafka.fencing") == "transactions"
        figures.kinds["taken over, fenced"] += len(journal.of("sleep")) * fenced
        if self.broker:
            refused = {name for note in journal.of("turn") for name in note["aside"]}
            figures.kinds["tables set aside by topics"] += len(refused)
        figures.signals = len(self.answers.asked)
        figures.answers.update(self.answers.outcomes)
        figures.repeated_answers = self.answers.repeated
        figures.superseded = self.answers.superseded
        figures.kinds += self.answers.happened()
        figures.sent_again = self.topics.goings_back
        figures.initial_snapshots = int(self.script.initial)
        for note in journal.of("crash", "killed"):
            side = "after" if note.get("after") else "before"
            step = f"{side} {note['step']}" if "step" in note else "at any moment"
            figures.kills[f"{step}{' (SIGKILL)' if note.get('hard', True) else ''}"] += 1
