"""The process that runs the job under torture: started, given orders, killed, restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import tests

if TYPE_CHECKING:
    from typing import Self

_STACKS_WITHIN_S = 1.0
_ROOT = Path(str(tests.__file__)).resolve().parents[1]


@dataclass(slots=True)
class Child:
    """`tests.torture.child`, in its own process group. It logs to a file."""

    log: Path
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.kill()

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self._process is not None and self._process.poll() is None

    def order(self, **order: Any) -> None:
        """Give an order. `play` starts the process if needed; other orders to a dead process are dropped."""
        if not self.alive and order["do"] != "play":
            return
        if not self.alive:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(orjson.dumps(order) + b"\n")
            self._process.stdin.flush()

    def _start(self) -> None:
        self.kill()
        self.starts += 1
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.torture.child"],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def freeze(self, seconds: float) -> None:
        """SIGSTOP the process and everything that it started; SIGCONT them after this many seconds."""
        if self._process is None or not self.alive:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.killpg(self._process.pid, signal.SIGCONT)

    def tell_stacks(self) -> str:
        """What its threads do now, which it writes to its log."""
        if self._process is None or not self.alive:
            return "the job's process is gone"
        begin = self.log.stat().st_size
        os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(_STACKS_WITHIN_S)
        return self.log.read_bytes()[begin:].decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL the process and everything that it started."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process = None

    def last_lines(self, lines: int = 25) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])
