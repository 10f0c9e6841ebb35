"""The tables of a history: their keys, columns and identities, as plain values and as SQL. Pure.

A row is known to the writers by its ordinal `n`, from which its key follows, so that a script can name
rows without knowing the database. Every version of a row that is ever written has a number of its own
in `ver`, drawn from one sequence: a row that is read tells exactly which write it is.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "nextval('versions')"
LARGE = f"repeat(md5({VERSION}::text) || ' ', 90)"
"""A value that is stored out of line; no two are the same."""


@dataclass(frozen=True, slots=True)
class KeyKind:
    """A primary key: its columns with their types, and each column's value for the ordinal `n`."""

    columns: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    partitions: str = ""
    primary: bool = True


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


COLLATIONS = (
    "CREATE COLLATION words (provider = icu, locale = 'und')",
    "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
)
WITHOUT_ICU = ('CREATE COLLATION words FROM "C"', 'CREATE COLLATION loose FROM "C"')
"""Some builds of the server know no other collations."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table: `identity` is d, f, i or n, `rows` how many it has at the start.

    On SQL Server there are several databases; `database` is where it is.
    """

    name: str
    key: str
    identity: str
    rows: int
    database: str = ""

    @property
    def kind(self) -> KeyKind:
        """Its key."""
        return KEYS[self.key]

    @property
    def documents(self) -> bool:
        """Whether it is a collection of documents."""
        return not self.database and self.key not in KEYS

    @property
    def keyed(self) -> bool:
        """Whether it has a key that tells its rows apart."""
        return self.documents or (self.key != "heap" if self.database else self.kind.primary)

    @property
    def appends_only(self) -> bool:
        """Whether the server refuses updates and deletes, which it couldn't log."""
        return self.identity == "n" or (not self.kind.primary and self.identity == "d")

    @property
    def leaves(self) -> tuple[str, ...]:
        """The tables that hold the rows."""
        if self.documents:
            return (self.name,)
        return tuple(f"{self.name}_{part}" for part in range(3)) if self.kind.partitions else (self.name,)

    @property
    def identifies(self) -> tuple[str, ...]:
        """The columns that tell rows apart, and that the log has of every old and new row."""
        if self.identity == "i":
            return ("alt",)
        return tuple(name for name, _ in self.kind.columns) if self.kind.primary else ("ver",)

    @property
    def surrogate(self) -> str | None:
        """What a signal must name to have the table read."""
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


def row(shape: TableShape) -> tuple[list[str], list[str]]:
    """The columns of a new row and the expression for each, in terms of `n`."""
    names = [name for name, _ in shape.kind.columns]
    return [*names, *COLUMNS], [*shape.kind.values, *(value for _, value in COLUMNS.values())]


def key_columns(shape: TableShape) -> tuple[list[str], list[str]]:
    """The columns that follow from `n`, and their expressions."""
    names = [name for name, _ in shape.kind.columns]
    return [*names, "n", "alt"], [*shape.kind.values, "n", COLUMNS["alt"][1]]


def create(shape: TableShape) -> list[str]:
    """The statements that make the table and its first rows."""
    kind = shape.kind
    columns = [f"{name} {type_}" for name, type_ in kind.columns]
    columns += [f"{name} {type_}" for name, (type_, _) in COLUMNS.items()]
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
    made += [f"ALTER TABLE {leaf} REPLICA IDENTITY {_identity(shape)}" for leaf in shape.leaves]
    if shape.identity == "i":
        made.insert(-1, f"CREATE UNIQUE INDEX {shape.name}_alt ON {shape.name} (alt)")
    names, values = row(shape)
    made.append(
        f"INSERT INTO {shape.name} ({', '.join(names)})"
        f" SELECT {', '.join(values)} FROM generate_series(0, {shape.rows - 1}) n"
    )
    return made


def disguised(shape: TableShape) -> list[str]:
    """The statements that give the table another primary key."""
    dropped = "DROP CONSTRAINT {name}_pkey, " if shape.kind.primary else ""
    return [f"ALTER TABLE {shape.name} {dropped.format(name=shape.name)}ADD PRIMARY KEY (alt)"]


def _identity(shape: TableShape) -> str:
    words = {"d": "DEFAULT", "f": "FULL", "n": "NOTHING", "i": f"USING INDEX {shape.name}_alt"}
    return words[shape.identity]
