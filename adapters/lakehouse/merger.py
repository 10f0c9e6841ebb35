"""Merges the turns that wait in the journal into the lake's tables, group by group.

    journal     41 | 42 43 44 45 | 46 47 …      group: 42 to 45
    orders          ── one merge ──► turn 45     a crash here: orders has 45, items has 41
    items           ── one merge ──► turn 45     the next start merges 42 to 45 into items, and goes on

All changes of a key in a group become one before the merge, so a table costs one write a group, however many
turns it has. While a group is merged, the next one gathers.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from adapters.jdbc.folding.fold import Fold
from adapters.jdbc.folding.turn_events import PlacedBatch, TurnEvents
from adapters.lake.row_columns import changes_in, columns_of, source_of
from adapters.lakehouse.batch import key_columns, replica_batch, table_columns, with_removals
from adapters.lakehouse.port import NewTable
from adapters.lakehouse.removal import removal_of
from adapters.lakehouse.settings import TableMode
from adapters.lakehouse.tables.history import history_batch, history_columns
from adapters.lakehouse.tables.schema import Evolution, Rules, plan_evolution
from engine.config.sinks.settings import TopicRecreated
from engine.errors import SinkError, SinkRefused, TopicRemade

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from adapters.jdbc.placeholders import Placeholders
    from adapters.lake.table_name import TableName, TableNaming
    from adapters.lakehouse.journal import Journal, WaitingEvents
    from adapters.lakehouse.port import Batch, LakeTables, TableDescription
    from adapters.lakehouse.settings import LakeSettings

_log = logging.getLogger("adapters")
MOST_BYTES: Final = 128 << 20
"""The most bytes of a group's parts, unless its first turn alone has more."""
_ONE_START: Final = "set tidemark.sink.topic.recreated=snapshot for one start, which takes one, or =warn"
_LACKS: Final = "lacks: "
"""Begins what is noted of a table, in place of its id, until the job has saved what it lacks."""


@dataclass(slots=True)
class TableEvents:
    """The events of a table in a group, the turn of each batch, their topics, and keys to be deleted."""

    batches: list[PlacedBatch] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    removed: list[pa.RecordBatch] = field(default_factory=list)


class Merger:
    """Merges in one thread.

    Others may read `remade`: what topics lack in their tables, until the job has saved it.
    """

    def __init__(
        self,
        journal: Journal,
        tables: LakeTables,
        settings: LakeSettings,
        naming: TableNaming,
        placeholders: Placeholders,
    ) -> None:
        self._journal, self._tables, self._settings, self._naming = journal, tables, settings, naming
        self._rules = Rules(settings.evolution, settings.type_change, tables.widens)
        self.placeholders = placeholders
        self._known: dict[TableName, TableDescription] = {}
        self._ids = journal.tables
        self._lacking: set[TableName] = set()
        self.remade: dict[str, TopicRemade] = {}
        self._telling = threading.Lock()

    def step(self) -> bool:
        """Merge the next group, if there is one; returns whether there was.

        Raises SinkError, LeaseLost if another job has taken over, and StateError.
        """
        upto = self._journal.group(MOST_BYTES)
        if upto is None:
            return False
        self._journal.check_lease()
        tables = gather_events(self._journal.batches(upto), self._naming)
        try:
            for name in sorted(tables):
                self._merge(name, tables[name], upto)
        except BaseException:
            self._known = {}
            raise
        self._journal.finish(upto)
        return True

    def note_saved(self, told: Mapping[str, TopicRemade]) -> None:
        """Note that the job has saved what it was told of these topics. Called by the job's thread."""
        with self._telling:
            for topic, remade in told.items():
                if self.remade.get(topic) is remade:  # there may be something newer to tell
                    del self.remade[topic]

    def waiting_bytes(self) -> int:
        """The size of all that is to be merged."""
        return sum(turn.bytes for turn in self._journal.waiting())

    def tend(self) -> None:
        """Tend all tables that this process has written."""
        for name in sorted(self._known):
            self._journal.check_lease()
            self._tables.tend(name, self._settings.retention_s)

    def _merge(self, name: TableName, gathered: TableEvents, upto: int) -> None:
        found = self._look_again(name) or self._look_first(name, gathered, upto)
        if found is not None and found.turn is not None and found.turn >= upto:
            self._known[name] = found
            return
        if found is None and not gathered.batches:
            return  # what is missing has no row that could be deleted
        try:
            batch = self._batch(gathered)
            found, evolution = self._fitting(name, found, batch, gathered)
        except SinkRefused as error:
            self._leave_out(name, gathered, error)
            return
        self._journal.check_lease()
        if self._settings.mode is TableMode.APPEND:
            self._tables.append(name, batch.renamed(evolution.renamed).rows, upto)
        else:
            self._tables.write(name, batch.renamed(evolution.renamed), upto)
        self._known[name] = replace(found, turn=upto)

    def _batch(self, gathered: TableEvents) -> Batch:
        if self._settings.mode is TableMode.APPEND:
            return history_batch(gathered.batches, gathered.turns)
        batch = None
        if gathered.batches:
            batch = replica_batch(Fold(TurnEvents(gathered.batches), self.placeholders))
        return with_removals(batch, gathered.removed) if batch is None or gathered.removed else batch

    def _leave_out(self, name: TableName, gathered: TableEvents, error: SinkRefused) -> None:
        """Leave a group's changes out of a table that can't take them, so that all other tables go on.

        They are committed, so their turns can't be begun anew without them. The table counts as incomplete.
        That is noted here until the job has saved it, so that no crash hides it.
        """
        reason = f"can't take some changes: {error.message}"
        if self._settings.recreated is TopicRecreated.STOP:
            raise SinkRefused(f"the table {reason}", where=str(name), hint=_ONE_START) from error
        _log.error("%s: the table %s; it is incomplete, and other tables go on", name, reason)
        self._ids[str(name)] = _LACKS + reason
        self._journal.note_tables(self._ids)
        self._known.pop(name, None)
        self._lacking.add(name)
        self._tell(name, gathered, reason)

    def _look_again(self, name: TableName) -> TableDescription | None:
        """A table that this process knows, as it is now; None if it is none, or not the same."""
        known = self._known.get(name)
        found = None if known is None else self._tables.look(name)
        return found if found is not None and known is not None and found.id == known.id else None

    def _look_first(self, name: TableName, gathered: TableEvents, upto: int) -> TableDescription | None:
        """A table that this process meets for the first time, or again after a failure."""
        found = self._tables.look(name)
        known = self._ids.get(str(name))
        if known is not None and known.startswith(_LACKS):
            # An earlier process may have ended before the job saved it.
            if name not in self._lacking:
                self._tell(name, gathered, known.removeprefix(_LACKS))
        elif known is not None and (found is None or found.id != known):
            self._note_replaced(name, gathered, "was dropped" if found is None else "was replaced by another")
        elif found is not None and found.turn is not None and self._is_foreign(found.turn, upto):
            raise SinkRefused(
                f"the table has turns up to {found.turn}, and the job merges turns up to {upto} behind"
                f" {self._journal.merged}",
                where=str(name),
                hint="was the checkpoint restored? use an empty one, which takes a new snapshot",
            )
        return found

    def _is_foreign(self, turn: int, upto: int) -> bool:
        """Whether a table has a turn that no crash leaves: the group that was begun ends with another one.

        journal of this job    1 2 3 | 4 5 6 7 8    the group 4 to 8
        table                  ≤ 3, or 8            merged before, or before the crash
        table                  6                    merged by a job that went on from a checkpoint
                                                    which was restored since
        """
        return turn > self._journal.merged and turn != upto

    def _note_replaced(self, name: TableName, gathered: TableEvents, how: str) -> None:
        """Go on with another table, or stop. The topics' tables count as incomplete."""
        if self._settings.recreated is TopicRecreated.STOP:
            raise SinkRefused(
                f"the table {how}, and what was written before is lost", where=str(name), hint=_ONE_START
            )
        self._tell(name, gathered)

    def _tell(self, name: TableName, gathered: TableEvents, why: str = "") -> None:
        """Let the job hear that a table lacks changes, with the next of its events."""
        snapshot = self._settings.recreated is TopicRecreated.SNAPSHOT
        what = f"the table {name}"
        with self._telling:
            for topic in gathered.topics:
                self.remade[topic] = TopicRemade(topic, snapshot=snapshot, what=what, why=why)

    def _fitting(
        self, name: TableName, found: TableDescription | None, batch: Batch, gathered: TableEvents
    ) -> tuple[TableDescription, Evolution]:
        """The table with all columns that a batch has, created if it is missing."""
        wanted = {column.name: self._tables.column_type(column.type) for column in batch.columns}
        evolution = plan_evolution({} if found is None else found.columns, wanted, batch.key, self._rules)
        if found is None:
            topics = ", ".join(sorted(gathered.topics))
            table = NewTable(
                wanted,
                batch.key,
                f"kept by Tidemark from {topics}",
                self._settings.properties,
                self._settings.partitions.get(str(name), ""),
                self._settings.clusters.get(str(name), ""),
            )
            self._tables.create(name, table)
            _log.info("%s: created", name)
            found = self._tables.look(name)
            if found is None:
                raise SinkError("the table is missing, though it was created", where=str(name))
        elif evolution.added or evolution.widened:
            self._tables.alter(name, evolution.added, evolution.widened)
            _log.info("%s: changed columns: %s", name, {**evolution.added, **evolution.widened})
            _tell_of_renames(name, found, wanted, evolution)
            found = replace(found, columns=evolution.after(found.columns))
        # Until the job has saved it, the next process finds another table than it knows, and tells it.
        saved = self.remade.keys().isdisjoint(gathered.topics)
        if saved and self._ids.get(str(name)) != found.id:
            self._ids[str(name)] = found.id
            self._journal.note_tables(self._ids)
        self._known[name] = found
        return found, evolution


def _tell_of_renames(
    name: TableName, found: TableDescription, wanted: Mapping[str, str], evolution: Evolution
) -> None:
    """A log does not say that a column was renamed: one is gone, and another one is new."""
    named = {column.lower() for column in wanted} | {column.lower() for column in evolution.renamed.values()}
    gone = [column for column in found.columns if column.lower() not in named]
    if gone and evolution.added:
        _log.warning(
            "%s: %s came, and nothing writes %s; if one was renamed, a snapshot of the source's table brings"
            " the values of rows that nobody changes",
            name,
            ", ".join(evolution.added),
            ", ".join(gone),
        )


def gather_events(waiting: Iterator[WaitingEvents], naming: TableNaming) -> dict[TableName, TableEvents]:
    """Gather change events, and keys to be deleted, by the tables that they belong to."""
    found: dict[TableName, TableEvents] = {}
    for turn, part, topic, batch in waiting:
        if (removal := removal_of(batch)) is not None:
            found.setdefault(removal.table, TableEvents()).removed.append(removal.keys)
            continue
        events = changes_in(batch)
        if events.num_rows:
            table = found.setdefault(naming.table(topic, source_of(events)), TableEvents())
            table.batches.append(PlacedBatch(part, events))
            table.turns.append(turn)
            table.topics.add(topic)
    return found


class Admission:
    """Refuses events that the tables can't take, before their turn is committed."""

    def __init__(self, tables: LakeTables, settings: LakeSettings) -> None:
        self._tables, self._mode = tables, settings.mode
        self._rules = Rules(settings.evolution, settings.type_change, tables.widens)
        self._columns: dict[TableName, dict[str, str]] = {}
        self._admitted: dict[TableName, pa.Schema] = {}

    def admit(self, name: TableName, events: pa.RecordBatch) -> None:
        """Raise SinkRefused if a table can't have events under this schema."""
        if self._admitted.get(name) == events.schema:
            return
        columns, key = _wanted(events, self._mode)
        wanted = {column.name: self._tables.column_type(column.type) for column in columns}
        if name not in self._columns:
            found = self._tables.look(name)
            self._columns[name] = {} if found is None else dict(found.columns)
        change = plan_evolution(self._columns[name], wanted, key, self._rules)
        self._columns[name] = change.after(self._columns[name])
        self._admitted[name] = events.schema

    def forget(self) -> None:
        """Look at all tables anew."""
        self._columns, self._admitted = {}, {}


def _wanted(events: pa.RecordBatch, mode: TableMode) -> tuple[pa.Schema, tuple[str, ...]]:
    if mode is TableMode.APPEND:
        return history_columns(events), ()
    columns = columns_of(events)
    return table_columns(columns), key_columns(columns)
