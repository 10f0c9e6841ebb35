"""Tables and types as the catalog describes them: frozen values without connections or SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.model import CollectionId

_FULL = "f"


@dataclass(frozen=True, slots=True)
class PgType:
    """A row of `pg_type`.

    `kind` is `typtype` (b base, c composite, d domain, e enum, p pseudo, r range, m multirange). `element` is
    the oid of an array's elements (0: no array), `base` a domain's base type with `base_typmod`; `labels` are
    an enum's, in order.
    """

    oid: int
    name: str
    schema: str = "pg_catalog"
    kind: str = "b"
    category: str = "U"
    element: int = 0
    base: int = 0
    base_typmod: int = -1
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column from `pg_attribute`. `default` is the expression's text, `generated` is 's', 'v' or ''.

    `nullable` says whether a row may have NULL there. With `not_null_domain`, the column's type is a NOT NULL
    domain, which does not rule that out. `identity` is 'a', 'd' or ''; `attnum` counts from 1 and has gaps
    where columns were dropped. `collation` is the oid of the column's collation, 0 for types without one.
    """

    name: str
    type: int
    typmod: int = -1
    nullable: bool = True
    default: str | None = None
    generated: str = ""
    attnum: int = 0
    identity: str = ""
    collation: int = 0
    not_null_domain: bool = False

    @property
    def optional(self) -> bool:
        """Whether the column's field is optional in events: not so in Debezium for a NOT NULL domain."""
        return self.nullable and not self.not_null_domain


@dataclass(frozen=True, slots=True)
class Leaves:
    """Partitions for which the log has the same columns of an old row: the name of one, and those columns.

    `identity` and `key` are as in `Table`.
    """

    name: CollectionId
    identity: str
    key: tuple[str, ...] = ()

    @property
    def logs(self) -> bool:
        """Whether their rows may be updated or deleted; without an identity the server refuses that."""
        return self.identity == _FULL or bool(self.key)

    def tells(self, columns: tuple[str, ...]) -> bool:
        """Whether the log has these columns of each old row, if they were changed."""
        return not self.logs or self.identity == _FULL or set(columns) <= set(self.key)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalog describes it now.

    `kind` is `relkind` (r, p, v, m, f …), `persistence` p, u or t. `primary_key` is in the key's own order.
    `unique_key` is the first other unique index whose columns can't be NULL (neither partial nor on
    expressions), empty if there is none; `other_keys` are the rest. `identity` is the replica identity d, n,
    f or i; `identity_key` are the columns that the log carries as a row's old key under d and i. `parents`
    are the tables that it is a partition of or inherits from, `children` those below it, `leaves` the
    partitions that hold its rows.
    """

    oid: int
    id: CollectionId
    kind: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    unique_key: tuple[str, ...] = ()
    identity: str = "d"
    identity_key: tuple[str, ...] = ()
    relfilenode: int = 0
    persistence: str = "p"
    partition: bool = False
    parents: tuple[int, ...] = ()
    children: tuple[int, ...] = ()
    row_security: bool = False
    other_keys: tuple[tuple[str, ...], ...] = ()
    leaves: tuple[Leaves, ...] = ()

    @property
    def schema(self) -> str:
        """The schema's name."""
        return self.id.parts[0]

    @property
    def name(self) -> str:
        """The table's own name."""
        return self.id.parts[-1]

    def column(self, name: str) -> Column | None:
        """The column with this name."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as the log describes it; `key` if it belongs to the replica identity."""

    name: str
    type: int
    typmod: int = -1
    key: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as the log describes it, before the rows that have this shape."""

    oid: int
    namespace: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def id(self) -> CollectionId:
        """The table's name at that place in the log."""
        return CollectionId((self.namespace, self.name))


def relation_of(table: Table, columns: tuple[str, ...] | None = None, *, stored: bool = False) -> Relation:
    """The relation as the log would describe it for the table's current definition.

    Generated columns are not published unless `columns`, a publication's column list, names them. With
    `stored`, stored generated columns are included as well if there is no list.
    """
    unlisted = {"", "s"} if stored else {""}
    chosen = tuple(
        RelationColumn(column.name, column.type, column.typmod, key=column.name in table.identity_key)
        for column in table.columns
        if (column.generated in unlisted if columns is None else column.name in columns)
    )
    return Relation(table.oid, table.schema, table.name, table.identity, chosen)


def as_logged(relation: Relation, table: Table | None, key: tuple[str, ...] = ()) -> Table:
    """The table with the key that it had where the log describes it.

    Under REPLICA IDENTITY DEFAULT the log marks the columns of the primary key. Otherwise its marks don't
    show the key, and the catalog's key is used. A dropped table (None) has the marked key under DEFAULT,
    otherwise `key` if the log has all of its columns. The marks don't show the columns' order in the key, so
    the table's own order is used.
    """
    names = {column.name for column in relation.columns}
    marked = tuple(column.name for column in relation.columns if column.key)
    if table is None:
        columns = (
            Column(attribute.name, attribute.type, attribute.typmod, nullable=attribute.name not in marked)
            for attribute in relation.columns
        )
        gone = Table(relation.oid, relation.id, "r", tuple(columns), identity=relation.identity)
        known = marked if relation.identity == "d" else key if names.issuperset(key) else ()
        return replace(gone, primary_key=known, identity_key=marked)
    if relation.identity != "d" or names.intersection(_default_identity(table)) == set(marked):
        return table
    columns = (
        replace(attribute, nullable=attribute.nullable and attribute.name not in marked)
        for attribute in table.columns
    )
    return replace(table, columns=tuple(columns), primary_key=marked, identity_key=marked)


def _default_identity(table: Table) -> tuple[str, ...]:
    """The columns that the log would mark under REPLICA IDENTITY DEFAULT."""
    if table.identity == "d":
        return table.identity_key
    return table.primary_key


def merge_key(table: Table) -> tuple[str, ...]:
    """The columns that the log always carries for a row's old and new version; empty if there are none.

    If changes of a partitioned table come under its own name, the log's old row has what the identity of its
    partition says. So all partitions must have the key's columns, and it must be a key of the whole table,
    since two partitions may hold the same values. A key with generated columns does not serve: the log leaves
    these out, and the rest of the key would match many rows.
    """
    names = table.identity_key if table.identity == "i" else table.primary_key or table.unique_key
    if table.leaves:
        keys = (table.primary_key, names, table.unique_key, *table.other_keys)
        names = next((key for key in keys if key and all(leaf.tells(key) for leaf in table.leaves)), ())
    return () if any(column.generated for column in table.columns if column.name in names) else names


def untold(table: Table) -> Leaves | None:
    """A partition whose entries don't show which row of the table was changed; None if there is none."""
    if merge_key(table):
        return None
    key = table.primary_key or table.unique_key
    odd = [leaf for leaf in table.leaves if leaf.logs and leaf.identity != _FULL]
    return next((leaf for leaf in odd if not leaf.tells(key)), odd[0] if odd else None)


def is_bag(table: Table) -> bool:
    """Whether the table has no key but allows changes to its rows, so that rows may be identical.

    The log has all columns of each old row. The columns that such a table is cut by may be equal in many
    rows.
    """
    if merge_key(table):
        return False
    if table.leaves:
        return untold(table) is None and any(leaf.logs for leaf in table.leaves)
    return table.identity == _FULL


def whole_row(table: Table) -> tuple[str, ...]:
    """The columns that the log has of every row."""
    return tuple(column.name for column in table.columns if not column.generated)
