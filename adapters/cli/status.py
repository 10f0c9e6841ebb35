"""`tidemark status`: how a job does, from its checkpoint alone; `--connect` asks the database as well."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adapters.cli.exits import exit_codes
from adapters.cli.inspection import distance_of
from adapters.storage.checkpoint_reader import checkpoint_of
from adapters.system import system_clock
from engine.config import read
from engine.job.reports.progress_log import duration
from engine.job.saved.overview import CollectionOverview, Overview, overview
from engine.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.config import Settings
    from engine.config.findings import Distance

_ANSWERS: Final = 10
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
Connect = Annotated[bool, typer.Option("--connect", help="also ask the server how far its log is ahead")]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job does: `running` says whether its lease is held, `holder` by whom it is or was.

    Lag, rates and kept bytes are those that the job wrote last, `figures_age_s` seconds ago; None if it wrote
    none. `saved_age_s` is the age of the state. `answers` are the last ones to signals, in order.
    """

    job: str
    checkpoint: str
    running: bool
    holder: str | None
    overview: Overview | None = None
    saved_age_s: float | None = None
    position: str | None = None
    figures_age_s: float | None = None
    lag_s: float | None = None
    events_per_s: float | None = None
    kept_bytes: int | None = None
    answers: Sequence[Mapping[str, Any]] = ()
    server: Distance | None = None


def status(
    config: Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")],
    as_json: Json = False,
    connect: Connect = False,
) -> None:
    """Show the state of CONFIG's job, running or not: snapshots, lag, and tables that are set aside.

    Example: tidemark status orders.properties --json

    Example: tidemark status orders.properties --connect
    """
    with exit_codes(config):
        found = job_status(read(config), system_clock().now(), connect=connect)
        if as_json:
            typer.echo(orjson.dumps(asdict(found), option=orjson.OPT_INDENT_2).decode())
        else:
            _print(found)


def job_status(settings: Settings, now_s: float, *, connect: bool = False) -> JobStatus:
    """How the job does that these settings describe. With `connect`, the server is asked.

    Raises ConfigError, StateError or SourceError.
    """
    reader = checkpoint_of(settings)
    owner, newest, figures = reader.owner(), reader.newest(), reader.figures()
    saved_s = now_s if newest is None or newest.saved_s is None else newest.saved_s
    return JobStatus(
        job=settings.name,
        checkpoint=reader.location,
        running=reader.holder() is not None,
        holder=None if owner is None else str(owner),
        overview=None if newest is None else overview(newest.state, saved_s),
        saved_age_s=None if newest is None else round(now_s - saved_s, 1),
        position=None if figures is None else figures.position,
        figures_age_s=None if figures is None else round(now_s - figures.at_s, 1),
        lag_s=None if figures is None else figures.lag_s,
        events_per_s=None if figures is None else figures.events_per_s,
        kept_bytes=None if figures is None else figures.kept_bytes,
        answers=reader.answers(_ANSWERS),
        server=distance_of(settings, None if newest is None else newest.state.position) if connect else None,
    )


def _print(found: JobStatus) -> None:
    """Print it with control characters escaped: names, keys and answers may be anybody's text."""
    console = Console(soft_wrap=True, highlight=False)
    for line in lines_of(found):
        console.print(printable(line), markup=False)
    snapshots = found.overview.snapshots if found.overview else ()
    if snapshots and console.is_terminal:
        console.print(_table(snapshots))
    else:
        for snapshot in snapshots:
            console.print(printable(_line(snapshot)), markup=False)


def lines_of(found: JobStatus) -> Iterator[str]:
    """What is said of the job, but for its snapshots; names, keys and answers in it as they are."""
    yield f"job {found.job}: {_runs(found)}"
    yield f"checkpoint: {found.checkpoint}"
    if found.server is not None:
        yield _server(found.server)
    if found.overview is None or found.saved_age_s is None:
        yield "state: none was saved yet"
        return
    yield f"state: turn {found.overview.turn}, saved {duration(found.saved_age_s)} ago"
    if found.figures_age_s is not None:
        kept = "" if found.kept_bytes is None else f", the server keeps {found.kept_bytes:,} bytes of log"
        yield (
            f"stream: at {found.position}, {found.events_per_s:,.1f} events/s, lag {found.lag_s:.1f} s{kept}"
            f" ({duration(found.figures_age_s)} ago)"
        )
    for incomplete in found.overview.incomplete:
        yield f"incomplete: {incomplete}"
    for answer in found.answers:
        name = "" if answer["id"] is None else f" {answer['id']!r}"
        yield f"answer of turn {answer['turn']}: signal{name} {answer['outcome']}: {answer['text']}"
    if not found.overview.snapshots:
        yield "snapshots: none"


def _server(server: Distance) -> str:
    measured = [f"{server.behind_bytes:,} bytes"] if server.behind_bytes is not None else []
    measured += [f"{server.behind_s:.0f} s"] if server.behind_s is not None else []
    ahead = f", {' and '.join(measured)} after what was saved" if measured else ""
    return f"server: its log ends at {server.end}{ahead}{f'; {server.kept}' if server.kept else ''}"


def _runs(found: JobStatus) -> str:
    if found.holder is None:
        return "has never run"
    return f"{'runs' if found.running else 'does not run'} ({found.holder})"


def _line(snapshot: CollectionOverview) -> str:
    rate = "" if snapshot.rows_per_s is None else f", {snapshot.rows_per_s:,.0f} rows/s"
    eta = "" if snapshot.eta_s is None else f", ETA {duration(snapshot.eta_s)}"
    lacks = f"; lacks {'; '.join(snapshot.lacks)}" if snapshot.lacks else ""
    read_rows = f"{snapshot.percent:.1f}% ({snapshot.rows:,} rows read, {snapshot.emitted:,} emitted)"
    return f"snapshot of {snapshot.collection}: {snapshot.stage}, {read_rows}{rate}{eta}{lacks}"


def _table(snapshots: tuple[CollectionOverview, ...]) -> Table:
    table = Table("collection", "stage", "done", "rows read", "emitted", "rows/s", "time to go", "lacks")
    for snapshot in snapshots:
        cells = (
            snapshot.collection,
            snapshot.stage,
            f"{snapshot.percent:.1f}%",
            f"{snapshot.rows:,}",
            f"{snapshot.emitted:,}",
            "" if snapshot.rows_per_s is None else f"{snapshot.rows_per_s:,.0f}",
            "" if snapshot.eta_s is None else duration(snapshot.eta_s),
            "; ".join(snapshot.lacks),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))  # a str would be read as markup
    return table
