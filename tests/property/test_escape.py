"""Escaping a column at once gives what escaping its values one by one gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values import json_strings
from engine.events.values.json_strings import escape
from engine.events.values.json_text import quote

_ALPHABETS = ("aé€😀", 'a"é', "a\\", 'a\\"', 'a"\\\n\x00\x1f\x7f€')
"""Without anything to escape, with quotes, with backslashes, with both, with control characters."""


_COLUMNS = st.sampled_from(_ALPHABETS).flatmap(
    lambda letters: st.lists(st.none() | st.text(alphabet=letters, max_size=6), max_size=8)
)


@given(_COLUMNS, st.integers(0, 3))
def test_a_column_is_escaped_as_its_values_are(texts: list[str | None], start: int) -> None:
    column = pa.array(texts, pa.large_string())[start:]

    escaped = escape(column).to_pylist()

    assert escaped == [None if text is None else quote(text)[1:-1] for text in texts[start:]]


@given(_COLUMNS, st.integers(0, 3))
def test_so_is_a_column_that_is_large(texts: list[str | None], start: int) -> None:
    column = pa.array(texts, pa.large_string())[start:]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_strings, "_LARGE", 0)
        escaped = escape(column).to_pylist()

    assert escaped == [None if text is None else quote(text)[1:-1] for text in texts[start:]]
