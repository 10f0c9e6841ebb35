"""Codecs of the relations that occur, and the key that both roads know their rows by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.events.relations import Relations
from adapters.postgres.log.assembler import Definition
from adapters.postgres.server.table import Column, Leaves, PgType, Table, relation_of
from adapters.postgres.snapshot.eligibility import ReadTable
from adapters.postgres.snapshot.keyset import KeyColumn, Keyset
from engine.events.settings import EventSettings
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = (Column("id", 23), Column("v", 25), Column("g", 25, generated="s"))


@dataclass
class MemoryCatalog:
    """Tables by oid; notes what it was asked for."""

    tables: dict[int, Table]
    asked: list[list[int]] = field(default_factory=list)
    known_types: dict[int, PgType] = field(default_factory=dict)

    def types(self) -> dict[int, PgType]:
        return dict(self.known_types)

    def describe(self, oids: Iterable[int], **_how: Any) -> dict[int, Table]:
        self.asked.append(sorted(oids))
        return {oid: self.tables[oid] for oid in self.asked[-1]}


def table(oid: int = 1, identity: str = "d", **more: Any) -> Table:
    return Table(oid, CollectionId(("s", f"t{oid}")), "r", COLUMNS, identity=identity, **more)


def definition(one: Table, serial: int) -> Definition:
    columns = [column for column in one.columns if not column.generated]
    message = b"R" + one.oid.to_bytes(4, "big") + f"{one.schema}\0{one.name}\0{one.identity}".encode()
    message += len(columns).to_bytes(2, "big")
    for column in columns:
        message += b"\0" + column.name.encode() + b"\0" + column.type.to_bytes(4, "big") + b"\xff" * 4
    return Definition(serial, message)


def relations(*tables: Table, captured: str = "") -> tuple[Relations, MemoryCatalog]:
    catalog = MemoryCatalog({entry.oid: entry for entry in tables})
    made: Any = Relations(catalog, EventSettings("p", "d"), lambda _schema, name: name != captured)  # type: ignore[arg-type]  # the part that is used
    return made, catalog


FULL = Leaves(CollectionId(("s", "full")), "f")


def leaved(*leaves: Leaves, **more: Any) -> Table:
    return replace(table(**more), kind="p", leaves=leaves)


def test_only_codecs_that_are_wanted_are_built_and_given():
    tables = [table(oid) for oid in (1, 2, 3, 4)]
    definitions = {entry.oid: definition(entry, entry.oid) for entry in tables}
    known, catalog = relations(*tables, captured="t4")

    assert sorted(known.codecs(definitions, {2, 3, 4, 99}).codecs) == [2, 3]
    assert sorted(known.codecs(definitions, {2}).codecs) == [2]
    assert sorted(known.codecs(definitions, ()).codecs) == []
    assert catalog.asked == [[2, 3]]


def test_a_definition_sent_again_is_described_again():
    known, catalog = relations(table())
    first = known.codecs({1: definition(table(), 1)}, {1}).codecs[1]

    assert known.codecs({1: definition(table(), 1)}, {1}).codecs[1] is first
    assert known.codecs({1: definition(table(), 2)}, {1}).codecs[1] is not first
    assert catalog.asked == [[1], [1]]


def test_a_definition_sent_again_shows_labels_added_since():
    mood = PgType(90, "mood", "s", kind="e", labels=("a",))
    moods = PgType(91, "_mood", "s", category="A", element=90)
    one = replace(table(), columns=(Column("v", 90), Column("w", 91)))
    known, catalog = relations(one)
    shown = []
    for serial, labels in ((1, ("a",)), (1, ("a", "b")), (2, ("a", "b"))):
        catalog.known_types = {90: replace(mood, labels=labels), 91: moods}
        known.codecs({1: definition(one, serial)}, {1})
        shown.append(known.types[90].labels)

    assert shown == [("a",), ("a",), ("a", "b")]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param(table(primary_key=("id",)), ("id",), id="primary-key"),
        pytest.param(table(identity="f", unique_key=("v",)), ("v",), id="full-with-unique-key"),
        pytest.param(table(identity="i", identity_key=("v",)), ("v",), id="index"),
        pytest.param(table(identity="f"), ("id", "v"), id="full"),
        pytest.param(leaved(FULL, FULL, identity="d"), ("id", "v"), id="leaves-in-full"),
        pytest.param(table(identity="d"), ("id",), id="default"),
        pytest.param(table(identity="n"), ("id",), id="nothing"),
    ],
)
def test_both_roads_know_rows_by_the_same_key(there, expected):
    known, _catalog = relations(there)
    keyset = Keyset((KeyColumn("id", "int4"),))
    known.codecs({1: definition(there, 1)}, {1})
    known.adopt(ReadTable(there, keyset, keyset))

    streamed = known.codecs({1: definition(there, 1)}, {1}).codecs[1]
    read = known.codec(relation_of(there), there)
    for codec in (streamed, read):
        assert tuple(codec.columns[at] for at in codec.merge_key) == expected


def test_a_table_that_is_gone_has_no_key():
    known, _catalog = relations()
    gone = replace(relation_of(table(identity="f")), oid=9)

    assert known.codec(gone, None).merge_key == ()
