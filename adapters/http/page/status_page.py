"""The status page: sections of HTML that the server renders, and a frame around them.

The script `page.js` asks for the sections every two seconds and replaces those that changed. Without it the
page works, too: its buttons are forms. What comes from outside is escaped, and no key of a row is shown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from adapters.http.health import ready
from adapters.http.history import KEPT_S
from adapters.http.page.charts import line_chart
from adapters.http.page.markup import amount, number, size, table, text, title
from adapters.http.page.snapshot_section import MOST_SHOWN, SnapshotSection

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.http.monitor import Monitor, TimedAnswer
    from adapters.http.page.signal_forms import SignalForms
    from signals.answers import Answer

_ANSWERS: Final = 20
_PHASES: Final = ("phase", "windows", "seconds", "average", "last")


class StatusPage:
    """Renders the page of a job. Without `forms` it has no buttons."""

    def __init__(self, monitor: Monitor, forms: SignalForms | None) -> None:
        self._monitor, self._forms = monitor, forms

    def html(self, said: str = "") -> bytes:
        """The whole page; `said` is what became of a form that was sent."""
        settings = self._monitor.settings
        name, kind = text(settings.name), text(str(settings.sink.kind))
        form = self._forms.of_any(self._monitor.tally.captured) if self._forms else ""
        parts = "".join(
            f'<section id="{key}" aria-labelledby="{key}-title">{content}</section>'
            + (form if key == "state" else "")
            for key, content in self.sections().items()
        )
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>{name} · Tidemark</title><link rel="icon" href="icon.svg">'
            '<link rel="stylesheet" href="page.css"><script src="page.js" defer></script></head><body>'
            '<a class="skip" href="#collections">Skip to the snapshots</a>'
            f"<header><h1>{name}</h1>"
            f'<p class="quiet">{text(self._monitor.plugin.replace("_", " "))} to {kind}</p></header>'
            f'<main><p id="said" role="status" aria-live="polite">{text(said)}</p>{parts}</main>'
            '<footer class="quiet"><a href="metrics">metrics</a> · <a href="healthz">healthz</a> ·'
            ' <a href="readyz">readyz</a></footer></body></html>'
        ).encode()

    def sections(self) -> dict[str, str]:
        """The HTML of each section, by its id."""
        return {
            "state": self._state(),
            "collections": self._collections(),
            "hour": self._hour(),
            "windows": self._windows(),
            "answers": self._answers(),
        }

    def _state(self) -> str:
        health = ready(self._monitor)
        badge = "good" if health.good else "bad"
        told = "streaming" if health.good else "; ".join(health.reasons)
        facts = "".join(
            f"<div><dt>{name}</dt><dd>{text(fact)}</dd></div>" for name, fact in self._facts().items()
        )
        return (
            f'{title("state", "State")}<p class="{badge} badge">{text(told)}</p>'
            f'<dl class="facts">{facts}</dl>{self._incomplete()}'
        )

    def _facts(self) -> dict[str, str]:
        monitor, tally = self._monitor, self._monitor.tally
        kept, seen = monitor.kept(), tally.seen
        position = seen.state.position if seen else None
        failures = [f"{count} of {name}" for name, count in sorted(tally.failures.copy().items())]
        return {
            "lag": f"{monitor.lag_s:.1f} s",
            "log kept by the server": "unknown" if kept is None else size(kept),
            "position": monitor.show(position) if position else "none yet",
            "turns": f"{tally.turns:,}",
            "events sent": f"{tally.sent:,}",
            "rows read": f"{tally.read:,}, {tally.superseded:,} of them superseded",
            "failures": ", ".join(failures) or "none",
        }

    def _incomplete(self) -> str:
        seen = self._monitor.tally.seen
        lacking = seen.state.incomplete if seen else ()
        if not lacking:
            return ""
        items = "".join(f"<li>{text(str(copy))}</li>" for copy in lacking[:MOST_SHOWN])
        return f'<h3>Copies that lack something</h3><ul class="bad">{items}</ul>'

    def _collections(self) -> str:
        seen, tally = self._monitor.tally.seen, self._monitor.tally
        if seen is None:
            return title("collections", "Snapshots") + '<p class="quiet">No turn is saved yet.</p>'
        chunk_rows = self._monitor.settings.snapshot.chunk_size
        section = SnapshotSection(tally.windows, chunk_rows, self._forms)
        return section.html(seen.state, self._monitor.clock.now())

    def _hour(self) -> str:
        history, now_s = self._monitor.history, self._monitor.clock.monotonic()
        samples, rates = history.samples, list(history.rates())
        lines: dict[str, tuple[list[tuple[float, float]], Callable[[float], str]]] = {
            "lag": ([(now_s - sample.at_s, sample.lag_s) for sample in samples], _seconds),
            "events per second": ([(now_s - rate.at_s, rate.events) for rate in rates], amount),
            "rows read per second": ([(now_s - rate.at_s, rate.rows) for rate in rates], amount),
        }
        kept = [
            (now_s - sample.at_s, float(sample.kept_bytes))
            for sample in samples
            if sample.kept_bytes is not None
        ]
        if kept:
            lines["log kept by the server"] = (kept, size)
        charts = [line_chart(name, points, KEPT_S, show) for name, (points, show) in lines.items()]
        return f'{title("hour", "The last hour")}<div class="charts">{"".join(charts)}</div>'

    def _windows(self) -> str:
        tally = self._monitor.tally
        rows = [
            f'<tr><th scope="row">{phase}</th>{number(f"{time.windows:,}")}{number(f"{time.seconds:,.1f}")}'
            f"{number(f'{time.seconds / max(1, time.windows):,.2f}')}{number(f'{time.last_s:,.2f}')}</tr>"
            for phase, time in tally.phases.items()
        ]
        return (
            f"{title('windows', 'Windows')}<p>{len(tally.windows)} in progress, {tally.given_up:,} given up,"
            f" {size(tally.staged_bytes)} staged</p>{table(_PHASES, rows)}"
        )

    def _answers(self) -> str:
        told = list(self._monitor.answers)[-_ANSWERS:]
        items = "".join(_answer(answer) for answer in reversed(told)) or '<li class="quiet">None yet.</li>'
        return f'{title("answers", "Signals and answers")}<ol class="answers">{items}</ol>'


def _answer(told: TimedAnswer) -> str:
    answer, outcome = told.answer, str(told.answer.outcome)
    at = datetime.fromtimestamp(told.at_s, UTC)
    named = answer.label if answer.id is None else answer.id
    return (
        f'<li><time datetime="{at.isoformat(timespec="seconds")}">{at:%H:%M:%S} UTC</time>'
        f' <span class="outcome {outcome}">{outcome}</span> {text(named)}: {text(_without_keys(answer))}</li>'
    )


def _without_keys(answer: Answer) -> str:
    """The text without the keys that are missing, which are values of rows; the journal has them."""
    if "missing" not in answer.facts:
        return answer.text
    said = answer.text.partition("; missing: ")[0]
    return f"{said}; {answer.facts.get('ranges', 0)} ranges are missing, which the job's log names"


def _seconds(value: float) -> str:
    return f"{value:.1f} s"
