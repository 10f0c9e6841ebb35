"""Any text whatever, as a configuration: settings or a ConfigError, nothing else."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Settings, parse, read
from engine.config.catalogue import catalogue_of
from engine.config.text.java import parse_properties
from engine.errors import ConfigError

LEAST = (
    "database.hostname=h\ndatabase.user=u\ndatabase.dbname=d\ntopic.prefix=p\nsnapshot.mode=never\n"
    "tidemark.sink=null\n"
)
NAMES = st.sampled_from([row.name for row in catalogue_of({}).rows]) | st.text(max_size=20)
VALUES = st.sampled_from(
    ["", "true", "0", "-1", "none", "a.b", "a=b;c", "(", "${env:X}", "${", "1k"]
) | st.text(max_size=30)


def settings_or_refusal(text: bytes, suffix: str) -> Settings | tuple[str, ...]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"config{suffix}"
        path.write_bytes(text)
        try:
            return read(path)
        except ConfigError as exc:
            return exc.problems


@pytest.mark.parametrize("suffix", [".properties", ".json", ".yaml"])
@given(text=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_file_gives_settings_or_a_refusal(suffix: str, text: bytes):
    assert settings_or_refusal(text, suffix)


@given(st.text(alphabet="\\ \t\f=:#!u0dab\n\r$,", max_size=40))
def test_any_properties_after_good_ones_give_settings_or_a_refusal(text: str):
    assert settings_or_refusal((LEAST + text).encode(), ".properties")


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_any_values_give_settings_or_a_refusal(changes: dict[str, str]):
    try:
        found: Settings | tuple[str, ...] = parse(parse_properties(LEAST).properties | changes)
    except ConfigError as exc:
        found = exc.problems

    assert found


def escaped(text: str, extra: str) -> str:
    return "".join(
        f"\\u{unit:04x}" if character in extra + "\\\r\n\t\f" else character
        for character in text
        for unit in [ord(character)]
    )


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        max_size=5,
    )
)
def test_properties_come_back_as_they_were_written(properties: dict[str, str]):
    text = "\n".join(f"{escaped(name, ' =:#!')}={escaped(value, ' ')}" for name, value in properties.items())

    parsed = parse_properties(text)

    assert (properties, []) == (parsed.properties, parsed.problems)
