"""The `tidemark` command: `run` a job, `check` a configuration, and the commands of the modules beside it.

It is the only place that selects an adapter; the adapter and the engine decide what the job does. `exits.py`
has the exit codes, and how errors are shown.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import orjson
import typer

from adapters.cli import certificate, import_offsets, inspection, package, signal, state, status
from adapters.cli.display.first_screen import first_screen
from adapters.cli.display.log_format import LogFormat, set_up_logging
from adapters.cli.exits import FAILED, exit_codes
from adapters.cli.stopping import run_until_signalled
from engine.config import Explained, Settings, explain, load, read

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from adapters.source.assembly.supplied import Onlookers

# local variables in a traceback could show a password
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(status.status)
app.command()(certificate.certificate)
app.command()(signal.verify)
app.command()(signal.repair)
app.command()(inspection.init)
app.command()(package.package)
app.command()(import_offsets.import_offsets)
app.add_typer(state.app, name="state")
app.add_typer(signal.app, name="signal")
log = logging.getLogger("engine")

Config = Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")]


class RunJob(Protocol):
    """Runs a source's job; returns once `stop` is set and everything is saved."""

    def __call__(self, settings: Settings, *, stop: threading.Event, onlookers: Onlookers) -> None:
        """Run until `stop` is set. Raises a TidemarkError if the job can't continue."""


def build_job(settings: Settings, *, drawn: bool = False) -> Callable[[threading.Event], None]:
    """The job of the configured source, ready to run until the event is set; `drawn`: with bars."""
    run_job = cast("RunJob", import_module(settings.runs).run)

    def job(stop: threading.Event) -> None:
        with import_module("adapters.cli.display.live_progress").onlookers_for(
            settings, drawn=drawn
        ) as onlookers:
            run_job(settings, stop=stop, onlookers=onlookers)

    return job


def build_jobs(settings: Sequence[Settings]) -> Callable[[threading.Event], None]:
    """Several jobs on one Spark session, ready to run until the event is set."""

    def jobs(stop: threading.Event) -> None:
        import_module("adapters.embedding.job_group").run_together(settings, stop)

    return jobs


def main() -> None:
    """Start the command; the console script `tidemark`."""
    app()


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Stream database changes as Debezium-compatible events, with parallel snapshots on Spark."""
    if version:
        typer.echo(f"tidemark {_version()}")
        raise typer.Exit


@app.command()
def run(
    configs: Annotated[
        list[str],
        typer.Argument(metavar="CONFIG...", help="configuration files: .properties, .json or .yaml"),
    ],
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="log details, and Spark's output while it starts")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="text for people, or JSON")] = (
        LogFormat.TEXT
    ),
) -> None:
    """Run the job that CONFIG describes until SIGTERM, SIGINT or SIGHUP.

    Several jobs share one Spark session. If one fails, the others go on; the command ends with its error.

    Example: tidemark run orders.properties --log-format json

    Example: tidemark run shop-1.properties shop-2.properties shop-3.properties
    """
    set_up_logging(verbose=verbose, form=log_format)
    found = [_begin(config, several=len(configs) > 1) for config in configs]
    with exit_codes(", ".join(configs)):
        if len(found) > 1:
            run_until_signalled(build_jobs(found))
        else:
            drawn = log_format is LogFormat.TEXT and not verbose
            run_until_signalled(build_job(found[0], drawn=drawn))


def _begin(config: str, *, several: bool) -> Settings:
    """Print the first lines of a job; returns its settings."""
    with exit_codes(config):
        settings = read(config)
        for line in first_screen(settings):
            log.info("%s%s", f"{settings.name}: " if several else "", line)
        for warning in settings.warnings:
            log.warning("%s", warning)
    return settings


@app.command()
def check(
    config: Config,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="show properties that apply by default, too")
    ] = False,
    connect: Annotated[bool, typer.Option("--connect", help="inspect the database, too")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON document")] = False,
) -> None:
    """Check CONFIG and show how each property is handled; connects to nothing without --connect.

    With --connect, the exit code is 1 if the database lacks something.

    Example: tidemark check orders.properties --connect

    Example: tidemark check orders.properties --defaults --json
    """
    seen = inspection.Look(())
    with exit_codes(config):
        settings = read(config)
        import_module("adapters.storage.workspace").check(settings)
        rows = explain(load(config), defaults=defaults)
        if not as_json:
            _show(rows, settings)
        if connect:
            seen = inspection.look_at(settings)
        if as_json:
            _show_json(rows, settings, seen if connect else None)
        else:
            for line in seen.lines():
                typer.echo(line)
    if seen.missing:
        raise typer.Exit(FAILED)


def _show(rows: tuple[Explained, ...], settings: Settings) -> None:
    for line in _table(rows):
        typer.echo(line)
    for warning in settings.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _show_json(rows: tuple[Explained, ...], settings: Settings, seen: inspection.Look | None) -> None:
    """Print all as one document; values of secrets are hidden as in the table."""
    properties = [
        {"name": row.name, "value": str(row.value), "kind": row.kind, "given": row.given, "text": row.text}
        for row in rows
    ]
    found = None if seen is None else [asdict(finding) for finding in seen.findings]
    document = {"properties": properties, "warnings": settings.warnings, "findings": found}
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def _table(rows: tuple[Explained, ...]) -> list[str]:
    """One line per property under a heading per kind, in columns."""
    width = min(max((len(row.name) for row in rows), default=0), 50)
    lines: list[str] = []
    for kind in dict.fromkeys(row.kind for row in rows):
        lines.append(f"{kind.value}:")
        lines += [
            f"  {row.name:<{width}} = {row.value}{'' if row.given else ' (default)'}  # {row.text}"
            for row in rows
            if row.kind is kind
        ]
    return lines


def _version() -> str:
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:  # run from a checkout or a zip given to spark-submit
        return "of an unknown version"


if __name__ == "__main__":
    main()
