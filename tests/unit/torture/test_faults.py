"""Faults in the files of a sink, and the rows that consumers of these files have."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from tests.torture.faults import Faults, Rows, put

if TYPE_CHECKING:
    from pathlib import Path

T, D = "public.t0", "shop.t0"


def line(key: int, op: str = "c", topic: str = f"tm.{T}") -> dict[str, Any]:
    after = None if op == "d" else {"k": key, "ver": key}
    return {"topic": topic, "key": {"k": key}, "value": {"before": None, "after": after, "op": op}}


def parts(directory: Path, *turns: list[dict[str, Any]]) -> list[Path]:
    found = []
    for number, events in enumerate(turns):
        path = directory / f"part-{number}.jsonl"
        path.write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
        found.append(path)
    return found


def rows(paths: list[Path]) -> dict[int, int]:
    held: dict[int, int] = {}
    for event in (orjson.loads(text) for path in paths for text in path.read_bytes().splitlines()):
        if event["topic"] == f"tm.{T}":
            held.pop(event["key"]["k"], None)
            if (after := event["value"]["after"]) is not None:
                held[after["k"]] = after["ver"]
    return held


def test_faults_are_what_a_consumer_of_the_files_has_then(tmp_path):
    others = [line(key, topic="tm.public.other") for key in range(5)]
    paths = parts(
        tmp_path,
        [line(key) for key in range(30)],
        [line(key, "u") for key in range(10)],
        [*(line(key, "d") for key in range(5)), *others],
    )
    before = rows(paths)

    faults = put(paths, {f"tm.{T}": T}, {T}, Random(3), 12)

    after = rows(paths)
    extra = {(T, key) for key in after.keys() - before.keys()}
    found = Counter(
        missing=len(before.keys() - after.keys()),
        different=sum(before[key] != after[key] for key in before.keys() & after.keys()),
        extra=len(extra),
    )
    assert faults.kinds == {T: found}
    assert min(found.values()) > 0
    assert {(T, event["key"]["k"]) for event in faults.extra} == extra
    assert sum(text.count(b"public.other") for text in paths[2].read_bytes().splitlines()) == len(others)


def test_a_collection_that_takes_no_extra_rows_gets_none(tmp_path):
    paths = parts(tmp_path, [line(key) for key in range(30)])

    faults = put(paths, {f"tm.{T}": T}, set(), Random(3), 30)

    assert faults.extra == []
    assert faults.kinds[T].keys() == {"missing", "different"}


def test_extra_rows_of_a_key_of_texts_have_texts(tmp_path):
    text = line(1) | {"key": {"k": "one", "l": 1}}
    paths = parts(tmp_path, [text | {"key": {"k": f"{number}", "l": 1}} for number in range(30)])

    faults = put(paths, {f"tm.{T}": T}, {T}, Random(3), 12)

    assert faults.extra
    assert all(isinstance(event["key"]["k"], str) and event["key"]["l"] == 1 for event in faults.extra)
    assert all(event["key"]["k"] == event["value"]["after"]["k"] for event in faults.extra)


def document(number: int, op: str = "c") -> dict[str, Any]:
    after = f'{{"_id":{number},"v":"é{number}"}}' if op in "cr" else None
    return {"topic": f"tm.{D}", "key": {"id": str(number)}, "value": {"after": after, "op": op}}


def documents(paths: list[Path]) -> dict[str, str]:
    held: dict[str, str] = {}
    for event in (orjson.loads(text) for path in paths for text in path.read_bytes().splitlines()):
        if event["value"]["op"] == "d":
            held.pop(event["key"]["id"])
        elif event["value"]["after"] is not None:
            held[event["key"]["id"]] = event["value"]["after"]
    return held


def test_faults_in_documents_are_what_a_consumer_has_then(tmp_path):
    paths = parts(tmp_path, [document(key) for key in range(30)], [document(key, "d") for key in range(5)])
    before = documents(paths)

    faults = put(paths, {f"tm.{D}": D}, {D}, Random(4), 12)

    after = documents(paths)
    found = Counter(
        missing=len(before.keys() - after.keys()),
        different=sum(before[key] != after[key] for key in before.keys() & after.keys()),
        extra=len(after.keys() - before.keys()),
    )
    assert faults.kinds == {D: found}
    assert min(found.values()) > 0
    assert all(orjson.loads(text) for text in after.values())


def test_rows_that_the_source_does_not_have_are_left_behind_and_stay(tmp_path):
    paths = parts(tmp_path, [document(key) for key in range(30)], [document(7, "u")])
    topics = {f"tm.{D}": D}

    def is_row(event: dict[str, Any]) -> bool:
        return event["key"]["id"] not in {"7", "8"}

    left = Rows.of(paths, topics).left_behind(topics, is_row)
    put(paths, topics, set(), Random(4), 30, is_row)

    assert left.kinds == {D: Counter(extra=2)}
    assert [event["key"]["id"] for event in left.extra] == ["7", "8"]
    assert documents(paths).keys() >= {"7", "8"}
    assert "wrong" not in documents(paths)["7"]


def test_a_truncate_leaves_nothing(tmp_path):
    truncate = {"topic": f"tm.{T}", "key": None, "value": {"op": "t"}}
    paths = parts(tmp_path, [line(1), line(2)], [truncate, line(3)])

    assert [event["key"] for _line, event in Rows.of(paths, {f"tm.{T}": T}).last.values()] == [{"k": 3}]


def test_faults_are_added_by_collection_and_kind():
    one, other = (
        Faults({T: Counter(extra=1)}, [line(1)]),
        Faults({T: Counter(missing=2), D: Counter(extra=1)}),
    )

    assert one + other == Faults({T: Counter(extra=1, missing=2), D: Counter(extra=1)}, [line(1)])
