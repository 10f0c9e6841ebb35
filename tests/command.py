"""The `tidemark` command in a process of its own, as an operator runs it."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping
    from pathlib import Path

_RUN = [sys.executable, "-c", "from adapters.cli.app import main; main()", "run"]
_STARTED_WITHIN_S = 120.0


class Command:
    """`tidemark run` with these properties, from entering to leaving; its log is a file in `directory`."""

    def __init__(self, said: Mapping[str, str], directory: Path, name: str = "job") -> None:
        self._config, self._log = directory / f"{name}.properties", directory / f"{name}.log"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in said.items()))

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self.process = subprocess.Popen([*_RUN, str(self._config)], stdout=log, stderr=log)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the job's own process."""
        self.process.send_signal(number)

    def until(self, condition: Callable[[], object], timeout_s: float = _STARTED_WITHIN_S) -> float:
        """Wait for something that the running job does; gives how long it took, in seconds."""
        began = time.monotonic()
        while not condition():
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log}"
            assert time.monotonic() - began < timeout_s, self.log
            time.sleep(0.05)
        return time.monotonic() - began

    def until_said(self, text: str, timeout_s: float = _STARTED_WITHIN_S) -> float:
        """Wait until its log holds a text; gives how long it took, in seconds."""
        return self.until(lambda: text in self.log, timeout_s)

    def ended(self, timeout_s: float = 30.0) -> int:
        """Wait for its end; gives the exit code."""
        return self.process.wait(timeout_s)
