"""The page's section on snapshots: a row for each, with the picture of its key space. Pure.

It names no key, since keys are values of rows: of what is lacking it tells the number of ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adapters.http.key_space import Fate, segments, segments_of_failed
from adapters.http.page.charts import key_space
from adapters.http.page.markup import amount, css_class, number, table, text, title
from engine.job.reports.progress_log import duration
from engine.job.saved.overview import overview

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adapters.http.key_space import Segment
    from adapters.http.page.signal_forms import SignalForms
    from engine.job.saved.overview import CollectionOverview
    from engine.job.saved.state import State
    from engine.model import Target, Window

MOST_SHOWN: Final = 200
"""How many snapshots the page shows; it says how many more there are."""
_COLUMNS: Final = ("collection", "stage", "keys", "read", "rows", "rows/s", "time to go")


@dataclass(frozen=True, slots=True)
class SnapshotSection:
    """Renders the snapshots of a state. Without `forms` there are no buttons."""

    windows: Sequence[Window]
    chunk_rows: int
    forms: SignalForms | None

    def html(self, state: State, now_s: float) -> str:
        """The section."""
        shown = overview(state, now_s).snapshots
        if not shown:
            return title("collections", "Snapshots") + '<p class="quiet">Nothing is being read.</p>'
        pairs = zip(shown[:MOST_SHOWN], self._pictures(state), strict=False)
        rows = [self._row(at, entry, *picture) for at, (entry, picture) in enumerate(pairs)]
        more = len(shown) - MOST_SHOWN
        left = f'<p class="quiet">and {more:,} more</p>' if more > 0 else ""
        columns = (*_COLUMNS, *(("signals",) if self.forms else ()))
        return (
            f"{title('collections', 'Snapshots')}{_legend()}"
            '<div class="wide" tabindex="0" role="region" aria-label="Table of snapshots">'
            f"{table(columns, rows)}</div>{left}"
        )

    def _pictures(self, state: State) -> Iterator[tuple[Target, Sequence[Segment]]]:
        """Targets and segments, in the order of the overview."""
        for entry in state.snapshot.tables[:MOST_SHOWN]:
            yield entry.target, segments(entry, self.windows, self.chunk_rows)
        for failed in state.snapshot.failed[:MOST_SHOWN]:
            yield failed.target, segments_of_failed(failed)

    def _row(self, at: int, shown: CollectionOverview, target: Target, parts: Sequence[Segment]) -> str:
        count = len(shown.lacks)
        lacks = f'<br><span class="bad">lacks {count} range{"s" * (count > 1)}</span>' if count else ""
        rate = "" if shown.rows_per_s is None else amount(shown.rows_per_s)
        eta = "" if shown.eta_s is None else duration(shown.eta_s)
        buttons = f"<td>{self.forms.of_snapshot(at, shown.stage, target)}</td>" if self.forms else ""
        return (
            f'<tr><th scope="row">{text(shown.collection)}{lacks}</th><td>{shown.stage}</td>'
            f'<td class="picture">{key_space(shown.collection, parts)}</td>{number(f"{shown.percent:.1f} %")}'
            f"{number(f'{shown.rows:,}')}{number(rate)}{number(eta)}{buttons}</tr>"
        )


def _legend() -> str:
    items = "".join(
        '<li><svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect class="{css_class(str(fate))}" width="10" height="10"/></svg>{fate}</li>'
        for fate in Fate
    )
    return f'<ul class="legend" aria-label="Colours of the keys">{items}</ul>'
