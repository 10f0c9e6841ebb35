"""Which columns an event carries and how they are masked: lists, masks, propagated types.

Expressions are regular expressions anchored as in Debezium: they match a whole name and ignore case. A
column's full name is `schema.table.column`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from engine.events.record.schema import MASKED
from engine.events.values.text import Text, each, scalar
from engine.expressions import matches

if TYPE_CHECKING:
    from engine.events.settings import ColumnMask, EventSettings
    from engine.model import CollectionId

Shape = Callable[[Text], Text]


def is_included(collection: CollectionId, column: str, settings: EventSettings) -> bool:
    """Whether `column.include.list` and `column.exclude.list` leave a column in the rows."""
    name = f"{collection}.{column}"
    if settings.include_columns:
        return matches(settings.include_columns, name)
    return not matches(settings.exclude_columns, name)


def message_key(
    collection: CollectionId, columns: tuple[str, ...], settings: EventSettings
) -> tuple[str, ...]:
    """The columns that `message.key.columns` names for a table, in the table's order; () for none."""
    return tuple(name for name in columns if matches(settings.message_keys, f"{collection}.{name}"))


def mask_of(collection: CollectionId, column: str, settings: EventSettings) -> ColumnMask | None:
    """The first mask that names the column."""
    name = f"{collection}.{column}"
    return next((mask for mask in settings.masks if matches(mask.columns, name)), None)


def mask_parameters(mask: ColumnMask) -> tuple[tuple[str, str], ...]:
    """The schema parameters of a masked column."""
    return (("truncateLength", str(mask.length)),) if mask.truncate else (MASKED,)


def shape_of(mask: ColumnMask, length: int | None) -> Shape:
    """The function that masks a column's text. `length` is the column's own, None for no limit."""
    if mask.hash:
        return partial(_hashed, mask=mask, length=length)
    return partial(_truncated, length=mask.length) if mask.truncate else partial(_masked, length=mask.length)


def _masked(texts: Text, length: int) -> Text:
    return pa.repeat(scalar("*" * length), len(texts))


def _truncated(texts: Text, length: int) -> Text:
    """The first `length` UTF-16 units, as Java counts."""
    short = pc.utf8_slice_codeunits(texts, 0, length)
    if pc.any(pc.match_substring_regex(short, "[\U00010000-\U0010ffff]")).as_py():
        return each(texts, lambda text: text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "ignore"))
    return short


def _hashed(texts: Text, mask: ColumnMask, length: int | None) -> Text:
    return each(texts, lambda text: hashed(text, mask)[:length])


def hashed(text: str, mask: ColumnMask) -> str:
    """The salted hash in hex. Version 1 hashes Java's serialised form, version 2 the plain bytes."""
    name = mask.hash.lower().replace("sha-", "sha").replace("/", "_").replace("-", "_")
    digest = hashlib.new(name, mask.salt.encode(), usedforsecurity=False)
    digest.update(text.encode() if mask.version == 2 else _serialised(text))
    return digest.hexdigest()


def _serialised(text: str) -> bytes:
    """A `java.lang.String` serialised by Java, as an object stream of its own."""
    units = text.encode("utf-16-be", "surrogatepass")
    data = b"".join(_modified(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
    short = len(data) < 0x10000
    mark, size = (b"t", len(data).to_bytes(2, "big")) if short else (b"|", len(data).to_bytes(8, "big"))
    return b"\xac\xed\x00\x05" + mark + size + data


def _modified(unit: int) -> bytes:
    """One UTF-16 unit in Java's modified UTF-8."""
    if 0 < unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
