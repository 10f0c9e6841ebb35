"""A model of scale: what a snapshot costs where, and what bounds it for any number of executors. Pure.

A window's rows pass four stages. A task of one executor's slot is three processes that work at once:

    database ──► JVM of the executor ──► Python worker ── blocks ──► turns of the driver ──► sink
       d                 j                     p                     slices, t each            k

So a slot is as fast as its slowest stage while cores are free, and an executor of one core works for both its
processes. All that runs on one machine shares its cores. Turns emit a slice each. A window costs a fixed time
on top of its rows, since its tasks have to begin and end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured constants: CPU seconds a row of each stage, and seconds of what is paid once.

    `driver` and `sink` are CPU seconds a row in the driver's machine and in the broker. `window_s` is what a
    window takes beyond its rows, `turn_s` what a turn with a slice of `slice_rows` takes. A window has at
    most `window_rows` rows, by its bytes.
    """

    database: float
    jvm: float
    worker: float
    driver: float
    sink: float
    window_s: float
    turn_s: float
    slice_rows: float
    window_rows: float

    @property
    def all(self) -> float:
        """CPU seconds a row of everything."""
        return self.database + self.jvm + self.worker + self.driver + self.sink


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs: executors of one core each, and the cores of the other machines.

    `shared`: the cores of the one machine that all of it shares; None: each part has its own.
    """

    executors: int
    database_cores: float
    driver_cores: float
    sink_cores: float = 0.0
    shared: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Rows a second, and what keeps it from being more."""

    rows_per_s: float
    bound: str


def predict(costs: Costs, place: Place, window_s: float = 2.0) -> Prediction:
    """What a snapshot of one large table reaches."""
    bounds = {"turns": costs.slice_rows / costs.turn_s}
    if place.shared is None:
        bounds["executors"] = place.executors / (costs.jvm + costs.worker)
        bounds["database"] = place.database_cores / costs.database
        if costs.driver:
            bounds["driver"] = place.driver_cores / costs.driver
        if costs.sink:
            bounds["sink"] = place.sink_cores / costs.sink
    else:
        bounds["slots"] = place.executors / max(costs.database, costs.jvm, costs.worker)
        bounds["cores"] = place.shared / costs.all
    bound = min(bounds, key=bounds.__getitem__)
    rate = bounds[bound]
    # A window is sized by time, up to its bytes. The next one opens once it is read.
    rows = min(rate * window_s, costs.window_rows)
    with_windows = rows / (rows / rate + costs.window_s)
    if costs.window_s > rows / rate:
        bound = "windows"
    return Prediction(with_windows, bound)
