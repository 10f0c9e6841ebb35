r"""JSON strings in bulk: escaping columns of text. `json_text` writes single values.

The text is what Java's Jackson writes as bytes, and so what Kafka Connect's converter sends: no blanks,
control characters as `\b \t \n \f \r` or `\u001B`, characters beyond the BMP as two surrogates
`\uD83D\uDE00`, all others as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from engine.events.values.json_text import ESCAPES
from engine.events.values.surrogates import LEAST_FIRST, with_pairs
from engine.events.values.text import text_from, text_parts

if TYPE_CHECKING:
    from engine.events.values.text import Bytes, Ints, Text

_GROWTH = np.zeros(256, np.uint8)
_GROWTH[:0x80] = [len(text) - 1 for text in ESCAPES]
_LARGE, _PIECE = 32 << 20, 1 << 20
_SIX = np.array([list(text.encode().ljust(6, b" ")) for text in ESCAPES], np.uint8)


def escape(texts: Text) -> Text:
    """The inside of a JSON string; null stays null. One pass over the bytes, no loop per row."""
    offsets, data = text_parts(texts)
    used = data[offsets[0] : offsets[-1]]
    if len(used) == 0:
        return texts
    escaped = _escape_specials(texts, offsets, used)
    if used.max() < LEAST_FIRST:
        return escaped
    return text_from(*with_pairs(*text_parts(escaped)), escaped)


def _escape_specials(texts: Text, offsets: Ints, used: Bytes) -> Text:
    """Quotes, backslashes and control characters."""
    if len(used) > _LARGE:
        return _escape_one_by_one(texts, used)
    quotes, slashes = used == 0x22, used == 0x5C
    if used.min() >= 0x20:
        if slashes.any():
            texts = pc.replace_substring(texts, "\\", "\\\\")
        return pc.replace_substring(texts, '"', '\\"') if quotes.any() else texts
    marks = np.flatnonzero((used < 0x20) | quotes | slashes)
    return text_from(_moved(offsets, marks, used), _escaped(used, marks), texts)


def _escape_one_by_one(texts: Text, used: Bytes) -> Text:
    """One pass per special character that occurs. Takes twice the text's memory instead of forty times."""
    pieces = (used[at : at + _PIECE] for at in range(0, len(used), _PIECE))
    found = {int(code) for piece in pieces for code in np.unique(piece)}
    specials = sorted((code for code in found if _GROWTH[code]), reverse=True)
    # The backslash has the greatest code, so it comes first: the other escapes are not escaped again.
    for code in specials:
        texts = pc.replace_substring(texts, chr(code), ESCAPES[code])
    return texts


def _moved(offsets: Ints, marks: Ints, used: Bytes) -> Ints:
    grown = np.concatenate([[0], np.cumsum(_GROWTH[used[marks]], dtype=np.int64)])
    relative = offsets - offsets[0]
    moved: Ints = relative + grown[np.searchsorted(marks, relative)]
    return moved


def _escaped(used: Bytes, marks: Ints) -> Bytes:
    specials = used[marks]
    growth = _GROWTH[specials].astype(np.int64)
    ends = marks + np.cumsum(growth)
    starts = ends - growth
    keep = np.ones(len(used) + int(growth.sum()), bool)
    out = np.empty(len(keep), np.uint8)
    for width in (2, 6):
        chosen = growth == width - 1
        places = starts[chosen][:, None] + np.arange(width)
        out[places] = _SIX[specials[chosen], :width]
        keep[places] = False
    plain = np.ones(len(used), bool)
    plain[marks] = False
    out[keep] = used[plain]
    return out
