"""PostgreSQL's built-in types by oid, the same on every server; other types come from the catalog."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from adapters.postgres.server.table import PgType

if TYPE_CHECKING:
    from collections.abc import Mapping

# name, oid, oid of its array, category
_ROWS = """
bool 16 1000 B, bytea 17 1001 U, char 18 1002 Z, name 19 1003 S, int8 20 1016 N, int2 21 1005 N,
int4 23 1007 N, text 25 1009 S, oid 26 1028 N, xid 28 1011 U, json 114 199 U, xml 142 143 U,
point 600 1017 G, lseg 601 1018 G, path 602 1019 G, box 603 1020 G, polygon 604 1027 G, line 628 629 G,
cidr 650 651 I, float4 700 1021 N, float8 701 1022 N, circle 718 719 G, macaddr8 774 775 U,
money 790 791 N, macaddr 829 1040 U, inet 869 1041 I, bpchar 1042 1014 S, varchar 1043 1015 S,
date 1082 1182 D, time 1083 1183 D, timestamp 1114 1115 D, timestamptz 1184 1185 D, interval 1186 1187 T,
timetz 1266 1270 D, bit 1560 1561 V, varbit 1562 1563 V, numeric 1700 1231 N, regclass 2205 2210 N,
uuid 2950 2951 U, pg_lsn 3220 3221 U, tsvector 3614 3643 U, tsquery 3615 3645 U, jsonb 3802 3807 U,
int4range 3904 3905 R, numrange 3906 3907 R, tsrange 3908 3909 R, tstzrange 3910 3911 R,
daterange 3912 3913 R, int8range 3926 3927 R, jsonpath 4072 4073 U, xid8 5069 271 U
"""


def _types() -> dict[int, PgType]:
    found = {}
    for row in _ROWS.replace("\n", " ").split(","):
        name, oid, array, category = row.split()
        kind = "r" if category == "R" else "b"
        found[int(oid)] = PgType(int(oid), name, kind=kind, category=category)
        found[int(array)] = PgType(int(array), "_" + name, category="A", element=int(oid))
    return found


BUILTIN: Mapping[int, PgType] = MappingProxyType(_types())
RANGES = ("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange")


def type_of(oid: int, types: Mapping[int, PgType]) -> PgType | None:
    """A type by its oid, from the catalog or from PostgreSQL's built-in types."""
    return types.get(oid) or BUILTIN.get(oid)


def is_enum(oid: int, types: Mapping[int, PgType]) -> bool:
    """Whether a type is an enumeration, or a domain over one or an array of one."""
    kind = type_of(oid, types)
    while kind is not None and (kind.base or kind.element):
        kind = type_of(kind.base or kind.element, types)
    return kind is not None and kind.kind == "e"
