"""`tidemark signal`, `verify` and `repair`: send a signal by a channel, and show its answers.

A signal needs no running job: one that starts later obeys it. Only `--wait` needs one, and says so, unless
`--run` has the command run it (`job_for_signal.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from adapters.cli.display.answer_display import JsonLines, PlainLines, display_of
from adapters.cli.display.log_format import LogFormat, set_up_logging
from adapters.cli.exits import FAILED, exit_codes
from adapters.source.signals.signal_sender import send_signal
from adapters.storage.checkpoint_reader import checkpoint_of
from adapters.system import system_clock
from engine.config import read
from engine.errors import ConfigError
from engine.model import Channel
from signals.outcome import Fate
from signals.request import SignalRequest, SignalType, snapshot_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.cli.display.answer_display import Display
    from adapters.storage.checkpoint_reader import CheckpointReader
    from engine.clock import Clock
    from engine.config.settings import Settings

_LOOK_S: Final = 0.25
_HOLDER_EVERY_S: Final = 2.0
_ALL: Final = (".*",)
"""Matches all collections that are captured."""

app = typer.Typer(no_args_is_help=True, help="Send a signal to the job of a configuration.")
Config = Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")]
Collections = Annotated[
    list[str], typer.Option("--collections", "-c", help="a regular expression or quoted name; repeatable")
]
Kind = Annotated[str, typer.Option("--type", help="incremental, blocking, verify or repair")]
Checked = Annotated[
    list[str],
    typer.Option(
        "--collections",
        "-c",
        help="a regular expression or quoted name; repeatable; without it all",
    ),
]
Run = Annotated[
    bool,
    typer.Option(
        "--run", help="if the job does not run, run it here until the signal is done; --channel is not needed"
    ),
]
By = Annotated[Channel | None, typer.Option("--channel", help="the channel to use, if there are several")]
Wait = Annotated[bool, typer.Option("--wait", help="show the answers until the signal is done")]
Timeout = Annotated[
    float, typer.Option("--timeout", help="how many seconds to wait for the answers; 0: no limit")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object per line")]


@dataclass(frozen=True, slots=True)
class _Sending:
    """How a signal is sent, and what is shown of it."""

    channel: Channel | None
    wait: bool
    timeout_s: float
    as_json: bool
    runs: bool = False

    def __call__(self, config: str, kind: SignalType, data: dict[str, Any]) -> None:
        """Send it, and follow it where asked to. Ends the command with its exit code.

        With `runs` the job runs here if it does not run anywhere.
        """
        code = 0
        with exit_codes(config):
            settings, clock = read(config), system_clock()
            reader = checkpoint_of(settings) if self.wait else None
            seen = reader.latest_answers() if reader else -1
            request = SignalRequest(f"tidemark-{clock.new_id()[:13]}", kind, data)
            if self.runs and reader is not None and reader.holder() is None:
                code = self._by_itself(settings, request, clock)
            else:
                with display_of(as_json=self.as_json) as display:
                    display.sent(request.id, send_signal(settings, request, self.channel))
                    if reader is not None:
                        code = follow(reader, request.id, display, clock, (seen, self.timeout_s))
        raise typer.Exit(code)

    def _by_itself(self, settings: Settings, request: SignalRequest, clock: Clock) -> int:
        set_up_logging(verbose=False, form=LogFormat.JSON if self.as_json else LogFormat.TEXT)
        run_for_signal = import_module("adapters.cli.job_for_signal").run_for_signal  # it loads Spark
        display = JsonLines() if self.as_json else PlainLines()  # bars would mix with the job's log
        return int(run_for_signal(settings, request, display, clock, self.timeout_s))


@app.command()
def execute(
    config: Config,
    collections: Collections,
    condition: Annotated[
        str | None, typer.Option("--condition", help="read only the rows that meet this condition")
    ] = None,
    kind: Kind = "incremental",
    data: Annotated[
        str, typer.Option("--data", help="further fields of the signal, as a JSON object")
    ] = "{}",
    channel: By = None,
    wait: Wait = False,
    timeout: Timeout = 0.0,
    as_json: Json = False,
) -> None:
    """Take a snapshot of collections while the job streams.

    Exit codes: 0 sent, or with --wait completed; 1 refused, stopped or failed; 4 not answered in time,
    or no job is running.

    Example: tidemark signal execute orders.properties -c public.orders --condition "id > 100" --wait

    Example: tidemark signal execute orders.properties -c "public.*" --data '{"dry-run": true}' --wait
    """
    with exit_codes(config):
        further = _object(data)
    said = snapshot_data(collections, kind, condition) | further
    _Sending(channel, wait, timeout, as_json)(config, SignalType.EXECUTE, said)


@app.command()
def stop(
    config: Config,
    collections: Collections = [],  # noqa: B006  typer's form
    kind: Kind = "incremental",
    channel: By = None,
    wait: Wait = False,
    timeout: Timeout = 0.0,
    as_json: Json = False,
) -> None:
    """Stop the snapshots of collections, or all of them.

    Example: tidemark signal stop orders.properties -c public.orders
    """
    data = snapshot_data(collections, kind)
    _Sending(channel, wait, timeout, as_json)(config, SignalType.STOP, data)


_PAUSE = """Pause the snapshots of collections, or all of them; the stream goes on.

Example: tidemark signal pause orders.properties
"""
_RESUME = """Resume paused snapshots where they stopped.

Example: tidemark signal resume orders.properties -c public.orders
"""


def _named_snapshots(kind: SignalType) -> Callable[..., None]:
    """A command whose signal names collections, or none for all snapshots, and says nothing else."""

    def command(
        config: Config,
        collections: Collections = [],  # noqa: B006  typer's form
        channel: By = None,
        wait: Wait = False,
        timeout: Timeout = 0.0,
        as_json: Json = False,
    ) -> None:
        _Sending(channel, wait, timeout, as_json)(config, kind, snapshot_data(collections))

    return command


app.command("pause", help=_PAUSE)(_named_snapshots(SignalType.PAUSE))
app.command("resume", help=_RESUME)(_named_snapshots(SignalType.RESUME))


@app.command()
def log(
    config: Config,
    message: Annotated[str, typer.Argument(help="a text for the job's log")],
    channel: By = None,
    wait: Wait = False,
    timeout: Timeout = 0.0,
    as_json: Json = False,
) -> None:
    """Write a text to the job's log, for instance to test that signals arrive.

    Example: tidemark signal log orders.properties "is anybody there?" --wait --timeout 10
    """
    _Sending(channel, wait, timeout, as_json)(config, SignalType.LOG, {"message": message})


def verify(
    config: Config,
    collections: Checked = [],  # noqa: B006  typer's form
    against: Annotated[
        str,
        typer.Option(
            "--against", help="a target from the settings (tidemark.verify.against.*) instead of the sink"
        ),
    ] = "",
    runs: Run = False,
    channel: By = None,
    timeout: Timeout = 0.0,
    as_json: Json = False,
) -> None:
    """Compare collections with what the job's sink holds, or with tables that another program maintains.

    The job streams on meanwhile. The command prints the verdicts. With --run the command runs the job itself
    if it does not run: the job streams into its sink as ever, and stops after the verdicts.

    Exit codes: 0 all accepted; 1 one was rejected or can't be verified; 4 not answered in time, or
    no job is running.

    Example: tidemark verify orders.properties -c public.orders

    Example: tidemark verify orders.properties --run

    Example: tidemark verify orders.properties -c public.orders --against warehouse
    """
    data = snapshot_data(collections or _ALL, "verify", against=against)
    _Sending(channel, wait=True, timeout_s=timeout, as_json=as_json, runs=runs)(
        config, SignalType.EXECUTE, data
    )


def repair(
    config: Config,
    collections: Checked = [],  # noqa: B006  typer's form
    runs: Run = False,
    channel: By = None,
    timeout: Timeout = 0.0,
    as_json: Json = False,
) -> None:
    """Compare collections with what the job's sink holds, send what differs, and compare again.

    The job streams on meanwhile. It sends a READ event for each missing or different row, and a delete event
    for each row that only the sink has. With --run the command runs the job itself if it does not run, and
    stops it at the end.

    Exit codes: 0 nothing differs any more; 1 something still does, or can't be repaired; 4 not answered in
    time, or no job is running.

    Example: tidemark repair orders.properties -c public.orders
    """
    data = snapshot_data(collections or _ALL, "repair")
    _Sending(channel, wait=True, timeout_s=timeout, as_json=as_json, runs=runs)(
        config, SignalType.EXECUTE, data
    )


def follow(
    reader: CheckpointReader, id_: str, display: Display, clock: Clock, since: tuple[int, float]
) -> int:
    """Show the answers to a signal until nothing more will be said; returns the exit code.

    `since` are the last turn of the journal before the signal was sent, and the seconds to wait; 0: no bound.
    """
    (turn, timeout_s), fate = since, Fate()
    began_s = looked_s = clock.monotonic()
    if reader.holder() is None:
        return display.unanswered("no job runs here; the next one to start will obey the signal")
    while True:
        now_s = clock.monotonic()
        for answer in reader.answers_after(turn):
            turn = max(turn, answer["turn"])
            if answer["id"] == id_:
                display.answered(answer)
                fate = fate.after(answer)
        if fate.known:
            return 0 if fate.good else FAILED
        if timeout_s and now_s - began_s >= timeout_s:
            return display.unanswered(f"not done after {timeout_s:g} s; the signal stays in force")
        if now_s - looked_s >= _HOLDER_EVERY_S:
            looked_s = now_s
            if reader.holder() is None:
                return display.unanswered("the job has ended; the next one to start goes on")
        clock.sleep(_LOOK_S)


def _object(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"--data is no valid JSON: {error.msg}") from error
    if not isinstance(found, dict):
        raise ConfigError("--data must be a JSON object")
    return found
