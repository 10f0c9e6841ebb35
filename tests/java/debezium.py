"""The real Debezium's embedded engine as a process, and the records that Kafka Connect would send of it."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tests.bench.peers.jars import debezium
from tests.servers.java import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.servers.postgres import Database

VERSION = "2.1.4.Final"
_SOURCE = Path(__file__).with_name("Debezium.java")
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as text; None for null."""

    topic: str
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Engine:
    """An engine at work, and what it has sent so far in this run."""

    process: subprocess.Popen[bytes]
    log: Path
    sent: list[Sent] = field(default_factory=list)

    def until(self, condition: Callable[[list[Sent]], Any]) -> None:
        """Wait until what was sent fulfils the condition."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not condition(list(self.sent)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Debezium has not sent it; its log ends: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def read(self) -> None:
        """Take every line until the process ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            one = orjson.loads(line)
            headers = tuple((header["key"], header["value"]) for header in one["headers"])
            self.sent.append(Sent(one["topic"], one["key"], one["value"], headers))

    def kill(self) -> None:
        """End it at once, as losing power would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(properties: Mapping[str, str], directory: Path, version: str = VERSION) -> Iterator[Engine]:
    """An engine of this version with these properties, stopped in an orderly way at the end.

    Its offsets stay in `directory`, from which it goes on when it runs there again.
    """
    settings, log = directory / "debezium.properties", directory / "debezium.log"
    offsets = {
        "name": "real",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(directory / "offsets"),
        "offset.flush.interval.ms": "0",
    }
    settings.touch(mode=0o600)
    settings.write_text("".join(f"{name}={value}\n" for name, value in (offsets | dict(properties)).items()))
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", compiled(_SOURCE, debezium(version)), "Debezium", str(settings)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    engine = Engine(process, log)
    reading = threading.Thread(target=engine.read)
    reading.start()
    try:
        yield engine
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            engine.kill()
        reading.join()
        assert process.stdout is not None
        process.stdout.close()


def postgres_properties(database: Database, **more: str) -> dict[str, str]:
    """A connector's properties for a database; `__` in a name stands for a dot."""
    server = database.server
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "poll.interval.ms": "50",
        "extended.headers.enabled": "false",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
