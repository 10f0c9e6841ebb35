"""A proxy in front of a server that can freeze, like a network that fails without notice.

While frozen, connections stay open and accept data, but nothing gets through until it is thawed. Cutting
connections is different: then both ends notice.
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Collection

_CHUNK = 1 << 16


class Proxy:
    """Listens on its own port, and forwards to `host` and `port` while entered."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._passing = threading.Event()
        self._passing.set()
        self._closing = False
        self._sockets: list[socket.socket] = []
        self._lost: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing = True
        self._passing.set()
        self._listener.close()
        self.cut()

    def freeze(self) -> None:
        """Let nothing through in either direction. New connections are accepted, but frozen as well."""
        self._passing.clear()

    def thaw(self) -> None:
        """Continue, delivering everything that was kept."""
        self._passing.set()

    def aim(self, host: str, port: int) -> None:
        """Forward later connections to another server, like an address that moves."""
        self._target = (host, port)

    def lose(self, ports: Collection[int] | None = None) -> None:
        """End connections on the server's side only: the client is not told, and hears nothing more.

        `ports` names them as the server sees its clients; None: all of them.
        """
        pairs = list(zip(self._sockets[::2], self._sockets[1::2], strict=True))
        lost = [pair for pair in pairs if ports is None or _port_of(pair[1]) in ports]
        self._lost.update(near for near, _far in lost)
        self._sockets = [end for pair in pairs if pair not in lost for end in pair]
        for _near, far in lost:
            with suppress(OSError):
                far.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections."""
        for end in [*self._sockets, *self._lost]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._sockets.clear()
        self._lost.clear()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._closing:
                near, _address = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._passing.wait()
        with suppress(OSError, ValueError), socket.create_connection(self._target) as far:
            self._sockets += [near, far]
            self._pass_on({near: far, far: near})
        if near not in self._lost:
            near.close()

    def _pass_on(self, peers: dict[socket.socket, socket.socket]) -> None:
        with selectors.DefaultSelector() as selector:
            for peer in peers:
                selector.register(peer, selectors.EVENT_READ)
            while not self._closing:
                for key, _events in selector.select():
                    data = key.fileobj.recv(_CHUNK)  # type: ignore[union-attr]
                    if not data:
                        return
                    self._passing.wait()
                    peers[key.fileobj].sendall(data)  # type: ignore[index]


def _port_of(one: socket.socket) -> int | None:
    """The port on this side; None if it is closed."""
    try:
        port: int = one.getsockname()[1]
    except OSError:
        return None
    return port
