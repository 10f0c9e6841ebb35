"""The tables of the simulated PostgreSQL: their definitions, and their rows as versions.

t, u    a key `id`, a unique `code`, a `pos` that a signal may cut them by, a `large` value
b       no key; REPLICA IDENTITY FULL; some rows are alike
p       partitioned by `id`, published under its own name; its partitions may have other identities
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from adapters.postgres.server.table import Column, Leaves, PgType, Table
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from adapters.postgres.server.visibility import Visibility

T, U, B, P = (CollectionId(("public", name)) for name in ("t", "u", "b", "p"))
SIGNALS = CollectionId(("public", "signals"))
TABLES = (T, U, B, P)
INT4, TEXT = 23, 25
TYPES = (
    PgType(INT4, "int4", category="N"),
    PgType(20, "int8", category="N"),
    PgType(TEXT, "text", category="S"),
    PgType(1043, "varchar", category="S"),
)
_COLLATED = 100
LEAF_ROWS = 4
"""Rows of `p` with a smaller `id` than this are in its first partition."""

Values: TypeAlias = "dict[str, Any]"


@dataclass(slots=True)
class Version:
    """A version of a row: who made it, who removed it (0: nobody), and where it is stored."""

    values: Values
    xmin: int
    place: int
    xmax: int = 0


class Logged(NamedTuple):
    """What the log's relation message says of a table: its name, identity and columns.

    The server sends it again after each change of the definition: `primary` is not in it, but counts.
    """

    oid: int
    name: str
    identity: str
    columns: tuple[tuple[str, int, bool], ...]
    primary: tuple[str, ...] = ()


@dataclass(slots=True)
class SimTable:
    """A table. `mark` is the transaction that wrote its columns' entries in the catalog last.

    `rewritten` is the one that wrote its rows into another file last, 0 for none. `identities` are those of
    its partitions; a table that is not partitioned has one, its own.
    """

    oid: int
    id: CollectionId
    columns: tuple[Column, ...]
    primary: tuple[str, ...]
    identities: tuple[str, ...]
    file: int
    mark: int = 3
    rewritten: int = 0
    defaults: int = 0
    versions: list[Version] = field(default_factory=list)
    places: int = 0

    @property
    def partitioned(self) -> bool:
        """Whether its rows are in partitions."""
        return len(self.identities) > 1

    @property
    def unique(self) -> tuple[str, ...]:
        """Another unique index over columns that are never NULL."""
        return ("code",) if any(column.name == "code" for column in self.columns) else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def leaf(self, values: Values) -> int:
        """The number of the partition that a row belongs to."""
        return int(self.partitioned and values["id"] >= LEAF_ROWS)

    def identity(self, leaf: int = 0) -> str:
        """The replica identity of the rows of a partition: d, f or i."""
        return self.identities[leaf]

    def identity_key(self, leaf: int = 0) -> tuple[str, ...]:
        """The columns that the log has of an old row unless it has all."""
        match self.identities[leaf]:
            case "d":
                return self.primary
            case "i":
                return self.unique
            case _:
                return ()

    def described(self) -> Table:
        """The table as the catalog describes it."""
        leaves = tuple(
            Leaves(CollectionId(("public", f"{self.id.parts[1]}{leaf}")), identity, self.identity_key(leaf))
            for leaf, identity in enumerate(self.identities)
        )
        # A partitioned table has an identity of its own, which says nothing about its rows.
        identity = "d" if self.partitioned else self.identities[0]
        key = self.primary if self.partitioned else self.identity_key()
        return Table(
            self.oid,
            self.id,
            "p" if self.partitioned else "r",
            self.columns,
            primary_key=self.primary,
            unique_key=self.unique,
            identity=identity,
            identity_key=key if identity in {"d", "i"} else (),
            relfilenode=0 if self.partitioned else self.file,
            leaves=leaves if self.partitioned else (),
        )

    def logged(self) -> Logged:
        """What a relation message says now."""
        table = self.described()
        marked = set(self.names if table.identity == "f" else table.identity_key)
        columns = tuple((column.name, column.type, column.name in marked) for column in self.columns)
        return Logged(self.oid, self.id.parts[1], table.identity, columns, self.primary)

    # Rows.

    def add(self, values: Values, xid: int) -> Version:
        """Store a new version."""
        self.places += 1
        version = Version(values, xid, self.places)
        self.versions.append(version)
        return version

    def shown(self, visibility: Visibility) -> list[Version]:
        """The rows that a snapshot shows."""
        return [version for version in self.versions if seen(version, visibility)]

    def latest(self, mine: int, open_: Iterable[int]) -> Iterator[Version]:
        """The rows as the transaction `mine` finds them: committed by others, or its own."""
        others = set(open_) - {mine}
        for version in self.versions:
            if version.xmin not in others and (not version.xmax or version.xmax in others):
                yield version


def seen(version: Version, visibility: Visibility) -> bool:
    """Whether a snapshot shows a version. Ids are 64 bits wide here."""
    return shows(visibility, version.xmin) and not (version.xmax and shows(visibility, version.xmax))


def shows(visibility: Visibility, xid: int) -> bool:
    """Whether a snapshot shows what a transaction has committed."""
    return xid < visibility.xmax and xid not in visibility.in_progress


def _column(name: str, type_: int, attnum: int, *, nullable: bool) -> Column:
    collation = 0 if type_ == INT4 else _COLLATED
    return Column(name, type_, nullable=nullable, attnum=attnum, collation=collation)


def keyed(oid: int, id_: CollectionId, identities: tuple[str, ...]) -> SimTable:
    """A table with a key."""
    columns = (
        _column("id", INT4, 1, nullable=False),
        _column("code", INT4, 2, nullable=False),
        _column("pos", INT4, 3, nullable=False),
        _column("value", TEXT, 4, nullable=True),
        _column("large", TEXT, 5, nullable=True),
    )
    return SimTable(oid, id_, columns, ("id",), identities, file=oid)


def keyless(oid: int) -> SimTable:
    """The table without a key."""
    columns = (_column("name", TEXT, 1, nullable=False), _column("n", INT4, 2, nullable=False))
    return SimTable(oid, B, columns, (), ("f",), file=oid)


def signal_table(oid: int) -> SimTable:
    """The signal table."""
    columns = tuple(
        _column(name, TEXT, at, nullable=True) for at, name in enumerate(("id", "type", "data"), 1)
    )
    return SimTable(oid, SIGNALS, columns, (), ("d",), file=oid)
