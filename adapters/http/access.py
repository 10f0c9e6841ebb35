"""Who may ask the web server for what: names, tokens, and requests that other sites make in a browser. Pure.

- *Names*: a stranger's site may let its own name point at this machine (DNS rebinding). A browser would then
  take our answers for that site's. So only known names are answered, and addresses, which no site owns.
- *The token* comes as a bearer token, or as the password of basic authentication, which browsers ask for.
- *Signals* need a token that only our page has, and must come from our own address: `Origin` says so, which
  no script can change.
"""

from __future__ import annotations

import hmac
import ipaddress
from base64 import b64decode
from binascii import Error as NotBase64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from adapters.http.exchange import Headers
    from engine.config.web_settings import HttpSettings

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""What is answered without a token."""
CSRF_FIELD: Final = "csrf"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused, and the status that says so."""

    status: int
    why: str


@dataclass(frozen=True, slots=True)
class Access:
    """Decides about requests. `csrf` is the secret of this process's pages."""

    settings: HttpSettings
    csrf: str

    def refusal(self, path: str, headers: Headers) -> Refusal | None:
        """Why a request may not be answered; None if it may. `headers` are found in any case of letters."""
        host = headers.get("Host", "")
        if not self._knows(host):
            return Refusal(421, "unknown name: list it in tidemark.http.hosts, or use the address")
        if path in OPEN or not self.settings.token:
            return None
        if _same(_token_in(headers.get("Authorization", "")), self.settings.token):
            return None
        return Refusal(401, "a token is needed: as bearer token, or as password of basic authentication")

    def refusal_of_signal(self, headers: Headers, csrf: str) -> Refusal | None:
        """Why a request may not send a signal, although it may be answered; None if it may."""
        if not self.settings.control:
            return Refusal(403, "signals are off: set tidemark.http.control=true")
        if headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
            return Refusal(403, "the request comes from another site")
        origin = urlsplit(headers.get("Origin", ""))
        scheme = "https" if self.settings.certificate else "http"
        if origin.scheme != scheme or origin.netloc.lower() != headers.get("Host", "").lower():
            return Refusal(403, "the request does not come from this page: its origin is another one")
        if not _same(csrf, self.csrf):
            return Refusal(403, "the page is out of date: load it again")
        return None

    def _knows(self, host: str) -> bool:
        name = _name_in(host)
        if not name:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            known = {"localhost", self.settings.host, *self.settings.hosts}
            return name in {address.lower().rstrip(".") for address in known}
        return True


def _name_in(host: str) -> str:
    """The name or address of a Host header, without port and brackets; empty if it is none."""
    if any(sign in host for sign in "@/?#\\ "):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _token_in(authorization: str) -> str:
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(given.strip(), validate=True).decode().partition(":")[2]
    except (NotBase64, UnicodeDecodeError, ValueError):
        return ""


def _same(given: str, expected: str) -> bool:
    """Compare secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode(), expected.encode())
