"""One recorded case, read from its folder.

Owns the files of a case and what kind of case it is. A case whose right answer differs from the
recorded one has it in the project's own copy: `expected.jsonl`, with the reason in `reason.txt`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config import load
from tests.golden.event import Event, recorded_events

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_CASES = Path(__file__).parent

_CLOCK = re.compile(
    r"\b(now|(statement|transaction|clock)_timestamp|timeofday)\s*\(|\b(current|local)_?(timestamp|time|date)\b",
    re.IGNORECASE,
)
_RANDOM_UUID = re.compile(r"\b(gen_random_uuid|uuid_generate_v\d\w*|uuidv[47])\s*\(", re.IGNORECASE)


class Source(StrEnum):
    """The database that a case was recorded from."""

    POSTGRES = "postgres"
    MONGODB = "mongodb"


_RECORDED_BY = {Source.POSTGRES: {"header.converter": "org.apache.kafka.connect.json.JsonConverter"}}
"""What wrote the recordings' headers, unless a case says so itself; it is not Connect's default."""
_SIGNAL_PREFIXES = {Source.POSTGRES: re.compile(r"[ij]\d"), Source.MONGODB: re.compile(r"e\d")}


@dataclass(frozen=True, slots=True)
class Documented:
    """Our right answer where the recorded one is wrong, and why it is."""

    events: tuple[Event, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """A folder of files as README.md beside the cases describes them."""

    name: str
    folder: Path
    source: Source
    properties: Mapping[str, str]
    expected: tuple[Event, ...]
    documented: Documented | None = None

    def script(self, name: str) -> str | None:
        """The text of one of the case's SQL files; None if it has none of this name."""
        path = self.folder / name
        return path.read_text("utf-8") if path.exists() else None

    @property
    def sql(self) -> str:
        """Every statement that the case runs, the connector's own included."""
        scripts = (self.script(name) for name in ("setup.sql", "change.sql", "between.sql", "change2.sql"))
        own = self.properties.get("heartbeat.action.query", "")
        return "\n".join([*(text for text in scripts if text), own])

    @property
    def incremental(self) -> bool:
        """Whether the case is an incremental snapshot, whose windows are not compared."""
        return _SIGNAL_PREFIXES[self.source].match(self.name) is not None

    @property
    def initial(self) -> bool:
        """Whether the case begins with an initial snapshot."""
        return self.properties.get("snapshot.mode") == "initial"

    @property
    def reads_clock(self) -> bool:
        """Whether the case's own SQL takes values from the clock."""
        return _CLOCK.search(self.sql) is not None

    @property
    def makes_uuids(self) -> bool:
        """Whether the case's own SQL makes random uuids."""
        return _RANDOM_UUID.search(self.sql) is not None


def load_case(folder: Path, own_cases: Path = OWN_CASES) -> Case:
    """Read the case in `folder`, with the documented difference of the project's copy if it has one."""
    source = source_of(folder)
    return Case(
        name=folder.name,
        folder=folder,
        source=source,
        properties={**_RECORDED_BY.get(source, {}), **load(folder / "connector.properties")},
        expected=recorded_events(folder / "events.jsonl"),
        documented=_documented(own_cases / source / folder.name),
    )


def case_folders(directory: Path) -> list[Path]:
    """The folders below `directory` that hold a case, by name."""
    return sorted(path.parent for path in directory.glob("*/connector.properties"))


def source_of(folder: Path) -> Source:
    """The database that the case in `folder` was recorded from."""
    properties = (folder / "connector.properties").read_text("utf-8")
    is_mongodb = "MongoDbConnector" in properties or "mongodb." in properties
    return Source.MONGODB if is_mongodb or folder.parent.name == "mongodb" else Source.POSTGRES


def _documented(folder: Path) -> Documented | None:
    path = next(folder.glob("expected.jsonl*"), None)  # a large one is compressed
    if path is None:
        return None
    reason = (folder / "reason.txt").read_text("utf-8").strip()
    if not reason:
        raise ValueError(f"{path} has no reason beside it; write one line into reason.txt")
    return Documented(recorded_events(path), reason)
