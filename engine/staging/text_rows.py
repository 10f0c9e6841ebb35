"""Staged texts, the form for sinks that take rendered events: the final text of the rows, ready to go out.

A run has two blocks: the texts one after another, and an Arrow stream with each row's merge key and the size
of its text. If the texts are a file on the sink's disk, the sink takes that file by name (the files sink
links it), and the turn does not wait for the rows.

Blanking removes superseded rows from such a file. Their bytes are overwritten in place with spaces (`_`):

    staged          {"id":1,…}⏎{"id":2,…}⏎{"id":3,…}⏎
    2 superseded    {"id":1,…}⏎___________{"id":3,…}⏎

It is correct because:

- A sink with rendered events allows blanks before an event, and the blanks end up before the next row's
  text. If the last row is superseded there is no next row, so the texts are copied without it instead.
- No byte moves. The file keeps its size, and the other rows keep their offsets.
- The file is verified against its checksum first, then changed, forced to disk, and only then given to the
  sink. If the turn fails, the window is given up and its rows are read again, so a half-blanked file is
  never used.

Blanking pays off only for few rows. The survivors are copied instead if the blanks exceed 1/8 of the file or
64 KiB in one place, if a row needs a snapshot marker, or if there is no file that can be written to.

A row's text is its own part and an ending, which has the source block and is the same for the whole run. The
endings for rows with a snapshot marker are rendered when the run is begun, and a marked row gets one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from engine.errors import InvariantError
from engine.events.batch import EVENTS
from engine.events.values.text import text_parts
from engine.snapshot.markers import NO_MARKERS
from engine.staging.affixes import Affixes, by_marker
from engine.staging.checksum import PRIVATE
from engine.staging.rows import MERGE_KEY, ROWS, ArrowBlock, in_pieces, survivors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.events.values.text import Ints
    from engine.model import Part
    from engine.ports.sink import Render, TextWriter
    from engine.snapshot.markers import Marker, Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.port import Block, BlockStore, BlockWriter
    from engine.staging.rows import Survivors

KEYS: Final = pa.schema([MERGE_KEY, ("size", pa.int64())])
"""What accompanies the texts: each row's merge key, and the size of its text in bytes."""
_BLANKED, _BLANKED_BYTES = 1 / 8, 64 << 10
"""The most that may be blanked: a share of the file, and bytes in one place."""


@dataclass(frozen=True, slots=True)
class TextRows:
    """The form of a run in two blocks, keys and texts.

    `render` writes the texts; `ending` is how each ends for what comes after its row. A file of texts has
    this mode. `directory` is on the disk from which the sink takes files.
    """

    render: Render
    ending: Callable[[str], str]
    directory: str = ""
    mode: int | None = PRIVATE

    def begin(self, store: BlockStore, name: str, affixes: Affixes) -> TextRowsWriter:
        """Begin a run."""
        endings = Affixes(
            "", self.ending(affixes.after), {mark: self.ending(text) for mark, text in affixes.marked.items()}
        )
        keys = ArrowBlock(store.create(f"{name}.arrow"), endings.on(KEYS))
        try:
            texts = store.create_file(f"{name}.text", self.mode)
        except BaseException:
            keys.abandon()
            raise
        return TextRowsWriter(keys, texts, self.render, affixes)


class TextRowsWriter:
    """Renders a run."""

    def __init__(self, keys: ArrowBlock, texts: BlockWriter, render: Render, affixes: Affixes) -> None:
        self._keys, self._texts, self._render, self._affixes = keys, texts, render, affixes

    def write(self, batch: pa.RecordBatch) -> None:
        """Render and write a batch of STAGED."""
        affixes = self._affixes
        for some in in_pieces(batch, affixes):
            events = some.select(range(len(EVENTS)))
            ends, data = text_parts(self._render(events, (affixes.before, affixes.after)))
            merge_keys, sizes = some.column(len(EVENTS)), pa.array(np.diff(ends))
            self._texts.write(data[ends[0] : ends[-1]].data)
            self._keys.write(pa.RecordBatch.from_arrays([merge_keys, sizes], schema=KEYS))

    def finish(self) -> StagedTexts:
        """Complete both blocks."""
        texts = self._texts.finish()
        return StagedTexts(self._keys.finish(), texts)

    def abandon(self) -> None:
        """Give both blocks up."""
        self._keys.abandon()
        self._texts.abandon()


@dataclass(frozen=True, slots=True)
class StagedTexts:
    """A run in this form."""

    keys: Block
    texts: Block

    def emit(self, newer: NewerKeys, marks: Markers, writer: TextWriter, part: int) -> tuple[Part, Survivors]:
        """Hand the file of texts over if that is possible, else write the surviving texts."""
        with self.keys.open(ROWS) as content, pa.ipc.open_stream(content) as stream:
            batches, endings = list(stream), Affixes.of(stream.schema)
        left = survivors(batches, newer)
        if left.rows and marks == NO_MARKERS:
            texts = self.texts if left.mask is None else _blank(self.texts, batches, left.mask)
            path = None if texts is None else texts.file(ROWS)
            if texts is not None and path is not None:
                return writer.take(part, path, left.rows, texts.checksum), left
        return writer.write_texts(part, self._surviving(batches, left, marks, endings)), left

    def _surviving(
        self, batches: Sequence[pa.RecordBatch], left: Survivors, marks: Markers, endings: Affixes
    ) -> Iterator[pa.LargeStringArray]:
        with self.texts.open(ROWS) as content:
            for batch, marker in by_marker(left.of(list(_texts(content, batches))), marks):
                texts = batch.column("text")
                yield texts if marker is None else _with_ending(texts, endings, marker)


def _texts(content: pa.Buffer, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The texts, batched like their merge keys and not copied."""
    ends, at = _ends(batches), 0
    for batch in batches:
        mine = pa.py_buffer(ends[at : at + batch.num_rows + 1])
        texts = pa.LargeStringArray.from_buffers(batch.num_rows, mine, content)
        at += batch.num_rows
        yield pa.RecordBatch.from_arrays([texts], names=["text"])


def _with_ending(texts: pa.LargeStringArray, endings: Affixes, marker: Marker) -> pa.LargeStringArray:
    """One text with the ending for this marker."""
    text = texts[0].as_py()
    own = text.removesuffix(endings.after)
    if own == text:
        raise InvariantError("a staged text does not end as those of its run do")
    return pa.array([own + endings.behind(marker)], texts.type)


def _blank(texts: Block, batches: Sequence[pa.RecordBatch], mask: pa.ChunkedArray) -> Block | None:
    """Blank the superseded rows among the texts; None if the others must be copied.

    See the top of this module.
    """
    ends = _ends(batches)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], ~mask.to_numpy(), [False]))))
    gaps = ends[edges].reshape(-1, 2)
    lengths = gaps[:, 1] - gaps[:, 0]
    if lengths.sum() > _BLANKED * ends[-1] or lengths.max() > _BLANKED_BYTES or gaps[-1, 1] == ends[-1]:
        return None
    return texts.blank(ROWS, [(begin, end) for begin, end in gaps.tolist()])


def _ends(batches: Sequence[pa.RecordBatch]) -> Ints:
    """The offset at which each text begins, and the end of the last one."""
    return np.cumsum(np.concatenate(([0], *(batch.column("size").to_numpy() for batch in batches))))
