"""The tables of a history: their keys, columns and identities, as plain values and as SQL. Pure.

Writers know a row by its ordinal `n`, which determines its key, so that a script can name rows without
knowing the database. Every version ever written has a unique number in `ver`, from one sequence: a row that
is read shows exactly which write it is from.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "nextval('versions')"
LARGE = f"repeat(md5({VERSION}::text) || ' ', 90)"
"""A value that is stored out of line. No two are the same."""


@dataclass(frozen=True, slots=True)
class KeyKind:
    """A primary key: its columns with their types, and each column's value for the ordinal `n`."""

    columns: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    partitions: str = ""
    primary: bool = True
    alike: bool = False


_WORD = "(ARRAY['a', 'B', 'ä', 'Z', '_', 'aa', 'É'])[n % 7 + 1]"
KEYS = {
    "int": KeyKind((("k", "int"),), ("n",)),
    "sparse": KeyKind((("k", "bigint"),), ("n::bigint * 1000003 - 170000",)),
    "uuid": KeyKind((("k", "uuid"),), ("md5(n::text)::uuid",)),
    "text": KeyKind((("k", 'text COLLATE "C"'),), (f"{_WORD} || n",)),
    "icu": KeyKind((("k", "text COLLATE words"),), (f"{_WORD} || n",)),
    "loose": KeyKind((("k", "text COLLATE loose"),), ("'Ab' || n",)),
    "char": KeyKind((("k", "char(8)"),), ("to_hex(n)",)),
    "numeric": KeyKind((("k", "numeric"),), ("(n - 50) / 8.0",)),
    "float": KeyKind((("k", "float8"),), ("n / 3.0::float8 - 7",)),
    "moment": KeyKind(
        (("k", "timestamptz"),), ("timestamptz '2024-03-30 22:00+00' + n * interval '37.000123 m'",)
    ),
    "bytes": KeyKind((("k", "bytea"),), ("decode(md5(n::text), 'hex')",)),
    "pair": KeyKind(
        (("k", 'text COLLATE "C"'), ("l", "int"), ("m", "date")),
        (_WORD, "n / 7 % 3", "date '2024-02-20' + n / 21"),
    ),
    "parts": KeyKind((("p", "int"), ("k", "int")), ("n % 3", "n"), partitions="LIST (p)"),
    "none": KeyKind((("k", "int"),), ("n",), primary=False),
}
BAGS = {"alike": KeyKind((), (), primary=False, alike=True)}
"""Tables without a key whose rows may be identical. `bags.py` defines their content."""


COLLATIONS = (
    "CREATE COLLATION words (provider = icu, locale = 'und')",
    "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
)
WITHOUT_ICU = ('CREATE COLLATION words FROM "C"', 'CREATE COLLATION loose FROM "C"')
"""Some server builds have no other collations."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table. `identity` is d, f, i or n; `rows` is the number of rows at the start.

    On SQL Server there are several databases; `database` is the table's. `leaf` is the identity of one of its
    partitions, if that differs from the rest: f, n, a (an index on `alt`) or w (an index that also has the
    key). `filter` names its row filter in the publication. `labels` adds an enum column.
    """

    name: str
    key: str
    identity: str
    rows: int
    database: str = ""
    leaf: str = ""
    filter: str = ""
    labels: bool = False

    @property
    def kind(self) -> KeyKind:
        """Its key."""
        return KEYS.get(self.key) or BAGS[self.key]

    @property
    def documents(self) -> bool:
        """Whether it is a collection of documents."""
        return not self.database and self.key not in KEYS and self.key not in BAGS

    @property
    def keyed(self) -> bool:
        """Whether it has a key that identifies its rows."""
        return self.documents or (self.key != "heap" if self.database else self.kind.primary)

    @property
    def appends_only(self) -> bool:
        """Whether the server refuses updates and deletes, which it could not log."""
        return self.identity == "n" or (not self.kind.primary and self.identity == "d")

    @property
    def leaves(self) -> tuple[str, ...]:
        """The tables that hold the rows."""
        if self.documents:
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in range(3)) if self.kind.partitions else (self.name,)

    @property
    def identifies(self) -> tuple[str, ...]:
        """The columns that identify rows, and that the log has of old and new rows; () for all."""
        if self.kind.alike:
            return ()
        if self.identity == "i":
            return ("alt", "p") if self.kind.partitions else ("alt",)
        return tuple(name for name, _ in self.kind.columns) if self.kind.primary else ("ver",)

    def key_of(self, collection: str) -> tuple[str, ...]:
        """The columns that identify rows of the table, or of one of its partitions."""
        return ("alt",) if self.leaf == "a" and collection.endswith(ODD_LEAF) else self.identifies

    @property
    def untold(self) -> bool:
        """Whether its partitions log no common key of it."""
        return self.leaf == "a"

    @property
    def surrogate(self) -> str | None:
        """The surrogate key that a signal must name; None if it has a key."""
        return None if self.kind.primary else "n"


COLUMNS = {
    "n": ("int NOT NULL", "n"),
    "ver": ("bigint NOT NULL", VERSION),
    "alt": ("text NOT NULL", "'alt ' || n"),
    "v": (
        "text",
        "CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'it''s' || chr(31) || n ELSE 'v' || n END",
    ),
    "big": ("text", LARGE),
    "also": ("text", LARGE),
    "at": ("timestamptz", "now()"),
    "f": ("float8", "n / 7.0::float8"),
    "x": ("int", "n"),
    "j": ("jsonb", """jsonb_build_object('n', n, 'é', null)"""),
}
"""Every other column: its type, and its value in a new row."""
ODD_LEAF = "_1"
"""The suffix of the partition with a different identity."""
MOOD = "CREATE TYPE mood AS ENUM ('sad_0', 'calm_0', 'glad_0')"
"""An enum whose labels show how often they were renamed."""
_LABELS = {"e": ("mood", "(enum_range(NULL::mood))[abs(n) % 3 + 1]")}


def other_columns(shape: TableShape) -> dict[str, tuple[str, str]]:
    """The columns besides the key, each with its type and its value in a new row."""
    return {**COLUMNS, **(_LABELS if shape.labels else {})}


def row(shape: TableShape) -> tuple[list[str], list[str]]:
    """The columns of a new row, and the expression for each in terms of `n`."""
    names = [name for name, _ in shape.kind.columns]
    others = other_columns(shape)
    return [*names, *others], [*shape.kind.values, *(value for _, value in others.values())]


def key_columns(shape: TableShape) -> tuple[list[str], list[str]]:
    """The columns that depend on `n`, and their expressions."""
    names = [name for name, _ in shape.kind.columns]
    return [*names, "n", "alt"], [*shape.kind.values, "n", COLUMNS["alt"][1]]


def create(shape: TableShape) -> list[str]:
    """The statements that create the table and its first rows."""
    kind = shape.kind
    columns = [f"{name} {type_}" for name, type_ in kind.columns]
    columns += [f"{name} {type_}" for name, (type_, _) in other_columns(shape).items()]
    if kind.primary:
        columns.append(f"PRIMARY KEY ({', '.join(name for name, _ in kind.columns)})")
    partitioned = f" PARTITION BY {kind.partitions}" if kind.partitions else ""
    made = [f"CREATE TABLE {shape.name} ({', '.join(columns)}){partitioned}"]
    if partitioned:
        made += [
            f"CREATE TABLE {leaf} PARTITION OF {shape.name} FOR VALUES IN ({part})"
            for part, leaf in enumerate(shape.leaves)
        ]
    made += [
        f"ALTER TABLE {leaf} ALTER big SET STORAGE EXTERNAL, ALTER also SET STORAGE EXTERNAL"
        for leaf in shape.leaves
    ]
    made.append(f"CREATE INDEX ON {shape.name} (n)")
    made += [f"ALTER TABLE {leaf} REPLICA IDENTITY {_identity(shape, leaf)}" for leaf in shape.leaves]
    if shape.identity == "i":
        made.insert(
            -len(shape.leaves), f"CREATE UNIQUE INDEX ON {shape.name} ({', '.join(shape.identifies)})"
        )
    if shape.leaf:
        made += _odd_leaf(f"{shape.name}{ODD_LEAF}", shape.leaf)
    names, values = row(shape)
    made.append(
        f"INSERT INTO {shape.name} ({', '.join(names)})"
        f" SELECT {', '.join(values)} FROM generate_series(0, {shape.rows - 1}) n"
    )
    return made


def _odd_leaf(leaf: str, identity: str) -> list[str]:
    """The statements that give a partition a different identity."""
    if identity in {"f", "n"}:
        return [f"ALTER TABLE {leaf} REPLICA IDENTITY {'FULL' if identity == 'f' else 'NOTHING'}"]
    columns = "alt" if identity == "a" else "p, k, alt"
    return [
        f"CREATE UNIQUE INDEX {leaf}_odd ON {leaf} ({columns})",
        f"ALTER TABLE {leaf} REPLICA IDENTITY USING INDEX {leaf}_odd",
    ]


def disguised(shape: TableShape) -> list[str]:
    """The statements that give the table another primary key."""
    dropped = "DROP CONSTRAINT {name}_pkey, " if shape.kind.primary else ""
    return [f"ALTER TABLE {shape.name} {dropped.format(name=shape.name)}ADD PRIMARY KEY (alt)"]


def _identity(shape: TableShape, leaf: str) -> str:
    index = f"{leaf}_{'_'.join(shape.identifies)}_idx"
    words = {"d": "DEFAULT", "f": "FULL", "n": "NOTHING", "i": f"USING INDEX {index}"}
    return words[shape.identity]
