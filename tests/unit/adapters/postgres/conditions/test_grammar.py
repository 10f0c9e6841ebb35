"""Conditions of signals as PostgreSQL is given them: written anew from a tree, or refused by name."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.postgres.conditions.grammar import FUNCTIONS, GRAMMAR, named_column
from adapters.postgres.conditions.trusted_sql import for_jdbc, plain_condition
from adapters.source.conditions.rendering import LONGEST, render_condition
from adapters.source.conditions.writer import Reference, ResolvedColumn
from engine.errors import SignalError
from engine.model import CollectionId

T = CollectionId(("public", "t"))
COLUMNS = {
    **dict.fromkeys(("id", "a", "b"), "pg_catalog.int4"),
    **dict.fromkeys(("name", "note", "Name", 'we"ird', "?{"), "pg_catalog.text"),
    "tags": "pg_catalog.jsonb",
    "arr": "pg_catalog.int4[]",
    "f": "pg_catalog.bool",
    "d": "pg_catalog.timestamptz",
}
SIGNS = "abfd ()'\"$?{}[],.:;=<>-+*/%|&^~!\\E1\n\v\0"


def find(reference: Reference) -> ResolvedColumn | None:
    name = named_column(reference, T)
    if name == "ci":
        return ResolvedColumn('"ci"', '"public"."citext"', '"public"')
    return ResolvedColumn('"' + name.replace('"', '""') + '"', COLUMNS[name]) if name in COLUMNS else None


def written(condition: str) -> str:
    return render_condition(condition, GRAMMAR, find, "public.t")


def outside_quotes(text: str) -> str:
    """What stands outside of strings and quoted names."""
    parts = []
    quote = ""
    for character in text.replace("E'", "'").replace("\\\\", "").replace("''", "").replace('""', ""):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            parts.append(character)
    return "".join(parts)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id % 3 = 0", '(("id" OPERATOR(pg_catalog.%) 3) OPERATOR(pg_catalog.=) 0)'),
        ("ID > 1", '("id" OPERATOR(pg_catalog.>) 1)'),
        ("\"Name\" = 'x'", "(\"Name\" OPERATOR(pg_catalog.=) 'x')"),
        ('"we""ird" = \'x\'', '("we""ird" OPERATOR(pg_catalog.=) \'x\')'),
        ("t.id > 1 AND public.t.a > 2", '("id" OPERATOR(pg_catalog.>) 1) AND ("a" OPERATOR(pg_catalog.>) 2)'),
        ("tags ? 'odd'", "pg_catalog.jsonb_exists(\"tags\", 'odd')"),
        ("tags ?| array['a']", "pg_catalog.jsonb_exists_any(\"tags\", ARRAY['a'])"),
        ("$$why?$$ = name", "('why?' OPERATOR(pg_catalog.=) \"name\")"),
        (r"E'it\'s ?' = name", "('it''s ?' OPERATOR(pg_catalog.=) \"name\")"),
        (r"name = 'a\b'", "(\"name\" OPERATOR(pg_catalog.=)  E'a\\\\b')"),
        ("a = 1\vor b = 2 -- ' ? {", '("a" OPERATOR(pg_catalog.=) 1) OR ("b" OPERATOR(pg_catalog.=) 2)'),
        ("id IN (1, 2)", '("id" OPERATOR(pg_catalog.=) ANY (ARRAY[1, 2]))'),
        (
            "name IN ('a', NULL)",
            "(\"name\" OPERATOR(pg_catalog.=) ANY (CAST(ARRAY['a', NULL] AS pg_catalog.text[])))",
        ),
        ("a BETWEEN 1 AND 2", '("a" OPERATOR(pg_catalog.>=) 1 AND "a" OPERATOR(pg_catalog.<=) 2)'),
        (
            "name NOT LIKE 'a!%' ESCAPE '!'",
            "(\"name\" OPERATOR(pg_catalog.!~~) pg_catalog.like_escape('a!%', '!'))",
        ),
        (
            "a IS DISTINCT FROM b",
            '(NOT (("a" OPERATOR(pg_catalog.=) "b") IS TRUE OR ("a" IS NULL AND "b" IS NULL)))',
        ),
        ("ci = 'x'", '("ci" OPERATOR("public".=) \'x\')'),
        ("now() > d", '(pg_catalog.now() OPERATOR(pg_catalog.>) "d")'),
        ("lower(name) = 'x'", "(pg_catalog.lower(\"name\") OPERATOR(pg_catalog.=) 'x')"),
        ("a::numeric(10,2) > 1.5", '(CAST("a" AS pg_catalog.numeric(10, 2)) OPERATOR(pg_catalog.>) 1.5)'),
        (
            "CASE a WHEN 1 THEN f ELSE NOT f END",
            '(CASE WHEN ("a" OPERATOR(pg_catalog.=) 1) THEN "f" ELSE (NOT "f") END)',
        ),
        (
            "d > now() - interval '1 day'",
            "(pg_catalog.now() OPERATOR(pg_catalog.-) CAST('1 DAY' AS pg_catalog.interval))",
        ),
    ],
)
def test_a_condition_is_written_with_the_schemas_of_all_that_it_calls(condition: str, expected: str):
    assert expected in written(condition)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("pg_drop_replication_slot('x')", "the function 'pg_drop_replication_slot' is not in the list"),
        ("pg_sleep(30) IS NULL", "'pg_sleep'"),
        ("set_config('a', 'b', false) = ''", "'set_config'"),
        ("pg_read_file('/etc/passwd') = ''", "'pg_read_file'"),
        ("lo_import('/etc/passwd') > 0", "'lo_import'"),
        ("dblink('x', 'y') = 1", "'dblink'"),
        ("query_to_xml('SELECT 1', true, true, '') IS NULL", "'query_to_xml'"),
        ("nextval('s') > 1", "'nextval'"),
        ("random() < 0.5", "'random'"),
        ("repeat('x', 1000000000) = ''", "'repeat'"),
        ("public.evil(a)", "not in the list"),
        ("\"lower\"(name) = 'x'", "'lower'"),
        ("EXISTS (SELECT 1 FROM secrets)", "EXISTS"),
        ("id IN (SELECT 1)", "IN with 'query'"),
        ("id = (SELECT 1)", "SUBQUERY"),
        ("id = ANY (SELECT 1)", "not in the list"),
        ("{oj a} = 1", "no expression"),
        ("a = ?", "PLACEHOLDER"),
        ("a = $1", "not in the list"),
        ("a = :x", "PLACEHOLDER"),
        ("1 = 1; DROP TABLE t", "semicolon"),
        ("true) OR (true", "a bracket is closed"),
        ("1 = 1 ORDER BY a", "no expression"),
        ("1 = 1 UNION SELECT 1", "no expression"),
        ("secret = 1", "the table has no column 'secret'"),
        ("u.id = 1", "the table has no column 'u.id'"),
        ("user = 'x'", "no column 'user'"),
        ("ctid = '(0,1)'", "no column 'ctid'"),
        ("t IS NOT NULL", "no column 't'"),
        ("a::regclass = 'x'", "a cast to 'REGCLASS'"),
        ("a::public.evil = 'x'", "a cast to"),
        ("a OPERATOR(public.=) b", "OPERATOR"),
        ("name COLLATE \"evil\" = 'x'", "collation"),
        ("count(*) > 1", "'count'"),
        ("row_number() OVER () > 1", "WINDOW"),
        ("U&'\\0061' = name", "UNICODESTRING"),
        ("f = f = f", "put brackets around"),
        ("name ~ 'a' || 'b'", "put brackets around"),
        ("name LIKE name ~ 'x'", "put brackets around the LIKE in the"),
        ("a IS NULL LIKE name", "put brackets around the IS in the"),
        ("a = 1\0", "NUL"),
        ("name = E'\\u0000'", "NUL"),
        ("name = E'\\x000\\x00'", "NUL"),
        ("name SIMILAR TO E'a\\0'", "NUL"),
        ("", "empty"),
        ("(" * 30 + "f" + ")" * 30, "more than 24 brackets"),
        ("(" * 100_000, "at most 65536"),
        ("NOT " * 200 + "f", "more than 24 brackets"),
        ("- " * 200 + "a = 1", "more than 24 brackets"),
        ("CASE WHEN " * 200 + "f", "more than 24 brackets"),
        ("a" + " + a" * 15_000 + " = 1", "levels"),
        ("nullif(" * 22 + "a" + ", b)" * 22 + " = 1", "too long"),
    ],
)
def test_what_is_not_in_the_list_is_refused_by_name(condition: str, why: str):
    with pytest.raises(SignalError) as caught:
        written(condition)

    assert why in str(caught.value)
    assert caught.value.where == "public.t"
    assert len(str(caught.value)) < 1_000


def test_what_is_written_holds_nothing_that_a_driver_looks_for_outside_of_quotes():
    text = written("name = '? { } $$ :x ; -- /*' OR \"?{\" = $$'?$$ OR tags ? 'x' OR note = E'\\'?'")

    assert not set(outside_quotes(text)) & set("?{}$:;\\")
    assert "--" not in outside_quotes(text)
    assert "/*" not in outside_quotes(text)
    assert for_jdbc(text) == text


@settings(max_examples=300)
@given(st.text(alphabet=SIGNS, max_size=40) | st.text(max_size=30))
def test_any_text_is_written_safely_or_refused(condition: str):
    try:
        text = written(condition)
    except SignalError:
        return

    assert not set(outside_quotes(text)) & set("?{}$:;")
    assert text.count("(") >= 0


def test_many_values_and_many_terms_are_written_in_little_time():
    started = time.process_time()
    many = written(f"id IN ({', '.join(map(str, range(9_000)))})")
    long = written(" OR ".join("f" for _ in range(9_000)))

    assert many.count(",") == 8_999
    assert long.count("OR") == 8_999
    assert time.process_time() - started < 10


def test_a_condition_is_parsed_once_whatever_comes_of_it(monkeypatch: pytest.MonkeyPatch):
    parses = []
    parse = GRAMMAR.dialect.tokenize

    def counted(self, *arguments, **named):
        parses.append(arguments)
        return parse(self, *arguments, **named)

    monkeypatch.setattr(GRAMMAR.dialect, "tokenize", counted)
    for _ in range(100):
        written("id > 12345 AND a = 6")
        with pytest.raises(SignalError):
            written("id > 12345 AND a = (SELECT 6)")

    assert len(parses) == 2


def test_the_list_of_functions_has_nothing_of_the_systems_own():
    assert not [
        name for name in FUNCTIONS if name.startswith(("pg_", "lo_", "current_", "set_", "xml", "db"))
    ]


def test_a_longest_condition_is_read():
    condition = "name = '" + "x" * (LONGEST - 9) + "'"

    assert written(condition).count("x") == LONGEST - 9


class TestTrusted:
    """Where `tidemark.snapshot.conditions` is `sql`."""

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ("id IN (SELECT 1)", "id IN (SELECT 1)"),
            (r"name = E'it\'s ?'", "name = 'it''s ?'"),
            ("name = $$why?$$", "name = 'why?'"),
            ("name = $q$it's $$ ?$q$", "name = 'it''s $$ ?'"),
            (r"name = E'\x41\101\u0041\n'", "name = 'AAA\n'"),
            (r"name = E'\ud83d\ude00\U0001F600'", "name = '😀😀'"),
            ("a = 1\vOR b = 2", "a = 1 OR b = 2"),
            ("a = 1 -- ) ; '", "a = 1  "),
            ("a = /* ) /* ; */ ' */ 1", "a =   1"),
            ("name = N'x' AND \"?{\" = ''", "name = 'x' AND \"?{\" = ''"),
            (r"name = 'a\b'", "name =  E'a\\\\b'"),
            ("tags ? 'x' AND tags ?| '{}'", "tags ? 'x' AND tags ?| '{}'"),
        ],
    )
    def test_a_condition_is_written_plainly(self, condition: str, expected: str):
        assert expected == plain_condition(condition)

    @pytest.mark.parametrize(
        ("condition", "why"),
        [
            ("{oj a} = 1", "'{'"),
            ("a = 1; DROP TABLE t", "';'"),
            ("true) OR (true", "not opened"),
            ("(a = 1", "not closed"),
            ("a = 1 /* x", "comment"),
            ("a = 'x", '"\'"'),
            ('"a = 1', "'\"'"),
            ("a = $1", "parameter"),
            ("a = 'x' 'y'", "after another"),
            ("a = \x01", "sign"),
            (r"a = E'\000'", "NUL"),
            (r"a = E'x\ud83d'", "surrogate"),
            (r"a = E'\U00110000'", "no character"),
        ],
    )
    def test_what_a_driver_reads_otherwise_is_refused(self, condition: str, why: str):
        with pytest.raises(ValueError, match=r"\w") as caught:
            plain_condition(condition)

        assert why in str(caught.value)

    @pytest.mark.parametrize(
        ("sql", "expected"),
        [
            ("tags ? 'x?' AND \"a?\" ?| b", "tags ?? 'x?' AND \"a?\" ??| b"),
            ("a = $$?$$ -- ?\n AND b ? c /* ? */", "a = $$?$$ -- ?\n AND b ?? c /* ? */"),
            (r"a = E'\'?' AND b ? c", r"a = E'\'?' AND b ?? c"),
            ("a = 'it''s ?' ? b", "a = 'it''s ?' ?? b"),
            ("a ? 'x", "a ?? 'x"),
        ],
    )
    def test_the_driver_takes_no_sign_for_a_parameter(self, sql: str, expected: str):
        assert expected == for_jdbc(sql)


@pytest.mark.parametrize("condition", ["name = 'sought' LIMIT 1", "name = 'sought", "name = 'sought' 1e5e"])
def test_a_refused_condition_is_not_quoted(condition: str):
    with pytest.raises(SignalError) as caught:
        written(condition)

    assert "sought" not in str(caught.value)
