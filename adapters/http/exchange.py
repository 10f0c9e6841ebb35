"""A request to the job's web server, and an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlsplit

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping


class Headers(Protocol):
    """The headers of a request, found in any case of letters."""

    def get(self, name: str, default: str, /) -> str:
        """A header's value."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request: `target` is the path with its query."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path alone."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """The fields of the query; empty if it is none."""
        try:
            return dict(parse_qsl(urlsplit(self.target).query, max_num_fields=10))
        except ValueError:
            return {}

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form that was sent; empty if the body is none."""
        if (
            self.headers.get("Content-Type", "").partition(";")[0].strip()
            != "application/x-www-form-urlencoded"
        ):
            return {}
        try:
            return dict(parse_qsl(self.body.decode(), keep_blank_values=True, max_num_fields=100))
        except ValueError:
            return {}


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, with the headers that every answer has."""

    status: int
    body: bytes
    type: str = "text/plain; charset=utf-8"
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """All headers but the length."""
        return {"Content-Type": self.type, **_ALWAYS, **self.more}


def as_json(status: int, content: object) -> Answer:
    """An answer in JSON."""
    return Answer(status, orjson.dumps(content), "application/json")


def as_text(status: int, text: str, more: Mapping[str, str] | None = None) -> Answer:
    """An answer of one line."""
    return Answer(status, f"{text}\n".encode(), more=more or {})
