"""Who sends rows beside the turns: processes of this machine, or tasks on Spark's executors.

On one machine, Spark's slots are held by the tasks that read the next window, for seconds. A run that waits
for a slot would hold up changes of its rows for as long. So processes of our own send them there. Each ends
with the driver, even in the middle of a run: its standard input ends then. While it lives it gives a sign of
life every half second. One that gives none for long is killed, so no turn waits for a frozen one for ever.

Nobody can call back what a killed process had sent: its records may arrive behind newer ones. So a process
that is to stop gets SIGTERM. It sends nothing more, waits for the answers to what it has sent, and ends.

On a cluster, a run is sent by the executor that has it, in a Spark job of one task. Spark does not run such
a task twice at once, unless `spark.speculation.task.duration.threshold` is set.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeVar

from adapters.spark.outcomes import Attempt, result
from adapters.spark.worker import NICENESS
from engine.errors import ExecutorsFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.kafka.beside.lease_answers import AskForLease, LeaseAnswers
    from engine.ports.executors import Executors

Item = TypeVar("Item")
Result = TypeVar("Result")
_log = logging.getLogger("adapters")
_LENGTH: Final = struct.Struct(">Q")
_IDLE_S: Final = 60.0
_BEAT_S: Final = 0.5
_SILENT_S = 30.0
"""How long a process may give no sign of life."""
_BEAT: Final = b""
_ENVIRONMENT: Final = {"MIMALLOC_PURGE_DELAY": "10000", "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


class Senders(Protocol):
    """Run tasks in slots, one task per slot at a time; others of a slot wait."""

    @property
    def keeps(self) -> bool:
        """Whether all tasks of a slot run in one process, if they follow within 30 s."""

    @property
    def lease(self) -> AskForLease | None:
        """How a task asks whether the job still has its lease; None if it can't."""

    def submit(self, slot: int, task: Callable[[Item], Result], item: Item) -> Future[Result]:
        """Begin to run a task on an item.

        The future raises the task's TidemarkError, or ExecutorsFailed if who ran it has ended.
        """

    def stop(self) -> None:
        """Make running tasks send nothing more and end, if that is possible. Does not wait."""

    def end(self) -> None:
        """Make running tasks end at once, if that is possible."""

    def close(self) -> None:
        """Release everything."""


class ExecutorSenders:
    """Tasks on executors, each as a job of its own."""

    keeps: Final = False

    def __init__(self, executors: Executors, tasks: int) -> None:
        self._executors = executors
        self._answers: LeaseAnswers | None = None
        self._pool = ThreadPoolExecutor(tasks, thread_name_prefix="tidemark-send")

    def submit(self, slot: int, task: Callable[[Item], Result], item: Item) -> Future[Result]:  # noqa: ARG002
        """Run the task on any executor that may run it."""
        return self._pool.submit(copy_context().run, self._run, task, item)

    @property
    def lease(self) -> AskForLease | None:
        """How a task asks `answer_with`; None before."""
        return self._answers.ask if self._answers is not None else None

    def answer_with(self, answers: LeaseAnswers) -> None:
        """Let tasks ask for the lease, until this is closed."""
        self._answers = answers

    def _run(self, task: Callable[[Item], Result], item: Item) -> Result:
        (done,) = self._executors.map(task, [item])
        return done

    def stop(self) -> None:
        """Do nothing: a task ends when the brokers have its rows, or are silent for too long."""

    end = stop

    def close(self) -> None:
        """Let the threads end. Nobody is told of the lease any more."""
        if self._answers is not None:
            self._answers.close()
        self._pool.shutdown(wait=False)


class ProcessSenders:
    """Processes of this machine, one per slot, started when they are first needed."""

    keeps: Final = True
    lease: Final = None

    def __init__(self, slots: int, idle_s: float = _IDLE_S) -> None:
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="tidemark-send")
        self._processes: dict[int, _Sender] = {}
        self._changing, self._idle_s = threading.Lock(), idle_s
        self._busy: dict[int, threading.Lock] = {}
        self._closed = False

    def submit(self, slot: int, task: Callable[[Item], Result], item: Item) -> Future[Result]:
        """Run the task in the slot's process."""
        return self._pool.submit(self._run, slot, task, item)

    def _run(self, slot: int, task: Callable[[Item], Result], item: Item) -> Result:
        with self._changing:
            busy = self._busy.setdefault(slot, threading.Lock())
        with busy:
            sender = self._sender(slot)
            answer = sender.ask(pickle.dumps((task, item), pickle.HIGHEST_PROTOCOL))
            if answer is None or sender.stops:
                self._drop(slot, sender)
            if answer is None:
                raise ExecutorsFailed("a process that sent rows has ended", where="kafka")
        done: Result = result(pickle.loads(answer))  # noqa: S301  our own process wrote it
        return done

    def _sender(self, slot: int) -> _Sender:
        with self._changing:
            if self._closed:
                raise ExecutorsFailed("nobody sends rows any more", where="kafka")
            known = self._processes.get(slot)
            if known is None or known.stops or known.idle_s > self._idle_s:
                if known is not None:
                    known.end()
                self._processes[slot] = _Sender(2 * self._idle_s)
            return self._processes[slot]

    def _drop(self, slot: int, sender: _Sender) -> None:
        with self._changing:
            if self._processes.get(slot) is sender:
                del self._processes[slot]
        sender.end()

    def stop(self) -> None:
        """Let the processes stop; others run what comes next."""
        with self._changing:
            for sender in self._processes.values():
                sender.stop()

    def end(self) -> None:
        """Kill the processes; what they run fails."""
        with self._changing:
            for sender in self._processes.values():
                sender.kill()

    def close(self) -> None:
        """End the processes, and start none for what waits."""
        with self._changing:
            self._closed = True
        self.end()
        self._pool.shutdown(wait=True)
        for slot, sender in list(self._processes.items()):
            self._drop(slot, sender)


class _Sender:
    """A process that runs one task after another. It ends by itself if none comes for `idle_s`.

    `stops`: it was told to stop, and runs nothing more.
    """

    def __init__(self, idle_s: float) -> None:
        paths = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(  # noqa: S603  our own module
            # -P: no module is taken from the working directory.
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({idle_s})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**_ENVIRONMENT, **os.environ, "PYTHONPATH": paths},
        )
        self._used_s = time.monotonic()
        self.kill = self._process.kill
        self.stops = False

    @property
    def idle_s(self) -> float:
        """For how long it has had nothing to do."""
        return time.monotonic() - self._used_s

    def ask(self, asked: bytes) -> bytes | None:
        """Send a message and wait for the answer; None if the process ends instead, or hangs."""
        asks, answers = self._process.stdin, self._process.stdout
        if asks is None or answers is None:
            return None
        try:
            self._while_alive(lambda: _write(asks, asked))
            while (answer := self._while_alive(lambda: _read(answers))) == _BEAT:
                pass
        except OSError:
            return None
        else:
            return answer
        finally:
            self._used_s = time.monotonic()

    def _while_alive(self, step: Callable[[], Result]) -> Result:
        """Take a step that waits for the process, which is killed if it is silent for too long."""
        patience = threading.Timer(_SILENT_S, self._hangs)
        patience.daemon = True
        patience.start()
        try:
            return step()
        finally:
            patience.cancel()

    def _hangs(self) -> None:
        _log.warning("a process that sends rows hangs, so it is killed")
        self.kill()

    def stop(self) -> None:
        """Tell it to stop."""
        self.stops = True
        self._process.terminate()

    def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # it may hold what was never read
                    pipe.close()


def serve(idle_s: float) -> None:
    """Run the tasks that come from the driver, until it ends or sends none for so long.

    SIGTERM calls the `stop` of the task that runs, if it has one, and ends the process behind it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the driver as well
    os.nice(NICENESS)
    asks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    tasks: queue.Queue[bytes] = queue.Queue()
    answering = threading.Lock()
    running: list[Any] = []
    stopping = threading.Event()

    def answer(data: bytes) -> None:
        with answering:
            _write(answers, data)

    def beat() -> None:
        with suppress(OSError):  # the driver has ended
            while True:
                answer(_BEAT)
                time.sleep(_BEAT_S)

    def watch() -> None:
        while (asked := _read(asks)) is not None:
            tasks.put(asked)
        os._exit(0)  # the driver has ended; nobody may send for it any more

    def stop(_number: int, _frame: object) -> None:
        stopping.set()
        if not running:
            os._exit(0)
        getattr(running[0], "stop", lambda: None)()

    signal.signal(signal.SIGTERM, stop)
    for beside in (watch, beat):
        threading.Thread(target=beside, name=beside.__name__, daemon=True).start()
    with suppress(queue.Empty):
        while not stopping.is_set():
            task, item = pickle.loads(tasks.get(timeout=idle_s))  # noqa: S301  the driver wrote it
            running.append(task)
            done = pickle.dumps(Attempt(task)(item), pickle.HIGHEST_PROTOCOL)
            answer(done)
            running.clear()
            del task, item, done


def _write(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next message; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data: Any = pipe.read(size)
    return data if len(data) == size else None
