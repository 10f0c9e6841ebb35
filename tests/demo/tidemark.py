"""The job of the demo, run as a user runs it: a properties file and the command `tidemark run`.

Owns the process, its log and where it keeps things. How far it is can be read from its checkpoint,
which is written for people, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from engine.job.saved import state_document as saved
from engine.job.saved.state import State
from tests.demo.source import PUBLICATION, SIGNALS, SLOT, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.demo.source import Login
    from tests.servers.postgres import Database

PREFIX = "demo"
_STOP_TIMEOUT_S = 30.0


class JobFailed(Exception):
    """The job ended, or answered that it can't do what it was asked; carries its last lines."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What a run of the demo leaves behind."""

    path: Path

    @property
    def events(self) -> Path:
        """The files sink's directory."""
        return self.path / "events"

    @property
    def properties(self) -> Path:
        """The job's configuration."""
        return self.path / "tidemark.properties"

    @property
    def checkpoint(self) -> Path:
        """The job's saved state."""
        return self.path / "checkpoint"

    @property
    def log(self) -> Path:
        """What the job said."""
        return self.path / "tidemark.log"


def write_properties(
    folder: Folder,
    database: Database,
    login: Login,
    sink: Mapping[str, str] | None = None,
    *,
    cores: int = 2,
    mode: str = "never",
) -> None:
    """Write a Debezium connector's configuration, and our own few lines beneath it.

    `sink` says where events go; by default into files. `mode` is `snapshot.mode`.
    """
    write_job(folder, postgres_properties(database, login), sink, cores=cores, mode=mode)


def postgres_properties(database: Database, login: Login) -> dict[str, str]:
    """The source of a job on PostgreSQL."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": database.server.host,
        "database.port": str(database.server.port),
        "database.user": login.user,
        "database.password": login.password,
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "slot.name": SLOT,
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "table.include.list": ",".join(".".join(table) for table in TABLES),
        "signal.data.collection": SIGNALS,
    }


def write_job(
    folder: Folder,
    source: Mapping[str, str],
    sink: Mapping[str, str] | None = None,
    *,
    cores: int = 2,
    mode: str = "never",
) -> None:
    """Write the configuration of a job on any source, whose own properties `source` are."""
    lines = {
        **source,
        "tidemark.spark.master": f"local[{cores}]",
        "topic.prefix": PREFIX,
        "snapshot.mode": mode,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **(sink or {"tidemark.sink": "files", "tidemark.sink.files.dir": str(folder.events)}),
        "tidemark.checkpoint": str(folder.checkpoint),
        "tidemark.progress.interval.ms": "1000",
    }
    folder.properties.touch(mode=0o600)
    folder.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), "utf-8")


class Tidemark:
    """`tidemark run` in a process of its own, ended with the context whatever happens.

    `command` runs another `tidemark` than the installed one, with `options` for its process.
    """

    def __init__(self, folder: Folder, command: Sequence[str] = (), **options: Any) -> None:
        self._folder, self._command, self._options = folder, command or _command(), options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._folder.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "run", str(self._folder.properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C in the terminal is ours to answer
                **self._options,
            )
        return self

    def __exit__(self, *_raised: object) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it may have left
        process.wait()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def check(self) -> None:
        """Raise JobFailed if the job has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise JobFailed(f"the job ended with exit code {self._process.returncode}\n{self.last_lines()}")

    def until(self, condition: Callable[[], Any], timeout_s: float = 120.0) -> None:
        """Wait until the condition holds. Raises JobFailed if the job ends before."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.check()
            assert time.monotonic() < deadline, self.last_lines()
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL: no chance to save or say anything."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self, *, group: bool = False) -> float:
        """SIGTERM, to the job or to its whole group; gives the seconds until a clean end.

        Raises JobFailed if it was not clean.
        """
        assert self._process is not None
        since = time.monotonic()
        if group:
            os.killpg(self._process.pid, signal.SIGTERM)
        else:
            self._process.terminate()
        try:
            code = self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise JobFailed(f"the job did not end in {_STOP_TIMEOUT_S:g} s\n{self.last_lines()}") from None
        if code:
            raise JobFailed(f"asked to stop, the job ended with exit code {code}\n{self.last_lines()}")
        return time.monotonic() - since

    def state(self) -> State | None:
        """The newest state that the job has saved; None before its first."""
        for path in sorted(self._folder.checkpoint.glob("turn-*.json"), reverse=True):
            if path.name.endswith(".pending.json"):
                continue
            # older ones are removed as newer ones come
            with contextlib.suppress(FileNotFoundError):
                return saved.from_json(orjson.dumps(orjson.loads(path.read_bytes())["state"]))
        return None

    def said(self, words: str) -> list[str]:
        """The lines of the log that hold these words."""
        return [line for line in self._lines() if words in line]

    def last_lines(self, lines: int = 30) -> str:
        """The end of the job's log."""
        return "\n".join(self._lines()[-lines:])

    def _lines(self) -> list[str]:
        return self._folder.log.read_text("utf-8", "replace").splitlines()


def _command() -> list[str]:
    script = Path(sys.executable).with_name("tidemark")
    return [str(script)] if script.exists() else [sys.executable, "-m", "adapters.cli.app"]
