"""What is drawn alike for every database: the course of a history, its signals, and the rows of its steps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol

from tests.torture.script import STEPS, Fuse, Round, Sent, Transaction, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

_PAUSED = 0.3
"""The share of rounds with a pause of all snapshots."""

_TYPED = 0.7
"""The share of stops that name their type, which is incremental without it, too."""


def _fuse(draw: Random) -> Fuse:
    """A crash at any step."""
    return Fuse(draw.choice(STEPS), draw.random() < 0.5, draw.choice([0, 0, 0, 1, 2, 5, 12]))


class SignalWriter(Protocol):
    """Draws signals for a database."""

    random: Random
    signals: int

    def names(self) -> list[str]:
        """Some of the collections."""

    def execute(self, label: str, pause_s: float) -> Sent:
        """A request for some of the collections."""

    def malformed(self, label: str, pause_s: float) -> Sent:
        """A signal that is refused."""


def drawn_signal(writer: SignalWriter) -> Sent:
    """The next signal, whichever database it is for."""
    draw = writer.random
    writer.signals += 1
    label, pause_s = f"s{writer.signals}", draw.choice([0.0, 0.05, 0.3, 0.8])
    match draw.choices(["execute", "stop", "log", "malformed"], [12, 2, 1, 2])[0]:
        case "execute":
            return writer.execute(label, pause_s)
        case "stop":
            names = writer.names() if draw.random() < 0.5 else []
            kind = {"type": "incremental"} if draw.random() < _TYPED else {}
            data = kind | ({"data-collections": names} if names else {})
            return Sent(pause_s, label, "stop-snapshot", json.dumps(data), "stop", names)
        case "log":
            return Sent(pause_s, label, "log", json.dumps({"message": "here {}"}), "log")
    return writer.malformed(label, pause_s)


def malformed_signals(schema: str, *more: tuple[str, str]) -> Sequence[tuple[str | None, str | None]]:
    """Types and data of signals that are refused; `schema` has a collection `t0`."""
    return (
        ("execute-snapsht", f'{{"data-collections": ["{schema}.t0"]}}'),
        ("execute-snapshot", None),
        ("execute-snapshot", '{"data-collections": ['),
        ("execute-snapshot", f'["{schema}.t0"]'),
        ("execute-snapshot", f'{{"data-collections": ["{schema}.nothing"]}}'),
        *more,
        ("", "{}"),
        (None, None),
    )


def drawn_course(
    draw: Random,
    wanted: Wanted,
    transaction: Callable[[], Transaction],
    signal: Callable[[], Sent],
    ends: Sequence[str],
) -> tuple[list[Round], list[Fuse]]:
    """One to three rounds of writers and signals, and crashes, whichever database they are for.

    A restart that is wanted ends the server in one of the ways in `ends`.
    """

    def drawn_round() -> Round:
        writers = [[transaction() for _ in range(draw.randint(3, 25))] for _ in range(draw.randint(1, 4))]
        return Round(writers, [signal() for _ in range(draw.choice([1, 1, 2, 2, 4]))])

    rounds = [drawn_round() for _ in range(draw.randint(1, 3))]
    for number, drawn in enumerate(rounds):
        if draw.random() < _PAUSED:
            drawn.signals[:] = _with_pause(draw, number, drawn.signals)
    if wanted.hard:
        draw.choice(rounds).kills.append(round(draw.uniform(0.3, 2.5), 2))
    if wanted.restart:
        how = draw.choice(ends)
        draw.choice(rounds).restarts.append((round(draw.uniform(0.3, 2.0), 2), how))
    fuses = [_fuse(draw) for _ in range(draw.randint(1, 6))]
    if wanted.hard and draw.random() < 0.5:
        fuses.insert(0, Fuse(draw.choice(STEPS), draw.random() < 0.5, draw.randint(0, 4), hard=True))
    return rounds, fuses


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that a step is about: `some`, and a pair. `near` is beyond the table's rows, but not by much."""

    place: int
    near: int
    some: list[int]
    pair: tuple[int, int]


def drawn_rows(draw: Random, place: int, shape: TableShape) -> Rows:
    """Rows of a table, there or not."""
    near = max(12, shape.rows + shape.rows // 8)
    some = sorted({draw.randrange(near) for _ in range(draw.choice([1, 1, 2, 5]))})
    return Rows(place, near, some, (draw.randrange(near), draw.randrange(near)))


def drawn_changes(draw: Random, rows: Rows, fewest: int) -> list[Step]:
    """Steps of which one is to be chosen; one in bulk changes at least the `fewest`."""
    place, some, (one, other) = rows.place, rows.some, rows.pair
    return [
        ["put", place, some],
        ["touch", place, some],
        ["touch", place, some],
        ["fatten", place, some],
        ["renew", place, some],
        ["remove", place, some],
        ["move", place, one, other],
        ["move", place, one, rows.near + draw.randrange(20)],
        ["swap", place, one, other],
        ["bulk", place, draw.randint(fewest, 30), 1],
    ]


def drawn_lulls(draw: Random) -> dict[str, float]:
    """How long the gates hold something back, in seconds."""
    return {name: draw.choice([0.0, 0.0, 0.2, 0.6]) for name in ("take", "poll", "read")}


def _with_pause(draw: Random, number: int, signals: list[Sent]) -> list[Sent]:
    """Pause everything somewhere among the signals, and resume it after the last."""
    at = draw.randint(0, len(signals))
    pause = Sent(draw.choice([0.0, 0.1, 0.3]), f"pause{number}", "pause-snapshot", "{}", "pause")
    resume = Sent(draw.choice([0.1, 0.3, 0.8]), f"resume{number}", "resume-snapshot", "{}", "resume")
    return [*signals[:at], pause, *signals[at:], resume]
