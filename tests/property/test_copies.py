"""Rows without a key, some of them alike: a consumer who counts has the table, whatever happens meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.model import CollectionId
from engine.snapshot import copies
from engine.snapshot.copies import balances_of, sum_balances
from engine.snapshot.merge import SupersededKeys
from engine.snapshot.merge_key import KEY_TYPE

T = CollectionId(("public", "t"))
_IMAGES = st.sampled_from([b"a", b"b", b"c"])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), _IMAGES, _IMAGES),
        st.tuples(st.just("update"), _IMAGES, _IMAGES),
        st.tuples(st.just("delete"), _IMAGES, _IMAGES),
    ),
    max_size=12,
)


@dataclass
class Bag:
    """A table, and the entries of its log: the image that went and the one that came."""

    rows: list[bytes]
    log: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)

    def play(self, steps: list[tuple[str, bytes, bytes]]) -> None:
        for op, old, new in steps:
            if op == "insert":
                self.rows.append(new)
                self.log.append((None, new))
            elif old in self.rows:
                self.rows.remove(old)
                self.rows += [new] if op == "update" else []
                self.log.append((old, new if op == "update" else None))


class Consumer:
    """Counts copies; to take away one that it does not have does nothing."""

    def __init__(self) -> None:
        self.rows: Counter[bytes] = Counter()

    def change(self, old: bytes | None, new: bytes | None) -> None:
        if old is not None:
            self.rows[old] = max(0, self.rows[old] - 1)
        if new is not None:
            self.rows[new] += 1


def counted(entries: list[tuple[bytes | None, bytes | None]]) -> pa.Table:
    images = [(image, sign) for entry in entries for image, sign in zip(entry, (-1, 1), strict=True) if image]
    keys = pa.array([image for image, _sign in images], KEY_TYPE)
    return balances_of(keys, np.array([sign for _image, sign in images], np.int64))


def emitted(rows: list[bytes], spans: list[pa.Table]) -> list[bytes]:
    """The rows of a window that go out, after these spans."""
    superseded = SupersededKeys()
    for span in spans:
        superseded |= SupersededKeys(copies={T: (span,)})
    mask = superseded.of(T).survivors(pa.chunked_array([pa.array(rows, KEY_TYPE)]))
    return rows if mask is None else pa.array(rows, KEY_TYPE).filter(mask.combine_chunks()).to_pylist()


@given(st.lists(_IMAGES, max_size=8), _steps, st.data())
def test_a_consumer_who_counts_copies_has_the_table(rows, steps, data):
    table = Bag(list(rows))
    table.play(steps)
    out = data.draw(st.integers(0, len(table.log)), "the window goes out behind so many entries")
    cuts = sorted(data.draw(st.lists(st.integers(0, out), max_size=3), "ends of spans"))
    spans = [table.log[a:b] for a, b in zip([0, *cuts], [*cuts, out], strict=True)]
    consumer = Consumer()

    for entry in table.log[:out]:
        consumer.change(*entry)
    for row in emitted(list(rows), [counted(span) for span in spans]):
        consumer.change(None, row)
    for entry in table.log[out:]:
        consumer.change(*entry)

    assert +consumer.rows == Counter(table.rows)


@given(_steps, st.data())
def test_balances_add_up_however_the_log_is_cut(steps, data):
    table = Bag([b"a", b"a", b"b"])
    table.play(steps)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table.log)), max_size=4)))
    parts = [
        sum_balances([counted(table.log[a:b])])
        for a, b in zip([0, *cuts], [*cuts, len(table.log)], strict=True)
    ]

    def shown(balances: pa.Table) -> list[tuple[bytes, int, int]]:
        return sorted(tuple(row.values()) for row in balances.to_pylist())

    assert shown(sum_balances(parts)) == shown(sum_balances([counted(table.log)]))


def test_without_the_balance_an_unrelated_row_is_taken(monkeypatch):
    """One row becomes like another and is deleted: it was the stream's."""
    spans = [counted([(b"a", b"b"), (b"b", None)])]
    counting = emitted([b"a", b"b"], spans)
    monkeypatch.setattr(copies, "taken_copies", _every_old_image)

    assert counting == [b"b"]
    assert emitted([b"a", b"b"], spans) == []


def _every_old_image(parts: tuple[pa.Table, ...]) -> pa.Table:
    rows = pa.concat_tables(parts)
    return rows.filter(pa.compute.less(rows.column("net"), 0))
