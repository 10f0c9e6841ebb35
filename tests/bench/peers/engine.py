"""Debezium's embedded engine as a process: started, watched as it counts, ended."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tests.bench.peers.jars import class_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TIMEOUT_S = 1800.0
_TOLD = "counted "
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


@dataclass(frozen=True, slots=True)
class Counted:
    """A topic has had as many events as were expected; when its first and its last came, in ms."""

    topic: str
    first_ms: int
    last_ms: int


def parse_counted(line: str) -> Counted | None:
    """A line of the engine's output; None for any other."""
    if not line.startswith(_TOLD):
        return None
    topic, first, last = line.removeprefix(_TOLD).rsplit(maxsplit=2)
    return Counted(topic, int(first), int(last))


class Peer:
    """An engine at work."""

    def __init__(self, process: subprocess.Popen[str], output: IO[str], log: Path) -> None:
        self._process, self._log = process, log
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(output,), daemon=True).start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._lines.put(line.strip())
        self._lines.put(None)

    def counted(self, topic: str, timeout_s: float = _TIMEOUT_S) -> Counted:
        """Wait until a topic has had as many more events as were expected of it.

        Raises TimeoutError if it does not get them, RuntimeError if the engine ends before.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"{topic!r} has not had all its events:\n{self._tail()}") from None
            if line is None:
                raise RuntimeError(f"the engine has ended:\n{self._tail()}")
            found = parse_counted(line)
            if found and found.topic == topic:
                return found

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])


@contextmanager
def engine(
    version: str, properties: Mapping[str, str], counts: Mapping[str, int], directory: Path
) -> Iterator[Peer]:
    """Run an engine with these properties; `counts` are the events expected of each topic, at a time."""
    directory.mkdir(parents=True)
    settings, log = directory / "engine.properties", directory / "engine.log"
    offsets = {
        "name": "peer",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(directory / "offsets"),
    }
    settings.touch(mode=0o600)
    settings.write_text("".join(f"{name}={value}\n" for name, value in (offsets | dict(properties)).items()))
    expected = [f"{topic}={count}" for topic, count in counts.items()]
    with log.open("w") as errors:
        process = subprocess.Popen(
            ["java", _QUIET, "-cp", class_path(version), "Peer", settings, *expected],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert process.stdout is not None
        yield Peer(process, process.stdout, log)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """It ends with its standard input; what its output still holds has been read by then."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
