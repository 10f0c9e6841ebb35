"""The judge of documents: the same sentence as for rows, and what is otherwise on MongoDB.

Drops and renames are no events; they are followed where the stream comes to them. An update brings the
document as it stood when it was looked up: as the update left it, or as a later change did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.strict_json import value_of
from tests.torture.documents import canonical, read_canonical
from tests.torture.oracle import Key, Oracle, Table, Violation
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.torture.emitted import Emitted
    from tests.torture.truth import Entry, Row

DROPPED, RENAMED, HIDDEN = "t", "n", "h"
_SILENT = frozenset({DROPPED, RENAMED, HIDDEN})
"""Entries that no event tells of; hidden ones are documents of collections that are not captured."""


@dataclass(slots=True)
class DocumentOracle(Oracle):
    """`looks_up`: whether updates bring documents."""

    looks_up: bool = True
    hidden: dict[str, dict[Key, Row]] = field(default_factory=dict)

    def known_tables(self, entry: Entry) -> list[Entry]:
        """Each entry as it is."""
        return [entry]

    def precede(self, entries: Iterable[Entry]) -> None:
        """Go on with what was committed before the job's log began."""
        for entry in entries:
            if entry.op in _SILENT:
                self._follow_silently(entry)
            else:
                Oracle.precede(self, [entry])

    def left(self) -> list[Entry]:
        """The entries that an event should have told of."""
        self._come_to_an_event()
        return self.ahead

    def take_in(self, event: Emitted) -> None:
        """Go on with one event."""
        if event.op == "r":
            while not self._stands(event) and self.ahead and self.ahead[0].op in _SILENT:
                self._follow_silently(self.ahead.pop(0))
        else:
            self._come_to_an_event()
        Oracle.take_in(self, event)

    def _stands(self, event: Emitted) -> bool:
        after, table = event.after or {}, self._table(event.table)
        return table.rows.get(table.key_of(after)) == after

    def _come_to_an_event(self) -> None:
        while self.ahead and self.ahead[0].op in _SILENT:
            self._follow_silently(self.ahead.pop(0))

    def _follow_silently(self, entry: Entry) -> None:
        if entry.op == HIDDEN:
            (name,) = entry.tables
            self.hidden.setdefault(name, {})[(entry.new["_id"],)] = entry.new
            return
        rows = self._emptied(entry.tables[0])
        if entry.op == RENAMED:
            self._emptied(entry.tables[1])
            self._arrive(entry.tables[1], rows)

    def _emptied(self, name: str) -> dict[Key, Row]:
        """Nobody tells a consumer; who knows of it throws its copy away. Gives the documents."""
        table = self.tables.get(name)
        if table is None:
            return self.hidden.pop(name, {})
        rows, table.rows = table.rows, {}
        table.copy.clear()
        table.arrived.clear()
        return rows

    def _arrive(self, name: str, rows: dict[Key, Row]) -> None:
        table = self.tables.get(name)
        if table is None:
            self.hidden[name] = rows
            return
        table.rows = rows
        table.arrived |= rows.keys()

    # Changes.

    def _changed(self, entry: Entry, first: Emitted, second: Emitted) -> None:
        table = self._table(entry.tables[0])
        stood = table.rows.get((entry.old.get("_id", entry.new.get("_id")),), {})
        self._before(stood, second)
        Oracle._changed(self, entry, first, second)

    @staticmethod
    def _before(stood: Row, event: Emitted) -> None:
        told = (event.before or {}).get("doc")
        if told is not None and told != stood.get("doc"):
            raise Violation(f"{event.table}: before is {told!r}, the document was {stood.get('doc')!r}")

    def _copy(self, table: Table, entry: Entry, _first: Emitted, second: Emitted, /) -> None:
        key = table.key_of({**entry.new, **entry.old})
        told = table.key_of({**(second.before or {}), **(second.after or {})})
        if told != key:
            raise Violation(f"the log goes on with {key!r} of {table.name}, emitted was {told!r}")
        kept = table.copy.pop(key, None)
        if entry.op == "d":
            return
        text = (second.after or {}).get("doc")
        if second.described is None or self.looks_up:
            self._is_a_version(entry, key, text, exactly=second.described is None)
        elif text is not None:
            raise Violation(f"an update of {table.name} brings a document, which nobody asked for")
        else:
            text = _updated(kept, second.described)
        table.copy[key] = {"_id": key[0], "doc": UNCHANGED if text is None else text}

    def _is_a_version(self, entry: Entry, key: Key, text: str | None, *, exactly: bool) -> None:
        """The document is the one of this entry, or if it was looked up of a later one."""
        if text == entry.new["doc"]:
            return
        mine = list(self._later(entry.tables[0], key[0]))
        gone = text is None and any(one.op in {"d", DROPPED, RENAMED} for one in mine)
        if exactly or not (gone or any(text == one.new.get("doc") for one in mine)):
            raise Violation(
                f"document {key!r} of {entry.tables[0]}: the log has {entry.new['doc']!r:.300},"
                f" emitted was {text!r:.300}"
            )

    def _later(self, name: str, key: str | None) -> Iterator[Entry]:
        """What becomes of a document, also where its collection is renamed: it is looked up by that."""
        names = {name}
        for entry in self.ahead:
            if not names.intersection(entry.tables):
                continue
            if entry.op == RENAMED and entry.tables[0] in names:
                names.add(entry.tables[1])
            if entry.op in _SILENT or key in {entry.new.get("_id"), entry.old.get("_id")}:
                yield entry


def _updated(kept: Row | None, described: Any) -> str | None:
    """What a consumer makes of an update's description; None if it doesn't know the document."""
    if kept is None or kept["doc"] in {None, UNCHANGED}:
        return None
    found = read_canonical(kept["doc"] or "")
    for truncated in described["truncatedArrays"] or ():
        place, last = _place(found, truncated["field"])
        del place[last][truncated["size"] :]
    for name in described["removedFields"] or ():
        place, last = _place(found, name)
        place.pop(last, None)
    for name, value in value_of(described["updatedFields"] or "{}").items():
        place, last = _place(found, name)
        if isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return canonical(found)


def _place(found: Any, path: str) -> tuple[Any, Any]:
    *outer, last = path.split(".")
    for name in outer:
        found = found[int(name) if isinstance(found, list) else name]
    return found, int(last) if isinstance(found, list) else last
