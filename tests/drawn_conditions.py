"""Conditions drawn at random for a table of many types, most of them without the brackets that would help."""

from __future__ import annotations

import random

CREATE = (
    """CREATE TABLE cond (id int PRIMARY KEY, a int, b bigint, n numeric(8,2), s text, v varchar(10),
        c char(5), f bool, d timestamptz, j jsonb, arr int[], tags text[], day date, u uuid)""",
    """INSERT INTO cond SELECT i, nullif(i % 7, 0), i * 3 % 11, i / 3.0,
        (ARRAY[NULL, 'x', 'it''s ?', 'ab', 'q?a'])[i % 5 + 1], 'v' || i % 3, 'ab', i % 3 = 0,
        timestamptz '2024-01-01' + i * interval '7 h',
        (ARRAY['{"k": "x", "n": 1}', '{"n": 2}', NULL, '[]'])[i % 4 + 1]::jsonb, ARRAY[i % 3, i % 5],
        ARRAY['x', 'y'], date '2024-01-01' + i % 5, ('00000000-0000-0000-0000-00000000000' || i % 3)::uuid
        FROM generate_series(1, 60) i""",
)
TYPES = {
    **dict.fromkeys(("id", "a"), "int4"),
    "b": "int8",
    "n": "numeric",
    "s": "text",
    "v": "varchar",
    "c": "bpchar",
    "f": "bool",
    "d": "timestamptz",
    "j": "jsonb",
    "arr": "int4[]",
    "tags": "text[]",
    "day": "date",
    "u": "uuid",
}
"""The columns, and pg_catalog's names of their types."""

_NUMBERS = (
    *(
        "a",
        "b",
        "n",
        "1",
        "2",
        "3",
        "-1",
        "0.5",
        "- a",
        "length(s)",
        "10",
        "id",
        "a::bigint",
        "coalesce(a, 0)",
    ),
    *("cast(n as int)", "nullif(a, 2)", "extract(day from d)"),
)
_TEXTS = (
    *("s", "v", "c", "'x'", "'it''s ?'", "'a%'", r"E'a\\b'", "$$q?$$", "lower(s)", "j ->> 'k'", "upper(v)"),
    *("substring(s from 1 for 2)", "trim(s)", "a::text", "'ab'", "left(s, 2)", r"E'it\'s'", "'{'", "s || v"),
)
_TRUTHS = (
    *("f", "not f", "f is true", "f is not false", "true", "(a = 1) is not true", "f = true", "a is null"),
    *("s is not null", "j ? 'k'", "j ?| array['k', 'z']", 'j @> \'{"k": "x"}\'', "j -> 'n' = '1'"),
    *(
        "(j ->> 'n')::int > 1",
        "j #>> '{k}' = 'x'",
        "j -> 'k' is null",
        "arr && array[1, 2]",
        "arr @> array[1]",
    ),
    *("1 = any(arr)", "arr[1] = 1", "a = any(array[1, 2, 3])", "a <> all(array[1, 2])", "'x' = any(tags)"),
    *("d > '2024-01-03'", "d > now() - interval '1 day'", "day >= date '2024-01-02'", "day = '2024-01-02'"),
    *("day in ('2024-01-02', '2024-01-03')", "date_trunc('day', d) = '2024-01-03'", "a notnull and f"),
    *(
        "u in ('00000000-0000-0000-0000-000000000001')",
        "not a between 1 and 2 or f",
        "s similar to 'a%' || 'b'",
    ),
    *("d at time zone 'utc' > timestamp '2024-01-02'", "d between '2024-01-01' and '2024-01-04'"),
    *("not a = 1 is null", "a in (1) = f", "s || a -> 'b' = s", "s || j ->> 'k' = 'x'", "a + b is null"),
    *("s like 'x' || v", "- a ^ 2 > 1", "a ^ 2 ^ 2 > 3", "a is null = f", "f = a is null", "a < b = f"),
    *(
        "- 2 ^ 2 = a",
        "s collate \"C\" || v > 'a'",
        "a is distinct from b = f",
        "a % 2 * 3 = 0",
        "10 - a - b > 2",
    ),
    *(
        "a / 2 * 2 = a",
        "a << 1 + 1 > 2",
        "a & 3 | b > 1",
        "~ a & b > 1",
        "a # b & 3 > 1",
        "arr || a @> array[1]",
    ),
)
_SIGNS = ("+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>", "^")
_PATTERNS = ("'%a%'", "'x'", "s")
_COMPARISONS = ("=", "<>", "!=", "<", ">", "<=", ">=")


def drawn(seed: int, count: int) -> list[str]:
    """So many conditions."""
    chance = random.Random(seed)
    return [_condition(chance) for _ in range(count)]


def _condition(chance: random.Random, depth: int = 0) -> str:
    text = _term(chance, depth)
    while chance.random() < 0.4:
        text += f" {chance.choice(('and', 'or'))} {_term(chance, depth)}"
    return text.replace(" ", "\n/* { ? ; ' */ ", 1) if chance.random() < 0.05 else text


def _term(chance: random.Random, depth: int) -> str:  # noqa: PLR0911  (one a kind)
    kind = chance.randrange(12)
    if kind < 4 or depth > 2:
        return chance.choice(_TRUTHS)
    if kind < 6:
        return f"{_number(chance)} {chance.choice(_COMPARISONS)} {_number(chance)}"
    if kind == 6:
        return f"{_text(chance)} {chance.choice(('=', '<>', '<', '>'))} {_text(chance)}"
    if kind == 7:
        values = ", ".join(_number(chance, 3) for _ in range(chance.randint(1, 4)))
        return f"{_number(chance, 2)} {chance.choice(('in', 'not in'))} ({values})"
    if kind == 8:
        values = ", ".join(
            chance.choice(("'x'", "'ab'", "'q?'", "NULL", "v")) for _ in range(chance.randint(1, 3))
        )
        return f"{_text(chance)} {chance.choice(('in', 'not in'))} ({values})"
    if kind == 9:
        operator = chance.choice(("like", "not like", "ilike", "~", "!~", "~*", "not ilike"))
        return f"{_text(chance)} {operator} {chance.choice(_PATTERNS)}"
    if kind == 10:
        inner = [_condition(chance, depth + 1) for _ in range(3)]
        return f"case when {inner[0]} then {inner[1]} else {inner[2]} end"
    return f"not ({_condition(chance, depth + 1)})"


def _number(chance: random.Random, depth: int = 0) -> str:
    kind = chance.random()
    if kind < 0.45 or depth > 2:
        return chance.choice(_NUMBERS)
    if kind < 0.9:
        return f"{_number(chance, depth + 1)} {chance.choice(_SIGNS)} {_number(chance, depth + 1)}"
    return f"({_number(chance, depth + 1)})"


def _text(chance: random.Random, depth: int = 0) -> str:
    if chance.random() < 0.6 or depth > 1:
        return chance.choice(_TEXTS)
    return f"{_text(chance, depth + 1)} || {_text(chance, depth + 1)}"
