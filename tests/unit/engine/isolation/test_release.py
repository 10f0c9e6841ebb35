"""What is kept for a topic that refuses events goes out, in order, once it takes them again."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine.errors import SinkError, SinkRefused, TopicRemade
from engine.isolation.incomplete import Cause, Incomplete
from engine.isolation.kept_events import Bundle, bundled, events_of, size_of
from engine.job.saved.state_document import from_json, to_json
from engine.job.startup import at_destination
from tests.batches import batch
from tests.changed_parts import change_parts
from tests.job_bench import T, U
from tests.memory_source import Change
from tests.unit.engine.job.test_isolation import WHOLE, Isolated, RefusedBench

if TYPE_CHECKING:
    from pathlib import Path

NOT_NOW = SinkRefused("takes nothing", where="public.t")


class Killed(BaseException):
    """The end of the job's process."""


class ReleaseBench(RefusedBench):
    """A job whose topic public.t refuses events until it is said to take them again."""

    def write(self, *keys: int) -> None:
        for key in keys:
            self.database.commit(Change(T, key, "new"))
            self.database.commit(Change(U, key, "new"))
        self.run(5)

    def told_of(self, topic: str = "public.t") -> list[Any]:
        """The keys of a topic's events, in order."""
        return [key for _op, name, key in self.events() if name == topic]

    def later(self, seconds: float = 10_000.0) -> None:
        """Go on when some time has gone by."""
        self.now_s += seconds
        self.run(30)

    @property
    def aside(self) -> Incomplete:
        (one,) = self.incomplete
        return one


@pytest.fixture
def bench(tmp_path: Path) -> ReleaseBench:
    bench = ReleaseBench(tmp_path)
    bench.refuse("public.t", NOT_NOW)
    bench.write(1, 2, 3)
    return bench


def accept(bench: ReleaseBench) -> None:
    bench.sink.reasons.clear()
    bench.sink.refuses = None


def refuse_key(bench: ReleaseBench, key: int) -> None:
    """Have the topic refuse the events of one key, as a row that is too large."""
    accept(bench)
    bench.sink.refuses = lambda event: event["topic"] == "public.t" and orjson.loads(event["key"]) == key


def test_it_goes_out_in_order_before_anything_newer(bench, caplog):
    caplog.set_level("INFO")
    kept = bench.aside.kept
    accept(bench)
    bench.later()
    bench.write(4)

    assert kept == 3
    assert bench.told_of() == [1, 2, 3, 4]
    assert bench.told_of("public.u") == [1, 2, 3, 4]
    assert (bench.incomplete, bench.letters.of(T)) == ((), 0)
    assert "public.t: its topic takes events again, 3 were kept" in caplog.text
    assert "public.t is complete again" in caplog.text


def test_it_is_offered_after_pauses_that_grow_and_alone(bench):
    offered = []
    for _ in range(400):
        before = len(bench.sink.attempts)
        bench.run(2)
        if len(bench.sink.attempts) > before:
            offered.append(bench.now_s)
        bench.now_s += 5
    pauses = [round(after - before, -1) for before, after in pairwise(offered)]

    assert pauses == [20, 40, 80, 160, 320, 600, 600]
    assert bench.told_of("public.u") == [1, 2, 3]
    assert bench.slept == []


def test_a_job_that_starts_offers_it_at_once(bench):
    accept(bench)
    bench.new_job()
    bench.run(10)

    assert bench.told_of() == [1, 2, 3]


def test_a_refusal_in_the_midst_comes_to_rest_at_its_event(tmp_path):
    bench = ReleaseBench(tmp_path)
    bench.refuse("public.t", NOT_NOW)
    bench.write(*range(1, 30))
    refuse_key(bench, 20)
    for _ in range(20):
        bench.later()
    rests = (bench.told_of(), bench.aside.kept, bench.letters.of(T))
    accept(bench)
    bench.later()

    assert rests[:2] == ([*range(1, 20)], 10)
    assert bench.told_of() == [*range(1, 30)]
    assert bench.incomplete == ()


def test_what_comes_meanwhile_is_kept_behind(bench):
    refuse_key(bench, 3)
    bench.later()
    bench.later()
    bench.write(4, 5)
    so_far = bench.told_of()
    accept(bench)
    bench.later()

    assert so_far == [1, 2]
    assert bench.told_of() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("step", ["save_pending", "commit", "promote"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_kill_loses_and_repeats_nothing(bench, step, side, monkeypatch):
    accept(bench)
    bench.now_s += 10_000
    port = bench.sink if step == "commit" else bench.store
    call, count = getattr(port, step), 0

    def die(*args: Any) -> None:
        nonlocal count
        count += 1
        if count == 2 and side == "before":
            raise Killed
        call(*args)
        if count == 2:
            raise Killed

    with monkeypatch.context() as killing:
        killing.setattr(port, step, die)
        with pytest.raises(Killed):
            bench.run(30)
    bench.new_job()
    bench.run(30)
    bench.write(4)

    assert bench.told_of() == [1, 2, 3, 4]
    assert bench.letters.of(T) == 0


@dataclass
class Fuse:
    """Kills the job at its `left`-th step from now on, before it and, one later, behind it; 0: never."""

    left: int = 0

    def on(self, call: Any) -> Any:
        """A step that burns it."""

        def burning(*args: Any) -> Any:
            self._burn()
            result = call(*args)
            self._burn()
            return result

        return burning

    def _burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


def disturb(bench: ReleaseBench, chance: random.Random, wrote: int) -> None:
    """Have the topic refuse all, one key, or nothing."""
    drawn = chance.random()
    if drawn < 0.4:
        bench.refuse("public.t", NOT_NOW)
    elif drawn < 0.7:
        refuse_key(bench, chance.randint(1, wrote + 2))
    else:
        accept(bench)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_each_event_goes_out_once_and_in_order(tmp_path, seed, monkeypatch):
    chance, bench, wrote, fuse = random.Random(seed), ReleaseBench(tmp_path), 0, Fuse()
    monkeypatch.setattr("engine.isolation.kept_events._BUNDLE_BYTES", chance.choice([1, 300, 4 << 20]))
    for port, step in ((bench.sink, "commit"), (bench.store, "save_pending"), (bench.store, "promote")):
        monkeypatch.setattr(port, step, fuse.on(getattr(port, step)))
    for _ in range(30):
        disturb(bench, chance, wrote)
        for _ in range(chance.randint(0, 6)):
            wrote += 1
            bench.database.commit(Change(T, wrote, "new"))
            bench.database.commit(Change(U, wrote, "new"))
        fuse.left = chance.choice([0, 0, 0, 1, 2, 3, 5, 8, 13, 21])
        bench.now_s += chance.choice([0, 0, 20, 10_000])
        try:
            bench.run(chance.randint(1, 12))
        except Killed:
            bench.letters.epoch += 1
            bench.new_job()
    fuse.left = 0
    accept(bench)
    for _ in range(3):
        bench.later()

    assert bench.told_of() == [*range(1, wrote + 1)]
    assert bench.told_of("public.u") == [*range(1, wrote + 1)]
    assert (bench.incomplete, bench.letters.of(T)) == ((), 0)


class TestLacking:
    """More is lacking than what was kept: what is there goes out, and a snapshot is asked for."""

    def test_what_outgrew_the_bound(self, tmp_path, caplog):
        bench = ReleaseBench(tmp_path, letters_bytes=500)
        bench.refuse("public.t", NOT_NOW)
        for key in range(1, 9):
            bench.write(key)
        kept, dropped = bench.aside.kept, bench.aside.dropped
        accept(bench)
        bench.later()
        bench.write(9)
        lacks = bench.aside

        assert 0 < kept < 8
        assert kept + dropped == 8
        assert bench.told_of() == [*range(1, kept + 1), 9]
        assert (lacks.cause, lacks.kept, lacks.size) == (Cause.GAP, 0, 0)
        assert "what came while its topic refused events was not all kept" in caplog.text

        bench.execute(WHOLE)
        bench.run(30)
        assert (bench.incomplete, bench.letters.of(T)) == ((), 0)

    def test_where_nothing_was_kept_a_snapshot_alone_takes_it_up(self, tmp_path):
        bench = ReleaseBench(tmp_path, letters_bytes=0)
        bench.refuse("public.t", NOT_NOW)
        bench.write(1, 2)
        accept(bench)
        bench.later()

        assert (bench.told_of(), bench.aside.dropped, bench.aside.aside) == ([], 2, True)

    def test_a_snapshot_that_took_it_up_and_was_stopped(self, tmp_path):
        bench = ReleaseBench(tmp_path, max_chunks=1)
        bench.refuse("public.t", NOT_NOW)
        bench.write(1, 2)
        accept(bench)
        bench.execute(WHOLE)
        bench.run(3)
        bench.write(7)
        bench.database.signal("s", "stop-snapshot", '{"type": "incremental"}')
        bench.run(3)
        bench.later()
        bench.write(8)
        streamed = [key for op, name, key in bench.events() if (op, name) == ("w", "public.t")]

        assert streamed == [7, 8]
        assert (bench.aside.cause, bench.letters.of(T)) == (Cause.GAP, 0)

    def test_a_snapshot_that_ran_when_its_topic_began_to_refuse(self, tmp_path):
        bench = ReleaseBench(tmp_path, max_chunks=1)
        bench.execute(WHOLE)
        bench.run(4)
        bench.refuse("public.t", NOT_NOW)
        bench.write(7)
        accept(bench)
        bench.later()

        assert "failed public.t" in bench.told()
        assert bench.told_of()[-1] == 7
        assert bench.aside.cause is Cause.GAP

    def test_a_topic_that_was_made_anew_meanwhile(self, bench):
        accept(bench)
        bench.refuse("public.t", TopicRemade("public.t"))
        bench.sink.once = True
        bench.later()
        bench.write(4)

        assert bench.told_of() == [1, 2, 3, 4]
        assert bench.aside.cause is Cause.GAP

    def test_files_that_somebody_has_removed(self, bench):
        bench.letters.events.clear()
        accept(bench)
        bench.later()
        bench.write(4)

        assert bench.told_of() == [4]
        assert bench.aside.cause is Cause.GAP

    def test_events_that_go_elsewhere_now(self, bench):
        bench.new_job()
        bench.pace = replace(bench.pace, moves=True)
        job = bench.new_job()
        change_parts(job, destination=lambda: {"topic.prefix": "b"})
        before = from_json(to_json(job._checkpoint.state))
        before = replace(before, destination={"topic.prefix": "a"})
        state = at_destination(before, job._parts, job._isolation, moves=True)

        assert state.incomplete == ()  # nothing was loaded yet

        refused = replace(state, destination={"topic.prefix": "a"}, incomplete=(_refused(),))
        (moved,) = at_destination(refused, job._parts, job._isolation, moves=True).incomplete
        assert (moved.cause, moved.why) == (Cause.GAP, "events went elsewhere while its topic refused them")


def _refused(**more: Any) -> Incomplete:
    return Incomplete(T, Cause.REFUSED, "8", "takes nothing", **more)


def test_entries_that_can_not_be_decoded_never_go_out_by_themselves(tmp_path):
    bench = Isolated(tmp_path)
    bench.commit(Change(T, 1, "new"))
    bench.source.memory_source.undecodable = set()
    bench.now_s += 1e6
    bench.commit(Change(T, 2, "new"))

    assert bench.streamed() == []
    assert bench.letters.of(T) == 2


def test_topics_of_several_tables_wait_for_a_snapshot(tmp_path):
    bench = ReleaseBench(tmp_path)
    bench.topic = lambda _collection: "public.t"
    bench.refuse("public.t", NOT_NOW)
    bench.write(1, 2)
    accept(bench)
    bench.later()

    assert {entry.collection for entry in bench.incomplete} == {T, U}
    assert (bench.told_of(), bench.letters.of(T), bench.letters.of(U)) == ([], 2, 2)


def test_what_a_job_that_had_lost_its_lease_kept_does_not_go_out(bench):
    bench.letters.epoch = 2
    bench.new_job()
    bench.sink.reasons["public.t"] = NOT_NOW
    bench.write(4)
    (newest,) = [event for event in bench.letters.events if event.epoch == 2]
    strange = [orjson.dumps({"topic": "public.t", "key": "99", "value": '{"op":"w"}', "headers": None})]
    bench.letters.events[replace(newest, epoch=1)] = strange
    bench.letters.events[Bundle(newest.turn + 1, 0, 1, T)] = strange
    accept(bench)
    bench.later()

    assert bench.told_of() == [1, 2, 3, 4]


def test_another_topic_that_refuses_events_amid_a_release_stops_the_job(bench):
    accept(bench)
    bench.refuse("public.t", SinkError("no"))
    bench.sink.reasons["other"] = SinkRefused("other: takes nothing")
    bench.sink.names_others = True
    bench.now_s += 10_000

    with pytest.raises(SinkRefused, match="other: takes nothing"):
        bench.run(10)


def test_lines_give_the_very_events():
    events = [
        ("t", '{"id": 1.0}', '{"v":"é 日本 \\u0000 \U0001f600","n":1e400}', '[{"key":"a","value":null}]'),
        ("t", None, None, None),
        ("u", "", "\r\n\u2028\x85", None),
    ]
    (lines,) = bundled([batch(*events)])

    assert events_of(lines).to_pylist() == batch(*events).to_pylist()
    assert size_of(lines) == len(b"\n".join([*lines, b""]))
    assert b"\n" not in b"".join(lines)


@pytest.mark.parametrize(("cause", "gap"), [("refused", True), ("undecodable", False)])
def test_a_state_of_before_there_were_kept_events_is_read(bench, cause, gap):
    document = orjson.loads(to_json(bench.job.state))
    for entry in document["incomplete"]:
        entry["cause"] = cause
        for name in ("gap", "out", "epochs"):
            del entry[name]
    (found,) = from_json(orjson.dumps(document)).incomplete

    assert (found.gap, found.out, found.epochs) == (gap, (0, 0, 0), ())
    assert from_json(to_json(bench.job.state)).incomplete == bench.incomplete
