"""Damaged bytes from a source: turns any error of parsing them into one SourceError. Pure."""

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
def reading_bytes(what: str, where: str = "") -> Iterator[None]:
    """Turn the errors that parsing a damaged `what` raises into a SourceError."""
    try:
        yield
    except _DAMAGE as error:
        raise SourceError(
            f"{what} can't be read: it is damaged", where=where, hint="read it again"
        ) from error
