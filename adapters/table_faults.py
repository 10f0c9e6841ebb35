"""A fault of one table while its entries are decoded: noted, so that other tables go on."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.errors import SinkError, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

Name = TypeVar("Name")


@contextmanager
def noting_faults(faults: MutableMapping[Name, str], table: Name) -> Iterator[None]:
    """Note why a table's entries can't be decoded, in place of failing."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  whatever it is, it concerns this table alone
        note_fault(faults, table, error)


def note_fault(faults: MutableMapping[Name, str], table: Name, error: Exception) -> None:
    """Note a fault, or raise what is none of the table's; for loops that can't afford a context each."""
    if isinstance(error, MemoryError | SinkError):
        raise error
    faults.setdefault(table, told(error))


def told(error: Exception) -> str:
    """What went wrong, and where; never a value, which errors of libraries quote."""
    if isinstance(error, TidemarkError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"its entries can't be decoded: {type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
    )
