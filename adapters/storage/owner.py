"""Who holds a lease: the process, the claim it makes, and how both are written in a lease's file."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson


@dataclass(frozen=True, slots=True)
class Process:
    """A process, described so that others on the same machine can tell whether it still runs.

    `boot` is the machine's boot id, `namespace` the PID namespace, `started` the process's start in kernel
    ticks. All are empty if the system does not provide them.
    """

    host: str
    pid: int
    boot: str = ""
    namespace: str = ""
    started: str = ""

    @property
    def gone(self) -> bool:
        """Whether it has certainly ended; False if this machine can't know."""
        here = this_process()
        same = bool(self.boot) and (self.boot, self.namespace) == (here.boot, here.namespace)
        return same and _started(self.pid) != self.started


@cache
def this_process() -> Process:
    """The calling process."""
    boot = namespace = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return Process(socket.gethostname(), os.getpid(), boot, namespace, _started(os.getpid()))


def _started(pid: int) -> str:
    """When a process started; empty if there is none or if it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a lease: `id` is unique to one run, `job` is its `topic.prefix`."""

    id: str
    job: str
    process: Process
    ttl_ms: int
    released: bool = False

    def __str__(self) -> str:
        if not self.id:
            return "another job"
        return f"job {self.job!r}, process {self.process.pid} on {self.process.host}"


UNKNOWN: Final = Owner("", "", Process("", 0), 0)
"""The owner in a file whose writer has not finished it."""


def document_of(owner: Owner) -> bytes:
    """The file that names an owner."""
    return orjson.dumps(owner, option=orjson.OPT_INDENT_2)


def owner_in(document: bytes) -> Owner:
    """The owner that a file names."""
    try:
        fields: dict[str, Any] = orjson.loads(document)
        return Owner(**{**fields, "process": Process(**fields["process"])})
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Claim:
    """What a job asks for: to hold leases with a time to live of `ttl_ms`.

    `wait`: stand by while another job holds one; otherwise LeaseHeld is raised.
    """

    job: str
    ttl_ms: int = 6_000
    wait: bool = True
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: Process = field(default_factory=lambda: this_process())  # noqa: PLW0108  tests replace it

    @property
    def owner(self) -> Owner:
        """The claiming process as the owner."""
        return Owner(self.id, self.job, self.process, self.ttl_ms)
