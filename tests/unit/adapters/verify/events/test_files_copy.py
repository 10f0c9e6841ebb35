"""A directory of events as a copy: files written by hand, compared with rows that windows have seen."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.spark.executors import LocalExecutors
from adapters.verify.events import compared_partition, copied_events, files_copy
from adapters.verify.events.copied_events import Traits
from adapters.verify.events.files_copy import FilesCopy
from adapters.verify.seen_rows import SeenRowsFiles
from engine.errors import SourceError
from engine.snapshot.merge_key import merge_keys_of
from engine.verify.compared_digests import SEEN_ROWS, digests_of_rows, key_digests
from engine.verify.copy import ComparisonRequest, ExtraRow, Findings, Span
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "shop.public.t"
GONE = '"__gone"'
SINCE, UPTO = 10, 20
HIDDEN = 7


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def event(
    key: int | None,
    after: dict[str, Any] | None,
    *,
    op: str = "u",
    topic: str = TOPIC,
    schemas: bool = False,
    lsn: int = 1,
) -> str:
    """A line of the files sink."""
    name: Any = None if key is None else {"id": key}
    value: Any = {"before": None, "after": after, "source": {"lsn": lsn}, "op": op}
    if schemas:
        name = {"schema": {"type": "struct", "name": f"k{op}"}, "payload": name}
        value = {"schema": {"type": "struct"}, "payload": value}
    return compact({"topic": topic, "key": name, "value": value, "headers": []}) + "\n"


def tombstone(key: int) -> str:
    return compact({"topic": TOPIC, "key": {"id": key}, "value": None, "headers": []}) + "\n"


def settled(source: bytes) -> bool:
    """Whether the windows could see the event with this source block."""
    return bool(json.loads(source)["lsn"] != HIDDEN)


class Scene:
    """A directory of turns, and what windows have seen."""

    def __init__(self, directory: Path) -> None:
        self.events, self.seen = directory / "events", SeenRowsFiles(str(directory / "seen"))
        self.events.mkdir()
        self.directory, self.traits, self.look = directory, Traits((GONE.encode(),)), SINCE

    @property
    def copy(self) -> FilesCopy:
        return FilesCopy(str(self.events), str(self.directory / "work"), LocalExecutors(), self.traits)

    def turn(self, number: int, *lines: str, part: int = 0) -> None:
        path = self.events / f"turn-{number:012d}"
        path.mkdir(exist_ok=True)
        (path / f"part-{part:05d}.jsonl").write_text("".join(lines))

    def saw(self, row: dict[str, Any], turn: int = 15, seen: SeenRow = SeenRow.ROW) -> None:
        keys = pa.array([compact({"id": row["id"]})], pa.large_string())
        columns = [
            key_digests(keys),
            digests_of_rows(keys, pa.array([compact(row)], pa.large_string())),
            pa.array(merge_keys_of([(str(row["id"]),)]), pa.large_binary()),
            pa.array([turn]),
            pa.array([int(seen)], pa.int8()),
        ]
        self.seen.add(1, pa.Table.from_arrays(columns, schema=SEEN_ROWS))

    def found(self, *columns: tuple[str, ...], earlier: int = 0) -> Findings:
        known = columns or (("id", "v"),)
        asked = ComparisonRequest(
            Span(SINCE, UPTO), known, settled, mends=True, look=self.look, earlier=earlier
        )
        comparison = self.copy.compare(TOPIC, (self.seen, 1), asked)
        try:
            for _ in range(3000):
                if (found := comparison.poll()) is not None:
                    return found
                time.sleep(0.01)
        finally:
            comparison.close()
        raise AssertionError("no end")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.seen.close()


def counted(found: Findings) -> dict[str, int]:
    kinds = {kind: count for kind, count in found.counts.items() if count}
    return {"equal": found.equal, "changed": found.changed} | kinds


@pytest.mark.parametrize("schemas", [False, True])
def test_each_kind_of_difference_is_found(scene, schemas):
    scene.turn(
        3,
        event(1, {"id": 1, "v": "é"}, op="r", schemas=schemas),
        "   " + event(2, {"id": 2, "v": "old"}, schemas=schemas),
        event(4, {"id": 4, "v": "x"}, schemas=schemas),
        event(5, {"id": 5, "v": "x"}, schemas=schemas),
        event(9, {"id": 9}, topic="shop.public.other"),
    )
    scene.turn(4, event(5, None, op="d", schemas=schemas), tombstone(5))
    for row in ({"id": 1, "v": "é"}, {"id": 2, "v": "new"}, {"id": 3, "v": "x"}):
        scene.saw(row)

    found = scene.found()

    assert counted(found) == {"equal": 1, "changed": 0, "missing": 1, "different": 1, "extra": 1}
    first = {kind: keys for kind, keys in found.first.items() if keys}
    assert first == {"missing": ('["3"]',), "different": ('["2"]',), "extra": ('{"id":4}',)}


@pytest.mark.parametrize("schemas", [False, True])
def test_a_repair_is_told_which_rows_differ_and_where_events_stand(scene, schemas):
    scene.turn(
        3,
        event(1, {"id": 1, "v": "old"}, schemas=schemas),
        event(4, {"id": 4, "v": "x"}, schemas=schemas),
        event(5, {"id": 5, "v": "x"}, schemas=schemas, lsn=HIDDEN),
    )
    scene.saw({"id": 1, "v": "new"})
    scene.saw({"id": 2, "v": "x"})

    found = scene.found()

    assert counted(found) == {"equal": 0, "changed": 0, "missing": 1, "different": 1, "extra": 1}
    assert found.unsettled == 1
    assert sorted(found.wrong) == merge_keys_of([("1",), ("2",)])
    assert scene.copy.rows(TOPIC, found.extra) == [('{"id":4}', '{"id":4,"v":"x"}')]


def test_events_after_a_comparison_are_followed_turn_by_turn(scene, monkeypatch):
    scene.turn(20, event(1, {"id": 1, "v": "a"}))
    scene.turn(21, event(2, {"id": 2, "v": "a"}), event(9, {"id": 9}, topic="shop.public.other"))
    scene.turn(23, event(3, None, op="d"), tombstone(3))
    scene.turn(24, event(None, None, op="t"))
    keys = key_digests(pa.array([compact({"id": key}) for key in (2, 3)], pa.large_string())).to_pylist()

    all_ = scene.copy.touched_keys(TOPIC, Span(UPTO, 23))
    monkeypatch.setattr(files_copy, "_FOLLOWED_BYTES", 1)
    first = scene.copy.touched_keys(TOPIC, Span(UPTO, 24))
    last = scene.copy.touched_keys(TOPIC, Span(23, 24))
    none = scene.copy.touched_keys(TOPIC, Span(24, 24))

    assert (all_.keys, all_.upto, all_.all) == (frozenset(keys), 23, False)
    assert (first.keys, first.upto) == (frozenset(keys[:1]), 21)
    assert (last.all, last.upto) == (True, 24)
    assert (none.keys, none.upto, none.all) == (frozenset(), 24, False)


def test_a_line_that_is_gone_is_said(scene):
    scene.turn(3, event(1, {"id": 1}))

    with pytest.raises(SourceError, match="can't be read again"):
        scene.copy.rows(TOPIC, [ExtraRow(b"", 3, 0, 10, 50)])
    with pytest.raises(SourceError, match="can't be read again"):
        scene.copy.rows(TOPIC, [ExtraRow(b"", 4, 0, 0, 50)])


def test_the_order_of_parts_and_turns_counts(scene):
    scene.turn(10, event(1, {"id": 1, "v": "second"}))
    scene.turn(9, event(1, {"id": 1, "v": "first"}))
    scene.turn(11, event(2, {"id": 2, "v": "second"}), part=10)
    scene.turn(11, event(2, {"id": 2, "v": "first"}), part=9)
    scene.saw({"id": 1, "v": "second"})
    scene.saw({"id": 2, "v": "second"})

    assert counted(scene.found()) == {"equal": 2, "changed": 0}


def test_an_empty_collection_has_nothing_but_extra_rows(scene):
    scene.turn(3, *(event(key, {"id": key, "v": "a"}) for key in (1, 2)))

    assert counted(scene.found()) == {"equal": 0, "changed": 0, "extra": 2}


def test_a_copy_that_went_back_to_another_state_is_older(scene):
    scene.turn(2, *(event(key, {"id": key, "v": "old"}) for key in (1, 2)))
    scene.turn(3, *(event(key, {"id": key, "v": "new"}) for key in (1, 2)), event(3, {"id": 3, "v": "large"}))
    scene.turn(4, event(1, {"id": 1, "v": "old"}), event(3, {"id": 3, "v": "__gone"}))
    for key, value in ((1, "new"), (2, "other"), (3, "large")):
        scene.saw({"id": key, "v": value})

    found = scene.found()

    assert counted(found) == {"equal": 1, "changed": 0, "different": 1, "older": 1}
    assert (found.first["older"], found.first["different"]) == (('["1"]',), ('["2"]',))


def test_events_after_the_window_do_not_count(scene):
    scene.turn(3, event(1, {"id": 1, "v": "a"}), event(2, {"id": 2, "v": "wrong"}))
    scene.turn(16, event(1, {"id": 1, "v": "b"}), event(2, {"id": 2, "v": "b"}))
    scene.turn(21, event(1, {"id": 1, "v": "c"}))
    scene.saw({"id": 1, "v": "a"})
    scene.saw({"id": 2, "v": "a"})

    assert counted(scene.found()) == {"equal": 1, "changed": 1}


def test_a_value_that_was_left_out_is_the_one_before(scene):
    scene.turn(3, event(1, {"id": 1, "v": "large"}), event(2, {"id": 2, "v": "large"}))
    scene.turn(4, event(1, {"id": 1, "v": "__gone"}), event(2, {"id": 2, "v": "__gone"}))
    scene.saw({"id": 1, "v": "large"})
    scene.saw({"id": 2, "v": "other"})

    assert counted(scene.found()) == {"equal": 1, "changed": 0, "different": 1}


def test_a_row_read_lacks_nothing_whatever_its_text_is(scene):
    scene.turn(13, event(1, {"id": 1, "v": "__gone"}, op="r"), event(2, {"id": 2, "v": "__gone"}))

    found = scene.found()

    assert (counted(found), found.lacking) == ({"equal": 0, "changed": 1}, 1)


def test_events_from_before_a_change_of_columns_say_the_same(scene):
    scene.turn(3, event(1, {"id": 1, "gone": 7, "v": "a"}), event(2, {"id": 2, "gone": 7, "v": "a"}))
    scene.saw({"id": 1, "v": "a", "added": None})
    scene.saw({"id": 2, "v": "a", "added": 3})

    found = scene.found(("id", "v", "added"))

    assert counted(found) == {"equal": 1, "changed": 0, "different": 1}


def test_a_truncate_ends_the_rows_before_it(scene):
    scene.turn(3, event(1, {"id": 1, "v": "a"}), event(None, None, op="t"), event(2, {"id": 2, "v": "a"}))
    scene.saw({"id": 2, "v": "a"})

    assert counted(scene.found()) == {"equal": 1, "changed": 0}


def test_a_value_from_before_a_truncate_is_lent_to_no_later_event(scene):
    """What has inserted the row again was in a log that was lost."""
    scene.turn(3, event(1, {"id": 1, "v": "a"}, op="r"))
    scene.turn(4, event(None, None, op="t"))
    scene.turn(5, event(1, {"id": 1, "v": "__gone"}))
    scene.saw({"id": 1, "v": "a"})

    assert counted(scene.found()) == {"equal": 0, "changed": 0, "different": 1}


def test_a_table_without_rows_and_events_is_equal(scene):
    assert counted(scene.found()) == {"equal": 0, "changed": 0}


def test_whatever_an_earlier_log_has_told_of_is_visible(scene):
    """Its transactions may have ids that the server has not given yet, because it was restored."""
    scene.turn(3, event(1, {"id": 1, "v": "a"}, lsn=HIDDEN))
    scene.turn(5, event(2, {"id": 2, "v": "a"}, lsn=HIDDEN))

    found = scene.found(earlier=3)

    assert counted(found) == {"equal": 0, "changed": 0, "extra": 1}
    assert found.unsettled == 1


def test_a_row_is_looked_at_again_if_what_follows_lacks_a_value(scene):
    scene.turn(3, event(1, {"id": 1, "v": "wrong"}))
    scene.turn(17, event(1, {"id": 1, "v": "__gone"}))
    scene.saw({"id": 1, "v": "a"})

    found = scene.found()

    assert counted(found) == {"equal": 0, "changed": 0}
    assert [key for key, _digest in found.undecided] == merge_keys_of([("1",)])


def test_many_small_pieces_and_partitions_find_the_same(scene, monkeypatch):
    monkeypatch.setattr(copied_events, "_AT_ONCE", 200)
    monkeypatch.setattr(copied_events, "_SEEN_AT_ONCE", 7)
    monkeypatch.setattr(files_copy, "_ITEM_BYTES", 1000)
    monkeypatch.setattr(files_copy, "_PARTITION_ROWS", 10)
    for turn in range(1, 9):
        scene.turn(turn, *(event(key, {"id": key, "v": str(turn)}) for key in range(1, 101)))
    for key in range(1, 101):
        if key % 10:
            scene.saw({"id": key, "v": "7" if key % 7 == 0 else "8"})
    scene.saw({"id": 500, "v": "8"})

    found = scene.found()

    assert counted(found) == {"equal": 77, "changed": 0, "missing": 1, "different": 13, "extra": 10}
    assert len(found.first["different"]) == 10


def updates(key: int, *numbers: int) -> list[str]:
    """Events that change the number of a row, and leave out its value."""
    return [event(key, {"id": key, "v": "__gone", "n": number}) for number in numbers]


HOT = ("id", "v", "n")


def test_a_row_that_changes_all_the_time_is_decided_by_the_value_that_its_events_lack(scene):
    """A window has read rows 1 to 4 after number 2, and the stream has superseded them."""
    scene.turn(
        3,
        event(1, {"id": 1, "v": "right", "n": 0}),
        event(2, {"id": 2, "v": "wrong", "n": 0}),
        event(3, {"id": 3, "v": "right", "n": 0}, lsn=HIDDEN),
        event(5, {"id": 5, "v": "right", "n": 0}),
        event(6, {"id": 6, "v": "wrong", "n": 0}),
    )
    for turn, number in ((12, 1), (13, 2), (14, 3), (18, 4)):
        scene.turn(turn, *(line for key in range(1, 7) for line in updates(key, number)))
    for key in range(1, 5):
        scene.saw({"id": key, "v": "right", "n": 2}, seen=SeenRow.SUPERSEDED)
    for key in (5, 6):
        scene.saw({"id": key, "v": "right", "n": 3})

    found = scene.found(HOT)

    assert counted(found) == {"equal": 1, "changed": 1}
    assert sorted(key for key, _digest in found.undecided) == merge_keys_of([("2",), ("3",), ("4",), ("6",)])


def test_what_a_window_read_after_its_last_event_or_many_events_ago_decides_too(scene):
    scene.turn(3, *(event(key, {"id": key, "v": "right", "n": 0}) for key in (1, 2, 3)))
    scene.turn(12, *updates(1, *range(1, 700)), *updates(2, *range(1, 700)), *updates(3, 1))
    scene.turn(16, *updates(1, 700), *updates(2, 700), *updates(3, 2))
    scene.saw({"id": 1, "v": "right", "n": 0}, seen=SeenRow.SUPERSEDED)
    scene.saw({"id": 2, "v": "right", "n": 699}, seen=SeenRow.SUPERSEDED)
    scene.saw({"id": 3, "v": "right", "n": 2}, seen=SeenRow.SUPERSEDED)

    found = scene.found(HOT)

    assert counted(found) == {"equal": 0, "changed": 2}
    assert [key for key, _digest in found.undecided] == merge_keys_of([("3",)])


def test_files_written_under_other_settings_are_read_together(scene):
    scene.turn(3, event(1, {"id": 1, "v": "a"}, schemas=True), event(2, {"id": 2, "v": "old"}, schemas=True))
    scene.turn(4, event(2, {"id": 2, "v": "new"}).rstrip("\n"))
    scene.turn(5, event(3, {"id": 3, "v": "a"}))
    scene.saw({"id": 1, "v": "a"})
    scene.saw({"id": 2, "v": "new"})
    scene.saw({"id": 3, "v": "b"})

    found = scene.found()

    assert counted(found) == {"equal": 2, "changed": 0, "different": 1}


def test_a_line_that_is_no_event_is_said(scene):
    scene.turn(2, event(1, {"id": 1, "v": "a"}))
    scene.turn(3, event(1, {"id": 1, "v": "a"})[:40] + "\n")

    with pytest.raises(SourceError, match=r"turn-000000000003/part-00000\.jsonl: a line is no event"):
        scene.found()


def test_an_event_without_a_key_is_said(scene):
    scene.turn(3, event(None, {"id": 1, "v": "a"}))

    with pytest.raises(SourceError, match="has no key"):
        scene.found()


def document(key: int, after: str | None, op: str = "u") -> str:
    """A line of the files sink with a document of MongoDB."""
    value: Any = {"before": None, "after": after, "source": {"lsn": 1}, "op": op}
    return compact({"topic": TOPIC, "key": {"id": str(key)}, "value": value, "headers": []}) + "\n"


def saw_document(scene: Scene, key: int, text: str) -> None:
    """A document that a window has seen, as the text between the quotes."""
    keys = pa.array([compact({"id": str(key)})], pa.large_string())
    columns = [
        key_digests(keys),
        digests_of_rows(keys, pa.array([compact(text)[1:-1]], pa.large_string())),
        pa.array(merge_keys_of([(str(key),)]), pa.large_binary()),
        pa.array([15]),
        pa.array([int(SeenRow.ROW)], pa.int8()),
    ]
    scene.seen.add(1, pa.Table.from_arrays(columns, schema=SEEN_ROWS))


def test_documents_are_compared_as_texts_and_looked_at_again_if_they_may_be_later(scene):
    scene.traits = Traits(looked_up=True)
    scene.turn(3, *(document(key, '{"_id":"é"}', "c") for key in (1, 2, 3)), document(4, "{}", "c"))
    scene.turn(SINCE, document(2, '{"_id": 9}'))
    scene.turn(12, document(3, '{"_id": 9}'), document(4, None))
    for key in (1, 2, 3):
        saw_document(scene, key, '{"_id":"é"}')
    saw_document(scene, 4, "{}")

    found = scene.found()
    scene.look = 12
    again = scene.found()

    assert counted(found) == {"equal": 1, "changed": 0, "different": 1}
    assert [key for key, _digest in found.undecided] == merge_keys_of([("3",), ("4",)])
    assert counted(again) == {"equal": 1, "changed": 0, "different": 3}


def test_a_row_without_an_event_is_looked_at_again_where_deletes_may_be_gone(scene, monkeypatch):
    scene.traits = Traits(thins=True)
    scene.turn(3, event(1, {"id": 1, "v": "x"}))
    for key in (1, 2):
        scene.saw({"id": key, "v": "x"})

    first = scene.found()
    monkeypatch.setattr(compared_partition, "_MOST_AGAIN", 0)
    many = scene.found()
    scene.look = 16
    again = scene.found()

    assert counted(first) == {"equal": 1, "changed": 0}
    assert [key for key, _digest in first.undecided] == [merge_keys_of([("2",)])[0]]
    assert counted(many) == counted(again) == {"equal": 1, "changed": 0, "missing": 1}
