"""What a scene can do: steps on the database, signals, gates, and waiting for the job's notes.

Gates hold back the log, the readers or the rows read. They are files that the job's ports look for.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from tests.torture.answers import Asked
from tests.torture.emitted import Events
from tests.torture.oracle import Violation
from tests.torture.postgres_writers import Session
from tests.torture.script import Blow, Sent, collections
from tests.torture.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.torture.emitted import Emitted
    from tests.torture.journal import JournalReader
    from tests.torture.play import Play
    from tests.torture.postgres import PostgresSite
    from tests.torture.statements import Step

_PATIENCE_S = 180.0


@dataclass(slots=True)
class Scene:
    """The means of a scene: what it does to the database, and what it waits for."""

    stage: Play
    site: PostgresSite
    journal: JournalReader
    signals: int = 0

    def run(self, *steps: Step) -> None:
        """Run these steps, each in its own transaction."""
        self._run(steps, "on")

    def _run(self, steps: Sequence[Step], commit: str) -> None:
        with self.site.connect_again() as connection:
            connection.execute("SET lock_timeout = 0")
            connection.execute(f"SET synchronous_commit = {commit}".encode())
            for step in steps:
                with connection.transaction():
                    for statement in statements(step, self.stage.script.tables):
                        connection.execute(statement.encode())

    def run_locally(self, *steps: Step) -> None:
        """Like `run`, without waiting for a standby."""
        self._run(steps, "local")

    def meanwhile(self, *steps: Step) -> threading.Thread:
        """Run these steps while the scene continues. If the server ends the session, they are dropped."""

        def running() -> None:
            with contextlib.suppress(psycopg.OperationalError):
                self.run(*steps)

        thread = threading.Thread(target=running, daemon=True)
        thread.start()
        return thread

    @contextlib.contextmanager
    def traffic(self) -> Iterator[None]:
        """Update a row of the first table every few milliseconds meanwhile."""
        stop = threading.Event()

        def running() -> None:
            session = Session(self.site.database, stop)
            while not stop.wait(0.01):
                for statement in statements(["touch", 0, [1]], self.stage.script.tables):
                    with contextlib.suppress(psycopg.Error):
                        session.get().execute(statement.encode())
            session.close()

        thread = threading.Thread(target=running, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def skew(self, ahead_s: float) -> None:
        """Set the driver's clock."""
        self.deal(Blow(0.0, "skew", ahead_s))

    def deal(self, blow: Blow) -> None:
        """Deal a blow."""
        self.stage.deal(blow, self.journal)

    def ask(self, surrogate: str = "") -> None:
        """Request a snapshot of all tables, by a surrogate key if one is named."""
        self._ask({"type": "incremental", **({"surrogate-key": surrogate} if surrogate else {})})

    def ask_blocking(self) -> None:
        """Request a blocking snapshot of all tables."""
        self.stage.oracle.blocks = True
        self._ask({"type": "blocking"})

    def _ask(self, asked: dict[str, str]) -> None:
        self.signals += 1
        script = self.stage.script
        names = [name for table in script.tables for name in collections(table, via_root=script.via_root)]
        data = json.dumps({**asked, "data-collections": names})
        session = Session(self.site.database, threading.Event())
        session.get().execute("SET synchronous_commit = local")
        sent = Sent(0.0, f"scene{self.signals}", "execute-snapshot", data, "execute", names)
        self.site.send_on(session, sent)
        self.stage.answers.asked[sent.id] = Asked(sent)
        session.close()

    def until(self, condition: Callable[[], Any], what: str, within_s: float = _PATIENCE_S) -> None:
        """Wait. Raises Violation if it takes too long."""
        since = time.monotonic()
        while not condition():
            self.stage.watch(self.journal)
            if time.monotonic() - since > within_s:
                raise Violation(f"not within {within_s} s: {what}")
            time.sleep(0.01)

    def until_window(self, count: int = 1) -> None:
        """Wait for the n-th window to open."""
        self.until(lambda: len(self.journal.of("window")) >= count, f"window {count} opens")

    def until_read(self) -> None:
        """Wait until the rows of a window were read by Spark."""
        self.until((self.stage.folder / "reads").exists, "a window's rows are read")

    def until_streamed(self) -> None:
        """Wait until everything committed has been streamed, visible or not."""
        with self.site.connect_again() as connection:
            row = connection.execute(
                "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint FROM pg_current_xact_id()"
            ).fetchone()
        end = int(row[0]) if row else 0
        self.until(
            lambda: any(turn["position"][0] >= end for turn in self.journal.of("turn")), "the log is streamed"
        )

    def until_finished(self, within_s: float = _PATIENCE_S) -> None:
        """Wait for the answers that all tables were read."""
        script = self.stage.script
        wanted = self.signals * sum(
            len(collections(table, via_root=script.via_root)) for table in script.tables
        )
        self.until(
            lambda: sum(note["outcome"] == "finished" for note in self.journal.of("answer")) >= wanted,
            "the snapshot is finished",
            within_s,
        )

    def emitted(self) -> list[Emitted]:
        """All events so far."""
        return list(Events(self.stage.folder / "events", self.site.emitted).read())

    @contextlib.contextmanager
    def held(self, what: str) -> Iterator[None]:
        """Hold back `take`, `read`, `poll` or `commit` meanwhile, or until it is released."""
        gate = self.stage.folder / f"hold-{what}"
        gate.touch()
        try:
            yield
        finally:
            self.release(what)

    @contextlib.contextmanager
    def open_window(self, surrogate: str = "", *, holding: str = "poll") -> Iterator[None]:
        """Request a snapshot and wait for its window. Until the end of the context `holding` is held back."""
        with self.held(holding):
            self.ask(surrogate)
            self.until_window()
            yield

    def release(self, what: str) -> None:
        """Stop holding it back."""
        (self.stage.folder / f"hold-{what}").unlink(missing_ok=True)
