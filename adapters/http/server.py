"""The job's web server: sockets, TLS, and limits on what a client can hold. `routes` has what it answers.

A thread serves each connection, 32 at most. A client that is silent for half a minute is cut off, and what it
sends is limited. Whatever goes wrong here ends that connection and nothing else.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
import threading
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final

from adapters.http.exchange import Answer, Request
from adapters.system import start_thread
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.config.web_settings import HttpSettings

_log = logging.getLogger("adapters")
MOST_CONNECTIONS: Final = 32
MOST_BODY: Final = 64 << 10
_TIMEOUT_S: Final = 30.0
_HANDSHAKE_S: Final = 10.0


class JobServer:
    """A server that runs until it is closed. `answer` must not wait for long: its client does."""

    def __init__(self, settings: HttpSettings, answer: Callable[[Request], Answer]) -> None:
        self._settings = settings
        try:
            self._server = _Server(settings, answer)
        except OSError as error:
            raise ConfigError(
                f"the port {settings.port} of {settings.host} can't be opened: {error.strerror or error}",
                hint="choose another tidemark.http.port or tidemark.http.host",
            ) from error
        self._thread = start_thread(self._server.serve, "tidemark-http")

    @property
    def port(self) -> int:
        """The port that is open."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """The page's address."""
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{'https' if self._settings.certificate else 'http'}://{host}:{self.port}/"

    def close(self) -> None:
        """Accept no more connections. Those that are open end with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_HANDSHAKE_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, settings: HttpSettings, answer: Callable[[Request], Answer]) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._tls = _context(settings)
        self.answer = answer
        if ":" in settings.host:
            self.address_family = socket.AF_INET6
        super().__init__((settings.host, settings.port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server for our own name, as the standard library does."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def serve(self) -> None:
        self.serve_forever(poll_interval=0.2)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, or cut it off if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection. The handshake is made here, so that nobody waits for a slow client's."""
        try:
            with suppress(OSError), self._secured(request) as connection:
                self.finish_request(connection, client_address)
        except Exception:  # noqa: BLE001  a fault of the page must not end the job
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)
            self._free.release()

    @contextmanager
    def _secured(self, request: Any) -> Iterator[Any]:
        if self._tls is None:
            yield request
            return
        request.settimeout(_HANDSHAKE_S)
        with self._tls.wrap_socket(request, server_side=True) as secured:
            yield secured

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  not told
        """Log a fault without the request, which may hold a secret."""
        _log.warning("a request to the job's port failed: %s", type(sys.exception()).__name__)


def _context(settings: HttpSettings) -> ssl.SSLContext | None:
    """TLS as the settings say. Raises ConfigError if a file can't be used."""
    if not settings.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate, settings.key or None, password=_no_password)
        if settings.client_ca:
            context.load_verify_locations(settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the certificates of the job's port can't be used: {getattr(error, 'strerror', None) or error}",
            hint="check tidemark.http.tls.certificate, tidemark.http.tls.key and tidemark.http.tls.client.ca",
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("the private key has a password; give one without")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(b"")

    def do_HEAD(self) -> None:
        """Answer without the content."""
        self._answer(b"")

    def do_POST(self) -> None:
        """Answer a request that has a body of a known, limited size."""
        size = self.headers.get("Content-Length", "")
        if not size.isascii() or not size.isdigit() or int(size) > MOST_BODY:
            self.close_connection = True
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        self._answer(self.rfile.read(int(size)))

    def _answer(self, body: bytes) -> None:
        answer = self.server.answer(Request(self.command, self.path, self.headers, body))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def version_string(self) -> str:
        """Who answers."""
        return "tidemark"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the standard library's name
        """Log nothing of requests: an address may hold a secret."""
