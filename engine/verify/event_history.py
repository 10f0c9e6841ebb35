"""What the events of a key say of its row, column by column. Pure; runs on executors.

Texts that differ may say the same of a row:

- An event may leave out a large value that did not change, and say so by a placeholder. A consumer keeps the
  value that it has, so the value of the event before counts.
- An event may be older than a change of the table's columns. A column that it lacks is null, and one that the
  table no longer has does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

Columns: TypeAlias = tuple[str, ...]
_AS_ROW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def columns_of(row: str) -> Columns:
    """The names of a row's columns in order; none if it is not a JSON object, as in MongoDB's events."""
    try:
        return tuple(_AS_ROW.decode(row)) if row.startswith("{") else ()
    except msgspec.MsgspecError:
        return ()


def folded(
    events: Iterable[bytes | None], placeholders: Collection[bytes]
) -> Iterator[dict[str, bytes] | None]:
    """The row after each of these events of a key, in order; None for a delete or what is no JSON object."""
    row: dict[str, bytes] | None = None
    for event in events:
        row = None if event is None else _after(row or {}, event, placeholders)
        yield row


def _after(row: dict[str, bytes], event: bytes, placeholders: Collection[bytes]) -> dict[str, bytes] | None:
    try:
        found = {name: bytes(value) for name, value in _AS_ROW.decode(event).items()}
    except msgspec.MsgspecError:
        return None
    return {
        name: row[name] if value in placeholders and name in row else value for name, value in found.items()
    }


def texts(row: dict[str, bytes], known: Sequence[Columns]) -> list[str]:
    """The row's text as a table with these columns shows it, for each of the lists of columns."""
    return [
        "{" + ",".join(f"{quote(name)}:{row.get(name, b'null').decode()}" for name in columns) + "}"
        for columns in known
    ]
