"""Tells tasks on other machines whether the job still has its lease.

A producer takes its transactional id before the job looks at its lease, and only sends afterwards. A process
of this machine keeps its producer from one to the other. On a cluster the next task may run anywhere, so a
task asks between the two:

    task                                     driver
    takes the id
    asks, with a nonce      ───────────────►  looks at the lease
    is sure that it may send ◄──────────────  signs the nonce; no answer if the lease is lost
    sends

Whoever takes the lease over afterwards takes the id as well, before it sends anything. A driver that is
frozen answers nothing, and its tasks send nothing. If such a task has taken an id from the job's successor,
the successor takes it back, and sends its turn again.

The key goes to the tasks with Spark. On this road there are only nonces and signatures.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import socketserver
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ExecutorsFailed, LeaseLost

if TYPE_CHECKING:
    from engine.ports.state_store import Lease

_ANSWER_S: Final = 30.0
_BYTES: Final = 32
_DIGEST: Final = "sha256"


@dataclass(frozen=True, slots=True)
class AskForLease:
    """Asks the driver at this address. Goes to the executors."""

    host: str
    port: int
    key: bytes = field(repr=False)
    patience_s: float = _ANSWER_S

    def confirm(self) -> None:
        """Raise ExecutorsFailed unless the job has its lease at this moment."""
        nonce = secrets.token_bytes(_BYTES)
        where = f"{self.host}:{self.port}"
        try:
            with socket.create_connection((self.host, self.port), self.patience_s) as asked:
                asked.sendall(nonce)
                answer = _received(asked)
        except OSError as exc:
            raise ExecutorsFailed(
                f"an executor does not reach the driver, which must confirm its lease: {exc}",
                where=where,
                hint="let the executors' network reach all ports of the driver",
            ) from exc
        if not hmac.compare_digest(answer, hmac.digest(self.key, nonce, _DIGEST)):
            raise ExecutorsFailed("the driver does not confirm that it has its lease", where=where)


def _received(connection: socket.socket) -> bytes:
    """The next message; shorter if the other end closes the connection."""
    data = b""
    while len(data) < _BYTES and (more := connection.recv(_BYTES - len(data))):
        data += more
    return data


class LeaseAnswers:
    """Answers on a port of this machine. `host` is how executors reach it, `bind` where it listens."""

    def __init__(self, lease: Lease, host: str, bind: str) -> None:
        key = secrets.token_bytes(_BYTES)
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        server_class = type("_Server", (socketserver.ThreadingTCPServer,), {"address_family": family})
        self._server: socketserver.ThreadingTCPServer = server_class((bind, 0), _answering(lease, key))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="tidemark-lease-answers")
        self._thread.daemon = True
        self._thread.start()
        self.ask = AskForLease(host, int(self._server.server_address[1]), key)

    def close(self) -> None:
        """Answer nothing more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answering(lease: Lease, key: bytes) -> Any:
    class Answering(socketserver.BaseRequestHandler):
        """Answers one question."""

        def handle(self) -> None:
            self.request.settimeout(_ANSWER_S)
            try:
                nonce = _received(self.request)
                lease.check()
                self.request.sendall(hmac.digest(key, nonce, _DIGEST))
            except (OSError, LeaseLost):
                return  # no answer is a refusal

    return Answering
