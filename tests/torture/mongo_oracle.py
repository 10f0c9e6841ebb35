"""The judge of documents: the same rule as for rows, with MongoDB's differences.

Drops and renames are not events; the oracle applies them where the stream reaches them. An update brings the
document as it was when it was looked up: as the update left it, as a later change did, or not at all if it
does not fit into an event. Consumers identify documents by the keys of events, in which 1 and 1.0 differ. So
a document whose id is rewritten must be deleted under the old id.

A document whose content no event has had (it came by a rename, or did not fit) is *lacking*, until an event
or a row read brings it. A completed snapshot must have brought it. If documents are lacking because of a
rename, the job must report that.

Changes of a collection that the job has set aside need no events. Its changed documents are lacking, and
consumers keep documents that were deleted meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.strict_json import value_of
from tests.torture.documents import GIANT, canonical, read_canonical
from tests.torture.oracle import Key, Oracle, Table, Violation
from tests.torture.truth import UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.torture.emitted import Emitted
    from tests.torture.truth import Entry, Row

DROPPED, RENAMED, HIDDEN = "t", "n", "h"
_SILENT = frozenset({DROPPED, RENAMED, HIDDEN})
"""Entries without events. Hidden ones are documents of collections that are not captured."""
_LATER = 1 << 60
"""After every turn so far."""


@dataclass(slots=True)
class Documents(Table):
    """A collection. `kind` is that of its ids."""

    kind: str = ""

    @staticmethod
    def ordinal_of(row: Mapping[str, str | None]) -> int:
        """The ordinal by which writers know the document, -1 if it has none."""
        return int(read_canonical(row.get("doc") or "{}").get("n", -1))


@dataclass(slots=True)
class DocumentOracle(Oracle):
    """The judge of documents. `looks_up` says whether updates bring documents."""

    looks_up: bool = True
    moved_op: str = "u"
    hidden: dict[str, dict[Key, Row]] = field(default_factory=dict)
    turn: int = 0

    def known_tables(self, entry: Entry) -> list[Entry]:
        """Each entry as it is."""
        return [entry]

    def precede(self, entries: Iterable[Entry]) -> None:
        """Apply what was committed before the job's log began."""
        preceding = list(entries)
        if not preceding:
            return  # the log has begun; what has arrived since is still to be read
        for entry in preceding:
            if entry.op in _SILENT:
                self._follow_silently(entry)
            else:
                Oracle.precede(self, [entry])
        for table in self.tables.values():
            table.arrived.clear()
            table.lacking.clear()

    def left(self) -> list[Entry]:
        """The entries that should have had an event."""
        self.turn = _LATER
        self._come_to_an_event(None)
        return self.ahead

    def take_in(self, event: Emitted) -> None:
        """Process one event."""
        self.turn = event.turn
        if self.sends_away(event):
            self.events += 1
            return
        if event.op == "r":
            while not self._stands(event) and self._follows_untold(event):
                pass
        elif self.half is None:
            self._come_to_an_event(event)
        Oracle.take_in(self, event)

    def _stands(self, event: Emitted) -> bool:
        after, table = event.after or {}, self._table(event.table)
        return table.rows.get(table.key_of(after)) == after

    def _come_to_an_event(self, event: Emitted | None) -> None:
        while self._follows_untold(event):
            pass

    def _follows_untold(self, event: Emitted | None) -> bool:
        """Apply the next entry if it needs no event and this is not its event; whether one was applied."""
        if not self.ahead:
            return False
        entry = self.ahead[0]
        if entry.op in _SILENT:
            self._follow_silently(self.ahead.pop(0))
            return True
        turn = self.aside.turn_of(entry.tables[0], entry.transaction)
        if turn is None or (event is not None and _tells(event, entry)):
            return False
        self._follow_aside(self.ahead.pop(0), turn)
        return True

    def _follow_aside(self, entry: Entry, turn: int) -> None:
        """Apply a change without an event, carried by this turn. A consumer's copy is stale from then on."""
        self.happened["changes of collections set aside"] += 1
        table = self._table(entry.tables[0])
        before = (entry.old.get("_id", entry.new.get("_id")),)
        table.rows.pop(before, None)
        table.lacking.pop(before, None)
        table.arrived.discard(before)
        stale = table.copy.pop(before, None)
        if entry.op == "d":
            return
        key = table.key_of(entry.new)
        table.rows[key] = entry.new
        table.arrived.add(key)
        table.lacking[key] = turn
        if stale is not None:
            table.copy[key] = {"_id": key[0], "doc": UNCHANGED}

    def _follow_silently(self, entry: Entry) -> None:
        if entry.op == HIDDEN:
            documents = self.hidden.setdefault(entry.tables[0], {})
            if entry.old:
                documents.pop((entry.old["_id"],), None)
            if entry.new:
                documents[(entry.new["_id"],)] = entry.new
            return
        rows = self._emptied(entry.tables[0])
        if entry.op == RENAMED:
            self._emptied(entry.tables[1])
            self._arrive(entry.tables[1], rows)

    def _emptied(self, name: str) -> dict[Key, Row]:
        """Empty a collection without events, as a consumer that knows of it would. Returns its documents."""
        table = self.tables.get(name)
        if table is None:
            return self.hidden.pop(name, {})
        rows, table.rows = table.rows, {}
        table.copy.clear()
        table.arrived.clear()
        table.lacking.clear()
        return rows

    def _arrive(self, name: str, rows: dict[Key, Row]) -> None:
        table = self.tables.get(name)
        if table is None:
            self.hidden[name] = rows
            return
        table.rows = rows
        table.arrived |= rows.keys()
        table.lacking |= dict.fromkeys(rows, self.turn)

    # Changes.

    def _changed(self, entry: Entry, first: Emitted, second: Emitted) -> None:
        table = self._table(entry.tables[0])
        before, after = entry.old.get("_id", entry.new.get("_id")), entry.new.get("_id", entry.old.get("_id"))
        if (first is not second) != (before != after):
            raise Violation(f"{table.name}: the key {before} becomes {after} in {first.op} and {second.op}")
        stood = table.rows.get((before,), {})
        for event in (first, second):
            self._before(stood, event)
        if table.key_of(first.before or {"_id": None}) != (before,):
            raise Violation(
                f"the log goes on with {before!r} of {table.name}, emitted was {first.before!r:.200}"
            )
        table.lacking.pop((before,), None)
        Oracle._changed(self, entry, first, second)

    @staticmethod
    def _before(stood: Row, event: Emitted) -> None:
        told = (event.before or {}).get("doc")
        if told is not None and told != stood.get("doc"):
            raise Violation(
                f"{event.table}: before is {told!r:.300}, the document was {stood.get('doc')!r:.300}"
            )

    def _copy(self, table: Table, entry: Entry, first: Emitted, second: Emitted, /) -> None:
        before = table.key_of({**entry.new, **entry.old})
        key = before if entry.op == "d" else table.key_of(entry.new)
        told = table.key_of({**(second.before or {}), **(second.after or {})})
        if told != key:
            raise Violation(f"the log goes on with {key!r} of {table.name}, emitted was {told!r}")
        kept = table.copy.pop(before, None)
        if entry.op == "d":
            return
        text = (second.after or {}).get("doc")
        if second.described is None or self.looks_up:
            self._is_a_version(entry, key, text, exactly=second.described is None)
        elif text is not None:
            raise Violation(f"an update of {table.name} brings a document, which nobody asked for")
        elif first is second:
            text = _updated(kept, second.described)
        if text is None and not self._goes(entry, key):
            table.lacking[key] = second.turn
        table.copy[key] = {"_id": key[0], "doc": UNCHANGED if text is None else text}

    def _is_a_version(self, entry: Entry, key: Key, text: str | None, *, exactly: bool) -> None:
        """Check that the document is this entry's version or, if it was looked up, a later one."""
        if text == entry.new["doc"]:
            return
        if text is None and not exactly and (self._goes(entry, key) or _is_giant(entry.new)):
            self.happened["events without room for a document"] += _is_giant(entry.new)
            return
        later = (later_entry.new.get("doc") for later_entry in self._later(entry.tables[0], key[0]))
        if exactly or text is None or text not in later:
            raise Violation(
                f"document {key!r} of {entry.tables[0]}: the log has {entry.new['doc']!r:.300},"
                f" emitted was {text!r:.300}"
            )

    def _goes(self, entry: Entry, key: Key) -> bool:
        """Whether the document is deleted later, or its collection dropped or renamed."""
        return any(
            later_entry.op in {"d", DROPPED, RENAMED} for later_entry in self._later(entry.tables[0], key[0])
        )

    def _later(self, name: str, key: str | None) -> Iterator[Entry]:
        """A document's later entries, followed through renames: it is looked up by its current collection."""
        names, keys = {name}, {key}
        for entry in self.ahead:
            if not names.intersection(entry.tables):
                continue
            if entry.op == RENAMED and entry.tables[0] in names:
                names.add(entry.tables[1])
            if entry.op in _SILENT:
                yield entry
            elif keys & {entry.new.get("_id"), entry.old.get("_id")}:
                keys |= {key for key in (entry.new.get("_id"), entry.old.get("_id")) if key is not None}
                yield entry

    # Rows read, and quiet points.

    def _read(self, event: Emitted) -> None:
        Oracle._read(self, event)
        table = self._table(event.table)
        table.lacking.pop(table.key_of_event(event.after or {}), None)
        kind = table.kind if isinstance(table, Documents) else ""
        self.happened["rows read under ids that are no JSON"] += kind == "raw"
        self.happened["rows of capped collections read by initial snapshots"] += (
            kind == "capped" and event.snapshot != "incremental"
        )

    def _known(self, table: Table) -> set[Key]:
        """As for rows, but documents that came by a rename may be missing if the job reports so."""
        known = set(table.rows) if table.whole else set(table.rows) & table.touched
        arrived = table.arrived & table.rows.keys()
        told = {key for key in arrived if table.name in self.incomplete and self._may_lack(table, key)}
        return (known | arrived) - told

    def _may_lack(self, table: Table, key: Key) -> bool:
        """Whether no snapshot should have brought the document: all ended before, or read it.

        The turn is no earlier than the one in which the lack began, so this errs in the job's favour.
        """
        since = table.lacking.get(key)
        return since is not None and all(
            since > last or _read_in(table, key, first, last) for first, last in table.finished
        )


def _read_in(table: Table, key: Key, first: int, last: int) -> bool:
    turns = table.read_in.get(key, ())
    return any(first <= turn <= last for turn in turns) or (not first and table.first_reads[key] > 0)


def time_of(position: Sequence[Any]) -> int:
    """The cluster time that begins a resume token, as one number."""
    return int(str(position[0])[2:18], 16)


def _tells(event: Emitted, entry: Entry) -> bool:
    """Whether this event may be the entry's."""
    if (event.op == "r") or (event.table, event.transaction) != (entry.tables[0], entry.transaction):
        return False
    return (event.before or {}).get("_id") in {entry.old.get("_id"), entry.new.get("_id")}


def _is_giant(row: Row) -> bool:
    return len(row.get("doc") or "") > GIANT


def _updated(kept: Row | None, described: Any) -> str | None:
    """What a consumer makes of an update description; None if it does not know the document."""
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
