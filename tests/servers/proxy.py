"""A proxy before a server, that can stand still: what a network does when nobody says that it is gone.

Connections stay open and what is sent is accepted, but nothing comes through until it goes on. To cut them
is another matter: then both ends know.
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from typing import Self

_CHUNK = 1 << 16


class Proxy:
    """Listens on a port of its own, and passes on to `host` and `port` as long as it is entered."""

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
        """Let nothing through any more, neither way; new connections are accepted and stand still, too."""
        self._passing.clear()

    def thaw(self) -> None:
        """Go on, with all that was kept."""
        self._passing.set()

    def aim(self, host: str, port: int) -> None:
        """Pass later connections on to another server, as an address does that moves."""
        self._target = (host, port)

    def lose(self) -> None:
        """End all connections at the server alone: the client is told nothing, and hears nothing any more."""
        nears, fars = self._sockets[::2], self._sockets[1::2]
        self._lost.update(nears)
        self._sockets.clear()
        for far in fars:
            with suppress(OSError):
                far.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections."""
        for one in [*self._sockets, *self._lost]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
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
            for one in peers:
                selector.register(one, selectors.EVENT_READ)
            while not self._closing:
                for key, _events in selector.select():
                    data = key.fileobj.recv(_CHUNK)  # type: ignore[union-attr]
                    if not data:
                        return
                    self._passing.wait()
                    peers[key.fileobj].sendall(data)  # type: ignore[index]
