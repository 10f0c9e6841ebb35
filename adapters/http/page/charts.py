"""Charts as SVG, drawn by the server: lines over the last hour, and the picture of a key space. Pure.

Sizes are attributes and colours are classes, because the page's policy allows no inline style.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.http.page.markup import css_class, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.http.key_space import Segment

_WIDTH, _HEIGHT, _AIR = 600, 96, 4
_MOST_POINTS: Final = 240


def line_chart(
    name: str, points: Sequence[tuple[float, float]], span_s: float, show: Callable[[float], str]
) -> str:
    """A line over time. `points` are pairs of seconds ago and value, the oldest first.

    The text beside it says the last and the greatest value, for those who do not see the line.
    """
    points = _thinned(points)
    greatest = max((value for _ago, value in points), default=0.0)
    now, most = show(points[-1][1] if points else 0.0), show(greatest)
    height = (_HEIGHT - _AIR) / (greatest or 1.0)
    line = " ".join(
        f"{_WIDTH * (1 - min(ago, span_s) / span_s):.1f},{_HEIGHT - height * value:.1f}"
        for ago, value in points
    )
    return (
        f'<figure class="chart"><figcaption>{text(name)} <strong>{text(now)}</strong>'
        f' <span class="quiet">at most {text(most)}</span></figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{text(f"{name}: now {now}, at most {most}")}">'
        f'<polyline class="line" points="{line}"/></svg></figure>'
    )


def key_space(collection: str, parts: Sequence[Segment]) -> str:
    """The picture of a collection's keys, from the least on the left to the greatest on the right."""
    shares = dict.fromkeys((str(part.fate) for part in parts), 0.0)
    for part in parts:
        shares[str(part.fate)] += part.end - part.start
    said = ", ".join(f"{100 * share:.0f} % {fate}" for fate, share in shares.items())
    drawn = "".join(
        f'<rect class="{css_class(str(part.fate))}" x="{1000 * part.start:.1f}" y="0"'
        f' width="{1000 * (part.end - part.start):.1f}" height="20"/>'
        for part in parts
    )
    return (
        '<svg class="keys" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img"'
        f' aria-label="{text(f"{collection}: {said}")}">{drawn}</svg>'
    )


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """The points, or of many the greatest of each few, so that no peak is lost."""
    few = -(-len(points) // _MOST_POINTS)
    if few <= 1:
        return points
    return [max(points[at : at + few], key=lambda point: point[1]) for at in range(0, len(points), few)]
