"""The errors of targets that are compared."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import SinkError, SourceError, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_source_errors(kind: type[TidemarkError] = SinkError) -> Iterator[None]:
    """Raise a target's errors as the source's: what is compared begins anew, and the job goes on."""
    try:
        yield
    except kind as error:
        raise error.recast(SourceError) from error
