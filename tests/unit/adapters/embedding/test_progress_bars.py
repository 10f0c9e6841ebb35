"""The bars of snapshots: drawn on a terminal, said as lines elsewhere."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from adapters.embedding.progress_bars import MOST_DRAWN, drawn, showing
from engine.job.saved.overview import CollectionOverview, Stage


def reading(name: str = "public.a", percent: float = 40.0) -> CollectionOverview:
    return CollectionOverview(
        name, Stage.READING, percent=percent, rows=1234, rows_per_s=500.0, eta_s=65.0, chunks=1
    )


def console(*, terminal: bool) -> Console:
    return Console(file=StringIO(), force_terminal=terminal, width=100, highlight=False)


def text(of: Console) -> str:
    assert isinstance(of.file, StringIO)
    return of.file.getvalue()


def test_there_is_a_bar_per_collection_and_those_being_read_come_first():
    out = console(terminal=False)
    waits = CollectionOverview("public.b", Stage.QUEUED)
    failed = CollectionOverview("public.c", Stage.FAILED)
    out.print(drawn([waits, failed, reading()], "stream: lag 0.1 s"))

    first, second, note = text(out).splitlines()
    assert first.split()[0] == "public.a"
    assert first.rstrip().endswith("40% 1,234 rows, 500 rows/s, 1m05s to go")
    assert second.split()[0] == "public.b"
    assert second.rstrip().endswith("0% queued")
    assert note == "stream: lag 0.1 s"


def test_names_are_anybodys_text():
    out = console(terminal=False)
    out.print(drawn([reading("public.[red]a\x1b[2K")]))

    assert "public.[red]a\\x1b[2K" in text(out)


def test_more_collections_than_fit_are_counted():
    out = console(terminal=False)
    out.print(drawn([reading(f"public.t{at}") for at in range(MOST_DRAWN + 3)]))

    assert text(out).splitlines()[-1] == "and 3 more collections"
    assert len(text(out).splitlines()) == MOST_DRAWN + 1


def test_a_terminal_gets_bars_and_lines_above_them():
    out = console(terminal=True)
    with showing(out) as bars:
        bars.draw([reading()])
        bars.say("finished: a")

    assert "━" in text(out)
    assert "finished: a" in text(out)


def test_elsewhere_each_quarter_is_a_line():
    out = console(terminal=False)
    with showing(out) as bars:
        for percent in (1.0, 2.0, 30.0, 49.0, 50.0):
            bars.draw([reading(percent=percent)])

    assert [line.split(",")[0] for line in text(out).splitlines()] == [
        "public.a 1.0%",
        "public.a 30.0%",
        "public.a 50.0%",
    ]
