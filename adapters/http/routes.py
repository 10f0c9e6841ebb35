"""What the job's web server answers, by path: metrics, checks, the page and its signals."""

from __future__ import annotations

import secrets
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Final

from adapters.http.access import CSRF_FIELD, Access
from adapters.http.exchange import Answer, as_json, as_text
from adapters.http.health import Health, alive, ready
from adapters.http.metrics import CONTENT_TYPE, MetricsPage
from adapters.http.page.control import send
from adapters.http.page.signal_forms import SignalForms
from adapters.http.page.status_page import StatusPage

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.http.exchange import Request
    from adapters.http.monitor import Monitor

_HTML: Final = "text/html; charset=utf-8"
_FILES: Final = {
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The page's own files, by path."""
_ASKS: Final = {"WWW-Authenticate": 'Basic realm="tidemark", charset="UTF-8"'}


class Routes:
    """Answers requests about one job."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._access = Access(monitor.settings.http, secrets.token_urlsafe(32))
        self._metrics = MetricsPage(monitor)
        forms = SignalForms(self._access.csrf) if monitor.settings.http.control else None
        self._page = StatusPage(monitor, forms)
        self._read: dict[str, Callable[[], Answer]] = {
            "/sections": lambda: as_json(200, self._page.sections()),
            "/metrics": lambda: Answer(200, self._metrics.text(), CONTENT_TYPE),
            "/healthz": lambda: _checked(alive(monitor)),
            "/readyz": lambda: _checked(ready(monitor)),
        }

        self._files = {path: partial(_file, *of) for path, of in _FILES.items()}

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        refusal = self._access.refusal(request.path, request.headers)
        if refusal is not None:
            return as_text(refusal.status, refusal.why, _ASKS if refusal.status == 401 else None)
        if request.path == "/signals" and request.method == "POST":
            return self._signal(request)
        if request.path == "/" and request.method in {"GET", "HEAD"}:
            return Answer(200, self._page.html(self._signal_outcome(request)), _HTML)
        answer = self._read.get(request.path) or self._files.get(request.path)
        if answer is None:
            return as_text(404, "there is no such page")
        if request.method not in {"GET", "HEAD"}:
            return as_text(405, "this page can only be read", {"Allow": "GET, HEAD"})
        return answer()

    def _signal(self, request: Request) -> Answer:
        """Send a signal; the answer is JSON for the script, and the page for a form."""
        form = request.form
        refusal = self._access.refusal_of_signal(request.headers, form.get(CSRF_FIELD, ""))
        if refusal is not None:
            return as_text(refusal.status, refusal.why)
        sent = send(self._monitor, form)
        if "application/json" in request.headers.get("Accept", ""):
            return as_json(200 if sent.taken else 409, {"label": sent.label, "text": sent.text})
        if not sent.label:
            return Answer(409, self._page.html(sent.text), _HTML)
        return as_text(303, sent.text, {"Location": f"./?signal={sent.label}"})

    def _signal_outcome(self, request: Request) -> str:
        """What became of the signal that a form has sent before it led here."""
        told = self._monitor.answers_to(request.query.get("signal", ""))
        return f"{told[0].answer.outcome}: {told[0].answer.text}" if told else ""


def _file(name: str, kind: str) -> Answer:
    return Answer(200, resources.files("adapters.http.page").joinpath(name).read_bytes(), kind)


def _checked(health: Health) -> Answer:
    status = "ok" if health.good else "unavailable"
    return as_json(200 if health.good else 503, {"status": status, "reasons": health.reasons})
