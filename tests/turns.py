"""A sink as a test drives it: what is written through the newest writer is what the commit is told of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.model import Checksum
from engine.staging.checksum import checksum_of

if TYPE_CHECKING:
    from engine.model import Part


@dataclass
class NotedWriter:
    """Passes every part on, and notes what was written."""

    behind: Any
    parts: dict[int, Part] = field(default_factory=dict)

    def write(self, part: int, batches: Any) -> Part:
        return self._noted(self.behind.write(part, batches))

    def write_texts(self, part: int, texts: Any) -> Part:
        return self._noted(self.behind.write_texts(part, texts))

    def take(self, part: int, path: str, events: int = -1, checksum: Checksum | None = None) -> Part:
        content = Path(path).read_bytes()
        events = content.count(b"\n") if events < 0 else events
        return self._noted(self.behind.take(part, path, events, checksum or checksum_of(content)))

    def _noted(self, part: Part) -> Part:
        self.parts[part.number] = part
        return part


class Turns:
    """A sink whose turns are written and committed by hand."""

    def __init__(self, sink: Any) -> None:
        self._sink, self._writer = sink, NotedWriter(None)

    def writer(self, turn: int) -> NotedWriter:
        self._writer = NotedWriter(self._sink.writer(turn))
        return self._writer

    def commit(self, turn: int, parts: Any = None) -> None:
        self._sink.commit(turn, list(self._writer.parts.values()) if parts is None else parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)
