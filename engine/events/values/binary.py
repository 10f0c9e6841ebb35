r"""Bytes: hexadecimal text, with or without PostgreSQL's prefix `\x`, to base64 or hex, in bulk."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow.compute as pc

from engine.events.settings import BinaryMode
from engine.events.values.numbers import base64_chars
from engine.events.values.text import Bytes, Ints, Text, each, text_from, text_parts

_LARGE = 200
"""The average size in bytes from which values are encoded one by one."""
_PAIRS = np.zeros(1 << 16, np.uint8)
for _shown in ("{:02x}", "{:02X}"):
    _PAIRS[np.frombuffer("".join(map(_shown.format, range(256))).encode(), "<u2")] = np.arange(256)
"""The byte for two hexadecimal digits, indexed by the two characters as one number."""


def hex_text(texts: Text, mode: BinaryMode) -> Text:
    r"""`\xdeadbeef` in the form that `binary.handling.mode` asks for, without quotes."""
    strange = pc.invert(pc.starts_with(texts, "\\x"))
    if pc.any(strange).as_py():
        return each(texts, lambda text: encode_bytes(unescape(text), mode))
    if mode is BinaryMode.HEX:
        return _without_mark(texts)
    return _safe(_hex_as_base64(texts, marks=1), mode)


def digits_text(texts: Text, mode: BinaryMode) -> Text:
    """`DEADBEEF`, digits alone, in the form that `binary.handling.mode` asks for, without quotes."""
    if mode is BinaryMode.HEX:
        return pc.ascii_lower(texts)
    return _safe(_hex_as_base64(texts, marks=0), mode)


def _safe(chars: Text, mode: BinaryMode) -> Text:
    if mode is BinaryMode.BASE64_URL_SAFE:
        return pc.replace_substring(pc.replace_substring(chars, "+", "-"), "/", "_")
    return chars


def encode_bytes(data: bytes, mode: BinaryMode) -> str:
    """One value in the form that `binary.handling.mode` asks for."""
    if mode is BinaryMode.HEX:
        return data.hex()
    encode = base64.urlsafe_b64encode if mode is BinaryMode.BASE64_URL_SAFE else base64.b64encode
    return encode(data).decode()


def unescape(text: str) -> bytes:
    """The bytes of a `bytea` in either of PostgreSQL's output forms."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    out = bytearray()
    at = 0
    raw = text.encode()
    while at < len(raw):
        if raw[at] != ord("\\"):
            out.append(raw[at])
            at += 1
        elif raw[at + 1 : at + 2] == b"\\":
            out.append(ord("\\"))
            at += 2
        else:
            out.append(int(raw[at + 1 : at + 4], 8))
            at += 4
    return bytes(out)


def _without_mark(texts: Text) -> Text:
    r"""The text after `\x`."""
    offsets, data = text_parts(texts)
    used = data[offsets[0] : offsets[-1]]
    present = np.diff(offsets) > 0
    keep = np.ones(len(used), bool)
    marks = (offsets[:-1] - offsets[0])[present]
    keep[marks] = keep[marks + 1] = False
    starts = np.zeros(len(offsets), np.int64)
    np.cumsum(np.diff(offsets) - 2 * present, out=starts[1:])
    return text_from(starts, used[keep], texts)


def _hex_as_base64(texts: Text, marks: int) -> Text:
    r"""Base64 of hex after `marks` (0 or 1) prefixes `\x`. A prefix is read like a byte and dropped."""
    offsets, data = text_parts(texts)
    raw: Bytes = _PAIRS[data[offsets[0] : offsets[-1]].view("<u2")]
    lengths = np.diff(offsets)
    present = lengths > 0
    if marks:
        keep = np.ones(len(raw), bool)
        keep[(offsets[:-1] - offsets[0])[present] // 2] = False
        raw = raw[keep]
    sizes = lengths // 2 - marks * present
    if len(raw) > _LARGE * len(texts):
        return _each_as_base64(raw, sizes, texts)
    groups = (sizes + 2) // 3
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(4 * groups, out=starts[1:])
    chars = base64_chars(_padded(raw, sizes, groups))
    for left in (1, 2):
        ends = starts[1:][sizes % 3 == left]
        for place in range(1, 4 - left):
            chars[ends - place] = ord("=")
    return text_from(starts, chars, texts)


def _each_as_base64(raw: Bytes, sizes: Ints, texts: Text) -> Text:
    """Value by value: for large values, for which padding in bulk would cost sixteen bytes per byte."""
    ends = np.cumsum(sizes)
    shown = [base64.b64encode(raw[end - size : end].tobytes()) for end, size in zip(ends, sizes, strict=True)]
    starts = np.concatenate([[0], np.cumsum([len(value) for value in shown])])
    return text_from(starts, b"".join(shown), texts)


def _padded(raw: Bytes, sizes: Ints, groups: Ints) -> Bytes:
    """The bytes with zeros after each row up to a multiple of three."""
    gaps = 3 * groups - sizes
    padded = np.zeros(len(raw) + int(gaps.sum()), np.uint8)
    padded[np.arange(len(raw)) + np.repeat(np.cumsum(gaps) - gaps, sizes)] = raw
    return padded
