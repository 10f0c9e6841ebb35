"""Key columns of every kind, and what a database must have for them.

Each kind brings values that order differently as text than in the database, or that the database
holds for equal though it prints them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

TEXTS = ("", " ", "a", "A", "ab", "aB", "b", "é", "z", "'", "\\", '"', "\x1f", "a\nb", "10", "9", "?", "{")
PREPARED = """
CREATE SCHEMA apart;
CREATE EXTENSION citext SCHEMA apart;
CREATE TYPE level AS ENUM ('low', 'mid', 'high', 'it''s', '');
CREATE TYPE pair AS (n int, t text);
CREATE TYPE span AS RANGE (subtype = text, collation = "C");
CREATE DOMAIN even AS int CHECK (value % 2 = 0);
CREATE DOMAIN code AS text COLLATE "POSIX" CHECK (length(value) < 9);
CREATE DOMAIN inner_code AS code;
"""
"""Types that the kinds use; `apart` is a schema that no search path names."""
ICU = """
CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION german (provider = icu, locale = 'de-u-kn-true');
"""
"""The same for a server that was built with ICU."""


@dataclass(frozen=True)
class Kind:
    """A key column's type, and values of it. `alike` are pairs that are one key with two texts."""

    type: str
    values: tuple[str, ...]
    alike: tuple[tuple[str, str], ...] = ()
    icu: bool = False

    def on(self, version: int) -> bool:
        """Whether a test server of this version has it."""
        if self.icu:
            return version < 18
        return version >= 18 or "pg_unicode_fast" not in self.type


KINDS = (
    Kind("int4", ("-2147483648", "-1", "0", "9", "10", "2147483647")),
    Kind("int8", ("-9223372036854775808", "-5", "0", "7", "30", "9223372036854775807")),
    Kind(
        "numeric",
        ("-Infinity", "-0.5", "1", "1.0", "1.00", "9", "10", "Infinity", "NaN"),
        (("1.0", "1.00"), ("9", "9.0"), ("10", "10.000")),
    ),
    Kind("float4", ("-Infinity", "-0", "0", "0.1", "1e20", "NaN"), (("-0", "0"),)),
    Kind("float8", ("-Infinity", "-0", "0", "0.1", "1e300", "NaN"), (("0", "-0"),)),
    Kind("text", TEXTS),
    Kind('text COLLATE "C"', TEXTS),
    Kind("text COLLATE pg_unicode_fast", TEXTS),
    Kind("text COLLATE anycase", TEXTS, (("a", "A"), ("ab", "aB"), ("z", "Z")), icu=True),
    Kind("text COLLATE german", TEXTS, icu=True),
    Kind("varchar(5) COLLATE german", ("a", "A", "é", "2", "10", ""), icu=True),
    Kind("apart.citext", ("", "a", "A", "ab", "aB", "B", "C"), (("a", "A"), ("ab", "AB"))),
    Kind("char(5)", ("", "a", "A", "ab", "b  ", "é")),
    Kind("name", ("", "a", "A", "b")),
    Kind("level", ("low", "mid", "high", "it's", "")),
    Kind("even", ("-2", "0", "10", "8")),
    Kind("code", ("", "a", "A", "é")),
    Kind('inner_code COLLATE "C"', ("", "a", "B", "é")),
    Kind(
        "uuid",
        (
            "00000000-0000-0000-0000-000000000001",
            "0f000000-0000-0000-0000-000000000000",
            "ff000000-0000-0000-0000-000000000000",
        ),
    ),
    Kind(
        "timestamptz",
        (
            "-infinity",
            "1900-01-01 00:00+00",
            "2020-02-29 12:00+03",
            "2020-02-29 09:00:00.000001Z",
            "infinity",
        ),
    ),
    Kind("timestamp", ("-infinity", "0044-03-15 12:00 BC", "2020-02-29 12:00", "infinity")),
    Kind("date", ("4713-01-01 BC", "0001-12-31 BC", "2020-02-29", "infinity")),
    Kind("timetz", ("12:00+00", "12:00+01", "15:00+01", "24:00-03")),
    Kind("bytea", ("\\x", "\\x00", "\\xff", "\\x0a")),
    Kind("bool", ("true", "false")),
    Kind(
        "interval", ("1 mon", "30 days", "-1 day", "25:00"), (("1 mon", "30 days"), ("25:00", "1 day 1:00"))
    ),
    Kind("money", ("-1.50", "0", "9", "10.25")),
    Kind("inet", ("10.0.0.1", "10.0.0.0/8", "::1", "9.9.9.9")),
    Kind("macaddr", ("08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff")),
    Kind('"char"', ("a", "Z", "")),
    Kind("bit(3)", ("000", "101", "111")),
    Kind("varbit", ("", "1", "10", "0111")),
    Kind("int4range", ("empty", "[1,5)", "(,3)", "[10,)", "[9,10)")),
    Kind("numrange", ("empty", "[1.0,2)", "[1,3]"), (("[1.0,2)", "[1.00,2)"),)),
    Kind("span", ("empty", '["a","b")', '["B","a")', '[" ",)')),
    Kind("int4[]", ("{}", "{9}", "{10}", "{10,NULL}", "{{1,2},{3,4}}")),
    Kind("text[]", ("{}", '{""}', '{a,"b c"}', '{"\\"",NULL}', '{"{"}')),
    Kind(
        "pair",
        ("(1,a)", '(1,"A b")', "(,)", "(10,)", '(9,"""")'),
    ),
    Kind("pg_lsn", ("0/0", "0/A", "1/0", "FFFFFFFF/0")),
    Kind("xid8", ("0", "9", "10")),
)
