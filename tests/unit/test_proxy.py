"""The proxy that tests put before a server: it moves, and it loses connections without a word."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.servers.proxy import Proxy


@contextlib.contextmanager
def answering(word: bytes) -> Iterator[int]:
    """A server that answers every message with a word; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                while connection.recv(100):
                    connection.sendall(word)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def asked(client: socket.socket) -> bytes:
    client.settimeout(5)
    client.sendall(b"?")
    return client.recv(100)


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port))


def test_it_can_be_aimed_at_another_server():
    with answering(b"one") as one, answering(b"two") as two, Proxy("127.0.0.1", one) as proxy:
        with connected(proxy) as before:
            assert asked(before) == b"one"
            proxy.aim("127.0.0.1", two)
            assert asked(before) == b"one"
        with connected(proxy) as after:
            assert asked(after) == b"two"


def test_a_lost_connection_stays_open_and_hears_nothing():
    with answering(b"one") as one, Proxy("127.0.0.1", one) as proxy, connected(proxy) as lost:
        assert asked(lost) == b"one"
        proxy.lose()
        lost.settimeout(0.3)
        lost.sendall(b"?")
        with pytest.raises(TimeoutError):
            lost.recv(100)
        with connected(proxy) as new:
            assert asked(new) == b"one"
