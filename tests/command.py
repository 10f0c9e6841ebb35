"""The `tidemark` command in a process of its own, as an operator runs it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Mapping, Sequence

_RUN = [sys.executable, "-c", "from adapters.cli.app import main; main()", "run"]
_STARTED_WITHIN_S = 600.0


class Command:
    """`tidemark run` with these properties, from entering to leaving; its log is a file in `directory`.

    `others` are the properties of further jobs of the same process; `run` is the command.
    """

    def __init__(
        self,
        said: Mapping[str, str],
        directory: Path,
        name: str = "job",
        *,
        run: Sequence[str] = _RUN,
        others: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._run, self._log = run, directory / f"{name}.log"
        self._configs = [directory / f"{name}{at or ''}.properties" for at in range(1 + len(others))]
        for config, properties in zip(self._configs, [said, *others], strict=True):
            config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def __enter__(self) -> Self:
        with self._log.open("w") as log:
            self.process = subprocess.Popen([*self._run, *map(str, self._configs)], stdout=log, stderr=log)
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

    def ended(self, timeout_s: float = 300.0) -> int:
        """Wait for its end; gives the exit code."""
        return self.process.wait(timeout_s)


def gone(processes: Iterable[int], within_s: float = 10.0) -> bool:
    """Whether processes have ended, or do so within a moment."""
    until = time.monotonic() + within_s
    while any(map(_runs, processes)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}
