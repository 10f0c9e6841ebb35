"""How the command ends: exit codes, and how errors are shown.

0 a clean stop, 1 a failure, 2 an unusable configuration, 3 another job holds the checkpoint or the sink,
4 a signal that was not answered in time, or that no running job could answer.
"""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from engine.errors import ConfigError, InvariantError, LeaseHeld, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FAILED, UNUSABLE, HELD, UNANSWERED = 1, 2, 3, 4


@contextmanager
def exit_codes(config: str) -> Iterator[None]:
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
