"""How a snapshot reads a table, or why it can't.

Decides which tables can be snapshotted at all, by which key they are cut, which of their columns and rows are
read (those that the log carries), and which risks an operator may accept.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from adapters.postgres.log.cuts import KEY, MERGED
from adapters.postgres.server.publication import Share
from adapters.postgres.server.sql import quote_ident
from adapters.postgres.server.table import is_bag, merge_key, untold
from adapters.postgres.snapshot.conditions import GRAMMAR, named_column
from adapters.postgres.snapshot.fingerprint import forms
from adapters.postgres.snapshot.keyset import PLACES, KeyColumn, Keyset
from adapters.postgres.snapshot.trusted_sql import plain_condition
from adapters.source.conditions import Found, rendered
from engine.config.settings import Conditions
from engine.errors import SignalError
from engine.snapshot.surrogate_key import key_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.server.publication import Publication
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.table import Table
    from adapters.postgres.snapshot.fingerprint import Form
    from adapters.source.conditions import Reference
    from engine.model import CollectionId, Target

_log = logging.getLogger("adapters")
_ORDINARY, _PARTITIONED = "r", "p"
_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_PERSISTENCES = {"u": "an unlogged table", "t": "a temporary table"}
_LEAVES_NAMED = 20
_PUBLICATION = "publication "
RISK_TAKEN = "tidemark.snapshot.accept.risk lists the table"


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as a snapshot reads it: the catalog's description, the keyset that cuts it, its merge key.

    `columns` and `row_filter` are what is published of it (`Share`), `traits` the rest of its fingerprint.
    `statement` replaces the table as the source of its rows. `condition` is the signal's, in the form that is
    sent.
    """

    table: Table
    keyset: Keyset
    merge: Keyset
    columns: tuple[str, ...] | None = None
    row_filter: str | None = None
    traits: tuple[str, ...] = ()
    statement: str | None = None
    condition: str | None = None

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
    def fingerprint(self) -> tuple[str, ...]:
        """What its ranges depend on (`Extent.key`)."""
        keys = [f"{KEY}{column}" for column in self.keyset.fingerprint]
        if self.merge != self.keyset:
            keys += [f"{KEY}{column}{MERGED}" for column in self.merge.fingerprint]
        return (*keys, *self.traits)


class First(Protocol):
    """The snapshot before the log, as far as reading a table depends on it."""

    @property
    def snapshot_id(self) -> str:
        """The snapshot that is held for all its windows; empty when none is held."""

    @property
    def session(self) -> Questions | None:
        """The session that holds it."""

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that returns a table's rows; None for all of them."""


class Readable:
    """Decides how tables are read, from what the catalog and the publication say."""

    def __init__(
        self,
        questions: Questions,
        publication: Publication,
        accepts_risk: Callable[[CollectionId], bool] = lambda _table: False,
        first: First | None = None,
        conditions: Conditions = Conditions.EXPRESSIONS,
    ) -> None:
        self._questions, self._publication = questions, publication
        self._first, self._conditions = first, conditions
        self.accepts_risk = accepts_risk
        self._warned: set[tuple[CollectionId, str]] = set()

    @property
    def held_session(self) -> Questions | None:
        """The session that holds the snapshot before the log, while it is held."""
        return self._first.session if self._first is not None else None

    @property
    def held(self) -> bool:
        """Whether all windows of the snapshot before the log are read in one snapshot."""
        return self._first is not None and bool(self._first.snapshot_id)

    def looked_up(self, names: Sequence[CollectionId], *, defaults: bool = False) -> CatalogAnswer:
        """Look these tables up in the catalog, in a fixed number of queries."""
        tables = {
            described.id: described
            for described in self._questions.catalog.describe(names, defaults=defaults).values()
        }
        oids = [table.oid for table in tables.values()]
        shares = self._publication.shares(self._questions.publications, oids) if oids else {}
        return CatalogAnswer(tables, shares, forms(self._questions.layouts, oids) if oids else {})

    def reading(self, target: Target, looked: CatalogAnswer) -> ReadTable:
        """How to read a target. Raises SignalError with the reason if it can't be read."""
        table = looked.tables.get(target.collection)
        if table is None:
            raise SignalError("there is no such table", place=target.collection)
        if target.initial and self._first is not None:
            return self._first_reading(table, looked, self._first)
        self._check_kind(table)
        share = self._share(table, looked)
        self._check_leaves(table)
        self._check_rows(table)
        own, columns = table.primary_key or table.unique_key, [column.name for column in table.columns]
        keyset = self._keyset(table, key_columns(target, own, columns))
        names = merge_key(table)
        if not names and not is_bag(table):
            _refuse_unpublished(table, keyset, share)
        merge = self._keyset(table, names) if names else keyset
        form = looked.forms[table.oid]
        traits = (*form.traits(table.oid), f"{_PUBLICATION}{share.mark}")
        condition = self._condition(target, table, share)
        return ReadTable(table, keyset, merge, share.columns, share.row_filter, traits, condition=condition)

    def _condition(self, target: Target, table: Table, share: Share) -> str | None:
        """The signal's condition in the form that is sent.

        Raises SignalError if it may not be sent at all.
        """
        if target.condition is None:
            return None
        place = table.id
        match self._conditions:
            case Conditions.OFF:
                raise SignalError(
                    "conditions are not taken", place=place, hint="see tidemark.snapshot.conditions"
                )
            case Conditions.SQL:
                try:
                    return plain_condition(target.condition)
                except ValueError as error:
                    raise SignalError(f"the condition is refused: it has {error}", place=place) from error
            case Conditions.EXPRESSIONS:
                find = partial(self._found, table, share)
                return rendered(target.condition, GRAMMAR, find, place)

    def _found(self, table: Table, share: Share, reference: Reference) -> Found | None:
        """The published column that a condition names, if there is one."""
        name = named_column(reference, table.id)
        column = None if name is None else table.column(name)
        if column is None or (share.columns is not None and column.name not in share.columns):
            return None
        kind = self._questions.layouts.key_types([column.type])[column.type]
        return Found(quote_ident(column.name), kind.name, kind.operators and quote_ident(kind.operators))

    def _first_reading(self, table: Table, looked: CatalogAnswer, first: First) -> ReadTable:
        """How the snapshot before the log reads a table; here any table can be read, published or not.

        A table without a key is cut by its rows' places (ctid), which are valid as long as the snapshot is
        held.
        """
        self._check_rows(table)
        if not first.snapshot_id:
            self._check_leaves(table)
        share = looked.shares.get(table.oid) or Share(None, None, "")
        names, merged = table.primary_key or table.unique_key, merge_key(table)
        keyset = self._keyset(table, names) if names else PLACES
        merge = self._keyset(table, merged) if merged else keyset
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
                place=table.id,
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
                f"{what} has no changes in the log, so a snapshot of it can't be kept right",
                place=table.id,
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
            raise SignalError(said, place=table, hint=hint)
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
            named = ", ".join(str(leaf) for leaf in leaves[:_LEAVES_NAMED])
            more = f" and {len(leaves) - _LEAVES_NAMED} more" if len(leaves) > _LEAVES_NAMED else ""
            return SignalError(
                f"publication {name!r} has its partitions under their own names",
                place=table.id,
                hint=f"ask for {named}{more}; or ALTER PUBLICATION … SET (publish_via_partition_root = true)",
            )
        return SignalError(
            f"publication {name!r} does not have the table under its own name",
            place=table.id,
            hint="ALTER PUBLICATION … ADD TABLE …, or ask for what it is a partition of",
        )

    def _keyset(self, table: Table, names: tuple[str, ...]) -> Keyset:
        columns = [column for name in names if (column := table.column(name))]
        types = self._questions.layouts.key_types([column.type for column in columns])
        kinds = [types[column.type] for column in columns]
        return Keyset(
            tuple(
                KeyColumn(
                    column.name, kind.name, column.nullable, column.collation, kind.operators, kind.labels
                )
                for column, kind in zip(columns, kinds, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class CatalogAnswer:
    """The catalog's description of some tables at one time."""

    tables: Mapping[CollectionId, Table]
    shares: Mapping[int, Share]
    forms: Mapping[int, Form]


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
            place=table.id,
            hint="set REPLICA IDENTITY FULL on the table, or give it a key of other columns",
        )
