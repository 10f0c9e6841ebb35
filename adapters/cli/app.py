"""The `tidemark` command: `run` a job, `check` a configuration.

Owns exit codes, logging, and how errors are shown. Exit codes: 0 a clean stop, 1 a failure, 2 an unusable
configuration, 3 another job holds the checkpoint or the sink and the job must not wait. It is the only place
that selects an adapter; the adapter and the engine decide what the job does.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer
from rich.console import Console
from rich.text import Text

from adapters.cli.stopping import run_until_signalled
from engine.config import Explained, Settings, explain, load, read
from engine.errors import ConfigError, InvariantError, LeaseHeld, TidemarkError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
FAILED, UNUSABLE, HELD = 1, 2, 3

# local variables in a traceback could show a password
app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
log = logging.getLogger("engine")

Config = Annotated[str, typer.Argument(help="a .properties, .json or .yaml file")]


class RunJob(Protocol):
    """Runs a source's job; returns once `stop` is set and everything is saved."""

    def __call__(self, settings: Settings, *, stop: threading.Event) -> None:
        """Run until `stop` is set. Raises a TidemarkError if the job can't continue."""


def build_job(settings: Settings) -> Callable[[threading.Event], None]:
    """The job of the configured source, ready to run until the event is set."""
    run_job = cast("RunJob", import_module(settings.runs).run)
    return lambda stop: run_job(settings, stop=stop)


def main() -> None:
    """Start the command; the console script `tidemark`."""
    app()


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Incremental snapshots on Spark, merged with the change log, as Debezium's events."""
    if version:
        typer.echo(f"tidemark {_version()}")
        raise typer.Exit


@app.command()
def run(
    config: Config,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="log details")] = False,
) -> None:
    """Run the job that CONFIG describes until SIGTERM, SIGINT or SIGHUP."""
    set_up_logging(verbose=verbose)
    with _exit_codes(config):
        settings = read(config)
        for warning in settings.warnings:
            log.warning("%s", warning)
        run_until_signalled(build_job(settings))


@app.command()
def check(
    config: Config,
    defaults: Annotated[bool, typer.Option("--defaults", help="show what applies unsaid, too")] = False,
) -> None:
    """Check CONFIG and say what becomes of each property; connects to nothing."""
    with _exit_codes(config):
        settings = read(config)
        import_module("adapters.storage.workspace").check(settings)
        for line in _table(explain(load(config), defaults=defaults)):
            typer.echo(line)
        for warning in settings.warnings:
            typer.echo(f"warning: {warning}", err=True)


def set_up_logging(*, verbose: bool) -> None:
    """Log to stderr in one format. py4j is silenced: it logs every call, and failures are raised anyway."""
    logging.basicConfig(level=logging.INFO, format=FORMAT, force=True)
    logging.getLogger().addFilter(_not_py4j)
    for name in ("engine", "signals", "adapters"):
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.WARNING)


def _not_py4j(record: logging.LogRecord) -> bool:
    """Filter out py4j's records among those of the root logger."""
    return record.module not in {"java_gateway", "clientserver"}


@contextmanager
def _exit_codes(config: str) -> Iterator[None]:
    """Show a TidemarkError without its traceback, and exit with its code."""
    try:
        yield
    except InvariantError as exc:
        _trace(exc)
        raise typer.Exit(FAILED) from None
    except ConfigError as exc:
        *others, last = exc.problems
        _show(f"{config} can't be used", (*others, f"{last}; {exc.hint}" if exc.hint else last))
        raise typer.Exit(UNUSABLE) from None
    except TidemarkError as exc:
        _show(f"{type(exc).__name__}: {exc}", ())
        raise typer.Exit(HELD if isinstance(exc, LeaseHeld) else FAILED) from None
    except Exception as exc:  # noqa: BLE001  unforeseen errors are shown, too
        _trace(exc)
        raise typer.Exit(FAILED) from None


def _trace(error: BaseException) -> None:
    """Print where an error came from, causes first: frames and classes only, as messages may hold values."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    for each in reversed(chain):
        name = type(each).__qualname__
        said = f"{name}: {each}" if isinstance(each, TidemarkError) else name
        frames = "".join(traceback.format_tb(each.__traceback__))
        typer.echo(f"Traceback (most recent call last):\n{frames}{said}", err=True)


def _show(title: str, lines: Iterable[str]) -> None:
    """Print an error to stderr: in colour on a terminal, plain elsewhere."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text("tidemark: ", style="bold red") + Text(title))
    for line in lines:
        console.print(Text("  - ", style="red") + Text(line))


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
