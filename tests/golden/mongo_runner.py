"""Runs a MongoDB case step by step, with the engine at the moments that the recording had it.

Leaves the operations to `mongo_operations.py`, comparison to `compare.py`, the engine behind its seam.
"""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.golden.mongo_operations import Operations, Pairs, parsed
from tests.golden.runner import CaseFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pymongo import MongoClient

    from tests.golden.case import Case
    from tests.golden.engine_under_test import WatchedEngine
    from tests.golden.event import Event

_POLL_S = 0.01
_SETTLE_S = 1.5
_HOOK_DELAY_S = 0.15
_HEARTBEATS = 3
_OPENED = "snapshot-window-open"
_ONE_CHUNK_A_WINDOW = {
    "incremental.snapshot.watermarking.strategy": "insert_insert",
    "tidemark.window.max.chunks": "1",
}


class ReplicaSet(Protocol):
    """A server to run cases on."""

    @property
    def host(self) -> str:
        """Where it is."""

    @property
    def port(self) -> int:
        """Its port there."""

    def connect(self) -> MongoClient[dict[str, Any]]:
        """A new client; close it."""

    def clear(self) -> None:
        """Drop every database but the system's."""


@dataclass(frozen=True, slots=True)
class MongoRunner:
    """Runs cases on one server with one kind of engine; `timeout_s` bounds each wait."""

    server: ReplicaSet
    start: Callable[[Mapping[str, str], Path], WatchedEngine[tuple[int, int]]]
    timeout_s: float = 180.0
    report: Callable[[str], None] = lambda _text: None

    def run(self, case: Case) -> tuple[Event, ...]:
        """The events that the engine emits for the case. Raises CaseFailed, or what the engine died of."""
        self.server.clear()
        with (
            self.server.connect() as client,
            tempfile.TemporaryDirectory(prefix="tidemark-golden-") as directory,
        ):
            return _Run(self, case, client, Path(directory) / "events").events()


@dataclass(slots=True)
class _Run:
    """One run of one case; a session's transaction may go on from one of its files to the next."""

    runner: MongoRunner
    case: Case
    client: Any
    directory: Path
    stopped: threading.Event = field(default_factory=threading.Event)
    sessions: dict[str, Any] = field(default_factory=dict)

    def events(self) -> tuple[Event, ...]:
        self._operations().run(self.case.script("setup.json"))
        try:
            events = self._stream("change.json")
            if self.case.script("change2.json") is not None:
                self._operations().run(self.case.script("between.json"))
                self.stopped.clear()
                events = self._stream("change2.json")
        finally:
            self.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
        return events

    def _operations(self, settle: Callable[[], None] = lambda: None) -> Operations:
        return Operations(self.client, settle, self.runner.report, self.sessions)

    def _stream(self, change: str) -> tuple[Event, ...]:
        engine = self.runner.start(self._properties(), self.directory)
        try:
            self._wait(lambda: self._begun(engine), "the change stream is not open")
            operations = self._operations(lambda: self._settle(engine))
            with self._hooks(operations) if change == "change.json" else nullcontext():
                operations.run(self.case.script(change))
                self._drain(engine, change)
            if not self.stopped.is_set():
                time.sleep(_HEARTBEATS * int(self.case.properties.get("heartbeat.interval.ms", "0")) / 1000)
        finally:
            engine.stop()
        return engine.events()

    def _begun(self, engine: WatchedEngine[tuple[int, int]]) -> bool:
        """Whether the stream is open and what stood there before is read."""
        return engine.started() and (not self.case.initial or engine.drained((0, 0)))

    def _properties(self) -> dict[str, str]:
        host = f"{self.runner.server.host}:{self.runner.server.port}"
        given = {name: value.replace("${host}", host) for name, value in self.case.properties.items()}
        return {**given, **(_ONE_CHUNK_A_WINDOW if self.case.incremental else {})}

    def _now(self) -> tuple[int, int]:
        stamp = self.client.admin.command("ping")["operationTime"]
        return stamp.time, stamp.inc

    def _settle(self, engine: WatchedEngine[tuple[int, int]]) -> None:
        seconds, ordinal = self._now()
        deadline = time.monotonic() + _SETTLE_S
        # What an event's own time tells comes with the event; what is behind it, a second later.
        while not engine.passed((seconds, ordinal - 1)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _drain(self, engine: WatchedEngine[tuple[int, int]], change: str) -> None:
        """Wait for what was done so far; again if the engine or a hook went on writing meanwhile."""
        while not self.stopped.is_set():
            now = self._now()
            done = lambda: self.stopped.is_set() or engine.drained(now)  # noqa: B023, E731  asked at once
            self._wait(done, f"not everything that {change} did has been sent")
            if self._now() == now or not self.case.incremental:
                return

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self.runner.timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise CaseFailed(f"{otherwise} within {self.runner.timeout_s:g} s")
            time.sleep(_POLL_S)

    @contextmanager
    def _hooks(self, operations: Operations) -> Iterator[None]:
        """Run the case's hooks while its windows are open."""
        hooks = parsed(self.case.script("hooks.json") or "[]")
        if not hooks:
            yield
            return
        ending = threading.Event()
        database, _, name = hooks[0].get("collection").partition(".")
        match = [{"$match": {"operationType": "insert", "fullDocument.type": _OPENED}}]
        with self.client[database][name].watch(match, max_await_time_ms=50) as stream:
            thread = threading.Thread(target=self._serve, args=(hooks, stream, operations, ending))
            thread.start()
            try:
                yield
            finally:
                ending.set()
                thread.join()

    def _serve(
        self, hooks: list[Pairs], stream: Any, operations: Operations, ending: threading.Event
    ) -> None:
        opened = 0
        while not ending.is_set() and not self.stopped.is_set():
            if stream.try_next() is None:
                continue
            opened += 1
            for hook in hooks:
                if hook.get("nth") == opened:
                    time.sleep(_HOOK_DELAY_S)
                    operations.run_all(hook.get("ops"))
                    if hook.get("stop"):
                        self.stopped.set()
