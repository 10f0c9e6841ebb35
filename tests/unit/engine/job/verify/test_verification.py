"""Verifications in the loop: what is noted of windows, when a copy is compared, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.errors import SchemaChanged, SourceError
from engine.job.snapshots.window_scheduler import WindowScheduler
from engine.job.verify.copies import Copies
from engine.job.verify.course import absent_keys
from engine.job.verify.verification import Verification
from engine.model import Position, Purpose
from engine.snapshot.merge_key import merge_keys_of
from engine.verify.copy import Findings, Span
from engine.verify.seen_row import SeenRow
from tests.job_bench import Bench, T, U
from tests.memory_copy import MemoryRows
from tests.memory_source import Change
from tests.unit.engine.job.verify.test_certificates import certifying

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from engine.verify.copy import ComparisonRequest, ExtraRow, SeenRows, TouchedKeys

VERIFY = '{"data-collections": ["public.t"], "type": "verify"}'


def seen_in(rows: MemoryRows, ticket: int) -> list[tuple[str, str]]:
    """The keys, as far as they are one column's text, and what was seen of each, in order."""
    table = rows.table(ticket)
    keys = [key[4:].decode() for key in table.column("merge_key").to_pylist()]
    kinds = [SeenRow(kind).name for kind in table.column("seen").to_pylist()]
    return list(zip(keys, kinds, strict=True))


@dataclass
class ScriptedCopy:
    """A copy that finds what it is told to, after it was asked once in vain."""

    finds: list[Findings | Exception]
    why: str = ""
    asked: list[tuple[str, list[tuple[str, str]], Span]] = field(default_factory=list)
    waits: int = 1
    closed: int = 0
    followed: list[tuple[list[str], int]] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    columns: list[Any] = field(default_factory=list)
    hidden: list[bool] = field(default_factory=list)

    def follow(self, topics: Collection[str], turn: int) -> None:
        self.followed.append((sorted(topics), turn))

    def refusal(self) -> str:
        return self.why

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> ScriptedCopy:
        assert not asked.mends
        rows = seen[0]
        assert isinstance(rows, MemoryRows)
        topics, turn = self.followed[-1]
        assert topics == [topic]
        assert turn >= asked.span.upto
        self.asked.append((topic, seen_in(rows, seen[1]), asked.span))
        self.known.append(asked.known)
        self.hidden.append(asked.hidden)
        self.columns.append((asked.columns, asked.settled))
        self.waits = 1
        return self

    def poll(self) -> Findings | None:
        self.waits -= 1
        if self.waits >= 0 or not self.finds:
            return None
        found = self.finds.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        raise NotImplementedError

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        raise NotImplementedError

    def close(self) -> None:
        self.closed += 1


def verifying(
    tmp_path: Path, *finds: Findings | Exception, why: str = "", **pace: Any
) -> tuple[Bench, ScriptedCopy]:
    bench, copy = Bench(tmp_path, **pace), ScriptedCopy(list(finds), why)
    bench.verification = Verification(Copies(copy), MemoryRows())
    bench.new_job()
    return bench, copy


EQUAL = Findings(equal=5, counts={"missing": 0, "different": 0, "extra": 0})
ROWS = [(str(key), "ROW") for key in range(1, 6)]


def undecided(*keys: int) -> Findings:
    pairs = zip(
        merge_keys_of([(str(key),) for key in keys]), (bytes([key]) * 16 for key in keys), strict=True
    )
    return Findings(undecided=tuple(pairs))


def test_an_equal_copy_is_accepted_and_nothing_is_sent(tmp_path):
    bench, copy = verifying(tmp_path, EQUAL)
    bench.execute(VERIFY)

    bench.turns(12)

    assert [event for event in bench.events() if event[0] == "r"] == []
    assert bench.told() == ["accepted", "finished public.t:"]
    assert "the copy is accepted" in bench.answers[-1].text
    assert bench.answers[-1].facts["equal"] == 5
    ((topic, seen, span),) = copy.asked
    assert (topic, seen) == ("public.t", ROWS)
    assert span.since < span.upto <= bench.job.state.turn
    assert bench.job.state.snapshot.tables == ()


def test_a_copy_is_told_each_turn_from_the_first_that_counts_to_the_verdict(tmp_path):
    bench, copy = verifying(tmp_path, EQUAL)
    bench.execute(VERIFY)

    bench.turns(12)

    ((_topic, _seen, span),) = copy.asked
    told = [turn for topics, turn in copy.followed if topics == ["public.t"]]
    assert set(range(span.since, span.upto + 1)) <= set(told)
    assert told == sorted(told)
    assert copy.followed[-1][0] == []


def test_a_wrong_copy_is_rejected_with_what_differs(tmp_path):
    wrong = Findings(
        2, 1, {"missing": 1, "different": 0, "extra": 12}, {"missing": ('["3"]',), "extra": ('{"id":7}',)}
    )
    bench, _copy = verifying(tmp_path, wrong)
    bench.execute(VERIFY)

    bench.turns(12)

    answer = bench.answers[-1]
    assert bench.told()[-1] == "failed public.t:"
    assert '1 missing (["3"]), 12 extra ({"id":7}, …); 2 rows are equal, 1 sent anew meanwhile' in answer.text
    assert (answer.facts["verdict"], answer.facts["extra"]) == ("reject", 12)


def test_superseded_rows_are_noted_as_such(tmp_path):
    bench, copy = verifying(tmp_path, EQUAL)
    bench.execute(VERIFY)
    bench.turns(1)
    assert bench.job.window is not None
    bench.database.commit(Change(T, 2, "newer"))
    bench.database.commit(Change(T, 3, None))

    bench.turns(12)

    ((_topic, seen, _span),) = copy.asked
    assert seen == [(key, "SUPERSEDED" if key in {"2", "3"} else "ROW") for key, _kind in ROWS]


def test_an_empty_collection_is_compared_once_the_stream_has_passed_what_emptied_it(tmp_path):
    """The deletes are committed, so the collection is measured as empty, and are streamed after that."""
    bench, copy = verifying(tmp_path, EQUAL)
    bench.source.memory_source._span_rows = 1
    bench.execute(VERIFY)
    for key in range(1, 6):
        bench.database.commit(Change(T, key, None))
    end = len(bench.database.log)

    for _ in range(40):
        bench.turns(1)
        bench.now_s += 0.1

    ((_topic, seen, span),) = copy.asked
    assert seen == []
    assert bench.steps.count("open_window") == 1
    assert span.upto - span.since >= 5
    assert bench.job.state.position == Position((end,))


def test_undecided_keys_are_looked_at_again_by_themselves(tmp_path):
    bench, copy = verifying(tmp_path, undecided(2, 9), EQUAL)
    bench.execute(VERIFY)

    bench.turns(30)

    first, second = (seen for _topic, seen, _span in copy.asked)
    assert first == ROWS
    # The row with this primary key has another event key by now.
    assert second == [*ROWS, ("2", "ROW"), ("2", "ABSENT"), ("9", "ABSENT")]
    assert bench.told()[-1] == "finished public.t:"


def test_of_a_row_that_was_read_under_its_event_key_none_is_missing():
    row = pa.table({"merge_key": [b"1"], "key": [b"a"]})

    assert absent_keys([b"1", b"2", b"3"], [row], {b"1": {b"a", b"old"}, b"2": {b"b"}}) == [
        (b"1", b"old"),
        (b"2", b"b"),
    ]


def test_keys_that_can_not_be_decided_are_no_verdict(tmp_path):
    bench, copy = verifying(tmp_path, *(undecided(2) for _ in range(9)))
    bench.execute(VERIFY)

    bench.turns(80)

    assert len(copy.asked) == 6
    assert bench.told()[-1] == "failed public.t"
    assert "1 rows could not be compared" in bench.answers[-1].text
    assert bench.job.state.snapshot.tables == ()
    assert bench.job.state.snapshot.failed == ()


def test_rows_that_no_window_could_see_yet_are_looked_at_in_other_windows(tmp_path):
    bench, copy = verifying(tmp_path, Findings(unsettled=1), EQUAL)
    bench.execute(VERIFY)

    bench.turns(30)

    assert [seen for _topic, seen, _span in copy.asked] == [ROWS, ROWS]
    first, second = (span for _topic, _seen, span in copy.asked)
    assert second.since >= first.upto
    assert bench.told()[-1] == "finished public.t:"


def test_rows_that_are_never_visible_are_no_verdict(tmp_path):
    bench, copy = verifying(tmp_path, *(Findings(unsettled=1) for _ in range(9)))
    bench.execute(VERIFY)

    bench.turns(100)

    assert len(copy.asked) == 6
    assert bench.told()[-1] == "failed public.t"
    assert "1 rows were sent by transactions that no snapshot" in bench.answers[-1].text


@dataclass(frozen=True)
class Sight:
    """A `Settled` of a server that may have streamed something which snapshots don't show."""

    hides_sent: bool

    def __call__(self, _source: bytes) -> bool:
        return True


def test_all_is_read_again_if_windows_may_lack_what_was_sent_before(tmp_path):
    # Of a row that is in no event of the copy either, nobody knows the key.
    bench, copy = verifying(tmp_path, EQUAL, EQUAL)
    bench.verification.courses.settled = lambda: Sight(hides_sent=not copy.asked)
    bench.execute(VERIFY)

    bench.turns(40)

    first, second = (span for _topic, _seen, span in copy.asked)
    assert second.since >= first.upto
    assert bench.told()[-1] == "finished public.t:"


def test_a_server_that_never_shows_what_was_sent_gets_no_accept(tmp_path):
    bench, copy = verifying(tmp_path, *[EQUAL] * 9)
    bench.verification.courses.settled = lambda: Sight(hides_sent=True)
    bench.execute(VERIFY)

    bench.turns(120)

    assert len(copy.asked) == 6
    assert bench.told()[-1] == "failed public.t"
    assert "rows may have been sent by transactions that no snapshot" in bench.answers[-1].text


def test_what_differs_is_told_although_the_server_never_shows_all(tmp_path):
    bench, copy = verifying(tmp_path, *[replace(EQUAL, counts={"missing": 1}, first={"missing": ("9",)})] * 9)
    bench.verification.courses.settled = lambda: Sight(hides_sent=True)
    bench.execute(VERIFY)

    bench.turns(120)

    assert len(copy.asked) == 6
    assert "is rejected" in bench.answers[-1].text


@dataclass(frozen=True)
class Barrier:
    """A `Settled` of a server whose transactions are numbered; those from `running` on are not over."""

    running: int
    newest: int

    def __call__(self, _source: bytes) -> bool:
        return True

    def shows_all_before(self, earlier: Any) -> bool:
        return bool(self.running > earlier.newest)


def test_extra_rows_of_a_table_count_once_all_before_the_verification_is_visible(tmp_path):
    """The first transaction goes on until the second reading."""
    bench, copy = verifying(tmp_path, *(Findings(unsettled=1) for _ in range(3)), EQUAL)
    states = [Barrier(1, 5), Barrier(1, 9), Barrier(7, 12), Barrier(20, 20)]
    bench.verification.courses.settled = lambda: states[min(len(copy.asked), 3)]
    bench.execute(VERIFY)

    bench.turns(60)

    first, _second, third, _fourth = (span for _topic, _seen, span in copy.asked)
    assert copy.known == [-1, -1, first.since, third.since]
    assert bench.told()[-1] == "finished public.t:"


def test_a_copy_that_is_altered_each_time_is_no_verdict(tmp_path):
    bench, copy = verifying(tmp_path, *(Findings(stale=True) for _ in range(9)))
    bench.execute(VERIFY)

    bench.turns(100)

    assert len(copy.asked) == 6
    assert "truncated or altered each time" in bench.answers[-1].text


def test_what_differs_is_told_although_other_rows_are_never_decided(tmp_path):
    wrong = replace(undecided(3), equal=3, counts={"missing": 1}, first={"missing": ("9",)})
    bench, copy = verifying(tmp_path, *[wrong] * 9)
    bench.execute(VERIFY)

    bench.turns(100)

    assert len(copy.asked) == 6
    answer = bench.answers[-1]
    assert (answer.outcome, answer.facts["missing"], answer.facts["undecided"]) == ("failed", 1, 1)
    assert "is rejected" in answer.text
    assert answer.text.endswith(
        "1 missing (9); 3 rows are equal, 1 not decided, since they changed each time"
    )


def test_the_looks_are_counted_although_the_next_reading_waits(tmp_path, monkeypatch):
    """Windows open in every fifth turn only, as if the stream lagged."""
    bench, copy = verifying(tmp_path, *(Findings(unsettled=1) for _ in range(99)))
    bench.execute(VERIFY)
    may_open = WindowScheduler.may_open

    for number in range(300):
        monkeypatch.setattr(WindowScheduler, "may_open", (lambda *_: False) if number % 5 else may_open)
        bench.turns(1)
        bench.sleep(2.0)

    assert len(copy.asked) == 6
    assert "1 rows were sent by transactions that no snapshot" in bench.answers[-1].text


def test_a_copy_that_can_not_be_read_is_no_verdict(tmp_path):
    bench, _copy = verifying(tmp_path, SourceError("a line is no event", where="part-1"))
    bench.execute(VERIFY)

    bench.turns(12)

    assert "a line is no event" in bench.answers[-1].text
    assert bench.told()[-1] == "failed public.t"


@pytest.mark.parametrize("why", ["", "it is away"])
def test_what_can_not_be_compared_is_refused_before_it_is_read(tmp_path, why):
    bench, copy = verifying(tmp_path, why=why)
    if not why:
        bench.verification = Verification()
        bench.new_job()
    bench.execute(VERIFY)

    bench.turns(6)

    assert bench.told() == ["accepted", "rejected public.t"]
    assert f"can't be verified: {why or 'this job has nothing'}" in bench.answers[-1].text
    assert copy.asked == []


def half_read(bench: Bench) -> int:
    """Verify until some rows are read and others are not; returns how many."""
    bench.execute(VERIFY)
    bench.turns(5)
    (table,) = bench.job.state.snapshot.tables
    assert table.target.purpose is Purpose.VERIFY
    assert table.progress is not None
    assert 0 < table.progress.rows < 5
    return table.progress.rows


def restarted(bench: Bench) -> None:
    """The job in another session, until its verification has ended."""
    bench.new_job()
    bench.job.settle()
    bench.turns(30)


class KeepingCopy(ScriptedCopy):
    """A copy that the next session can go on with, unless it `forgets` its turns."""

    forgets = False

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> ScriptedCopy:
        assert isinstance(seen[0], MemoryRows)
        self.turns = seen[0].table(seen[1]).column("turn").to_pylist()
        return super().compare(topic, seen, asked)

    def resume(self, topic: str, span: Span) -> bool:
        assert topic == "public.t"
        return not self.forgets and span.since < span.upto


@dataclass(frozen=True)
class Shown:
    """What was visible at some moment, as a text."""

    text: str

    def __call__(self, source: bytes) -> bool:
        raise NotImplementedError

    def saved(self) -> str:
        return self.text


def keeping(tmp_path: Path) -> tuple[Bench, KeepingCopy, MemoryRows]:
    bench, _copy = verifying(tmp_path, window_rows=2)
    copy, rows = KeepingCopy([EQUAL]), MemoryRows()
    moments = (Shown(f"moment {number}") for number in count(1))
    bench.verification = Verification(Copies(copy), rows, settled=lambda: next(moments), settled_then=Shown)
    bench.new_job()
    return bench, copy, rows


def test_a_restart_goes_on_with_what_was_read(tmp_path):
    bench, copy, rows = keeping(tmp_path)
    count_read = half_read(bench)
    turns = rows.table(1).column("turn").to_pylist()
    restart = bench.job.state.turn

    restarted(bench)

    ((_topic, seen, _span),) = copy.asked
    assert seen == ROWS
    assert copy.turns[:count_read] == turns
    assert min(copy.turns[count_read:]) > restart
    assert bench.told()[-1] == "finished public.t:"


def test_what_was_visible_before_a_restart_decides_after_it(tmp_path):
    bench, copy, _rows = keeping(tmp_path)
    half_read(bench)
    (since,) = {course.since for course in bench.verification.courses._by_ticket.values()}
    (settled,) = {course.settled for course in bench.verification.courses._by_ticket.values()}
    (columns,) = {tuple(course.columns) for course in bench.verification.courses._by_ticket.values()}

    restarted(bench)

    assert [span.since for _topic, _seen, span in copy.asked] == [since]
    assert columns
    assert copy.columns == [(columns, settled)]


def test_what_was_read_to_its_end_is_not_read_again(tmp_path):
    bench, copy, _rows = keeping(tmp_path)
    copy.finds = []
    bench.execute(VERIFY)
    while not copy.asked:
        bench.turns(1)
    ((_topic, seen, before),) = copy.asked
    for key in range(1, 6):
        bench.database.commit(Change(T, key, None))
    copy.finds = [EQUAL]

    restarted(bench)

    assert [found for _topic, found, _span in copy.asked] == [seen, seen]
    after = copy.asked[-1][2]
    assert after.since == before.since
    assert after.upto > before.upto
    assert bench.told()[-1] == "finished public.t:"


def truncated(bench: Bench) -> None:
    """Truncate the table. The copy is not told."""
    bench.source.memory_source.skips_truncates = True
    bench.database.commit(Change(T, None, None))


def ended(bench: Bench) -> None:
    """Go on until the verification has ended."""
    for _ in range(40):
        bench.turns(1)
        bench.now_s += 0.1


def test_rows_read_before_a_truncate_that_is_not_sent_do_not_count(tmp_path):
    """They are equal to the copy's, and the source has none of them any more."""
    bench, copy, _rows = keeping(tmp_path)
    half_read(bench)
    truncated(bench)

    ended(bench)

    ((_topic, seen, _span),) = copy.asked
    assert seen == []
    assert bench.told()[-1] == "finished public.t:"


@pytest.mark.parametrize("turns", [0, 1])
def test_they_do_not_count_after_a_restart_either(tmp_path, turns):
    bench, copy, _rows = keeping(tmp_path)
    half_read(bench)
    truncated(bench)
    bench.turns(turns)

    restarted(bench)
    ended(bench)

    ((_topic, seen, _span),) = copy.asked
    assert seen == []


def test_nor_do_rows_that_were_read_to_the_end(tmp_path):
    bench, copy, _rows = keeping(tmp_path)
    copy.finds = [undecided(2), EQUAL]
    bench.execute(VERIFY)
    while not copy.asked:
        bench.turns(1)
    truncated(bench)

    ended(bench)

    assert [seen for _topic, seen, _span in copy.asked] == [ROWS, []]


def test_a_truncate_before_anything_is_measured_costs_no_other_reading(tmp_path):
    bench, copy = verifying(tmp_path, EQUAL)
    truncated(bench)
    bench.database.commit(Change(T, 7, "new"))
    bench.execute(VERIFY)

    bench.turns(20)

    assert [seen for _topic, seen, _span in copy.asked] == [[("7", "ROW")]]
    assert bench.steps.count("open_window") == 1


def test_rows_of_a_turn_that_was_not_saved_are_read_again(tmp_path):
    """They may be others by then: the turn is taken anew."""
    bench, copy, rows = keeping(tmp_path)
    count_read = half_read(bench)
    rows.add(1, rows.table(1).slice(0, 1))

    restarted(bench)

    ((_topic, seen, _span),) = copy.asked
    assert count_read < len(seen)
    assert seen == ROWS


@pytest.mark.parametrize("lost", ["rows", "turns", "all"])
def test_a_restart_reads_everything_anew_if_what_was_read_is_lost(lost, tmp_path, caplog):
    bench, copy, rows = keeping(tmp_path)
    half_read(bench)
    rows.damaged, copy.forgets = lost == "rows", lost == "turns"
    if lost == "all":
        rows.tables.clear()

    restarted(bench)

    ((_topic, seen, _span),) = copy.asked
    assert seen == ROWS
    assert bench.told()[-1] == "finished public.t:"
    assert "public.t is read from its beginning: what was read is lost" in caplog.text


def test_a_copy_that_keeps_no_turns_is_read_anew_after_a_restart(tmp_path):
    bench, copy = verifying(tmp_path, EQUAL, window_rows=2)
    half_read(bench)
    progress = bench.job.state.snapshot.tables[0].progress
    assert progress is not None
    assert progress.noted is None

    restarted(bench)

    ((_topic, seen, _span),) = copy.asked
    assert seen == ROWS
    assert bench.told()[-1] == "finished public.t:"


def test_keys_that_are_looked_at_again_are_asked_for_anew_after_a_restart(tmp_path):
    bench, copy, _rows = keeping(tmp_path)
    copy.finds = [undecided(2, 9), undecided(9), EQUAL]
    bench.execute(VERIFY)
    while len(copy.asked) < 1 or bench.job.window is None:
        bench.turns(1)

    restarted(bench)
    bench.turns(20)

    assert [seen for _topic, seen, _span in copy.asked][-1][-1] == ("9", "ABSENT")
    assert bench.told()[-1] == "finished public.t:"


def test_a_failure_while_rows_are_noted_notes_none_twice(tmp_path):
    bench, copy = verifying(tmp_path, EQUAL, window_rows=2)
    bench.execute(VERIFY)
    bench.turns(5)
    stops = iter([False] * 40 + [True])
    bench.source.openings = []
    bench.database.failures = [SourceError("the server is gone")]

    bench.job.run(lambda: next(stops))

    ((_topic, seen, _span),) = copy.asked
    assert seen == ROWS


def test_a_stop_ends_a_comparison(tmp_path):
    bench, copy = verifying(tmp_path)
    bench.execute(VERIFY)
    bench.turns(8)
    assert len(copy.asked) == 1

    bench.database.signal("x", "stop-snapshot", '{"type": "incremental"}')
    bench.turns(4)

    assert bench.told()[-1] == "stopped public.t"
    assert copy.closed


def test_other_collections_are_read_while_one_is_compared(tmp_path):
    bench, _copy = verifying(tmp_path)
    bench.execute(VERIFY)
    bench.turns(8)

    bench.execute('{"data-collections": ["public.u"]}')
    bench.turns(8)

    assert bench.told()[-1] == "finished public.u"


def test_a_table_that_is_altered_while_it_is_compared_is_compared_again(tmp_path, monkeypatch):
    bench, copy = verifying(tmp_path)
    bench.execute(VERIFY)
    while not copy.asked:
        bench.turns(1)
    measure = bench.source.measure

    def altered(targets: Any, **how: Any) -> list[Any]:
        return [replace(extent, key=("another",)) for extent in measure(targets, **how)]

    monkeypatch.setattr(bench.source, "measure", altered)
    bench.source.windows = [SchemaChanged("another definition", where=U)]
    bench.execute('{"data-collections": ["public.u"]}')
    bench.turns(6)
    bench.now_s += 60.0
    copy.finds = [EQUAL]
    bench.turns(12)

    before, after = (span for _topic, _seen, span in copy.asked)
    assert after.since >= before.upto
    assert copy.closed == 2
    assert [seen for _topic, seen, _span in copy.asked] == [ROWS, ROWS]
    assert "finished public.t:" in bench.told()


def test_the_verdict_joins_the_certificates(tmp_path):
    bench, kept = certifying(tmp_path)
    bench.verification = Verification(Copies(ScriptedCopy([EQUAL])), MemoryRows())
    bench.new_job()
    bench.execute()
    bench.turns(6)
    bench.execute(VERIFY)

    bench.turns(12)

    first, second = kept.documents
    assert (first["rows"]["emitted"], second["kind"], second["verdict"]) == (5, "verification", "accept")
    assert second["equal"] == 5
    assert second["previous"]


@pytest.mark.parametrize("field", ["additional-condition", "surrogate-key"])
def test_a_part_of_a_collection_can_not_be_verified(tmp_path, field):
    bench, _copy = verifying(tmp_path)
    bench.execute(VERIFY.replace("}", f', "{field}": "id"}}'))

    bench.turns(3)

    assert bench.told() == ["rejected"]
    assert field in bench.answers[0].text


def test_values_that_the_log_left_out_are_not_fetched_for_a_comparison(tmp_path):
    """Where it matters, the copy finds the rows undecided, and they are looked at then."""
    bench, copy = verifying(tmp_path, EQUAL)
    bench.execute(VERIFY)
    bench.turns(1)
    assert bench.job.window is not None
    bench.database.commit(Change(T, 2, "newer", large=None))
    bench.database.commit(Change(T, 9, "moved", old=3, large=None))

    bench.turns(12)

    ((_topic, seen, _span),) = copy.asked
    assert seen == [(key, "SUPERSEDED" if key in {"2", "3"} else "ROW") for key, _kind in ROWS]


class OthersCopy(ScriptedCopy):
    """A copy that somebody else keeps, and that may lag for 30 turns."""

    settle_s = 3.0
    besides = ()
    learnt: str = ""

    def learn(self, topic: str, collection: Any) -> str:
        return "" if (topic, str(collection)) == ("public.t", "public.t") else "another one"


AGAINST = '{"data-collections": ["public.t"], "type": "verify", "against": "there"}'
SETTLED = replace(EQUAL, settled=True)


def against(tmp_path: Path, *finds: Findings | Exception) -> tuple[Bench, ScriptedCopy, OthersCopy]:
    bench, own = verifying(tmp_path)
    copy = OthersCopy(list(finds))
    bench.verification = Verification(Copies(own, others={"there": copy}), MemoryRows())
    bench.new_job()
    return bench, own, copy


@pytest.mark.parametrize(
    ("gone", "why"), [("sink", "this job has nothing"), ("target", "the settings have no targets")]
)
def test_what_can_not_be_compared_any_more_after_a_restart_is_rejected(tmp_path, gone, why):
    bench, own, _copy = against(tmp_path)
    bench.execute(VERIFY if gone == "sink" else AGAINST)
    bench.turns(3)
    bench.verification = Verification(Copies() if gone == "sink" else Copies(own), MemoryRows())

    restarted(bench)

    assert bench.told()[-1] == "rejected public.t"
    assert f"can't be verified: {why}" in bench.answers[-1].text
    assert bench.job.state.snapshot.tables == ()


def turned(bench: Bench, copy: ScriptedCopy, asked: int) -> float:
    """Turn until the copy was asked so often; returns how long that took by the job's clock."""
    began = bench.now_s
    for _ in range(500):
        if len(copy.asked) >= asked:
            return bench.now_s - began
        bench.turns(1)
        bench.now_s += 0.1
    raise AssertionError("it was not asked")


def test_a_copy_of_others_is_compared_after_it_has_had_time_to_settle(tmp_path):
    bench, own, copy = against(tmp_path, replace(undecided(2), settled=True), SETTLED)
    bench.execute(AGAINST)

    assert turned(bench, copy, 1) >= copy.settle_s
    assert turned(bench, copy, 2) >= copy.settle_s
    bench.turns(4)

    assert own.asked == []
    assert bench.told()[-1] == "finished public.t:"
    assert "the copy is accepted as settled" in bench.answers[-1].text
    assert (bench.answers[-1].facts["basis"], bench.answers[-1].facts["against"]) == ("settled", "there")


def test_keys_that_never_rest_in_a_copy_of_others_decide_nothing(tmp_path):
    restless = replace(undecided(2), settled=True, equal=4, counts={"missing": 0})
    bench, _own, copy = against(tmp_path, *[restless] * 6)
    bench.execute(AGAINST)

    turned(bench, copy, 6)
    bench.turns(4)

    assert bench.told()[-1] == "finished public.t:"
    facts = bench.answers[-1].facts
    assert (facts["equal"], facts["changed"], facts["undecided"]) == (4, 0, 1)


@pytest.mark.parametrize(("equal", "told"), [(0, "failed public.t"), (4, "finished public.t:")])
def test_where_too_many_rows_are_undecided_all_are_read_again_and_counted_at_last(tmp_path, equal, told):
    many = replace(undecided(2), settled=True, equal=equal, counts={"missing": 0}, more=60_000)
    bench, _own, copy = against(tmp_path, *[many] * 6)
    bench.execute(AGAINST)

    turned(bench, copy, 6)
    bench.turns(4)

    assert [seen for _topic, seen, _span in copy.asked] == [ROWS] * 6
    assert bench.told()[-1] == told
    assert "60001 " in bench.answers[-1].text


def test_a_copy_of_others_of_which_no_row_could_be_decided_has_no_verdict(tmp_path):
    restless = replace(undecided(2), settled=True, equal=0, counts={"missing": 0})
    bench, _own, copy = against(tmp_path, *[restless] * 6)
    bench.execute(AGAINST)

    turned(bench, copy, 6)
    bench.turns(4)

    assert bench.told()[-1] == "failed public.t"
    assert "could not be compared, since they changed each time" in bench.answers[-1].text


@pytest.mark.parametrize("hides", [False, True])
def test_a_copy_of_others_knows_whether_windows_that_look_again_may_lack_what_was_sent(tmp_path, hides):
    bench, own = verifying(tmp_path)
    copy = OthersCopy([replace(undecided(2), settled=True), SETTLED])
    settled = lambda: Sight(hides_sent=hides and bool(copy.asked))  # noqa: E731
    bench.verification = Verification(Copies(own, others={"there": copy}), MemoryRows(), settled=settled)
    bench.new_job()
    bench.execute(AGAINST)

    turned(bench, copy, 2)

    assert copy.hidden == [False, hides]


def test_a_target_that_the_settings_lack_is_refused(tmp_path):
    bench, _own, _copy = against(tmp_path)
    bench.execute(AGAINST.replace("there", "nowhere"))

    bench.turns(4)

    assert "no target 'nowhere'; known: there" in bench.answers[-1].text


def test_only_a_verification_names_a_target(tmp_path):
    bench, _own, _copy = against(tmp_path)
    bench.execute(AGAINST.replace("verify", "repair"))

    bench.turns(4)

    assert "'against' is for 'verify'" in bench.answers[-1].text
