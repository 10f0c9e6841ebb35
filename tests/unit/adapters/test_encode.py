"""A span that is encoded again without a table leaves nothing of what was written with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.mongodb.events import span_encoder as mongodb
from adapters.postgres.events import span_encoder as postgres
from adapters.source.log.span_encoder import EncodePart, PartTask
from adapters.sqlserver.events import span_encoder as sqlserver
from engine.events.batch import no_events
from engine.model import Part
from tests.batches import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True)
class Decoded:
    """What any of the sources makes of a part, as far as it is written."""

    events: pa.RecordBatch
    part: Part | None = None
    faults: dict[Any, str] = field(default_factory=dict)
    columns: tuple[pa.RecordBatch, ...] = ()


class Writer:
    """Keeps how many events each part holds."""

    def __init__(self) -> None:
        self.parts: dict[int, int] = {}

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        self.parts[part] = sum(record_batch.num_rows for record_batch in batches)
        return Part(part, self.parts[part])


def of_postgres(writer: Any, *, again: bool) -> Any:
    no: Any = None
    messages = pa.RecordBatch.from_arrays([pa.array([], pa.large_binary())], names=["message"])
    task = PartTask((messages,), postgres.PartContext(no, {}))
    return EncodePart(postgres.DecodePart(no, no, no), writer, again)(task)


def of_sqlserver(writer: Any, *, again: bool) -> Any:
    no: Any = None
    return EncodePart(sqlserver.DecodePart(no, no, 0), writer, again)(PartTask((), sqlserver.PartContext()))


def of_mongodb(writer: Any, *, again: bool) -> Any:
    no: Any = None
    changes = pa.RecordBatch.from_arrays([pa.array([], pa.large_binary())], names=["change"])
    return EncodePart(mongodb.DecodePart(no, no, 0), writer, again)(PartTask((changes,), None))


@pytest.mark.parametrize(
    ("module", "encode"), [(postgres, of_postgres), (sqlserver, of_sqlserver), (mongodb, of_mongodb)]
)
def test_what_was_written_with_a_table_that_is_left_out_goes(
    module: Any, encode: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    writer = Writer()
    monkeypatch.setattr(module, "decode", lambda *_: Decoded(batch(("t", "1", "{}", None))))
    assert encode(writer, again=False).part == Part(0, 1)
    monkeypatch.setattr(module, "decode", lambda *_: Decoded(no_events(), faults={"t": "why"}))
    assert encode(writer, again=True).part is None
    monkeypatch.setattr(module, "decode", lambda *_: Decoded(no_events()))
    assert encode(writer, again=True).part is None

    assert writer.parts == {0: 0}


@pytest.mark.parametrize(
    ("module", "encode"), [(postgres, of_postgres), (sqlserver, of_sqlserver), (mongodb, of_mongodb)]
)
def test_a_part_with_a_fault_is_not_written(
    module: Any, encode: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    writer = Writer()
    events = batch(("t", "1", "{}", None))
    monkeypatch.setattr(module, "decode", lambda *_: Decoded(events, faults={"t": "why"}))

    assert encode(writer, again=False).part is None
    assert writer.parts == {}
