"""The errors of targets that are compared."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import SinkError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_source_errors() -> Iterator[None]:
    """Raise the sink's errors as the source's: what is compared begins anew."""
    try:
        yield
    except SinkError as error:
        raise error.recast(SourceError) from error
