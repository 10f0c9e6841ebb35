"""The formats a configuration may be written in, and references in its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config import load
from engine.config.text.java import parse_properties
from engine.errors import ConfigError


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t=  b c ", {"a": "b c "}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = = b", {"a": "= b"}),
        (r"a\ b\=c\:d=e", {"a b=c:d": "e"}),
        ("# x=1\n! y=2\n\n  # z\na=1", {"a": "1"}),
        ("a=1\\\n   2\\\n\t3\nb=4", {"a": "123", "b": "4"}),
        ("a=1\\\r\n2\rb=3", {"a": "12", "b": "3"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u00e9\uD83D\uDE00", {"a": "é\N{GRINNING FACE}"}),
        ("é=ü", {"é": "ü"}),
        (r"t=s1\\.t,s2\\..*", {"t": r"s1\.t,s2\..*"}),
        ("=b", {"": "b"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]):
    parsed = parse_properties(text)

    assert (expected, []) == (parsed.properties, parsed.problems)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=1\nb=2\na=3", "'a' stands twice, in lines 1 and 3"),
        ("b=2\na=\\u12", "line 2: \\u needs four hexadecimal digits"),
        ("a=\\uD83D", "line 1: half of a surrogate pair"),
    ],
)
def test_faults_of_properties_name_their_lines(text: str, problem: str):
    assert [problem] == parse_properties(text).problems


FLAT = {"a.b": "1", "a.c": "true", "d": "x,y", "e": "1.50"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{"a.b": 1, "a.c": true, "d": "x,y", "e": 1.50, "f": null}'),
        ("c.json", '{"a.b": 1, "a": {"c": true}, "d": ["x", "y"], "e": "1.50"}'),
        ("c.conf", '\n {"a.b": 1, "a.c": true, "d": "x,y", "e": "1.50"}'),
        ("c.yaml", "a.b: 1\na.c: true\nd: x,y\ne: 1.50\nf: null\ng: ~\nh:\n"),
        ("c.yml", "a:\n  b: 1\n  c: true\nd: [x, y]\ne: '1.50'"),
        ("c.properties", "a.b=1\na.c=true\nd=x,y\ne=1.50"),
    ],
)
def test_every_format_gives_the_same_flat_text(tmp_path: Path, name: str, text: str):
    assert load(written(tmp_path, name, text)) == FLAT


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "n", "config": {"a": 1}}',
        '{"name": "n", "config": {"name": "n", "a": 1}, "tasks": [], "type": "source"}',
    ],
)
def test_kafka_connects_wrapper_is_taken_off(tmp_path: Path, text: str):
    assert load(written(tmp_path, "c.json", text)) == {"name": "n", "a": "1"}


def test_a_byte_order_mark_and_latin_1_are_read(tmp_path: Path):
    marked, latin = tmp_path / "m.properties", tmp_path / "l.properties"
    marked.write_bytes("a=é".encode("utf-8-sig"))
    latin.write_bytes("a=é".encode("latin-1"))

    assert [load(marked), load(latin)] == [{"a": "é"}] * 2


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("c.json", '{"a": 1, "a": 2}', "'a' stands twice"),
        ("c.json", '{"a": {"b": 1}, "a.b": 2}', "'a.b' stands twice"),
        ("c.json", '{"name": "n", "config": {"name": "m"}}', "'name' stands twice"),
        ("c.json", '{"a": [{"b": 1}]}', "'a' is a list of more than plain values"),
        ("c.json", '{"a": [[1]]}', "'a' is a list of more than plain values"),
        ("c.json", '{"a": [null]}', "'a' is a list of more than plain values"),
        ("c.json", '{"a": ', "line 1: not JSON"),
        ("c.json", "[1]", "the JSON text must be one object"),
        ("c.json", "[" * 100_000, "nested too deeply"),
        ("c.yaml", "a: 1\na: 2", "'a' stands twice"),
        ("c.yaml", "a: [1, 2]\nb: {", "line 2: not YAML"),
        ("c.yaml", "a: &x [1]\nb: *x", "line 1: write it out instead of an alias"),
        ("c.yaml", "- 1", "the YAML text must be one mapping"),
        ("c.yaml", "a: \x01", "not YAML"),
        ("c.yaml", "", "the YAML text must be one mapping"),
    ],
)
def test_faults_of_json_and_yaml_are_named(tmp_path: Path, name: str, text: str, problem: str):
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, name, text))

    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.properties")


def test_references_are_resolved_and_hide_in_their_repr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secrets = written(tmp_path, "secrets.properties", "pass.word=hid\\u0064en")
    monkeypatch.setenv("TM_HOST", "db")
    path = written(
        tmp_path, "c.properties", f"a=x-${{env:TM_HOST}}\nb=${{file:{secrets}:pass.word}}\nc=${{plain}}"
    )

    loaded = load(path)

    assert loaded == {"a": "x-db", "b": "hidden", "c": "${plain}"}
    assert "hidden'" not in repr(loaded)
    assert "x-db" not in repr(loaded)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("${env:TM_NONE}", "'a': no environment variable 'TM_NONE'"),
        ("${env:A:B}", "'a': no environment variable 'A:B'"),
        ("${file:/none:k}", "'a': can't read the file '/none'"),
        ("${file:k}", "'a': a file reference reads"),
        ("${vault:p:k}", "'a': no config provider 'vault'; known: env, file"),
    ],
)
def test_references_that_lead_nowhere_are_all_named(tmp_path: Path, value: str, problem: str):
    path = written(tmp_path, "c.properties", f"a={value}\nb=${{env:TM_NONE}}")

    with pytest.raises(ConfigError) as caught:
        load(path)

    assert caught.value.problems[0].startswith(problem)
    assert caught.value.problems[1] == "'b': no environment variable 'TM_NONE'"


def test_a_key_that_the_referenced_file_lacks_is_named(tmp_path: Path):
    secrets = written(tmp_path, "s.properties", "x=1")
    path = written(tmp_path, "c.properties", f"a=${{file:{secrets}:y}}")

    with pytest.raises(ConfigError, match="no key 'y' in the file"):
        load(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tidemark.sink: null\n", {"tidemark.sink": "null"}),
        ("tidemark:\n  sink: null\n  checkpoint: null\n", {"tidemark.sink": "null"}),
        ("name: a\nconfig:\n  tidemark.sink: null\n", {"name": "a", "tidemark.sink": "null"}),
        ("tidemark.sink:\na: 1\n", {"a": "1"}),
    ],
)
def test_yaml_s_null_is_the_sink_of_that_name(tmp_path: Path, text: str, expected: dict[str, str]):
    path = tmp_path / "c.yaml"
    path.write_text(text)

    assert load(path) == expected
