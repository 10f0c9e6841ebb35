"""Shows the answers to a signal: JSON lines, a bar per collection on a terminal, or plain lines elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from adapters.cli.exits import UNANSWERED
from engine.printable import printable
from signals.answers import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Display(Protocol):
    """Shows what becomes of a signal."""

    def sent(self, id_: str, where: str) -> None:
        """It was sent under this id."""

    def answered(self, answer: Mapping[str, Any]) -> None:
        """An answer came."""

    def unanswered(self, why: str) -> int:
        """Nobody waits any longer; returns the exit code."""


@contextmanager
def display_of(*, as_json: bool) -> Iterator[Display]:
    """The display that fits the output."""
    console = Console(soft_wrap=True, highlight=False)
    if as_json:
        yield JsonLines()
    elif console.is_terminal:
        name, note = "{task.description}", "{task.fields[note]}"
        columns = (TextColumn(name, markup=False), BarColumn(), TextColumn(note, markup=False))
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            yield Bars(progress)
    else:
        yield PlainLines()


class JsonLines:
    """One object a line: the sending, then each answer as the journal has it."""

    def sent(self, id_: str, where: str) -> None:
        """The id and the place."""
        typer.echo(orjson.dumps({"id": id_, "sent": where}))

    def answered(self, answer: Mapping[str, Any]) -> None:
        """The answer, unchanged."""
        typer.echo(orjson.dumps(answer))

    def unanswered(self, why: str) -> int:
        """The reason, as an object."""
        typer.echo(orjson.dumps({"unanswered": why}))
        return UNANSWERED


class PlainLines:
    """One line per answer."""

    def sent(self, id_: str, where: str) -> None:
        """The id and the place."""
        typer.echo(f"sent signal {id_!r} {where}")

    def answered(self, answer: Mapping[str, Any]) -> None:
        """Its outcome and text."""
        typer.echo(_line(answer))

    def unanswered(self, why: str) -> int:
        """The reason, to stderr."""
        typer.echo(f"tidemark: {why}", err=True)
        return UNANSWERED


class Bars:
    """A bar per collection; what concerns the whole signal is a line above them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[str, TaskID] = {}

    def sent(self, id_: str, where: str) -> None:
        """A line above the bars."""
        self._print(f"sent signal {id_!r} {where}")

    def answered(self, answer: Mapping[str, Any]) -> None:
        """Move the collection's bar."""
        collection, facts = answer.get("collection"), answer.get("facts") or {}
        if collection is None:
            self._print(_line(answer))
            return
        if collection not in self._bars:
            self._bars[collection] = self._progress.add_task(printable(collection), total=100, note="")
        outcome = Outcome(answer["outcome"])
        done = 100 if outcome is Outcome.FINISHED else facts.get("percent")
        note = f"{outcome}, {facts['rows']:,} rows" if "rows" in facts else str(outcome)
        self._progress.update(self._bars[collection], completed=done, note=note)
        if outcome in {Outcome.FAILED, Outcome.REJECTED, Outcome.PLANNED}:
            self._print(_line(answer))

    def unanswered(self, why: str) -> int:
        """A last line."""
        self._print(why)
        return UNANSWERED

    def _print(self, text: str) -> None:
        self._progress.console.print(text, markup=False)


def _line(answer: Mapping[str, Any]) -> str:
    return printable(f"{answer['outcome']}: {answer['text']}")
