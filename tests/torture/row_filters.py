"""Row filters of a history's publication: as SQL, and as the judge applies them to log entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from tests.torture.tables import TableShape
    from tests.torture.truth import Entry, Row


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Publishes rows unless this column is divisible by four. The log has the column for all changed rows."""

    column: str

    @property
    def condition(self) -> str:
        """The filter as SQL."""
        return f"{self.column} % 4 <> 0"

    def shows(self, row: Row) -> bool:
        """Whether such a row is published."""
        return int(row[self.column] or 0) % 4 != 0

    def published(self, entry: Entry) -> Entry | None:
        """How a change is published: an update may become an insert or a delete; None: not at all."""
        if entry.op not in {"c", "u", "d"}:
            return entry
        # If the log has no old row, the column did not change.
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
"""By name. The log has the old row's version only under REPLICA IDENTITY FULL."""


def where(shape: TableShape) -> str:
    """The WHERE clause for a table's published rows; empty if all are."""
    return f" WHERE ({FILTERS[shape.filter].condition})" if shape.filter else ""
