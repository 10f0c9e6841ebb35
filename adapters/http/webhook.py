"""Posts JSON to a web address, in a thread of its own, so that a slow server delays nothing.

Each text is posted once. Texts wait in a queue of limited length. What does not fit, or is not accepted, is
dropped: the first time this happens is logged, and again after something was accepted in between.
"""

from __future__ import annotations

import logging
import threading
from base64 import b64encode
from collections import deque
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from adapters.system import start_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

_log = logging.getLogger("adapters")
MOST_WAITING: Final = 1_000
MOST_BYTES: Final = 16 << 20
"""How many texts may wait, and of how many characters together."""
_TIMEOUT_S: Final = 5.0
_CLOSED_WITHIN_S: Final = 2.0
_MOST_READ: Final = 65_536
_ACCEPTED: Final = range(200, 300)


class Webhook:
    """Posts to `url`, which may hold a secret: only its host is ever logged.

    A `token` is sent as a bearer token. `texts` is what the log calls what is posted.

    `timeout_s` limits the wait for the connection and for each piece of the answer. Redirects are not
    followed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        texts: str = "notifications",
        timeout_s: float = _TIMEOUT_S,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._token, self._texts = token, texts
        self._url, self._timeout_s, self._most_waiting = urlsplit(url), timeout_s, most_waiting
        self._waiting: deque[str] = deque()
        self._characters = 0
        self._changed = threading.Condition()
        self._closing = self._posting = self._told = False
        self.dropped = 0
        self._thread = start_thread(self._run, "tidemark-webhook")

    def post(self, texts: Iterable[str]) -> None:
        """Queue texts. Never waits."""
        with self._changed:
            for text in texts:
                if len(self._waiting) < self._most_waiting and self._characters + len(text) <= MOST_BYTES:
                    self._waiting.append(text)
                    self._characters += len(text)
                else:
                    self._drop(f"more than {self._most_waiting} {self._texts} wait, or {MOST_BYTES} bytes")
            self._changed.notify_all()

    def close(self) -> None:
        """Post what waits, for two seconds at most, and end. Logs how many were dropped in all."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSED_WITHIN_S)
        with self._changed:
            self.dropped += len(self._waiting) + self._posting
            self._waiting.clear()
            self._posting = False
            if self.dropped:
                _log.warning("the webhook at %s did not take %d %s", self._host, self.dropped, self._texts)

    @property
    def _host(self) -> str:
        return self._url.hostname or ""

    def _run(self) -> None:
        while (text := self._next()) is not None:
            try:
                self._send(text)
            except (OSError, HTTPException, ValueError) as error:
                self._done(_reason(error))
            else:
                self._done()

    def _done(self, failure: str = "") -> None:
        """Note that the text in hand is posted, or why it is lost."""
        with self._changed:
            if not self._posting:
                return  # `close` gave it up and counted it
            self._posting = False
            if failure:
                self._drop(failure)
            else:
                self._told = False

    def _next(self) -> str | None:
        """The next text; None once all are taken and the webhook is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._posting = bool(self._waiting)
            text = self._waiting.popleft() if self._waiting else None
            self._characters -= len(text or "")
            return text

    def _send(self, text: str) -> None:
        """Post a text. Raises OSError, HTTPException or ValueError if it is not accepted."""
        connection = self._connection()
        try:
            path = self._url.path or "/"
            query = f"?{self._url.query}" if self._url.query else ""
            connection.request("POST", path + query, text.encode(), self._headers())
            answer = connection.getresponse()
            answer.read(_MOST_READ)
            if answer.status not in _ACCEPTED:
                raise _WebhookRefused(f"it answers with status {answer.status}")
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._url.username is not None:
            login = f"{unquote(self._url.username)}:{unquote(self._url.password or '')}"
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        elif self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        return kind(self._host, self._url.port, timeout=self._timeout_s)

    def _drop(self, why: str) -> None:
        """Count a text that is lost; the caller holds `_changed`."""
        self.dropped += 1
        if not self._told:
            self._told = True
            _log.warning(
                "the webhook at %s does not take %s: %s; they are dropped until it does",
                *(self._host, self._texts, why),
            )


class _WebhookRefused(HTTPException):
    """The server's answer is no success."""


def _reason(error: Exception) -> str:
    """What went wrong, without the address: an error's text may hold it."""
    if isinstance(error, _WebhookRefused):
        return str(error)
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
