"""Converts arrays from PostgreSQL's text form to JSON arrays; any encoder can encode their items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.postgres.events.columns.values import unescaped
from engine.errors import SourceError
from engine.events.values.text import (
    Ints,
    Text,
    fill,
    join,
    replace_rows,
    scalar,
    slices,
    text_parts,
    unchanged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_IN_NUMBERS = np.zeros(256, bool)
_IN_NUMBERS[np.frombuffer(b"0123456789-,{}", np.uint8)] = True
_NULL = pa.scalar(None, pa.large_string())
_ABSENT = pa.array(["NULL", ""], pa.large_string())
"""Unquoted, these stand for NULL between commas and for nothing between braces; as text both are quoted."""
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^{},;"\\]|\\.)+)', re.DOTALL)


def array_items(text: str, delimiter: str = ",") -> list[str | None]:
    """The items of an array's text in order, with inner arrays flattened; None is NULL."""
    if text.startswith("["):  # bounds other than 1 precede the array: [0:2]={…}
        text = text[text.index("=") + 1 :]
    if delimiter != ",":
        text = text.replace(",", "\\,").replace(delimiter, ",")
    items: list[str | None] = []
    for match in _ITEM.finditer(text):
        quoted, plain = match.groups()
        if quoted is not None:
            items.append(unescaped(quoted))
        else:
            items.append(None if plain == "NULL" else unescaped(plain))
    return items


def arrays(texts: Text, encode: Callable[[Text], Text], *, quoted: bool) -> Text:
    """Encode arrays as JSON arrays.

    Arrays of one dimension are split at their commas in bulk, and all items go through `encode` at once.
    Arrays with an escape, a comma or a quote inside an item, with inner arrays or explicit bounds are read
    item by item.
    """
    if encode is unchanged and not quoted and (whole := _plain_numbers(texts)) is not None:
        return whole
    lists = pc.split_pattern(_without_braces(texts), ",")
    items = lists.flatten()
    fine = pc.match_substring_regex(items, r'^(?:"[^"\\]*"|[^"\\{}\[]*)$')
    if not pc.all(fine, min_count=0).as_py():
        odd = np.unique(pc.list_parent_indices(lists).filter(pc.invert(fine)).to_numpy())
        return _with_odd_arrays(texts, odd, encode, quoted=quoted)
    absent = pc.is_in(items, _ABSENT)
    marked = pc.starts_with(items, '"')
    bare = pc.utf8_trim(items, '"') if pc.any(marked).as_py() else items
    values = pc.if_else(absent, _NULL, bare)
    shown = encode(values)
    shown = fill(join(['"', shown, '"'], len(shown)) if quoted else shown, "null")
    joined = pc.binary_join(type(lists).from_arrays(lists.offsets, shown, mask=_mask(lists)), scalar(","))
    whole = join(["[", joined, "]"], len(texts))
    return pc.if_else(pc.equal(texts, "{}"), scalar("[]"), whole)


def _plain_numbers(texts: Text) -> Text | None:
    """Arrays whose items are valid JSON as they are and never NULL; None if any array is not like that."""
    offsets, data = text_parts(texts)
    used = data[offsets[0] : offsets[-1]]
    outer = len(texts) - texts.null_count
    if not _IN_NUMBERS[used].all() or np.count_nonzero(used == ord("{")) != outer:
        return None
    return pc.replace_substring(pc.replace_substring(texts, "{", "["), "}", "]")


def delimited_arrays(texts: Text, encode: Callable[[Text], Text], delimiter: str, *, quoted: bool) -> Text:
    """Encode arrays of the few types whose items are separated by other characters than commas."""
    given = np.flatnonzero(pc.is_valid(texts).to_numpy(zero_copy_only=False))
    shown = _odd_arrays(texts.take(pa.array(given)), encode, delimiter, quoted=quoted)
    return replace_rows(texts, given, shown)


def _mask(lists: pa.Array) -> pa.Array | None:
    return pc.is_null(lists) if lists.null_count else None


def _without_braces(texts: Text) -> Text:
    offsets, data = text_parts(texts)
    given = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    opened = pc.or_(pc.starts_with(texts, "{"), pc.starts_with(texts, "["))
    if not pc.all(pc.and_(opened, pc.ends_with(texts, "}")), min_count=0).as_py():
        raise SourceError("an array's text has no braces", hint="report the column's type as a bug")
    return slices(data, offsets[:-1] + given, offsets[1:] - given, given)


def _with_odd_arrays(texts: Text, odd: Ints, encode: Callable[[Text], Text], *, quoted: bool) -> Text:
    mask = np.zeros(len(texts), bool)
    mask[odd] = True
    common = arrays(pc.if_else(pa.array(mask), _NULL, texts), encode, quoted=quoted)
    return replace_rows(common, odd, _odd_arrays(texts.take(pa.array(odd)), encode, quoted=quoted))


def _odd_arrays(
    texts: Text, encode: Callable[[Text], Text], delimiter: str = ",", *, quoted: bool
) -> list[str | None]:
    rows = [array_items(text, delimiter) for text in texts.to_pylist()]
    flat = pa.array([item for row in rows for item in row], pa.large_string())
    shown = iter(encode(flat).to_pylist())
    return [_json_array(row, shown, quoted=quoted) for row in rows]


def _json_array(row: list[str | None], shown: Iterable[str | None], *, quoted: bool) -> str:
    items = []
    for _, item in zip(row, shown, strict=False):
        if item is None:
            items.append("null")
        else:
            items.append(f'"{item}"' if quoted else item)
    return "[" + ",".join(items) + "]"
