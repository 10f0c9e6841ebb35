"""Quoted names and literals mean exactly what they were made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.server.sql import quote_ident, quote_literal, quote_table
from engine.errors import InvariantError

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def read_ident(text: str) -> str:
    assert text[0] == text[-1] == '"'
    inner = text[1:-1]
    assert '"' not in inner.replace('""', "")
    return inner.replace('""', '"')


def read_literal(text: str) -> str:
    escaped = text.startswith(" E'")
    inner = text.removeprefix(" E")[1:-1]
    assert "'" not in inner.replace("''", "")
    inner = inner.replace("''", "'")
    if not escaped:
        assert "\\" not in inner
        return inner
    assert "\\" not in inner.replace("\\\\", "")
    return inner.replace("\\\\", "\\")


@given(ANY)
def test_names_come_back(name):
    assert read_ident(quote_ident(name)) == name


@given(ANY)
def test_literals_come_back(text):
    assert read_literal(quote_literal(text)) == text


def test_a_table_is_schema_and_name():
    assert quote_table("a.b", 'c"d') == '"a.b"."c""d"'


@pytest.mark.parametrize("quote", [quote_ident, quote_literal])
def test_nul_is_refused(quote):
    with pytest.raises(InvariantError):
        quote("a\0b")
