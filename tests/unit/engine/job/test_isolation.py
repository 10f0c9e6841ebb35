"""One bad table: it is set aside, told of, taken up by a snapshot; everything else goes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import PositionLost, SinkError, SinkRefused, SourceError, TopicRemade, TopicsRefused
from engine.isolation.incomplete import Cause, Incomplete, with_faults
from engine.isolation.kept_events import Bundle
from engine.job.saved import state_document as saved
from engine.job.saved.attempt import Attempt
from engine.model import Position
from tests.fakes import _ATTEMPTS
from tests.job_bench import Bench, T, U
from tests.memory_source import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from engine.model import CollectionId

WHOLE = '{"data-collections": ["public.t"]}'
IN_PART = '{"data-collections": ["public.t"], "additional-condition": "x"}'


@dataclass
class MemoryLetters:
    """Dead letters by collection and turn."""

    kept: dict[tuple[CollectionId, int], list[bytes]] = field(default_factory=dict)
    events: dict[Bundle, list[bytes]] = field(default_factory=dict)
    epoch: int = 1

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        self.events[bundle] = list(lines)

    def bundles(self, collection: CollectionId) -> list[Bundle]:
        return sorted(event for event in self.events if event.collection == collection)

    def lines_of(self, bundle: Bundle) -> list[bytes]:
        return self.events[bundle]

    def drop_bundle(self, bundle: Bundle) -> None:
        self.events.pop(bundle, None)

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        self.kept[collection, turn] = list(lines)

    def drop(self, collection: CollectionId) -> None:
        self.kept = {key: lines for key, lines in self.kept.items() if key[0] != collection}
        self.events = {
            bundle: lines for bundle, lines in self.events.items() if bundle.collection != collection
        }

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        self.kept = {
            key: lines for key, lines in self.kept.items() if key[0] in collections and key[1] <= turn
        }
        self.events = {
            bundle: lines
            for bundle, lines in self.events.items()
            if bundle.collection in collections and bundle.turn <= turn
        }

    def of(self, collection: CollectionId) -> int:
        """How many are kept of a collection."""
        raw = sum(len(lines) for key, lines in self.kept.items() if key[0] == collection)
        return raw + sum(
            len(lines) for bundle, lines in self.events.items() if bundle.collection == collection
        )


class Isolated(Bench):
    """A job whose table T can't be decoded."""

    def __init__(self, staging: Path, **pace: Any) -> None:
        super().__init__(staging, **pace)
        self.letters = MemoryLetters()
        self.source.memory_source.undecodable = {T}
        self.new_job()
        self.job.settle()

    def new_job(self) -> Any:
        job = super().new_job()
        letters = getattr(self, "letters", MemoryLetters())
        self.job = type(job)(replace(job._parts, letters=letters), self.pace, self.seen.append)
        return self.job

    def commit(self, *changes: Change) -> None:
        """Commit changes, and turn until they are streamed."""
        for change in changes:
            self.database.commit(change)
        self.turns(2)

    @property
    def incomplete(self) -> tuple[Incomplete, ...]:
        return self.job.state.incomplete

    def streamed(self) -> list[str]:
        return [topic for op, topic, _key in self.events() if op == "w"]


@pytest.fixture
def bench(tmp_path: Path) -> Isolated:
    return Isolated(tmp_path)


def test_the_table_is_set_aside_and_others_go_on(bench):
    bench.commit(Change(T, 1, "new"), Change(U, 1, "new"))

    assert bench.streamed() == ["public.u"]
    assert bench.incomplete == (
        Incomplete(T, Cause.UNDECODABLE, "8", "its entries are garbled", kept=1, size=10),
    )
    assert bench.letters.of(T) == 1


def test_it_is_told_once_and_at_every_start(bench, caplog):
    bench.commit(Change(T, 1, "new"))
    bench.commit(Change(T, 2, "new"))
    told = [text for text in caplog.messages if "public.t is set aside since 8" in text]
    caplog.clear()
    bench.new_job().settle()

    assert len(told) == 1
    assert "its entries are garbled (2 entries kept, 0 more counted)" in caplog.text
    assert "a completed snapshot of this one" in caplog.text


@pytest.mark.parametrize(
    ("place", "read"),
    [((), [1, 2, 3, 4, 5]), ((1,), [1, 2, 1, 2, 3, 4, 5])],
    ids=["measured behind it", "measured before it"],
)
def test_behind_a_gap_of_replaced_rows_only_what_was_measured_before_begins_anew(tmp_path, place, read):
    bench = Bench(tmp_path, max_chunks=1)
    bench.execute()
    bench.turns(3)
    bench.database.commit(Change(U, 9, "other"))
    gap = Incomplete(T, Cause.GAP, "9", "renamed onto")
    bench.source.tells = {"incomplete": (gap,), "replaced": {T: place}}
    bench.turns(1)
    incomplete = bench.job.state.incomplete
    bench.turns(12)

    assert incomplete == (replace(gap, taken_up=1),)
    assert [key for op, _topic, key in bench.events() if op == "r"] == read
    assert bench.job.state.incomplete == ()
    assert bench.told() == ["accepted", "finished public.t"]
    assert "rows deleted in the gap" in bench.answers[-1].text


def test_what_is_no_longer_kept_is_counted(tmp_path):
    bench = Isolated(tmp_path, letters_bytes=25)
    for key in range(1, 5):
        bench.commit(Change(T, key, "new"))

    assert (bench.incomplete[0].kept, bench.incomplete[0].dropped) == (2, 2)
    assert bench.letters.of(T) == 2


def test_a_snapshot_takes_it_up_and_drops_what_was_kept(bench):
    bench.commit(Change(T, 1, "lost"), Change(T, 3, None))
    bench.source.memory_source.undecodable = set()
    bench.execute(WHOLE)
    bench.turns(12)
    bench.commit(Change(T, 2, "new"))

    assert bench.incomplete == ()
    assert bench.letters.kept == {}
    assert "rows deleted in the gap were not reported" in bench.answers[-1].text
    assert bench.streamed() == ["public.signals", "public.t"]


def test_changes_beside_that_snapshot_are_streamed(bench):
    bench.commit(Change(T, 1, "lost"))
    bench.source.memory_source.undecodable = set()
    bench.execute(WHOLE)
    bench.turns(1)
    bench.database.commit(Change(T, 5, "beside"))
    bench.turns(12)

    assert bench.streamed()[-1] == "public.t"
    assert bench.incomplete == ()


def test_one_that_is_still_garbled_fails_the_snapshot_and_is_set_aside_again(bench):
    bench.commit(Change(T, 1, "lost"))
    bench.execute(WHOLE)
    bench.turns(1)
    taken_up = bench.incomplete[0].taken_up
    bench.commit(Change(T, 2, "lost too"))

    assert taken_up
    assert bench.incomplete[0].aside
    assert bench.told()[-1] == "failed public.t"
    assert bench.letters.of(T) == 2


def test_a_snapshot_that_is_stopped_leaves_it_set_aside(tmp_path):
    bench = Isolated(tmp_path, max_chunks=1)
    bench.commit(Change(T, 1, "lost"))
    bench.source.memory_source.undecodable = set()
    bench.execute(WHOLE)
    bench.turns(2)
    bench.database.signal("s", "stop-snapshot", '{"type": "incremental"}')
    bench.turns(2)

    assert bench.told()[-1] == "stopped public.t"
    assert bench.incomplete[0].aside


def test_a_snapshot_that_fails_leaves_it_set_aside_and_is_not_taken_up_where_it_ended(tmp_path):
    bench = Isolated(tmp_path, max_chunks=1, window_retries=0)
    bench.commit(Change(T, 1, "lost"))
    bench.source.memory_source.undecodable = set()
    bench.execute(WHOLE)
    bench.turns(4)
    for _ in range(40):
        for window in bench.source.memory_source.windows:
            window.failure = SourceError("no rows")
        bench.turns(1)
        bench.now_s += 1000

    assert bench.told()[-1] == "failed public.t"
    assert bench.incomplete[0].aside
    assert bench.job.state.snapshot.failed == ()


def test_a_snapshot_of_some_of_its_rows_is_refused(bench):
    bench.commit(Change(T, 1, "lost"))
    bench.execute(IN_PART)
    bench.turns(3)

    assert bench.told()[-1] == "rejected public.t"
    assert "only a snapshot of all its rows can take it up" in bench.answers[-1].text


def test_a_snapshot_that_runs_when_the_table_goes_wrong_fails(tmp_path):
    bench = Isolated(tmp_path, max_chunks=1)
    bench.source.memory_source.undecodable = set()
    bench.execute(WHOLE)
    bench.turns(4)
    bench.source.memory_source.undecodable = {T}
    bench.commit(Change(T, 1, "lost"))

    assert bench.told()[-1] == "failed public.t"
    assert bench.job.state.snapshot.tables == ()


def test_the_job_stops_where_that_is_wanted(tmp_path):
    bench = Isolated(tmp_path, isolates=False)
    bench.database.commit(Change(T, 1, "lost"))

    with pytest.raises(PositionLost, match=r"public\.t: its entries are garbled.*tidemark\.table\.errors"):
        bench.turns(1)


class TestGap:
    """Changes that never came: the table is streamed on, and said to lack something."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Isolated:
        bench = Isolated(tmp_path, max_chunks=1)
        bench.source.memory_source.undecodable = set()
        return bench

    def lose(self, bench: Isolated) -> None:
        bench.source.memory_source.gaps = [Incomplete(T, Cause.GAP, "8", "it was not published")]
        bench.commit(Change(T, 1, "new"))
        bench.source.memory_source.gaps = []

    def test_it_is_streamed_on(self, bench):
        self.lose(bench)

        assert bench.streamed() == ["public.t"]
        assert [str(entry) for entry in bench.incomplete] == [
            "public.t lacks changes since 8: it was not published"
        ]

    def test_a_snapshot_makes_it_whole(self, bench):
        self.lose(bench)
        bench.execute(WHOLE)
        bench.turns(20)

        assert bench.incomplete == ()
        assert "rows deleted in the gap were not reported" in bench.answers[-1].text

    def test_one_of_some_rows_does_not(self, bench):
        self.lose(bench)
        bench.execute(IN_PART)
        bench.turns(20)

        assert bench.told()[-1] == "finished public.t"
        assert len(bench.incomplete) == 1

    def test_a_snapshot_that_runs_meanwhile_begins_anew(self, bench):
        bench.execute(WHOLE)
        bench.turns(6)
        before = bench.job.state.snapshot.tables[0].progress
        self.lose(bench)
        bench.turns(20)
        reads = [key for op, _topic, key in bench.events() if op == "r"]

        assert before.rows
        assert reads.count(1) == 2
        assert bench.incomplete == ()

    def test_the_job_goes_on_from_a_saved_state(self, bench):
        self.lose(bench)
        bench.new_job().settle()

        assert [entry.cause for entry in bench.incomplete] == [Cause.GAP]


class TestDeletions:
    """Rows that may be gone without anybody telling: no snapshot could tell either."""

    FOUND = Incomplete(T, Cause.DELETIONS, "5", "a partition was truncated")

    def test_the_snapshot_goes_on_and_clears_it(self, tmp_path, caplog):
        bench = Bench(tmp_path, isolates=False, max_chunks=1)
        bench.execute()
        bench.turns(3)
        source = bench.source.memory_source
        reads = len([event for event in bench.events() if event[0] == "r"])
        source.gaps.append(self.FOUND)
        bench.database.commit(Change(T, 1, "new"))
        bench.turns(1)
        source.gaps.clear()
        lacks = bench.job.state.incomplete
        bench.turns(12)

        assert 0 < reads < 5
        assert [lack.cause for lack in lacks] == [Cause.DELETIONS]
        assert "remove them from the copy" in caplog.text
        assert len([event for event in bench.events() if event[0] == "r"]) <= 5
        assert bench.job.state.incomplete == ()
        assert "rows deleted in the gap were not reported" in bench.answers[-1].text

    def test_what_lacks_more_stays_as_it_was(self):
        gap = Incomplete(T, Cause.GAP, "1", "unpublished")

        assert with_faults([gap], [self.FOUND]) == (gap,)
        assert [entry.cause for entry in with_faults([self.FOUND], [gap])] == [Cause.GAP]
        assert str(self.FOUND) == "public.t lacks deletions since 5: a partition was truncated"
        assert not self.FOUND.aside


@dataclass
class Refusing:
    """A sink in memory that takes no turn with events of some topics."""

    behind: Any
    reasons: dict[str, SinkError] = field(default_factory=dict)
    once: bool = False
    then: dict[str, SinkError] = field(default_factory=dict)
    refuses: Any = None
    names_others: bool = False
    attempts: list[int] = field(default_factory=list)
    writers: dict[int, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    def writer(self, turn: int) -> Any:
        self.writers[turn] = self.behind.writer(turn)
        return self.writers[turn]

    def commit(self, turn: int, parts: Any) -> None:
        self.attempts.append(turn)
        written = _ATTEMPTS[self.writers[turn].attempt]
        found = [event for events in written.values() for event in events]
        sent = [event for event in found if event["topic"] not in self.behind.withheld]
        topics = {event["topic"] for event in sent}
        refused = {topic: self.reasons[topic] for topic in topics & self.reasons.keys()}
        if self.names_others and refused:
            refused = dict(self.reasons)
        if self.refuses is not None:
            refused |= {event["topic"]: SinkRefused("too large") for event in sent if self.refuses(event)}
        if self.once:
            self.reasons, self.then = self.then, {}
        if refused:
            raise TopicsRefused(refused)
        self.behind.commit(turn, parts)


class TestRefused:
    """A topic that refuses events: its table alone is set aside."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> RefusedBench:
        return RefusedBench(tmp_path)

    def test_its_table_is_set_aside_and_others_go_on(self, bench, caplog):
        bench.refuse("public.t", SinkRefused("takes nothing", where="public.t", hint="do something"))
        bench.database.commit(Change(T, 1, "new"))
        bench.database.commit(Change(U, 1, "new"))
        bench.run()
        bench.database.commit(Change(T, 2, "new"))
        bench.database.commit(Change(U, 2, "new"))
        bench.run()

        assert bench.streamed() == ["public.u"] * 2
        assert bench.letters.of(T) == 2
        assert [(entry.collection, entry.cause) for entry in bench.incomplete] == [(T, Cause.REFUSED)]
        assert bench.incomplete[0].why == "takes nothing; do something"
        assert sum("public.t is set aside" in text for text in caplog.messages) == 1
        assert len(bench.sink.attempts) - len(set(bench.sink.attempts)) == 1

    def test_a_snapshot_takes_it_up_once_its_topic_accepts(self, bench):
        bench.refuse("public.t", SinkRefused("takes nothing"))
        bench.database.commit(Change(T, 1, "lost"))
        bench.run()
        bench.sink.reasons.clear()
        bench.execute(WHOLE)
        bench.run()

        assert (bench.incomplete, bench.letters.of(T)) == ((), 0)
        assert len([topic for op, topic, _key in bench.events() if (op, topic) == ("r", "public.t")]) == 5

    def test_rows_read_that_are_refused_fail_the_snapshot_alone(self, bench):
        bench.refuse("public.t", SinkRefused("takes nothing"))
        bench.execute('{"data-collections": ["public.t", "public.u"]}')
        bench.run()

        assert "failed public.t" in bench.told()
        assert "finished public.u" in bench.told()
        assert [entry.aside for entry in bench.incomplete] == [True]

    def test_it_stops_the_job_where_that_is_wanted(self, tmp_path):
        bench = RefusedBench(tmp_path, isolates=False)
        bench.refuse("public.t", SinkRefused("takes nothing", where="public.t"))
        bench.database.commit(Change(T, 1, "new"))

        with pytest.raises(SinkRefused, match=r"public\.t: takes nothing"):
            bench.run()

    def test_a_refused_offer_forgets_no_turn_that_may_have_been_sent(self, bench):
        bench.refuse("public.t", SinkRefused("takes nothing"))
        bench.database.commit(Change(T, 1, "kept"))
        bench.run()
        state = bench.job.state
        torn = replace(state.next_turn(), position=Position((99,)))
        bench.store.pending[torn.turn] = saved.to_json(torn)
        bench.new_job().settle()
        bench.turns(1)
        offered = bench.sink.attempts[-1]
        bench.new_job().settle()

        assert offered == torn.turn
        assert bench.job.state.turn == state.turn
        assert bench.job.state.attempt == Attempt(torn.position, torn.memory)

    def test_one_that_is_no_tables_stops_the_job(self, bench):
        bench.refuse("public.t", SinkRefused("takes nothing", where="public.t"))
        bench.topic = lambda _collection: "other"
        bench.database.commit(Change(T, 1, "new"))

        with pytest.raises(SinkRefused, match=r"public\.t: takes nothing"):
            bench.run()

    def test_a_sink_that_leaves_nothing_out_stops_the_job_instead_of_trying_for_ever(self, bench):
        bench.sink.withhold = lambda _parts, _topic: []
        bench.refuse("public.t", SinkRefused("takes nothing", where="public.t"))
        bench.database.commit(Change(T, 1, "new"))

        with pytest.raises(SinkRefused, match=r"public\.t: takes nothing"):
            bench.run()


class TestRemade:
    """A topic that was made anew: its table goes on, and is incomplete until a snapshot has been taken."""

    def remake(self, bench: RefusedBench, *, snapshot: bool = False) -> None:
        bench.refuse("public.t", TopicRemade("public.t", snapshot=snapshot))
        bench.sink.once = True
        bench.database.commit(Change(T, 1, "new"))
        bench.run()

    def test_it_is_told_and_events_go_on(self, tmp_path, caplog):
        bench = RefusedBench(tmp_path, isolates=False)
        self.remake(bench)

        assert bench.streamed() == ["public.t"]
        assert [(entry.collection, entry.cause) for entry in bench.incomplete] == [(T, Cause.GAP)]
        assert "the topic was recreated, it lacks what was sent before; take a snapshot" in caplog.text

    def test_a_snapshot_is_taken_where_that_is_wanted(self, tmp_path):
        bench = RefusedBench(tmp_path)
        self.remake(bench, snapshot=True)

        assert bench.incomplete == ()
        assert len([topic for op, topic, _key in bench.events() if (op, topic) == ("r", "public.t")]) == 5
        assert bench.told()[-1] == "finished public.t"

    @pytest.mark.parametrize("snapshot", [False, True])
    def test_one_that_then_refuses_events_is_set_aside_with_its_gap(self, tmp_path, snapshot):
        bench = RefusedBench(tmp_path, recovers=True)
        bench.sink.then = {"public.t": SinkRefused("takes nothing")}
        bench.database.commit(Change(U, 1, "new"))
        self.remake(bench, snapshot=snapshot)

        (fault,) = bench.incomplete
        assert (fault.collection, fault.cause, fault.gap, fault.aside) == (T, Cause.REFUSED, True, True)
        assert (fault.why, bench.letters.of(T)) == ("takes nothing", 1)
        assert bench.streamed() == ["public.u"]
        assert bench.job.state.snapshot.tables == ()

    def test_it_goes_on_with_a_gap_once_it_takes_events_again(self, tmp_path):
        bench = RefusedBench(tmp_path)
        bench.sink.then = {"public.t": SinkRefused("takes nothing")}
        self.remake(bench)
        bench.sink.reasons.clear()
        bench.now_s += 3600
        bench.run()

        assert bench.streamed() == ["public.t"]
        assert [(entry.collection, entry.cause) for entry in bench.incomplete] == [(T, Cause.GAP)]

    def test_one_that_refuses_again_stops_the_job_where_that_is_wanted(self, tmp_path):
        bench = RefusedBench(tmp_path, isolates=False)
        bench.sink.then = {"public.t": SinkRefused("takes nothing")}

        with pytest.raises(SinkRefused, match="takes nothing"):
            self.remake(bench)

    def test_one_that_is_made_anew_twice_before_its_turn_is_saved_goes_on(self, tmp_path):
        bench = RefusedBench(tmp_path)
        bench.sink.then = {"public.t": TopicRemade("public.t")}
        self.remake(bench)

        assert bench.streamed() == ["public.t"]
        assert [(entry.collection, entry.cause) for entry in bench.incomplete] == [(T, Cause.GAP)]


class RefusedBench(Isolated):
    """A job whose sink refuses topics."""

    def __init__(self, staging: Path, **pace: Any) -> None:
        self.topic: Any = str
        super().__init__(staging, **pace)
        self.source.memory_source.undecodable = set()
        self.sink: Any = Refusing(self.sink)
        self.new_job().settle()

    def new_job(self) -> Any:
        job = super().new_job()
        job_parts = replace(job._parts, topic=self._topic_of)
        self.job = type(job)(job_parts, self.pace, self.seen.append)
        return self.job

    def _topic_of(self, collection: CollectionId) -> str:
        return str(self.topic(collection))

    def refuse(self, topic: str, error: SinkError) -> None:
        self.sink.reasons[topic] = error

    def run(self, turns: int = 20) -> None:
        """Run a session after the other, for so many looks at whether to stop."""
        looks = iter(range(turns))
        self.job.run(lambda: next(looks, None) is None)
