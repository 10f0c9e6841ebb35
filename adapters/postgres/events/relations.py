"""The codecs of the relations in the log and in windows, kept while they are valid.

A codec is built from the log's definition of a relation and the catalog's description of the table at that
moment. It is rebuilt whenever the server sends the definition again. If the catalog is ahead of the log, the
log's key is used. If the log does not show the key, the last known key is saved with the state. A key that
was changed while the log was not being read stops the job, because nobody knows where in the log it changed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.postgres.events.codec import codec_for
from adapters.postgres.events.columns.builtin_types import is_enum
from adapters.postgres.log.pgoutput import parse_relation
from adapters.postgres.server.table import as_logged, is_bag, merge_key, whole_row
from adapters.source.log.table_faults import noting_faults
from engine.errors import ConfigError, TableBusy
from engine.events.record.shaping import message_key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from adapters.postgres.log.assembler import Definition
    from adapters.postgres.server.questions.catalog import Catalog
    from adapters.postgres.server.table import PgType, Relation, Table
    from adapters.postgres.snapshot.eligibility import ReadTable
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings
    from engine.model import CollectionId

_log = logging.getLogger("adapters")
_DEFAULT = "d"
_UNCERTAIN = -1


@dataclass(frozen=True, slots=True)
class Codecs:
    """Codecs by oid, why other relations have none, and which relations are set aside."""

    codecs: Mapping[int, TableCodec]
    faults: Mapping[int, str]
    aside: frozenset[int]


class Relations:
    """Codecs by oid for one session of the log; None for a relation that is not captured.

    `keys` are the last known keys, by oid, of tables whose key the log does not show.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: EventSettings,
        captures: Callable[[str, str], bool],
    ) -> None:
        self.keys: dict[int, tuple[str, ...]] = {}
        self._catalog, self._settings, self._captures = catalog, settings, captures
        self._codecs: dict[int, tuple[int, TableCodec | None]] = {}
        self._surrogates: dict[int, tuple[str, ...]] = {}
        self.types: Mapping[int, PgType] = catalog.types()
        self.ids: dict[int, CollectionId] = {}
        self._names: dict[int, tuple[int, CollectionId]] = {}
        self._tables: dict[int, Table] = {}
        self._topics: dict[str, CollectionId] = {}
        self._warned: set[str] = set()

    def codecs(
        self,
        definitions: Mapping[int, Definition],
        wanted: Iterable[int],
        aside: Collection[CollectionId] = (),
    ) -> Codecs:
        """The wanted codecs under these definitions; builds new ones in a fixed number of queries.

        A relation that is set aside gets none, and neither does one whose codec can't be built.
        """
        definitions = {oid: definitions[oid] for oid in wanted if oid in definitions}
        set_aside = {
            oid for oid, definition in definitions.items() if aside and self._named(oid, definition) in aside
        }
        stale = {
            oid: definition
            for oid, definition in definitions.items()
            if oid not in set_aside and (oid not in self._codecs or self._codecs[oid][0] != definition.serial)
        }
        faults = self._build(stale) if stale else {}
        known = ((oid, self._codecs[oid][1]) for oid in definitions if oid not in set_aside | faults.keys())
        return Codecs({oid: codec for oid, codec in known if codec is not None}, faults, frozenset(set_aside))

    def _named(self, oid: int, definition: Definition) -> CollectionId:
        """The name that a definition gives to its relation."""
        known = self._names.get(oid)
        if known is None or known[0] != definition.serial:
            known = self._names[oid] = definition.serial, parse_relation(definition.message).id
            self.ids[oid] = known[1]
        return known[1]

    def _build(self, definitions: Mapping[int, Definition]) -> dict[int, str]:
        """Build codecs; returns why some can't be built."""
        relations = {oid: parse_relation(definition.message) for oid, definition in definitions.items()}
        captured = {
            oid: relation
            for oid, relation in relations.items()
            if self._captures(relation.namespace, relation.name)
        }
        tables, certain = self._described(list(captured)) if captured else ({}, True)
        self.learn_types(tables.values(), labels=any(oid in self._codecs for oid in tables))
        faults: dict[int, str] = {}
        for oid, definition in definitions.items():
            with noting_faults(faults, oid):
                self.ids[oid] = relations[oid].id
                codec = self._streamed(captured[oid], tables.get(oid)) if oid in captured else None
                self._codecs[oid] = (definition.serial if certain else _UNCERTAIN, codec)
        return faults

    def _streamed(self, relation: Relation, table: Table | None) -> TableCodec:
        """The codec of entries that the log has under this definition."""
        logged = as_logged(relation, table, self.keys.get(relation.oid, ()))
        if table is not None and logged is not table:
            _log.warning(
                "the primary key of %s is (%s) in the catalog and was (%s) here: keys follow the log",
                *(relation.id, ", ".join(table.primary_key), ", ".join(logged.primary_key)),
            )
        if table is not None:
            self._note_key(relation, logged)
        return self.codec(relation, logged)

    def _note_key(self, relation: Relation, table: Table) -> None:
        """Remember a key that the log does not show.

        Raises ConfigError if it is unknown which key holds here.
        """
        oid, key = relation.oid, table.primary_key or table.unique_key
        if relation.identity == _DEFAULT and any(column.key for column in relation.columns):
            self.keys.pop(oid, None)
            return
        before = self.keys.get(oid, key)
        names = tuple(column.name for column in relation.columns)
        chosen = message_key(relation.id, names, self._settings)
        if before != key and oid not in self._codecs and not chosen:
            # A later read of the whole table begins with the key that it has then.
            self.keys.pop(oid, None)
            raise ConfigError(
                f"the key of {relation.id} was ({', '.join(before)}) when its changes were read last and is"
                f" ({', '.join(key)}) now; its replica identity does not let the log tell where it changed",
                hint="set message.key.columns for the table until the log is past the change",
            )
        self.keys[oid] = key

    def _described(self, oids: list[int]) -> tuple[dict[int, Table], bool]:
        """Describe the tables, and say whether that is final: the stream does not wait for locked tables.

        A locked table's defaults are taken from the last description, and looked up again with the next span.
        """
        try:
            tables, certain = self._catalog.describe(oids), True
        except TableBusy as error:
            _log.warning("%s; its columns' defaults are as they were last seen", error)
            described = self._catalog.describe(oids, defaults=False)
            tables = {oid: _with_defaults(table, self._tables.get(oid)) for oid, table in described.items()}
            certain = False
        self._tables.update(tables)
        return tables, certain

    def learn_types(self, tables: Iterable[Table], *, labels: bool = False) -> None:
        """Read the types again if a table has a type that was created after the session began.

        With `labels`, also if it has an enumeration, which may have new ones. Types dropped since then stay
        known: the log may still bring rows that have them.
        """
        found = {column.type for table in tables for column in table.columns}
        if not found <= self.types.keys() or (labels and any(is_enum(oid, self.types) for oid in found)):
            self.types = {**self.types, **self._catalog.types()}

    def codec(self, relation: Relation, table: Table | None) -> TableCodec:
        """The codec of one relation, with the merge key that both the log and the windows use for it."""
        self.ids[relation.oid] = relation.id
        bag = table is not None and is_bag(table)
        key = whole_row(table) if table and bag else self._merge_key(relation, table)
        codec = replace(codec_for(relation, table, self._settings, self.types, merge_key=key), bag=bag)
        for warning in codec.warnings:
            self._warn(f"{relation.id}: {warning}")
        other = self._topics.setdefault(codec.topic, relation.id)
        if other != relation.id:
            self._warn(f"{other} and {relation.id} both go to topic {codec.topic}")
        return codec

    def _warn(self, line: str) -> None:
        """Log a warning once per session of the log, however often the server sends the definition."""
        if line not in self._warned:
            self._warned.add(line)
            _log.warning("%s", line)

    def _merge_key(self, relation: Relation, table: Table | None) -> tuple[str, ...]:
        """The table's merge key, else the surrogate key that cuts it; its rows can't be changed then."""
        return (merge_key(table) if table else ()) or self._surrogates.get(relation.oid, ())

    def adopt(self, read: ReadTable) -> None:
        """From now on, identify the entries of a table without a key by the columns that cut it."""
        oid = read.table.oid
        self.ids[oid] = read.table.id
        if not merge_key(read.table) and oid not in self._surrogates:
            names = (column.name for column in read.keyset.columns)
            known = tuple(name for name in names if read.table.column(name))
            if known:  # places are no columns, and must not keep a later surrogate key away
                self._surrogates[oid] = known
                self._codecs.pop(oid, None)


def _with_defaults(table: Table, before: Table | None) -> Table:
    if before is None:
        return table
    known = {column.name: column.default for column in before.columns}
    columns = (replace(column, default=known.get(column.name)) for column in table.columns)
    return replace(table, columns=tuple(columns))
