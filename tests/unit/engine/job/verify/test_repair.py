"""Repairs in the loop: what is sent for what differs, and that nothing is sent that is not right any more."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine.errors import SourceError
from engine.job.verify.copies import Copies
from engine.job.verify.verification import Verification
from engine.model import Purpose
from tests.job_bench import STEPS, Bench, T
from tests.memory_copy import MemoryCopy, MemoryRows, deletes_of, rows_in, settled_in
from tests.memory_source import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fakes import Event

REPAIR = '{"data-collections": ["public.t"], "type": "repair"}'
TOPIC = str(T)


def repairing(tmp_path: Path, **pace: Any) -> Bench:
    """A job whose sink has all rows of the table, sent by a snapshot."""
    bench = Bench(tmp_path, **pace)
    anew(bench)
    bench.execute()
    bench.turns(8)
    assert replayed(bench) == rows_of(bench)
    return bench


def anew(bench: Bench, polls: int = 0) -> None:
    """The job after a restart, with a copy that is asked so often in vain."""
    copy = MemoryCopy(bench.sink, polls)
    settled = partial(settled_in, bench.database)
    bench.verification = Verification(Copies(copy), MemoryRows(), deletes=deletes_of, settled=settled)
    bench.new_job()
    bench.job.settle()


def replayed(bench: Bench, upto: int | None = None) -> dict[str, tuple[str, Any]]:
    """What a consumer holds after a turn: the values of each row."""
    rows: dict[str, tuple[str, Any]] = {}
    for turn, events in sorted(bench.sink.turns.items()):
        for event in events if upto is None or turn <= upto else ():
            for row in rows_in(event) if event["topic"] == TOPIC else ():
                if row.key is None:
                    rows.clear()
                elif row.text is None:
                    rows.pop(row.key, None)
                else:
                    said = orjson.loads(row.text)
                    before = rows.get(row.key, (None, None))[1]
                    rows[row.key] = said["value"], before if row.lacks else said["large"]
    return rows


def rows_of(bench: Bench) -> dict[str, tuple[str, Any]]:
    return {str(key): row for key, row in bench.database.rows(T).items()}


def entries(bench: Bench) -> list[tuple[Purpose, bool]]:
    """What each entry of the queue is read for, and whether it was measured."""
    return [(table.target.purpose, table.progress is not None) for table in bench.job.state.snapshot.tables]


def end(bench: Bench) -> None:
    """Turn until the queue is empty."""
    for number in range(200):
        bench.turns(1)
        bench.now_s += 0.5
        if number > 2 and not bench.job.state.snapshot.tables:
            break
    bench.turns(2)
    assert bench.job.state.snapshot.tables == ()


def sends(bench: Bench) -> bool:
    """Whether a repair knows what differs."""
    return any(course.repair.sends for course in bench.verification.courses._by_ticket.values())


def until_sending(bench: Bench, *, purpose: Purpose = Purpose.REPAIR) -> None:
    """Turn until a repair knows what differs, and is to send rows if `purpose` is MEND."""
    while True:
        if sends(bench) and bench.job.state.snapshot.tables[0].target.purpose is purpose:
            return
        bench.turns(1)


def falsify(bench: Bench, change: Callable[[Event], Event | None]) -> None:
    """Change the events of the table, or remove them."""
    for turn, events in bench.sink.turns.items():
        changed = [change(event) if event["topic"] == TOPIC else event for event in events]
        bench.sink.turns[turn] = [event for event in changed if event is not None]


def extra(bench: Bench, key: int) -> None:
    """A row that only the copy has."""
    event = {"topic": TOPIC, "key": str(key), "headers": None}
    value = orjson.dumps({"op": "r", "value": "extra", "large": "", "at": -1}).decode()
    turn = next(turn for turn, events in sorted(bench.sink.turns.items()) if events)
    bench.sink.turns[turn].append({**event, "value": value})


def wrong(event: Event) -> Event:
    return {**event, "value": orjson.dumps({**orjson.loads(event["value"] or "{}"), "value": "no"}).decode()}


def fault(event: Event) -> Event | None:
    """Row 2 is missing, row 3 is different."""
    return {"2": None, "3": wrong(event)}.get(event["key"] or "", event)


def sent(bench: Bench, since: int) -> list[tuple[str | None, str | None]]:
    """The keys and operations of the table's events after a turn; None: a tombstone."""
    events = [event for turn, events in sorted(bench.sink.turns.items()) if turn > since for event in events]
    return [
        (event["key"], orjson.loads(event["value"])["op"] if event["value"] else None)
        for event in events
        if event["topic"] == TOPIC
    ]


def test_what_differs_is_sent_and_nothing_else(tmp_path):
    bench = repairing(tmp_path)
    falsify(bench, fault)
    extra(bench, 9)
    since = bench.job.state.turn
    bench.execute(REPAIR)

    end(bench)

    assert sent(bench, since) == [("9", "d"), ("9", None), ("2", "r"), ("3", "r")]
    assert replayed(bench) == rows_of(bench)
    answer = bench.answers[-1]
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]
    assert (answer.facts["verdict"], answer.facts["reads"], answer.facts["deletes"]) == ("accept", 2, 1)
    assert "the repair has sent 2 rows and 1 deletes" in answer.text
    assert bench.job.state.snapshot.tables == ()


def test_a_copy_that_is_right_gets_nothing(tmp_path):
    bench = repairing(tmp_path)
    since = bench.job.state.turn
    bench.execute(REPAIR)

    end(bench)

    assert sent(bench, since) == []
    assert bench.answers[-1].facts["equal"] == 5
    assert bench.answers[-1].facts["reads"] == 0


def test_a_row_that_comes_back_before_its_delete_is_not_deleted(tmp_path):
    bench = repairing(tmp_path)
    extra(bench, 9)
    extra(bench, 8)
    bench.execute(REPAIR)
    until_sending(bench)
    since = bench.job.state.turn
    bench.database.commit(Change(T, 9, "back"))

    end(bench)

    assert sent(bench, since) == [("9", "w"), ("8", "d"), ("8", None)]
    assert replayed(bench) == rows_of(bench)
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]


def test_a_truncate_before_the_deletes_leaves_none(tmp_path):
    bench = repairing(tmp_path)
    extra(bench, 9)
    bench.execute(REPAIR)
    until_sending(bench)
    since = bench.job.state.turn
    bench.database.commit(Change(T, None))

    end(bench)

    assert sent(bench, since) == [(None, "w")]
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]


def test_deletes_wait_until_all_later_turns_are_known(tmp_path):
    """Each turn brings another change while the copy is compared. The row is back in the last of them."""
    bench = repairing(tmp_path)
    anew(bench, polls=20)
    extra(bench, 9)
    bench.execute(REPAIR)
    while not sends(bench):
        bench.database.commit(Change(T, 1, f"v{bench.job.state.turn}"))
        bench.turns(1)
    bench.database.commit(Change(T, 9, "back"))
    bench.turns(1)
    since = bench.job.state.turn
    end(bench)

    assert ("9", "d") not in sent(bench, since)

    assert replayed(bench) == rows_of(bench)
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]


def test_a_value_that_the_log_left_out_meanwhile_is_sent(tmp_path):
    """The row moves, without its large value, while the row that it was is to be sent."""
    bench = repairing(tmp_path, window_rows=2)
    bench.database.commit(Change(T, 3, "three", large="large"))
    bench.turns(3)
    falsify(bench, lambda event: None if event["key"] == "3" else event)
    bench.execute(REPAIR)
    until_sending(bench, purpose=Purpose.MEND)
    bench.database.commit(Change(T, 7, "moved", old=3, large=None))

    end(bench)

    assert replayed(bench)["7"] == ("moved", "large")
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]


def test_a_restart_while_rows_are_sent_begins_anew(tmp_path):
    bench = repairing(tmp_path)
    falsify(bench, fault)
    bench.execute(REPAIR)
    until_sending(bench, purpose=Purpose.MEND)
    bench.turns(1)
    assert entries(bench) == [(Purpose.MEND, True)]

    anew(bench)

    assert entries(bench) == [(Purpose.REPAIR, False)]
    end(bench)
    assert replayed(bench) == rows_of(bench)
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]


def test_a_repair_that_does_not_help_ends_with_a_rejection(tmp_path):
    bench = repairing(tmp_path)
    falsify(bench, fault)
    copy = bench.verification.copies.own
    assert isinstance(copy, MemoryCopy)
    bench.execute(REPAIR)

    for _ in range(60):
        bench.turns(1)
        falsify(bench, fault)

    assert bench.told()[-1] == "failed public.t:"
    assert "2 rows and 0 deletes" in bench.answers[-1].text
    assert bench.answers[-1].facts["missing"] == 1


class _EndError(Exception):
    """The process ends here."""


class _Steps(list[str]):
    """The steps of a job, one of which is its last."""

    left = -1

    def append(self, step: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise _EndError
        super().append(step)


def _write(bench: Bench, chance: random.Random) -> None:
    key, kind = chance.randrange(1, 12), chance.randrange(8)
    live = bench.database.rows(T)
    change = {
        0: Change(T, key) if key in live else None,
        1: Change(T, key, f"v{chance.random()}", large=None) if key in live else None,
        2: Change(T, None) if not chance.randrange(6) else None,
        3: Change(T, key, "moved", old=min(live), large="l") if live and key not in live else None,
    }.get(kind, Change(T, key, f"v{chance.random()}", large=f"l{chance.random()}"))
    if change is not None:
        bench.database.commit(change, visible=chance.random() < 0.7)


def _faults(bench: Bench, chance: random.Random) -> None:
    kinds = {str(key): chance.randrange(6) for key in range(1, 12)}

    def put(event: Event) -> Event | None:
        if event["value"] is None or event["key"] is None or orjson.loads(event["value"])["op"] == "d":
            return event
        kind = kinds.get(event["key"])
        return None if kind == 0 else wrong(event) if kind == 1 else event

    falsify(bench, put)
    for key in range(1, 16):
        if key > 11 or (kinds[str(key)] == 2 and key not in bench.database.rows(T)):
            extra(bench, key)


def _check(bench: Bench, since: int, places: dict[int, int]) -> None:
    """Whatever a repair has sent was right at the place that the stream had reached."""
    for turn, events in bench.sink.turns.items():
        if turn <= since or turn not in places:
            continue
        for event in events:
            said = orjson.loads(event["value"]) if event["value"] and event["topic"] == TOPIC else {}
            known = [
                at
                for at, entry in enumerate(bench.database.log[: places[turn]])
                if entry.change.collection == T
                and (
                    entry.change.key is None or event["key"] in {str(entry.change.key), str(entry.change.old)}
                )
            ]
            if said.get("op") == "r":
                assert known[-1] == said["at"], (turn, event)
            elif said.get("op") == "d":
                last = bench.database.log[known[-1]].change if known else None
                assert last is None or last.value is None or str(last.key) != event["key"], (turn, event)


@pytest.mark.parametrize("seed", range(40))
def test_any_history_is_repaired(tmp_path, seed):
    """Writes, late visibility, faults of all kinds, and a crash before any step of any turn."""
    chance = random.Random(seed)
    bench = repairing(tmp_path, window_rows=chance.choice([2, 100]), reread_rounds=1000)
    bench.source.memory_source._span_rows = chance.choice([1, 3])
    _faults(bench, chance)
    since = bench.job.state.turn
    bench.execute(REPAIR)
    places: dict[int, int] = {}
    steps = bench.steps = _Steps()
    polls = chance.choice([0, 5])
    anew(bench, polls)
    for number in range(500):
        if number < 150:
            if chance.random() < 0.5:
                _write(bench, chance)
            if not chance.randrange(40):
                steps.left = chance.randrange(1, 2 * len(STEPS))
        elif number == 150:
            bench.database.visible |= set(range(bench.database.transactions + 1))
            steps.left = -1
        try:
            bench.turns(1)
        except (_EndError, SourceError):
            steps.left = -1
            anew(bench, polls)
        places |= {
            seen.state.turn: int(seen.state.position.order[0]) for seen in bench.seen if seen.state.position
        }
        bench.now_s += 0.1
        if number > 200 and not bench.job.state.snapshot.tables:
            break

    if bench.told()[-1] != "finished public.t:":
        # Rows changed each time that they were looked at. Now it is quiet.
        bench.execute(REPAIR)
        end(bench)
    assert bench.told()[-1] == "finished public.t:", bench.answers[-1]
    assert replayed(bench) == rows_of(bench)
    _check(bench, since, places)
