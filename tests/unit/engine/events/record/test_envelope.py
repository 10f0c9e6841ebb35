"""The envelope's text: the same from either road."""

from __future__ import annotations

from engine.events.record.envelope import read_row_affixes, value_pieces
from engine.events.values.text import join


def test_what_is_around_a_row_that_was_read_is_the_envelope_of_the_log():
    row, source = '{"a":1}', '{"db":"d"}'
    before, after = read_row_affixes(source, 7)
    pieces = value_pieces(None, [row], [source], "r", ['7,"transaction":null}'])

    assert join(pieces, 1).to_pylist() == [before + row + after]
