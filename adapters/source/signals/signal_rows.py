"""Reads the rows of a signal table from the columns of its change rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.model import SignalRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

_COLUMNS = ("id", "type", "data")


def signal_rows(labels: Iterable[str], columns: Sequence[pa.Array], names: Sequence[str]) -> list[SignalRow]:
    """The rows, whose positions `labels` shows. A column is found by its name, else by its place.

    `columns` may be fewer than the table's `names`. A signal has None for a column that is missing.
    """
    shown = list(labels)
    places = [names.index(name) if name in names else at for at, name in enumerate(_COLUMNS)]
    nothing = [None] * len(shown)
    texts = [columns[at].to_pylist() if at < len(columns) else nothing for at in places]
    return [SignalRow(*row) for row in zip(shown, *texts, strict=True)]
