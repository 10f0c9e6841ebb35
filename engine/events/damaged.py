"""Bytes of a source that contradict their format: one error for whatever comes of walking over them. Pure."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAMAGE: Final = (LookupError, ValueError, OverflowError, struct.error, pa.ArrowException)


@contextmanager
def reading_bytes(what: str, place: str = "") -> Iterator[None]:
    """Turn what walking over `what` raises, where it is damaged, into a SourceError."""
    try:
        yield
    except _DAMAGE as error:
        raise SourceError(
            f"{what} can't be read: it is damaged", place=place, hint="read it again"
        ) from error
