"""The page's forms that send signals: one for any collections, and buttons for each snapshot. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from adapters.http.access import CSRF_FIELD
from adapters.http.page.control import literal
from adapters.http.page.markup import text, title
from engine.job.saved.overview import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import CollectionId, Target

_MOST_OFFERED: Final = 200
_FOR: Final = {
    Stage.FAILED: ("execute",),
    Stage.PAUSED: ("resume", "stop"),
    Stage.READING: ("pause", "stop"),
    Stage.QUEUED: ("pause", "stop"),
}


@dataclass(frozen=True, slots=True)
class SignalForms:
    """Makes the forms. `csrf` proves that a form is this page's."""

    csrf: str

    def of_snapshot(self, number: int, stage: Stage, target: Target) -> str:
        """The buttons of a snapshot; the initial one goes on whatever signals say."""
        if target.initial:
            return ""
        named = str(target.collection)
        kinds = _FOR[stage] if not target.blocking else ("stop",)
        buttons = "".join(_button(kind, f"{kind}-{number}", f"{kind} {named}") for kind in kinds)
        blocking = _hidden("blocking", "true") if target.blocking else ""
        return self._form(_hidden("exact", literal(target.collection)) + blocking + buttons)

    def of_any(self, captured: Iterable[CollectionId]) -> str:
        """The section with a form for any collections."""
        names = [str(name) for name in sorted(captured)[:_MOST_OFFERED]]
        offered = "".join(f'<option value="{text(name)}"></option>' for name in names)
        kinds = "".join(_button(kind, kind, kind) for kind in ("execute", "pause", "resume", "stop"))
        return (
            '<section id="signals" aria-labelledby="signals-title">'
            + title("signals", "Send a signal")
            + self._form(
                '<label for="named">Collections, separated by commas. For pause, resume and stop, none means'
                ' all.</label><input id="named" name="collections" list="captured" autocomplete="off">'
                f'<datalist id="captured">{offered}</datalist>{kinds}'
            )
            + "</section>"
        )

    def _form(self, content: str) -> str:
        return f'<form method="post" action="signals">{_hidden(CSRF_FIELD, self.csrf)}{content}</form>'


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def _button(kind: str, key: str, said: str) -> str:
    return f'<button name="type" value="{kind}" id="{key}" aria-label="{text(said)}">{kind}</button>'
