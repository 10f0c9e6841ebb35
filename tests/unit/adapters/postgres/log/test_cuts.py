"""Which rows may have moved by the key that cuts their table, from their entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.decode import decode
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.cuts import Cut, cut_of, moves_by_cut
from adapters.postgres.log.timeline import SpanPart, TransactionContext
from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.server.table import Column, Table, relation_of
from adapters.postgres.snapshot.eligibility import ReadTable
from adapters.postgres.snapshot.keyset import KeyColumn, Keyset
from engine.events.settings import EventSettings
from engine.model import CollectionId
from engine.snapshot.merge_key import merge_keys_of
from tests.unit.adapters.postgres.messages import UNCHANGED, Log

SETTINGS = EventSettings("p", "d", key_schemas=False, value_schemas=False, skipped_operations=frozenset())
COLUMNS = tuple(Column(name, 25, nullable=name == "n") for name in ("id", "n", "alt", "big"))
NAME = CollectionId(("s", "t"))
TABLE = Table(1, NAME, "r", COLUMNS, ("id",), identity_key=("id",))
FULL = replace(TABLE, identity="f", identity_key=())
BY_INDEX = replace(TABLE, identity="i", identity_key=("alt",))
OLD, NEW = ("1", "2", "3", "x"), ("1", "2", "3", UNCHANGED)


def moved(table: Table, log: Log, cut: Cut) -> list[tuple[Any, Any]]:
    """The keys before and after of rows that may have moved."""
    key = table.identity_key if table.identity == "i" else table.primary_key
    codec = codec_for(relation_of(table), table, SETTINGS, {}, merge_key=key)
    part = SpanPart(pa.array(log.messages, pa.large_binary()), TransactionContext())
    decoded = decode(part, {1: codec}, SETTINGS, Watch(cuts={1: [cut]}), Moment(7))
    found = decoded.incomplete.filter(decoded.incomplete.column("moved"))
    pairs = zip(found.column("old").to_pylist(), found.column("key").to_pylist(), strict=True)
    return [(old and old[4:].decode(), new[4:].decode()) for old, new in pairs]


def changed(*, mark: str = "K", old: Any = None, new: Any = NEW) -> Log:
    log = Log()
    log.begin(5)
    log.update(1, new, old=old, mark=mark)
    log.commit()
    return log


ID, N, ALT = ("id",), ("n",), ("alt",)


@pytest.mark.parametrize(
    ("table", "cut", "log", "expected"),
    [
        pytest.param(TABLE, Cut(ID, ID), changed(), [], id="the key stays"),
        pytest.param(
            TABLE,
            Cut(ID, ID),
            changed(old=("0", None, None, None)),
            [("0", "1")],
            id="the key changes",
        ),
        pytest.param(TABLE, Cut(N, ID), changed(), [("1", "1")], id="nobody tells of a surrogate key"),
        pytest.param(
            TABLE,
            Cut(N, ID),
            changed(old=("0", None, None, None)),
            [("0", "1")],
            id="nor beside the key",
        ),
        pytest.param(TABLE, Cut(N, ID), changed(new=OLD), [], id="nothing is left out"),
        pytest.param(BY_INDEX, Cut(ID, ALT), changed(), [("3", "3")], id="an index tells of no primary key"),
        pytest.param(BY_INDEX, Cut(ALT, ALT), changed(), [], id="an index tells of itself"),
        pytest.param(
            FULL,
            Cut(N, ID),
            changed(mark="O", old=("1", "2", "3", None)),
            [],
            id="a whole row tells that it stayed",
        ),
        pytest.param(
            FULL,
            Cut(N, ID),
            changed(mark="O", old=("1", None, "3", None)),
            [("1", "1")],
            id="or that it was among the NULLs",
        ),
        pytest.param(
            FULL,
            Cut(N, ID),
            changed(mark="O", old=("1", "9", "3", None)),
            [("1", "1")],
            id="or moved",
        ),
        pytest.param(
            TABLE,
            Cut(("gone",), ("gone",)),
            changed(old=("0", None, None, None)),
            [],
            id="of another key than the windows'",
        ),
        pytest.param(
            TABLE, Cut(("dropped",), ID), changed(), [("1", "1")], id="by a column that is not published"
        ),
    ],
)
def test_a_row_may_have_moved_where_its_old_place_is_another_or_unknown(table, cut, log, expected):
    assert moved(table, log, cut) == expected


def test_an_insert_that_leaves_a_value_out_came_from_nowhere():
    log = Log()
    log.begin(5)
    log.insert(1, *NEW)
    log.insert(1, "2", "2", "2", "all")
    log.commit()

    assert moved(TABLE, log, Cut(ID, ID)) == [(None, "1")]


def test_a_table_that_is_not_read_costs_nothing():
    codec = codec_for(relation_of(TABLE), TABLE, SETTINGS, {}, merge_key=ID)
    part = SpanPart(
        pa.array(changed(old=("0", None, None, None)).messages, pa.large_binary()), TransactionContext()
    )

    assert not decode(part, {1: codec}, SETTINGS, Watch(), Moment(7)).incomplete.num_rows


def test_keys_from_before_a_change_of_the_key_are_left_out():
    (one,), (two, three) = merge_keys_of([("7",)]), merge_keys_of([("7", "a"), ("8", None)])
    pairs = frozenset({(one, one), (two, three), (None, three), (one, three)})
    other, wide = CollectionId(("s", "u")), ('key "id"', 'key "code"')
    by_n = ('key "n"', 'key "id" to merge by')
    reading = {NAME: {wide, by_n}, other: {wide}}

    assert moves_by_cut({NAME: pairs}, reading) == {
        (NAME, wide): pairs - {(one, one)},
        (NAME, by_n): {(one, one)},
    }


def test_the_columns_are_read_from_the_fingerprint():
    quoted, plain = KeyColumn('odd "name" to merge by', '"pg_catalog"."int4"'), KeyColumn("alt", "text")
    by_index = ReadTable(
        TABLE, Keyset((quoted, plain)), Keyset((plain,)), traits=("columns 1 x", "publication ")
    )
    by_itself = ReadTable(TABLE, Keyset((plain,)), Keyset((plain,)), traits=("publication key",))

    assert cut_of(by_index.fingerprint) == Cut(('odd "name" to merge by', "alt"), ("alt",))
    assert cut_of(by_itself.fingerprint) == Cut(("alt",), ("alt",))
