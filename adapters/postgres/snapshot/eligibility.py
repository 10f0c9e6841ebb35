"""How a snapshot reads a table, or why it can't.

Decides which tables can be snapshotted at all, by which key they are cut, which of their columns and rows are
read (those that the log carries), and which risks an operator may accept.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from adapters.postgres.log.cuts import KEY, MERGED
from adapters.postgres.server.publication import Share
from adapters.postgres.server.sql import quote_ident, quote_table
from adapters.postgres.server.table import is_bag, merge_key, untold
from adapters.postgres.snapshot.keyset import BY_CTID, KeyColumn, Keyset
from adapters.postgres.snapshot.table_changes.fingerprint import forms
from adapters.source.schema_digest import schema_digest
from adapters.source.signals.scopes import JsonKind, ScopeColumn, texts_of
from engine.errors import SignalError, UnknownCollection
from engine.printable import first_named
from engine.snapshot.surrogate_key import key_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.conditions.selection import Selections
    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.layouts import KeyType
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.table import Table
    from adapters.postgres.snapshot.table_changes.fingerprint import Form
    from adapters.source.signals.scopes import ScopeTexts
    from engine.model import CollectionId, Target

_log = logging.getLogger("adapters")
_ORDINARY, _PARTITIONED = "r", "p"
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_PERSISTENCES = {"u": "an unlogged table", "t": "a temporary table"}
_LEAVES_NAMED = 20
_PUBLICATION = "publication "
_NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8", "oid")
_JSON_KINDS = {
    **{quote_table("pg_catalog", name): JsonKind.NUMBER for name in _NUMBERS},
    quote_table("pg_catalog", "bool"): JsonKind.BOOLEAN,
}
RISK_TAKEN = "tidemark.snapshot.accept.risk lists the table"


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as a snapshot reads it: the catalog's description, the keyset that cuts it, its merge key.

    `columns` and `row_filter` are what is published of it (`Share`), `traits` the rest of its fingerprint.
    `statement` replaces the table as the source of its rows. `condition` is the signal's, in the form that is
    sent, and `scope` the signal's as well.
    """

    table: Table
    keyset: Keyset
    merge: Keyset
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None
    traits: tuple[str, ...] = ()
    statement: str | None = None
    condition: str | None = None
    scope: ScopeTexts | None = None

    @property
    def scoped(self) -> tuple[str, ...]:
        """A condition for the rows of the scope, if there is one."""
        if self.scope is None:
            return ()
        if self.scope.keys:
            return (self.keyset.among(self.scope.keys),)
        return (" OR ".join(f"({self.keyset.inside(part)})" for part in self.scope.ranges),)

    @property
    def relation(self) -> str:
        """The table in a FROM clause. Inheriting tables are separate tables; partitions are not."""
        if self.statement is not None:
            return f"({self.statement}\n) AS {quote_ident(self.table.name)}"
        only = "" if self.table.kind == _PARTITIONED else "ONLY "
        return only + ".".join(quote_ident(part) for part in self.table.id.parts)

    @property
    def mark(self) -> str:
        """The publication's entries that publish the table (`Share.mark`)."""
        return self.traits[-1].removeprefix(_PUBLICATION)

    @property
    def schema(self) -> str:
        """The digest of what is published of its columns: a type is its oid and its modifier."""
        published = self.columns
        return schema_digest(
            (column.name, f"{column.type} {column.typmod}")
            for column in self.table.columns
            if published is None or column.name in published
        )

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What its ranges depend on (`Extent.key`)."""
        keys = [f"{KEY}{column}" for column in self.keyset.fingerprint]
        if self.merge != self.keyset:
            keys += [f"{KEY}{column}{MERGED}" for column in self.merge.fingerprint]
        return (*keys, *self.traits)


class SharedSnapshot(Protocol):
    """A snapshot that several windows share."""

    @property
    def snapshot_id(self) -> str:
        """The snapshot that is held for all its windows; empty when none is held."""

    @property
    def session(self) -> Questions | None:
        """The session that holds it."""

    def covers(self, collection: CollectionId) -> bool:
        """Whether the session has a lock on the table, too: else a rewritten table may look empty there."""


class SnapshotBeforeLog(SharedSnapshot, Protocol):
    """The snapshot before the log, as far as reading a table depends on it."""

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that returns a table's rows; None for all of them."""


class Eligibility:
    """Decides how tables are read, from what the catalog and the publication say."""

    def __init__(
        self,
        questions: Questions,
        publication: Publication,
        selections: Selections,
        accepts_risk: Callable[[CollectionId], bool] = lambda _table: False,
        first: SnapshotBeforeLog | None = None,
        blocking: SharedSnapshot | None = None,
    ) -> None:
        self._questions, self._publication = questions, publication
        self._first, self._blocking = first, blocking
        self._selections = selections
        self.accepts_risk = accepts_risk
        self._warned: set[tuple[CollectionId, str]] = set()

    def _shared_snapshot(self, target: Target) -> SharedSnapshot | None:
        """What holds the snapshot that all windows on a target share; None if they share none."""
        held = self._first if target.initial else self._blocking if target.blocking else None
        if held is None or not held.snapshot_id or not held.covers(target.collection):
            return None
        return held

    def held_session(self, target: Target) -> Questions | None:
        """The session that holds a target's shared snapshot, while it is held."""
        held = self._shared_snapshot(target)
        return held.session if held is not None else None

    def shares_snapshot(self, target: Target) -> bool:
        """Whether all windows on a target are read in one snapshot."""
        return self._shared_snapshot(target) is not None

    def look_up(
        self, names: Sequence[CollectionId], *, defaults: bool = False, over: Questions | None = None
    ) -> CatalogAnswer:
        """Look these tables up in the catalog, in a fixed number of queries, `over` another session if given.

        It touches nothing that others change.
        """
        asked = over or self._questions
        described = asked.catalog.describe(names, defaults=defaults).values()
        tables = {table.id: table for table in described}
        oids = [table.oid for table in described]
        if not oids:
            return CatalogAnswer(tables, {}, {}, {})
        layouts, types = asked.layouts, {c.type for table in described for c in table.columns}
        shares = self._publication.shares(asked.publications, oids)
        return CatalogAnswer(tables, shares, forms(layouts, oids), layouts.key_types(sorted(types)))

    def reading(self, target: Target, looked: CatalogAnswer) -> ReadTable:
        """How to read a target. Raises SignalError with the reason if it can't be read."""
        table = looked.tables.get(target.collection)
        if table is None:
            raise UnknownCollection("there is no such table", where=target.collection)
        if target.initial and self._first is not None:
            return self._first_reading(table, looked, self._first)
        self._check_kind(table)
        share = self._share(table, looked)
        self._check_leaves(table)
        self._check_rows(table)
        own, columns = table.primary_key or table.unique_key, [column.name for column in table.columns]
        keyless = target.blocking and not own and not target.surrogate_key
        keyset = BY_CTID if keyless else _keyset(table, key_columns(target, own, columns), looked)
        names = merge_key(table)
        if not names and not is_bag(table):
            _refuse_unpublished(table, keyset, share)
        _refuse_null_identity(table)
        merge = _keyset(table, names, looked) if names else keyset
        form = looked.forms[table.oid]
        held = self._shared_snapshot(target)
        places = (f"places {held.snapshot_id if held else ''}",) if keyless else ()
        traits = (*places, *form.traits(table.oid), f"{_PUBLICATION}{share.mark}")
        statement, condition = self._selections.of(target, table, share, looked.types)
        scope = None if target.scope is None else texts_of(target.scope, _scope_columns(keyset), table.id)
        return ReadTable(
            *(table, keyset, merge, share.columns, share.row_filter, traits, statement),
            condition=condition,
            scope=scope,
        )

    def _first_reading(self, table: Table, looked: CatalogAnswer, first: SnapshotBeforeLog) -> ReadTable:
        """How the snapshot before the log reads a table; here any table can be read, published or not.

        A table without a key is cut by its rows' places (ctid), which are valid as long as the snapshot is
        held.
        """
        self._check_rows(table)
        if not first.snapshot_id:
            self._check_leaves(table)
        share = looked.shares.get(table.oid) or Share(None, None, "")
        names, merged = table.primary_key or table.unique_key, merge_key(table)
        keyset = _keyset(table, names, looked) if names else BY_CTID
        merge = _keyset(table, merged, looked) if merged else keyset
        places = () if names else (f"places {first.snapshot_id}",)
        if not names and not first.snapshot_id:
            self.warn(table.id, "has no key: a row that is changed while it is read may come twice")
        traits = (*places, *looked.forms[table.oid].traits(table.oid), f"{_PUBLICATION}{share.mark}")
        statement = first.statement(table.id)
        return ReadTable(table, keyset, merge, share.columns, share.row_filter, traits, statement)

    def _check_rows(self, table: Table) -> None:
        """Refuse a table of which the role sees only some rows."""
        if table.row_security and self._questions.layouts.hides_rows(table.oid):
            raise SignalError(
                "row-level security hides rows of the table from the role",
                where=table.id,
                hint="ALTER ROLE … BYPASSRLS, or read as the table's owner",
            )

    @staticmethod
    def _check_kind(table: Table) -> None:
        """Refuse what leaves no changes in the log."""
        what = _PERSISTENCES.get(table.persistence)
        if table.kind not in {_ORDINARY, _PARTITIONED}:
            what = _KINDS.get(table.kind, "no table")
        if what is not None:
            raise SignalError(
                f"{what} has no changes in the log, so a snapshot of it can't be kept up to date",
                where=table.id,
            )

    def _check_leaves(self, table: Table) -> None:
        """Refuse a table if the log of a partition does not have a key of the whole table."""
        leaf = untold(table)
        if leaf is None:
            return
        keys = (table.primary_key, table.unique_key, *table.other_keys)
        known = " or ".join(f"({', '.join(key)})" for key in keys if key) or "a key of the table"
        has = f"({', '.join(leaf.key)})" if leaf.key else "whole rows"
        said = f"the log has {has} of old rows of partition {leaf.name}, and not {known} of all partitions"
        self._refuse_risk(
            table.id,
            said,
            "give all partitions the same REPLICA IDENTITY, DEFAULT or FULL",
            taken="rows changed while they are read may stay as they were",
        )

    def _refuse_risk(self, table: CollectionId, said: str, mend: str, taken: str) -> None:
        """Raise SignalError, unless the user accepts the risk for this table; then log a warning."""
        if not self.accepts_risk(table):
            hint = f"{mend}; or list the table in tidemark.snapshot.accept.risk"
            raise SignalError(said, where=table, hint=hint)
        self.warn(table, f"{said}: {taken}; {RISK_TAKEN}")

    def _share(self, table: Table, looked: CatalogAnswer) -> Share:
        share = looked.shares.get(table.oid)
        if share is None:
            raise self._not_published(table)
        return share

    def check_operations(self, table: Table) -> None:
        """Refuse a snapshot of a table if the publication leaves out some kinds of changes.

        Without them the snapshot could miss a row, or a row could stay in the sink for ever.
        """
        lacking = self._publication.lacking(self._questions.publications)
        if not lacking:
            return
        self._refuse_risk(
            table.id,
            f"publication {self._publication.name!r} does not publish {lacking}",
            "ALTER PUBLICATION … SET (publish = 'insert, update, delete, truncate')",
            taken="rows changed so after they are read stay as they were read",
        )

    def warn(self, table: CollectionId, text: str) -> None:
        """Log a warning once per session."""
        if (table, text) not in self._warned:
            self._warned.add((table, text))
            _log.warning("%s: %s", table, text)

    def _not_published(self, table: Table) -> SignalError:
        name = self._publication.name
        leaves: list[CollectionId] = []
        if table.kind == _PARTITIONED:
            leaves = self._publication.leaves(self._questions.publications, table.oid)
        if leaves:
            named = first_named(leaves, _LEAVES_NAMED)
            return SignalError(
                f"publication {name!r} has its partitions under their own names",
                where=table.id,
                hint=f"ask for {named}; or ALTER PUBLICATION … SET (publish_via_partition_root = true)",
            )
        return SignalError(
            f"publication {name!r} does not have the table under its own name",
            where=table.id,
            hint="ALTER PUBLICATION … ADD TABLE …, or name the table that it is a partition of",
        )


def _scope_columns(keyset: Keyset) -> list[ScopeColumn]:
    return [
        ScopeColumn(column.name, _JSON_KINDS.get(column.type, JsonKind.STRING), column.nullable)
        for column in keyset.columns
    ]


@dataclass(frozen=True, slots=True)
class CatalogAnswer:
    """The catalog's description of some tables, and of their columns' types, at one time."""

    tables: Mapping[CollectionId, Table]
    shares: Mapping[int, Share]
    forms: Mapping[int, Form]
    types: Mapping[int, KeyType]


def _keyset(table: Table, names: tuple[str, ...], looked: CatalogAnswer) -> Keyset:
    columns = [column for name in names if (column := table.column(name))]
    kinds = [looked.types[column.type] for column in columns]
    return Keyset(
        tuple(
            KeyColumn(column.name, kind.name, column.nullable, column.collation, kind.operators, kind.labels)
            for column, kind in zip(columns, kinds, strict=True)
        )
    )


def _refuse_null_identity(table: Table) -> None:
    """Refuse a table if several rows may have the same replica identity, because they have NULL there."""
    identity = [column for column in table.columns if column.name in table.identity_key]
    nullable = [column.name for column in identity if column.nullable and table.identity == "i"]
    if nullable:
        raise SignalError(
            f"rows may have NULL in the replica identity's column {nullable[0]!r}",
            where=table.id,
            hint="ALTER TABLE … VALIDATE CONSTRAINT its NOT NULL, or set another replica identity",
        )


def _refuse_unpublished(table: Table, keyset: Keyset, share: Share) -> None:
    """Refuse a table if the log leaves out a key column, so that changed rows can't be identified."""
    known = {*table.identity_key, *table.primary_key, *table.unique_key}
    known.update(column.name for column in keyset.columns)
    published = share.columns or ()
    generated = [
        column.name
        for column in table.columns
        if column.generated and column.name in known and column.name not in published
    ]
    if generated:
        raise SignalError(
            f"the key column {generated[0]!r} is generated, and the log leaves it out",
            where=table.id,
            hint="set REPLICA IDENTITY FULL on the table, or give it a key of other columns",
        )
