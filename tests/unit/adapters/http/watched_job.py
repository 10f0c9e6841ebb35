"""A job in memory with its web server, and a client that asks it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from adapters.http.monitor import Monitor
from adapters.http.routes import Routes
from adapters.http.server import JobServer
from engine.clock import Clock
from engine.config import parse
from engine.model import Channel
from signals.desk import Desk
from tests.job_bench import Bench
from tests.unit.engine.config.least import POSTGRES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from engine.config.settings import Settings


@dataclass(frozen=True)
class Got:
    """An answer of the server."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class WatchedJob:
    """A bench whose job counts into a monitor."""

    def __init__(self, staging: Path, **properties: str) -> None:
        self.settings: Settings = parse(
            POSTGRES | {name.replace("_", "."): value for name, value in properties.items()}
        )
        self.bench = Bench(staging)
        clock = Clock(lambda: self.bench.now_s, lambda: self.bench.now_s, self.bench.sleep, lambda: "id")
        self.monitor = Monitor(self.settings, clock)
        made = self.bench.parts

        def parts() -> Any:
            channel = self.monitor.channel
            desk = Desk(
                self.bench.answers.append,
                {} if channel is None else {Channel.IN_PROCESS: channel},
                monotonic=self.monitor.clock.monotonic,
                record=self.monitor.record,
            )
            return replace(made(), tally=self.monitor.tally, desk=desk)

        self.bench.parts = parts  # type: ignore[method-assign]
        self.bench.new_job()

    def begin(self) -> Bench:
        self.bench.job.settle()
        self.bench.job.start()
        self.monitor.attach(lambda: 4096, lambda position: f"0/{position.order[0]:X}", lambda _: {"lsn": 7})
        return self.bench

    @contextmanager
    def turning(self) -> Iterator[None]:
        """The job's loop goes round meanwhile, as it does in its own thread."""
        stop = threading.Event()

        def turn() -> None:
            while not stop.wait(0.005):
                self.bench.job.turn()

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    @contextmanager
    def served(self) -> Iterator[Client]:
        server = JobServer(self.settings.http, Routes(self.monitor))
        try:
            yield Client(server.port)
        finally:
            server.close()


@dataclass(frozen=True)
class Client:
    """Asks a server on this machine."""

    port: int

    def get(self, path: str, **headers: str) -> Got:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Got:
        form = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://127.0.0.1:{self.port}",
        }
        return self.ask("POST", path, urlencode(fields), form | headers)

    def ask(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Got:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                method,
                path,
                body,
                {name.replace("_", "-"): value for name, value in (headers or {}).items()},
            )
            answer = connection.getresponse()
            return Got(answer.status, answer.read().decode(), dict(answer.headers))
        finally:
            connection.close()
