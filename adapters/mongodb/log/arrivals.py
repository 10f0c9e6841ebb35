"""Which collections became captured while the job runs, and whether the stream has their documents.

It does for a collection that is created: the stream has every document from the first on. It does not for one
that gets a captured name by a rename, or that other include and exclude lists capture than before a restart.

    looks at the catalog      L1: t          L2: t, u          u is known since L2
    the stream                       R: other → u              R is before L2: u had not been there
                                                    R': v → t  R' is after L1: t had been there

A rename onto a collection that was there replaces its documents. That makes it incomplete, and nothing is
read on our own: a nightly `$out` does it each night. Nobody has looked before the start. So a rename from
before counts as one onto a name that was not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.mongodb.log.position import has_passed
from adapters.mongodb.settings import CaptureScope, MongoSettings
from engine.config.sources.selection import CaptureSettings
from engine.model import Arrival

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from adapters.mongodb.saved import SavedCapture
    from engine.config.settings import Settings
    from engine.model import CollectionId, Position

_EVERY_S: Final = 5.0


class Arrivals:
    """Looks at the catalog periodically. Used by the job's thread alone.

    `captured` lists the captured collections, `now` is the newest cluster time. `clock` counts seconds.
    """

    def __init__(
        self,
        settings: Settings,
        captured: Callable[[], Iterable[CollectionId]],
        now: Callable[[], tuple[int, int]],
        clock: Callable[[], float],
    ) -> None:
        self._settings, self._captured, self._now, self._clock = settings, captured, now, clock
        self._due_s = 0.0
        self._since: dict[CollectionId, tuple[int, int]] | None = None
        self._untold: dict[CollectionId, tuple[int, int]] = {}
        self._renamed: set[CollectionId] = set()
        self._found: list[Arrival] = []
        self._saved: SavedCapture | None = None

    def begin(self, saved: SavedCapture | None) -> None:
        """Go on from a saved state: find what its settings did not capture."""
        self._saved = saved
        if saved is not None and saved != _form(self._settings):
            self._found = [Arrival(name) for name in self._captured() if not _covers(saved, name)]

    @property
    def saved(self) -> SavedCapture:
        """The settings that capture the reported collections. Others count once theirs are reported."""
        return self._saved or _form(self._settings)

    def look(self, position: Position | None) -> None:
        """Look at the catalog if it is time to, and note what the stream has come to."""
        if self._clock() >= self._due_s:
            self._due_s = self._clock() + _EVERY_S
            self._compare(list(self._captured()))
        for name, at in list(self._untold.items()):
            if position is not None and has_passed(position, at):
                del self._untold[name]
                self._found.append(Arrival(name, told=True))

    def _compare(self, names: list[CollectionId]) -> None:
        at = self._now()
        before, self._since = self._since, dict.fromkeys(names, at)
        if before is None:
            return
        self._since |= {name: since for name, since in before.items() if name in self._since}
        new = self._since.keys() - before.keys()
        self._untold |= dict.fromkeys(sorted(new - self._renamed), at)
        self._renamed -= new

    def renamed(self, name: CollectionId, at: tuple[int, int]) -> None:
        """Note that the stream has brought a rename onto a captured name."""
        since = None if self._since is None else self._since.get(name)
        if since is not None and since < at:
            return
        self._untold.pop(name, None)
        if since is None:
            self._renamed.add(name)
        self._found.append(Arrival(name))

    def take_appeared(self) -> list[Arrival]:
        """Take the collections that are captured only since the last call, or since the state was saved."""
        found, self._found = self._found, []
        self._saved = _form(self._settings)
        return found


def _form(settings: Settings) -> SavedCapture:
    """The settings that say what is captured, as the state keeps them."""
    lists, mongodb = settings.capture, settings.source_as(MongoSettings)
    return {
        "scope": str(mongodb.scope),
        "target": mongodb.target,
        "databases": (list(lists.include_schemas), list(lists.exclude_schemas)),
        "collections": (list(lists.include_tables), list(lists.exclude_tables)),
    }


def _covers(saved: SavedCapture, name: CollectionId) -> bool:
    """Whether saved settings capture a collection."""
    lists = CaptureSettings(*(tuple(names) for names in (*saved["databases"], *saved["collections"])))
    within = {
        CaptureScope.DEPLOYMENT: saved["target"],
        CaptureScope.DATABASE: name.parts[0],
        CaptureScope.COLLECTION: ".".join(name.parts),
    }
    return within[CaptureScope(saved["scope"])] == saved["target"] and lists.captures(*name.parts)
