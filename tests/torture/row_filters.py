"""Row filters of a history's publication: as SQL, and as the judge applies them to entries of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from tests.torture.tables import TableShape
    from tests.torture.truth import Entry, Row


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows are published unless this column is divisible by four; the log has it of all rows that change."""

    column: str

    @property
    def condition(self) -> str:
        """As SQL."""
        return f"{self.column} % 4 <> 0"

    def shows(self, row: Row) -> bool:
        """Whether such a row is published."""
        return int(row[self.column] or 0) % 4 != 0

    def published(self, entry: Entry) -> Entry | None:
        """What is published of a change: an update may be the row's insert or delete; None: nothing."""
        if entry.op not in {"c", "u", "d"}:
            return entry
        # Where the log has no old row, the column did not change.
        old = {**entry.new, **entry.old}
        was = entry.op != "c" and self.shows(old)
        stays = entry.op != "d" and self.shows(entry.new)
        if was and stays:
            return entry
        if stays:
            known = {
                name: entry.old.get(name, value) if value == UNCHANGED else value
                for name, value in entry.new.items()
            }
            return replace(entry, op="c", old={}, new=known)
        return replace(entry, op="d", new={}) if was else None


FILTERS = {"key": RowFilter("k"), "version": RowFilter("ver")}
"""By name. A version is in the log of the row before under REPLICA IDENTITY FULL alone."""


def where(shape: TableShape) -> str:
    """The clause that leaves a table its published rows; empty: all of them."""
    return f" WHERE ({FILTERS[shape.filter].condition})" if shape.filter else ""
