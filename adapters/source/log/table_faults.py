"""Faults of single tables while their entries are decoded: recorded, so that other tables continue.

A part of a span with a recorded fault is not written. The span is encoded again from its start, without the
tables that have faults; see `encode_without_faults`.
"""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from engine.errors import ConfigError, SinkError, TidemarkError
from engine.events.batch import no_events

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping, Sequence

    import pyarrow as pa

    from engine.model import CollectionId
    from engine.ports.sink import PartWriter

Name = TypeVar("Name")
Result = TypeVar("Result")


class DecodedPart(Protocol):
    """What each source makes of a part of a span; a dataclass that also has a field `part`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def events(self) -> pa.RecordBatch:
        """The events, in order."""

    @property
    def columns(self) -> Sequence[pa.RecordBatch]:
        """Events as typed columns, if the sink takes them."""

    @property
    def faults(self) -> Mapping[Any, str]:
        """The tables whose entries can't be decoded, and why."""


Decoded = TypeVar("Decoded", bound=DecodedPart)


@contextmanager
def noting_faults(faults: MutableMapping[Name, str], table: Name) -> Iterator[None]:
    """Record why a table's entries can't be decoded, instead of failing."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  any error here concerns only this table
        note_fault(faults, table, error)


def note_fault(faults: MutableMapping[Name, str], table: Name, error: Exception) -> None:
    """Record a fault, or raise an error that is not the table's.

    For loops where a context manager per item would be too slow.
    """
    if isinstance(error, MemoryError | SinkError):
        raise error
    faults.setdefault(table, fault_text(error))


def write_part(writer: PartWriter, number: int, decoded: Decoded, *, again: bool) -> Decoded:
    """Write a part's events, columns first; returns the facts without them, and the written part in `part`.

    With faults nothing is written. `again`: an attempt with more tables may have left a part with this
    number, which is replaced even if no events are left.
    """
    part = None
    batches = [*decoded.columns, decoded.events]
    if (any(batch.num_rows for batch in batches) or again) and not decoded.faults:
        part = writer.write(number, batches)
    return replace(decoded, events=no_events(), columns=(), part=part if part and part.events else None)


def encode_without_faults(
    encode: Callable[[Mapping[CollectionId, str]], tuple[Result, Mapping[CollectionId, str]]],
    signals: Container[CollectionId],
    kind: str = "table",
) -> tuple[Result, dict[CollectionId, str]]:
    """Encode a span without the tables that have faults; returns the last attempt's result and the faults.

    `encode` makes an attempt without the tables in the faults that it is given, and returns further faults.
    Raises ConfigError if a table in `signals` has a fault, because signals that can't be read must not be
    skipped.
    """
    faults: dict[CollectionId, str] = {}
    while True:
        result, found = encode(faults)
        if not found:
            return result, faults
        for table, why in found.items():
            if table in signals:
                raise ConfigError(f"the signal {kind} {str(table)!r} can't be streamed: {why}")
        faults.update(found)


def fault_text(error: Exception) -> str:
    """What went wrong, and where. Never includes a value, which libraries' errors quote."""
    if isinstance(error, TidemarkError):
        return f"{error.message}; {error.hint}" if error.hint else error.message
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"its entries can't be decoded: {type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
    )
