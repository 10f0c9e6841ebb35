"""Ends the process soon after a signal, whatever hangs, together with all processes that it has started.

    first signal ──► stop is set ── the job saves and returns ──► exit code 0
         │                │
         │                └── 8 s later it has not: all is killed ──► 128 + the signal's number
         └── a second one: all is killed at once

Being killed loses no event: the next start resumes from the last turn.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger("engine")
_PATIENCE_S = 8.0
_LAST_RESORT_S = 9.5
_FAREWELL_S = 1.0
_WAKES_S = 1.0
_PROC = Path("/proc")


def run_until_signalled(job: Callable[[threading.Event], None]) -> None:
    """Run `job` and set its event at the first SIGTERM, SIGINT or SIGHUP; a second signal kills.

    The job gets a thread of its own: signal handlers run in the main thread only, and PySpark would replace
    them if it were started there.
    """
    stop, ended = threading.Event(), threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        name = signal.Signals(number).name
        if stop.is_set():
            _log.warning("%s again: ending at once", name)
            kill_all(128 + number)
        # First of all: whatever hangs from here on, the log among it, the system ends the process.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _LAST_RESORT_S)
        stop.set()
        _log.info("%s: stopping", name)
        threading.Thread(target=_enforce, args=(ended, number), name="tidemark-stop", daemon=True).start()

    before = {number: signal.signal(number, on_signal) for number in _asked()}
    try:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="job") as pool:
            running = pool.submit(job, stop)
            # The system may deliver a signal to any thread; Python runs its handler when this one wakes.
            while not running.done():
                wait([running], _WAKES_S)
            running.result()
    finally:
        ended.set()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _asked() -> Iterator[signal.Signals]:
    """The signals that end the job. SIGHUP is left alone if it is already ignored, as by `nohup`."""
    yield from (signal.SIGTERM, signal.SIGINT)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        yield signal.SIGHUP


def _enforce(ended: threading.Event, number: int) -> None:
    if not ended.wait(_PATIENCE_S):
        _log.warning(
            "something hangs: not stopped %.0f s after %s, so all is killed;"
            " the next start continues from the last turn",
            _PATIENCE_S,
            signal.Signals(number).name,
        )
        kill_all(128 + number)


def kill_all(code: int) -> None:
    """Kill every process that this one has started, with their descendants, and exit with `code`."""
    # Nothing up to the last kill waits for anybody. The last resort would leave those that are left.
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Stopped processes start no new ones.
    for process in descendants(os.getpid()):
        _send(process, signal.SIGSTOP)
    for process in descendants(os.getpid()):
        _send(process, signal.SIGKILL)
    signal.setitimer(signal.ITIMER_REAL, _FAREWELL_S)
    logging.shutdown()
    os._exit(code)


def _send(process: int, number: signal.Signals) -> None:
    with suppress(OSError):
        os.kill(process, number)


def descendants(process: int) -> list[int]:
    """All descendants of a process, parents first."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The second field is the program's name in brackets, which may contain anything.
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = list(children.get(process, ()))
    for descendant in found:
        found += children.get(descendant, ())
    return found
