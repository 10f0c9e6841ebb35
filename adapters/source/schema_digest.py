"""The fingerprint of a table's columns, for certificates. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS: Final = 32


def schema_digest(columns: Iterable[tuple[str, str]]) -> str:
    """The first 32 digits of the SHA-256 of these names and types, in their order, as compact JSON."""
    return sha256(orjson.dumps([list(column) for column in columns])).hexdigest()[:_DIGITS]
