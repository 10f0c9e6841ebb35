"""The tables' codecs while the job runs, built once per table shape. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.source.log.table_faults import noting_faults
from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.log.entries import instance_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adapters.sqlserver.log.capture_instances import Instances
    from adapters.sqlserver.log.entries import Instance
    from adapters.sqlserver.server.table import Table
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings
    from engine.events.values.row_form import RowMode
    from engine.model import CollectionId

_KEPT = 1_000


class Codecs:
    """Builds codecs from the events' settings and caches them. `signals` are the signal tables."""

    def __init__(self, events: EventSettings, signals: Collection[CollectionId] = ()) -> None:
        self._events, self._signals = events, frozenset(signals)
        self._made: dict[tuple[Table, tuple[str, ...]], TableCodec] = {}

    def codec(self, table: Table, merge_key: tuple[str, ...] = ()) -> TableCodec:
        """The codec of a table. `merge_key` defaults to the table's key."""
        found = self._made.get((table, merge_key))
        if found is None:
            if len(self._made) >= _KEPT:
                self._made.clear()
            found = codec_for(table, self._events, merge_key=merge_key, signal=table.id in self._signals)
            self._made[table, merge_key] = found
        return found

    def instances(
        self,
        known: Instances,
        modes: Mapping[int, RowMode],
        merges: Mapping[CollectionId, tuple[str, ...]],
        aside: Collection[CollectionId] = (),
    ) -> tuple[dict[int, Instance], dict[CollectionId, str]]:
        """The instances of a span by index, with codecs and modes; and why some tables can't be decoded.

        `merges` are the merge keys of tables that a snapshot is reading. Tables in `aside` are left out.
        """
        faults: dict[CollectionId, str] = {}
        made: dict[int, Instance] = {}
        for index, mode in modes.items():
            table = known.tables[known.captures[index].name]
            if table.id not in aside:
                with noting_faults(faults, table.id):
                    made[index] = instance_of(table, self.codec(table, merges.get(table.id, ())), mode)
        return made, faults
