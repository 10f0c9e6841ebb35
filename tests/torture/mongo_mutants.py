"""The guards that only MongoDB has, each to be switched off by name.

Two are missing because another guard hides them in every history: that a window's time is chosen before its
collections are compared (a rename in between has them read from scratch), and that equal numbers are one key
(the first change of a document that was read has the `_id` as it was read). Integration and unit tests cover
those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adapters.mongodb import log_opening
from adapters.mongodb import properties as mongodb_settings
from adapters.mongodb.documents import keys
from adapters.mongodb.events import decode, unreported_changes
from adapters.mongodb.events.facts import Watch
from adapters.mongodb.log import options
from adapters.mongodb.log.options import StreamOptions
from adapters.mongodb.log.position import time_of
from adapters.mongodb.log.reader import MongoLog
from adapters.mongodb.server import catalog, collection_probes
from adapters.mongodb.snapshot import blocking, watermark
from adapters.mongodb.snapshot.window import MongoWindow
from adapters.mongodb.snapshot.windows import OpenWindows
from adapters.source.initial import InitialSnapshot
from engine.isolation import incomplete
from tests.torture.mutants import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable


def _always(gives: Any) -> Callable[[Any], Any]:
    """A function that always returns this."""
    return lambda _was: lambda *_args, **_more: gives


def _in_other_modes_only(has_document: Any) -> Any:
    """An update that should have brought its document counts as having it."""
    return lambda found: "updateDescription" in found or has_document(found)


def _by_its_time_alone(_has_passed: Any) -> Any:
    return lambda position, time: time_of(position) >= time


def _renames_forgotten(incomplete: Any) -> Any:
    return lambda _emptied, *more: incomplete((), *more)


def _whatever_its_time(emptied: Any) -> Any:
    """Whatever empties collections counts for every window, regardless of its time."""

    def all_of_them(window: Any, found: Any) -> Any:
        return frozenset(name for look in found for name in look.among(window.collections))

    del emptied
    return all_of_them


def _tight(described: Any) -> Any:
    """Capped collections are read like any other."""

    def as_any_other(name: str, listed: Any) -> Any:
        return described(name, {**listed, "options": {}})

    return as_any_other


def _raising(_note_fault: Any) -> Any:
    def raising(_faults: Any, _collection: Any, error: Exception) -> None:
        raise error

    return raising


def _left_aside(_taken_up: Any) -> Any:
    return lambda known, *_more: tuple(known)


def _without(name: str) -> Callable[[Any], Any]:
    def made(concern: Any) -> Any:
        def less(at: Any) -> Any:
            return {"level": "local", **{key: value for key, value in concern(at).items() if key != name}}

        return less

    return made


MONGO_MUTANTS: dict[str, Mutant] = {
    "changes supersede documents read": Mutant("in-window", ((OpenWindows, "watch", _always(Watch())),)),
    "an _id that is written otherwise": Mutant("in-window", ((decode, "respelt", _always(None)),)),
    "bounds that JSON does not bring back": Mutant("odd-ids", ((keys, "_reads_back", _always(gives=True)),)),
    "changes without their document": Mutant(
        "giant-in-window", ((decode, "has_document", _in_other_modes_only),)
    ),
    "events above 16 MB come with less": Mutant(
        "giant-in-window", ((StreamOptions, "smaller", _always(None)),)
    ),
    "documents of a view after its time": Mutant(
        "blocking", ((blocking.BlockingView, "reached", _always(gives=True)),)
    ),
    "a stream that waits": Mutant(
        "blocking",
        ((blocking.BlockingViews, "waits", _always(gives=False)), (MongoLog, "hold", _always(None))),
    ),
    "a stream that goes on": Mutant("blocking", ((blocking.BlockingViews, "tick", _always(None)),)),
    "when to emit": Mutant("within-a-time", ((watermark.ClusterTime, "reached", _always(gives=True)),)),
    "all of a cluster time is streamed": Mutant(
        "within-a-time", ((watermark, "has_passed", _by_its_time_alone),)
    ),
    "the closing document is waited for": Mutant(
        "behind-the-close", ((watermark.SignalDocuments, "reached", _always(gives=True)),)
    ),
    "what a drop takes away": Mutant(
        "dropped", ((MongoWindow, "emptied_collections", _always(frozenset())),)
    ),
    "what a rename brings": Mutant(
        "renamed-onto",
        (
            (unreported_changes, "replaced_collections", _always({})),
            (unreported_changes, "incomplete", _renames_forgotten),
        ),
    ),
    "renames pass the filters": Mutant("renamed-onto", ((options, "EMPTYING", lambda _was: ()),)),
    "a rename counts for earlier windows alone": Mutant(
        "renamed-between", ((MongoWindow, "emptied_collections", _whatever_its_time),)
    ),
    "capped collections wait for the end of reading": Mutant(
        "capped", ((watermark.ClusterTime, "loosen", _always(None)),)
    ),
    "capped collections are read at no chosen time": Mutant(
        "capped-first", ((catalog, "_described", _tight),)
    ),
    "states that are gone": Mutant("states-gone", ((InitialSnapshot, "lose", _always(None)),)),
    "one bad collection is set aside": Mutant("undecodable", ((decode, "note_fault", _raising),)),
    "a snapshot takes it up again": Mutant("undecodable", ((incomplete, "with_taken_up", _left_aside),)),
    "the primary, whatever the string says": Mutant(
        "lagging", ((mongodb_settings, "of_the_primary", lambda _was: lambda uri: (uri, [])),)
    ),
    "bounds no older than the log": Mutant(
        "unacknowledged", ((collection_probes, "concern", _without("afterClusterTime")),)
    ),
    "bounds that are acknowledged": Mutant(
        "rolled-back", ((collection_probes, "concern", _without("level")),)
    ),
    "the event streamed last is in the log": Mutant(
        "restored", ((log_opening, "check_same_log", _always(None)),)
    ),
}
