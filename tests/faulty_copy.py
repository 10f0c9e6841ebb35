"""Faults put into a files sink's directory, and what a verification must find of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson

from adapters.storage.certificate_files import DIRECTORY
from tests.driven import read_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random


class FaultyCopy:
    """The events of one topic, below `directory`, and the faults in them: the kind by key, as JSON.

    `wrong` changes the row of an event, `strange` its key and row to those of a row that does not exist.
    """

    def __init__(
        self,
        directory: Path,
        topic: str,
        wrong: Callable[[dict[str, Any]], None],
        strange: Callable[[dict[str, Any]], None],
    ) -> None:
        self.directory, self.topic = directory, topic
        self._wrong, self._strange = wrong, strange
        self.faults: dict[bytes, str] = {}
        self._since = 0

    def turns(self) -> Iterator[tuple[int, Path]]:
        """The turns, in order."""
        for turn in sorted((self.directory / "events").glob("turn-*")):
            yield int(turn.name.removeprefix("turn-")), turn

    def put(self, chance: Random, share: float) -> None:
        """Put faults of all kinds on about this share of the rows that the events tell of now."""
        last: dict[bytes, dict[str, Any]] = {}
        for number, turn in self.turns():
            self._since = number
            last |= {_key(event): event for event in self._events(turn)}
        live = [key for key, event in last.items() if event["value"] and event["value"]["op"] != "d"]
        for key in chance.sample(live, int(share * len(live))):
            self.faults[key] = chance.choice(["missing", "different", "extra"])
        for _number, turn in self.turns():
            for part in sorted(turn.glob("part-*.jsonl")):
                lines = [line for old in part.read_bytes().splitlines() for line in self._lines(old)]
                part.write_bytes(b"".join(line + b"\n" for line in lines))
        extra = [key for key, kind in self.faults.items() if kind == "extra"]
        for key in extra:
            del self.faults[key]
            stranger = last[key]
            self._strange(stranger)
            self.faults[_key(stranger)] = "extra"

    def _lines(self, line: bytes) -> Iterator[bytes]:
        """What a line becomes."""
        event = orjson.loads(line)
        kind = self.faults.get(_key(event)) if event["topic"] == self.topic and event["value"] else None
        if kind is None or kind == "extra":
            yield line
        if kind == "different" and event["value"]["after"] is not None:
            self._wrong(event)
            yield orjson.dumps(event)
        if kind == "extra" and event["value"]["op"] != "d":
            self._strange(event)
            yield orjson.dumps(event)

    def _events(self, turn: Path) -> Iterator[dict[str, Any]]:
        return (event for event in read_parts(turn) if event["topic"] == self.topic)

    def left(self, upto: int) -> Counter[str]:
        """How many faults of each kind no event has healed, up to a turn."""
        healed = {
            _key(event)
            for number, turn in self.turns()
            if self._since < number <= upto
            for event in self._events(turn)
        }
        return Counter(kind for key, kind in self.faults.items() if key not in healed)

    def verdict(self, id_: str) -> dict[str, Any]:
        """The verdict that answers a signal with this id."""
        for path in sorted((self.directory / "state" / DIRECTORY).glob("*.json*")):
            for line in path.read_bytes().splitlines():
                found: dict[str, Any] = orjson.loads(line)
                if any(signal["id"] == id_ for signal in found["signals"]):
                    return found
        raise AssertionError(f"no verdict about {id_}")

    def check(self, id_: str) -> None:
        """Check that a verdict has counted exactly the faults that are left."""
        found = self.verdict(id_)
        left = self.left(found["turns"]["upto"])
        counted = {kind: found[kind] for kind in ("missing", "different", "extra")}
        counted["different"] += found["older"]  # by chance
        assert counted == {kind: left[kind] for kind in counted}, (found, self.faults)
        assert found["verdict"] == ("reject" if left else "accept")


def _key(event: dict[str, Any]) -> bytes:
    return orjson.dumps(event["key"])
