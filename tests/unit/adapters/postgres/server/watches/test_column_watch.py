"""Which new columns are told, when, and what is kept of them in the state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.server.publication import Share
from adapters.postgres.server.questions.layouts import AddedColumn
from adapters.postgres.server.watches.column_watch import ColumnWatch
from engine.model import Arrival, CollectionId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))
NAMES = {1: T, 2: U}


class Catalog:
    """A catalog of tables 1 and 2, each with a column `id`, and what is asked of it."""

    def __init__(self) -> None:
        self.columns: dict[int, list[AddedColumn]] = {
            1: [AddedColumn("id", generated=False)],
            2: [AddedColumn("id", generated=False)],
        }
        self.shares = {1: Share(None, None, ""), 2: Share(None, None, "")}
        self.now_s = 0.0
        questions: Any = SimpleNamespace(layouts=self, publications=None)
        publication: Any = SimpleNamespace(
            shares=lambda _asked, oids: {oid: self.shares[oid] for oid in oids}
        )
        self.watch = ColumnWatch(
            questions, publication, lambda _table, name: name != "hidden", lambda: self.now_s
        )

    def widths(self, oids: Sequence[int]) -> dict[int, int]:
        return {oid: len(self.columns[oid]) for oid in oids}

    def widths_digest(self) -> str:
        return str(self.widths(list(self.columns)))

    def added(self, widths: Mapping[int, int]) -> dict[int, list[AddedColumn]]:
        """All columns here have defaults, except those named `bare`."""
        found = {
            oid: [column for column in self.columns[oid][width:] if column.name != "bare"]
            for oid, width in widths.items()
        }
        return {oid: columns for oid, columns in found.items() if columns}

    def names(self, oids: Sequence[int]) -> dict[int, CollectionId]:
        return {oid: NAMES[oid] for oid in oids}

    def add(self, oid: int, name: str, *, generated: bool = False) -> None:
        self.columns[oid].append(AddedColumn(name, generated))

    def look(self, times: int = 1) -> list[Arrival]:
        """What is told by so many looks, five seconds apart."""
        for _ in range(times):
            self.watch.look(list(self.columns))
            self.now_s += 5
        return self.watch.take_appeared()


@pytest.fixture
def catalog() -> Catalog:
    found = Catalog()
    found.watch.begin(None, [1, 2])
    assert not found.look(3)
    return found


def test_a_column_is_told_once_two_looks_agree(catalog):
    catalog.add(1, "c")

    assert [catalog.look(), catalog.look(), catalog.look(2)] == [[], [Arrival(T, columns=("c",))], []]


def test_a_burst_is_told_when_it_is_over(catalog):
    told = []
    for name in "cdef":
        catalog.add(1, name)
        told += catalog.look()

    assert not told
    assert catalog.look(2) == [Arrival(T, columns=("c", "d", "e", "f"))]


def test_it_looks_every_five_seconds(catalog):
    catalog.look()
    catalog.add(1, "c")
    catalog.now_s -= 5

    assert not catalog.look()


@pytest.mark.parametrize("name", ["bare", "hidden"])
def test_a_column_without_a_default_or_that_is_left_out_is_not_told(catalog, name):
    catalog.add(1, name)
    catalog.add(2, "c")

    assert catalog.look(2) == [Arrival(U, columns=("c",))]


@pytest.mark.parametrize(
    ("listed", "told"),
    [(None, ["d"]), (("id", "c"), ["c"]), (("id", "c", "d"), ["c", "d"]), (("id",), [])],
)
def test_only_published_columns_are_told(catalog, listed, told):
    catalog.shares[1] = Share(listed, None, "")
    catalog.add(1, "c", generated=True)
    catalog.add(1, "d")

    assert [name for found in catalog.look(2) for name in found.columns] == told


def test_what_is_saved_lacks_a_column_until_it_is_told(catalog):
    catalog.add(1, "c")
    catalog.look()
    before = catalog.watch.saved
    catalog.look()

    assert (before, catalog.watch.saved) == ({"1": [1, 2]}, {"1": [2], "2": [1]})


def test_a_column_added_while_no_job_ran_is_told(catalog):
    saved = catalog.watch.saved
    catalog.add(2, "c")
    catalog.watch.begin(saved, [1, 2])

    assert catalog.look(2) == [Arrival(U, columns=("c",))]


def test_a_table_that_is_new_has_no_new_columns(catalog):
    catalog.watch.begin({"1": [1]}, [1, 2])
    catalog.add(2, "c")

    assert not catalog.look(2)
