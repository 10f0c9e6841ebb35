"""`tidemark state`: look at a job's saved state, and change by command what people edit by hand elsewhere.

What only looks works at any time. What writes needs the lease, so it is refused while a job runs, and it
first keeps a copy of the state beside it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path  # noqa: TC003  typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, cast

import orjson
import typer

from adapters.cli.checkpoint_change import changing, newest_of
from adapters.cli.exits import exit_codes
from adapters.source.commands import offered
from adapters.storage.checkpoint_reader import checkpoint_of
from adapters.storage.disk import open_private
from adapters.system import system_clock
from engine.config import read
from engine.errors import ConfigError, StateError
from engine.job.saved.state_document import CURRENT, to_json
from engine.snapshot.changes.failures import forget_failures
from engine.staging.writing import write_all
from signals.parse.fields import did_you_mean
from signals.parse.names import quoted_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from engine.config import Settings
    from engine.job.saved.state import State
    from engine.model import CollectionId

app = typer.Typer(no_args_is_help=True, help="Show the saved state of a job, or change it.")
Config = Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]


@app.command()
def show(config: Config) -> None:
    """Print the newest saved state of CONFIG's job as JSON.

    Example: tidemark state show orders.properties | jq .queue
    """
    with exit_codes(config):
        typer.echo(newest_of(checkpoint_of(read(config))).document.decode())


@app.command()
def export(
    config: Config,
    file: Annotated[Path, typer.Argument(help="the file to write; must not exist")],
    as_json: Json = False,
) -> None:
    """Write the newest saved state of CONFIG's job, with everything that waits, to FILE as one document.

    Only the owner of FILE may read it, because the state contains keys of rows.

    Example: tidemark state export orders.properties orders-state.json
    """
    with exit_codes(config):
        saved = newest_of(checkpoint_of(read(config)))
        try:
            with open_private(file) as out:
                write_all(out, memoryview(to_json(replace(saved.state, beside=""), CURRENT)))
        except OSError as error:
            raise StateError(error.strerror or str(error), where=str(file)) from error
        text = f"wrote the state after turn {saved.state.turn} to {file}"
        _say(text, {"turn": saved.state.turn, "file": str(file)}, as_json=as_json)


@app.command("reset-table")
def reset_table(
    config: Config,
    table: Annotated[str, typer.Argument(help="the table as tidemark status names it, e.g. public.orders")],
    as_json: Json = False,
) -> None:
    """Forget the snapshots of TABLE, including failed ones. The next signal reads the table from its start.

    If its copy is known to be incomplete, that stays recorded. Refused while the job is running.

    Example: tidemark state reset-table orders.properties public.orders
    """
    with exit_codes(config):
        settings = read(config)
        with changing(settings) as change:
            before = change.saved.state
            remembered = _remembered(before)
            after = without_snapshots(before, _named(table, remembered))
            if after == before:
                similar = did_you_mean(table, map(str, remembered))
                text = f"no snapshot of {table} is remembered{similar}; nothing was changed"
                _say(text, {"changed": False, "backup": None}, as_json=as_json)
                return
            kept = change.write(after)
            text = f"forgot the snapshots of {table}; the state before is in {kept}"
            _say(text, {"changed": True, "backup": kept}, as_json=as_json)


@app.command("set-position")
def set_position(
    config: Config,
    position: Annotated[str, typer.Argument(help="an LSN, one LSN per database, or a resume token")],
    as_json: Json = False,
) -> None:
    """Let the job continue at another POSITION of the log. Refused while the job is running.

    If POSITION is earlier, the changes in between are sent again. If it is later, they are never sent, and
    the job can't tell which rows that concerns: take snapshots afterwards. Running snapshots continue. The
    server must still have its log from POSITION on; the next start checks that.

    Example: tidemark state set-position orders.properties 16/B374D848
    """
    with exit_codes(config):
        settings = read(config)
        with changing(settings) as change:
            at_position = _of_source(settings, "at_position")
            after = at_position(settings, change.saved.state, position)
            kept = change.write(after)
            text = f"the job goes on at {position}; the state before is in {kept}"
            _say(text, {"position": position, "backup": kept}, as_json=as_json)


@app.command()
def move(config: Config, as_json: Json = False) -> None:
    """Move the job to a server that continues the current one, as after pg_upgrade. PostgreSQL only.

    Stop the job and all writers, then run this twice: while CONFIG names the old server, and again once the
    new one is up and CONFIG names that. Refused unless everything was sent, and unless the new server is the
    old one's upgrade or a replica that has received everything.

    Example: tidemark state move orders.properties
    """
    with exit_codes(config):
        settings = read(config)
        with changing(settings) as change:
            kept: list[str] = []
            said = _of_source(settings, "move")(
                settings, change.saved.state, lambda state: kept.append(change.write(state)), system_clock()
            )
            text = f"{said}; the state before is in {kept[0]}" if kept else said
            _say(text, {"result": said, "backup": kept[0] if kept else None}, as_json=as_json)


def _say(text: str, facts: dict[str, Any], *, as_json: bool) -> None:
    typer.echo(orjson.dumps(facts).decode() if as_json else text)


def _of_source(settings: Settings, name: str) -> Callable[..., Any]:
    """What the source can do with a state. Raises ConfigError if it can't."""
    found = getattr(offered(settings, "state_change"), name, None)
    if found is None:
        raise ConfigError(
            "this can't be done for this source",
            hint="its jobs continue by themselves after a failover" if name == "move" else "",
        )
    return cast("Callable[..., Any]", found)


def _remembered(state: State) -> tuple[CollectionId, ...]:
    """The collections with queue entries or failures, each once."""
    queued = [table.target.collection for table in state.snapshot.tables]
    failed = [snapshot.target.collection for snapshot in state.snapshot.failed]
    return tuple(dict.fromkeys((*queued, *failed)))


def _named(name: str, collections: Sequence[CollectionId]) -> list[CollectionId]:
    """The collections with this name, as it is shown or as a quoted name: a part may contain dots."""
    parts = quoted_parts(name)
    return [each for each in collections if (str(each) == name if parts is None else each.parts == parts)]


def without_snapshots(state: State, collections: Collection[CollectionId]) -> State:
    """The state without queue entries and failures of these collections."""
    snapshot = state.snapshot
    entries = [table for table in snapshot.tables if table.target.collection in collections]
    return replace(state, snapshot=forget_failures(snapshot.without(entries), collections))
