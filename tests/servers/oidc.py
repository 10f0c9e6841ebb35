"""A server with just enough of MongoDB's protocol for a client to log in by MONGODB-OIDC.

Only other editions of MongoDB have that mechanism. This server accepts the tokens that it is given as valid.
It rejects a connection whose token is no longer valid with error 391, which asks for another. It records the
tokens received.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from typing import Any, Self

import bson

_REPLY, _QUERY, _MESSAGE = 1, 2004, 2013
_header = struct.Struct("<iiii")


class OidcServer:
    """Listens on its own port while entered. `valid` are the tokens that it accepts."""

    def __init__(self, *valid: str) -> None:
        self.valid = set(valid)
        self.given: list[str] = []
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection, bind_and_activate=True)
        self._server.daemon_threads = True
        self._server.owner = self  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def uri(self) -> str:
        """A connection string."""
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def hello(self) -> dict[str, Any]:
        """The answer to hello."""
        return {
            "helloOk": True,
            "isWritablePrimary": True,
            "setName": "rs0",
            "setVersion": 1,
            "ok": 1.0,
            "hosts": [f"127.0.0.1:{self.port}"],
            "me": f"127.0.0.1:{self.port}",
            "minWireVersion": 0,
            "maxWireVersion": 21,
            "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30,
            "saslSupportedMechs": ["MONGODB-OIDC"],
        }


class _Connection(socketserver.StreamRequestHandler):
    """One connection, and the token that it logged in with."""

    token = ""

    def handle(self) -> None:
        """Answer until the client leaves."""
        while len(header := self.rfile.read(_header.size)) == _header.size:
            length, request, _to, kind = _header.unpack(header)
            body = self.rfile.read(length - _header.size)
            if kind == _QUERY:
                found = bson.decode(body[body.index(0, 4) + 9 :])
                self._send(_REPLY, request, struct.pack("<iqii", 8, 0, 0, 1) + self._answered(found))
            else:
                found = bson.decode(body[5 : 5 + int.from_bytes(body[5:9], "little")])
                self._send(_MESSAGE, request, bytes(5) + self._answered(found))

    def _send(self, kind: int, request: int, body: bytes) -> None:
        self.wfile.write(_header.pack(_header.size + len(body), 1, request, kind) + body)

    def _answered(self, command: dict[str, Any]) -> bytes:
        return bson.encode(self._answer(command))

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        owner: OidcServer = self.server.owner  # type: ignore[attr-defined]
        name = next(iter(command)).lower()
        if name == "saslstart":
            return self._login(owner, command)
        if name == "ismaster" or (name == "hello" and not self.token):
            return owner.hello()
        if self.token not in owner.valid:
            return _failed(391, "ReauthenticationRequired", "reauthentication is required")
        return owner.hello() if name == "hello" else {"ok": 1.0}

    def _login(self, owner: OidcServer, command: dict[str, Any]) -> dict[str, Any]:
        token = bson.decode(command["payload"])["jwt"]
        owner.given.append(token)
        if token not in owner.valid:
            return _failed(18, "AuthenticationFailed", "Authentication failed.")
        self.token = token
        return {"conversationId": 1, "done": True, "payload": b"", "ok": 1.0}


def _failed(code: int, name: str, said: str) -> dict[str, Any]:
    return {"ok": 0.0, "code": code, "codeName": name, "errmsg": said}
