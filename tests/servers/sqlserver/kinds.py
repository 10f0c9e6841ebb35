"""T-SQL's types: how PostgreSQL stores a column of each, and what the catalog says of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

_TYPE_IDS = {
    "image": 34,
    "text": 35,
    "uniqueidentifier": 36,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "datetimeoffset": 43,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "smalldatetime": 58,
    "real": 59,
    "money": 60,
    "datetime": 61,
    "float": 62,
    "sql_variant": 98,
    "ntext": 99,
    "bit": 104,
    "decimal": 106,
    "numeric": 108,
    "smallmoney": 122,
    "bigint": 127,
    "varbinary": 165,
    "varchar": 167,
    "binary": 173,
    "char": 175,
    "timestamp": 189,
    "nvarchar": 231,
    "nchar": 239,
    "xml": 241,
}
TYPE_IDS = {name: (number, number) for name, number in _TYPE_IDS.items()} | {
    "sysname": (231, 256),
    "hierarchyid": (240, 128),
    "geometry": (240, 129),
    "geography": (240, 130),
}
"""The system type's number and the type's own."""
_PLAIN = {
    **dict.fromkeys(("bit", "tinyint", "smallint"), "smallint"),
    "int": "integer",
    "bigint": "bigint",
    "real": "real",
    "float": "double precision",
    "date": "date",
    "money": "numeric(19, 4)",
    "smallmoney": "numeric(10, 4)",
    "uniqueidentifier": "mssql.uniqueidentifier",
    **dict.fromkeys(("datetime", "smalldatetime"), "mssql.{0}"),
    **dict.fromkeys(("binary", "varbinary", "image", "timestamp"), "bytea"),
    **dict.fromkeys(("hierarchyid", "geometry", "geography"), "bytea"),
    **dict.fromkeys(("xml", "sql_variant"), "text"),
}
TEXTS = frozenset({"char", "varchar", "nchar", "nvarchar", "text", "ntext", "sysname"})
SCALED = frozenset({"time", "datetime2", "datetimeoffset"})
LARGE = frozenset({"text", "ntext", "image"})
"""Types whose old values CDC never has."""
_SIZES = {
    "bit": (1, 1, 0),
    "tinyint": (1, 3, 0),
    "smallint": (2, 5, 0),
    "int": (4, 10, 0),
    "bigint": (8, 19, 0),
    "real": (4, 24, 0),
    "float": (8, 53, 0),
    "money": (8, 19, 4),
    "smallmoney": (4, 10, 4),
    "date": (3, 10, 0),
    "datetime": (8, 23, 3),
    "smalldatetime": (4, 16, 0),
    "uniqueidentifier": (16, 0, 0),
    "timestamp": (8, 0, 0),
    "text": (16, 0, 0),
    "ntext": (16, 0, 0),
    "image": (16, 0, 0),
    "xml": (-1, 0, 0),
    "sql_variant": (8016, 0, 0),
    "sysname": (256, 0, 0),
    "hierarchyid": (892, 0, 0),
    "geometry": (-1, 0, 0),
    "geography": (-1, 0, 0),
}
_SCALED_SIZES = {"time": (3, 8), "datetime2": (6, 19), "datetimeoffset": (8, 26)}
_SYNONYMS = {
    # sqlglot writes decimal as NUMERIC; `ddl.readable` makes numeric come as BIGDECIMAL
    "numeric": "decimal",
    "bigdecimal": "numeric",
    "integer": "int",
    "rowversion": "timestamp",
    "double precision": "float",
    "dec": "decimal",
    "character": "char",
    "national char": "nchar",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A column's type: its T-SQL name and arguments, -1 for `max`. `collation` is that of texts."""

    name: str
    arguments: tuple[int, ...] = ()
    collation: str = ""

    @property
    def sensitive(self) -> bool:
        """Whether texts compare exactly, with case."""
        return "_CS_" in self.collation or "_BIN" in self.collation

    @property
    def large(self) -> bool:
        """Whether CDC omits an unchanged old value."""
        return self.name in LARGE or self.arguments == (-1,) or self.name == "xml"

    @property
    def postgres(self) -> str:
        """The column's PostgreSQL type with its collation."""
        if self.name in TEXTS:
            return 'text COLLATE "C"' if self.sensitive else "citext"
        if self.name in SCALED:
            return f"mssql.{self.name}_{self.arguments[0]}"
        if self.name in {"decimal", "numeric"}:
            return f"numeric({self.arguments[0]}, {self.arguments[1]})"
        return _PLAIN[self.name].format(self.name)

    @property
    def ids(self) -> tuple[int, int]:
        """Its system type's number, and its own, as in sys.types."""
        return TYPE_IDS[self.name]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """max_length, precision and scale, as in sys.columns."""
        if self.name in {"decimal", "numeric"}:
            precision, scale = self.arguments
            return (
                (5 if precision < 10 else 9 if precision < 20 else 13 if precision < 29 else 17),
                precision,
                scale,
            )
        if self.name in SCALED:
            (scale,) = self.arguments
            size, precision = _SCALED_SIZES[self.name]
            return size + (scale > 2) + (scale > 4), precision + (scale + 1 if scale else 0), scale
        if self.name in _SIZES:
            return _SIZES[self.name]
        length = self.arguments[0]
        return (length * 2 if self.name in {"nchar", "nvarchar"} and length > 0 else length), 0, 0


def kind_of(described: exp.DataType, collation: str = "") -> Kind:
    """The kind of a parsed type, with its default arguments."""
    written = described.sql("tsql").lower()
    name, _, rest = written.replace(")", "").partition("(")
    name = _SYNONYMS.get(name.strip(), name.strip())
    arguments = tuple(-1 if word.strip() == "max" else int(word) for word in rest.split(",") if word.strip())
    if name in SCALED:
        arguments = arguments or (7,)
    elif name in {"decimal", "numeric"}:
        arguments = (*(arguments or (18,)), 0)[:2]
    elif name == "float" and arguments and arguments[0] < 25:
        name, arguments = "real", ()
    elif name in {"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"}:
        arguments = arguments or (1,)
    else:
        arguments = ()
    return Kind(name, arguments, collation)
