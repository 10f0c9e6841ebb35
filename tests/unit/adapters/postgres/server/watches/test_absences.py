"""What the catalog shows of tables that the log left out for a while."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from adapters.postgres.server.questions.publications import UserTable, UserTables
from adapters.postgres.server.watches.absences import attached, other_tables, reattached, renamed
from adapters.postgres.server.watches.membership import Members
from engine.isolation.incomplete import Cause
from engine.model import CollectionId

ROOT, LEAF, OTHER = 1, 2, 3
BEFORE, NOW = "900:900:", "1000:1000:"
_ANCIENT: Final = 1000 + 2**31 - 50
"""So long ago that it looks like a transaction to come."""


def relation(oid: int, name: str, *, parent: int = 0, typed: int = 700, linked: int = 0) -> UserTable:
    """A table that was created long ago."""
    names = CollectionId(("public", name))
    return UserTable(oid, names, parent, 10, typed, linked, unchanged=True, born_as_partition=False)


def relations(*found: UserTable, visible: str = NOW) -> UserTables:
    return UserTables({each.oid: each for each in found}, visible)


def members(seen: UserTables, *oids: int) -> Members:
    return Members.of({oid: f"16500 740 {oid} 741" for oid in oids}, seen)


class TestLeft:
    def reasons(self, before: UserTables, now: UserTables, *, inherits: bool = True) -> dict[int, str]:
        found = {LEAF} if inherits else ()
        returned = reattached(members(before, LEAF), members(now, LEAF), now, lambda: found)
        return renamed(before, [LEAF], now) | returned

    def test_a_partition_that_was_detached_and_attached_again(self):
        root = relation(ROOT, "r")
        before = relations(root, relation(LEAF, "p", parent=ROOT, linked=800), visible=BEFORE)
        now = relations(root, relation(LEAF, "p", parent=ROOT, linked=950))

        assert "attached again" in self.reasons(before, now)[LEAF]
        assert not self.reasons(before, now, inherits=False)
        assert not self.reasons(before, before)

    def test_one_whose_parent_was(self):
        leaf = relation(LEAF, "p", parent=OTHER, linked=800)
        before = relations(leaf, relation(OTHER, "o", parent=ROOT, linked=800), visible=BEFORE)
        now = relations(leaf, relation(OTHER, "o", parent=ROOT, linked=950))

        assert "attached again" in self.reasons(before, now)[LEAF]

    def test_a_link_from_so_long_ago_that_ids_can_not_be_compared(self):
        found = [relation(LEAF, "p", parent=ROOT, linked=_ANCIENT, typed=_ANCIENT)]

        assert not self.reasons(relations(*found, visible=BEFORE), relations(*found))

    def test_a_table_that_was_renamed_and_renamed_back(self):
        before = relations(relation(LEAF, "p"), visible=BEFORE)
        back = relation(LEAF, "p", typed=950)

        assert "renamed back" in self.reasons(before, relations(back))[LEAF]
        assert not self.reasons(before, relations(replace(back, owner=11)))
        assert not self.reasons(relations(visible=BEFORE), relations(back))


class TestAttached:
    def reasons(self, part: UserTable, *, empty: bool = False) -> dict[int, str]:
        before, now = relations(relation(ROOT, "r"), visible=BEFORE), relations(relation(ROOT, "r"), part)
        return attached(members(before, ROOT), members(now, ROOT), now, lambda _oid: empty)

    def test_a_partition_with_rows(self):
        part = relation(LEAF, "p", parent=ROOT, linked=950)

        assert self.reasons(part) == {
            ROOT: "partitions were attached whose rows are not in the log: public.p"
        }
        assert not self.reasons(part, empty=True)

    def test_one_that_was_created_as_a_partition_or_had_been_there(self):
        part = relation(LEAF, "p", parent=ROOT, linked=950)

        assert not self.reasons(replace(part, born_as_partition=True))
        assert not self.reasons(replace(part, linked=850))


class TestOtherTables:
    def found(self, now: UserTables, *published: int) -> dict[CollectionId, Cause]:
        before = relations(relation(ROOT, "r"), relation(LEAF, "p"), visible=BEFORE)
        lacking = other_tables(members(before, ROOT, LEAF), members(now, *published), now, "pub")
        return {name: cause for name, (cause, _why) in lacking.items()}

    def test_a_table_that_was_dropped_and_created_again(self):
        again = relations(relation(OTHER, "r"), relation(LEAF, "p"))

        assert self.found(again, LEAF) == {CollectionId(("public", "r")): Cause.GAP}
        assert self.found(again, LEAF, OTHER) == {CollectionId(("public", "r")): Cause.DELETIONS}

    def test_a_captured_table_that_took_the_name_of_another(self):
        swapped = relations(relation(ROOT, "old"), relation(LEAF, "r"))

        assert self.found(swapped, ROOT, LEAF) == {CollectionId(("public", "r")): Cause.GAP}

    def test_a_table_that_is_gone_or_renamed(self):
        assert not self.found(relations(relation(LEAF, "p")), LEAF)
        assert not self.found(relations(relation(ROOT, "new"), relation(LEAF, "p")), ROOT, LEAF)

    def test_a_state_keeps_the_names_of_tables_with_an_entry_of_their_own(self):
        seen = relations(relation(ROOT, "r"), relation(LEAF, "p"), visible=BEFORE)

        assert Members.from_json(members(seen, ROOT, LEAF).saved) == members(seen, ROOT, LEAF)
        shared = Members.of({ROOT: "16500 740", LEAF: "16500 740"}, seen)
        assert shared.saved["names"] == {}
