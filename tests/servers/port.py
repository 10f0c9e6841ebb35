"""Finds a free port for a server."""

from __future__ import annotations

import random
import socket

# Below the ports that systems give to outgoing connections, which might take one before the server does.
_FIRST, _LAST = 15_000, 32_000
_given: set[int] = set()
_draw = random.SystemRandom()


def free_port() -> int:
    """A port of 127.0.0.1 that is free now and that this process was not given before."""
    while True:
        port = _draw.randint(_FIRST, _LAST)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
