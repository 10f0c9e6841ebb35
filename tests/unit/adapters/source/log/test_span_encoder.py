"""Where the parts of a span are encoded, and what passes from one to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.source.log.span_encoder import EncodePart, SpanEncoder
from adapters.staging.file_blocks import FileBlocks
from engine.errors import SourceError
from engine.staging.batches import StagedBatches, stage
from tests.batches import batch
from tests.fakes import MemorySink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Part


@dataclass(frozen=True)
class Decoded:
    """An event for each entry; `seen` is the context, `last` the last entry."""

    events: pa.RecordBatch
    seen: str
    last: str
    part: Part | None = None
    faults: dict[Any, str] = field(default_factory=dict)
    columns: tuple[pa.RecordBatch, ...] = ()


def decode(raw: Sequence[pa.RecordBatch], context: str) -> Decoded:
    entries = [text.decode() for record_batch in raw for text in record_batch.column(0).to_pylist()]
    return Decoded(batch(*(("t", entry, "{}", None) for entry in entries)), context, entries[-1])


class Executors:
    """Notes what goes to them, and runs it."""

    def __init__(self, *, fail: bool = False) -> None:
        self.tasks: list[Any] = []
        self._fail = fail

    def map(self, task: Any, items: Sequence[Any]) -> list[Any]:
        self.tasks += items
        if self._fail:
            raise SourceError("an executor is lost")
        return [task(item) for item in items]


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def task(sink: MemorySink) -> EncodePart[str, Decoded]:
    return EncodePart(decode, sink.writer(1))


def raw(*entries: bytes) -> tuple[pa.RecordBatch]:
    return (pa.RecordBatch.from_arrays([pa.array(entries, pa.large_binary())], names=["entry"]),)


def keys(sink: MemorySink, decoded: Sequence[Decoded]) -> list[str | None]:
    sink.commit(1, [part.part for part in decoded if part.part])
    return [event["key"] for event in sink.turns[1]]


@pytest.mark.parametrize(
    ("parts", "entries", "remote"),
    [
        ([raw(b"a"), raw(b"b")], 10, False),
        ([raw(b"a"), raw(b"b")], 11, True),
        ([raw(b"a", b"b")], 11, False),
        ([raw(b"a", b"b" * (17 << 20))], 2, True),
    ],
    ids=["few entries", "many entries", "many entries in one part", "large entries"],
)
def test_large_spans_go_to_the_executors(sink, task, tmp_path, parts, entries, remote):
    executors = Executors()
    encoder = SpanEncoder(executors, FileBlocks(str(tmp_path)), local_rows=10)
    decoded = encoder.encode(task, [(part, "c") for part in parts], entries)

    assert len(executors.tasks) == (len(parts) if remote else 0)
    assert all(job.staged for job in executors.tasks)
    assert [key[0] for key in keys(sink, decoded) if key] == ["a", "b"]
    assert not list(tmp_path.iterdir())


def test_entries_in_files_go_to_the_executors_and_stay_there(sink, task, tmp_path):
    executors, (entries,) = Executors(), raw(b"a")
    file = stage(FileBlocks(str(tmp_path)), entries, "span.arrow")
    decoded = SpanEncoder(executors, FileBlocks(str(tmp_path)), local_rows=10).encode(
        task, [((file,), "c")], 1
    )

    assert [job.raw for job in executors.tasks] == [(file,)]
    assert keys(sink, decoded) == ["a"]
    assert file.load() == [entries]


def test_no_file_is_left_when_the_executors_fail(task, tmp_path):
    encoder = SpanEncoder(Executors(fail=True), FileBlocks(str(tmp_path)), local_rows=0)
    with pytest.raises(SourceError, match="an executor is lost"):
        encoder.encode(task, [(raw(b"a"), "c"), (raw(b"b"), "c")], 2)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("staged", [True, False])
def test_what_one_part_leaves_open_passes_to_the_next(sink, task, tmp_path, staged):
    executors = Executors()
    parts: list[Any] = [raw(b"a", b"b"), raw(b"c"), raw(b"d")]
    store = FileBlocks(str(tmp_path))
    given = (
        [(stage(store, record_batch, f"{at}.arrow"),) for at, (record_batch,) in enumerate(parts)]
        if staged
        else parts
    )
    encoder = SpanEncoder(executors, FileBlocks(str(tmp_path)), local_rows=0)
    decoded = encoder.encode(
        task, [(part, "first") for part in given], 4, lambda part, last: f"{part} after {last.last}"
    )

    assert [part.seen for part in decoded] == ["first", "first after b", "first after c"]
    assert keys(sink, decoded) == ["a", "b", "c", "d"]
    assert [isinstance(job.raw[0], StagedBatches) for job in executors.tasks] == [True] * (3 if staged else 0)
