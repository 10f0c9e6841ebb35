"""Which collections can be snapshotted, their size, and where to cut them: the engine's `Tables` on MongoDB.

Owns which collections are captured, which can be snapshotted, and the queries for a collection's extent and
chunk bounds. All use the `_id` index; none scans a collection. Only the server compares bounds: its order
covers all types of `_id`, and follows the collection's collation.

A collection ends at its greatest `_id` in a state that the majority has acknowledged and that is no older
than what was streamed. A lagging member, or a primary that lost its followers, could show a lesser `_id`.
Documents above it would then be in no window and in no log.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.mongodb.documents.keys import key_from_json
from adapters.mongodb.snapshot.conditions import check_condition, condition_filter
from adapters.source.conditions.checking_time import CheckingTime
from adapters.source.driver_errors import ServerRefused
from engine.config.settings import Conditions
from engine.errors import SchemaChanged, SignalError, TableBusy, UnknownCollection
from engine.snapshot.extent import WHOLE_BYTES, Extent, ScopeExtent, dense_span
from engine.snapshot.scope import RankedKey, ScopedCollection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.mongodb.server.catalog import CollectionDescription
    from adapters.mongodb.server.questions import Questions
    from engine.model import CollectionId, JsonKey, Key, Range, Run, Scope, Target


class MongoCollections:
    """Measures and cuts collections. Used by the job's thread alone.

    `streamed_to` is the cluster time of the newest streamed event. `beginning` is the time at which the
    initial snapshot is read while the log waits for it. `apart` are the collections that turned out to be
    capped then, such as one that was renamed onto another: the log must not wait for them.
    """

    def __init__(  # noqa: PLR0913  the last five are for the assembled source alone
        self,
        questions: Questions,
        captures: Callable[[CollectionId], bool],
        *,
        streamed_to: Callable[[], tuple[int, int]] = lambda: (0, 0),
        beginning: Callable[[], tuple[int, int] | None] = lambda: None,
        whole_bytes: int = WHOLE_BYTES,
        conditions: Conditions = Conditions.EXPRESSIONS,
        monotonic: Callable[[], float],
    ) -> None:
        self._questions = questions
        self._captures, self._whole_bytes = captures, whole_bytes
        self._streamed_to, self._beginning = streamed_to, beginning
        self._conditions, self._checking = conditions, CheckingTime(monotonic)
        self.apart: set[CollectionId] = set()

    def captured(self) -> Sequence[CollectionId]:
        """The collections whose changes are captured, by name."""
        return [described.id for described in self._captured()]

    def capped(self) -> frozenset[CollectionId]:
        """The captured collections that are capped."""
        return frozenset(described.id for described in self._captured() if described.capped)

    def _captured(self) -> list[CollectionDescription]:
        found = self._questions.catalog.collections().values()
        return [
            collection
            for collection in found
            if collection.kind == "collection" and self._captures(collection.id)
        ]

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """None: every collection stands for itself."""
        return {}

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> list[Extent | SignalError | TableBusy]:
        """The extent of each collection, or why it can't be read."""
        at = max(self._questions.now(), self._streamed_to())
        known: dict[CollectionId, CollectionDescription] = {}
        for database in {target.collection.parts[0] for target in targets}:
            known |= self._questions.catalog.collections(database)
        whole_bytes = 0 if bounded else self._whole_bytes
        beginning = self._beginning()
        if beginning:
            self.apart |= {name for name, described in known.items() if described.capped}
        measuring = _Measurement(
            *(self._questions, at, beginning, whole_bytes, self._conditions, self._checking)
        )
        return [measuring.judged(target, known.get(target.collection)) for target in targets]

    def boundaries(self, target: Target, left: Range, step_rows: int, count: int) -> Sequence[Key]:
        """Find chunk bounds by probing the index, each from the last key on (`engine.snapshot.plan`).

        It does not matter which state the probes see: wherever a range is cut, both sides are read.
        """
        found: list[Key] = []
        try:
            while len(found) < count:
                text = self._questions.probes.id_inside(target.collection, left, step_rows - 1)
                if text is None:
                    break
                found.append((text,))
                left = replace(left, after=(text,), holds_after=False)
        except ServerRefused as error:
            raise error.recast(SchemaChanged) from error
        return found

    def readings(self, runs: Sequence[Run]) -> dict[CollectionId, CollectionDescription]:
        """The collections of a window as they are now. Raises SchemaChanged if one has changed."""
        databases = {run.target.collection.parts[0] for run in runs}
        known = {
            name: collection
            for db in databases
            for name, collection in self._questions.catalog.collections(db).items()
        }
        for run in runs:
            described = known.get(run.target.collection)
            if described is None:
                raise SchemaChanged("it was dropped or renamed", where=run.target.collection)
            if described.key != run.key:
                raise SchemaChanged("it was dropped and made again", where=run.target.collection)
            try:
                condition_filter(run.target)
            except SignalError as error:
                raise error.recast(SchemaChanged) from error
        return known


class _Measurement:
    """One measurement, as of a cluster time or later."""

    def __init__(
        self,
        questions: Questions,
        at: tuple[int, int],
        beginning: tuple[int, int] | None,
        whole_bytes: int,
        conditions: Conditions,
        checking: CheckingTime,
    ) -> None:
        self._probes, self._at = questions.probes, at
        self._beginning, self._whole_bytes = beginning, whole_bytes
        self._conditions, self._checking = conditions, checking

    def judged(
        self, target: Target, described: CollectionDescription | None
    ) -> Extent | SignalError | TableBusy:
        """The extent of a collection, or why it has none."""
        try:
            return self._measured(target, described)
        except (SignalError, TableBusy) as error:
            return error
        except (SchemaChanged, ServerRefused) as error:
            return error.recast(SignalError)

    def _measured(self, target: Target, described: CollectionDescription | None) -> Extent:
        described = self._checked(target, described)
        collection = target.collection
        found = self._probes.size(collection)
        rows, size = found.documents, found.bytes
        # Documents read as of the beginning of the log do not contain later changes.
        as_of = self._beginning if target.initial and self._beginning else self._at
        if size < self._whole_bytes and target.scope is None:
            return Extent(rows, size, whole=True, key=described.key, as_of=as_of)
        least = self._probes.least_id(collection, self._at)
        greatest = self._probes.greatest_id(collection, self._at)
        last = None if greatest is None else (greatest,)
        span = None if greatest is None else _span(least, greatest, rows)
        part = (
            None
            if target.scope is None
            else self._scoped(target, target.scope, ScopedCollection(rows, last, span))
        )
        return Extent(rows, size, greatest=last, span=span, key=described.key, as_of=as_of, scoped=part)

    def _scoped(self, target: Target, scope: Scope, within: ScopedCollection) -> ScopeExtent:
        """The part of a collection that a signal asks for. Raises SignalError if an `_id` can't be meant."""
        place = target.collection
        if scope.keys:
            return within.at(tuple(dict.fromkeys(_key(key, place) for key in scope.keys)))
        bounds = [
            _key(bound, place)
            for part in scope.stretches
            for bound in (part.start, part.end)
            if bound is not None
        ]
        last = [] if within.greatest is None else [within.greatest]
        ranks = self._ranks(place, [*bounds, *last]) if bounds else []
        if len(ranks) > len(bounds):
            # The server reads what is between two bounds, and then the upper one whatever the lower one is.
            within = replace(within, last=ranks.pop())
        if len(ranks) < len(bounds):
            ranks = list(range(len(bounds)))  # in an empty collection no order matters
        return within.inside(scope, [RankedKey(*pair) for pair in zip(bounds, ranks, strict=True)])

    def _ranks(self, collection: CollectionId, keys: Sequence[Key]) -> list[int]:
        with self._checking.of(collection):
            return self._probes.ranks(collection, keys)

    def _checked(self, target: Target, described: CollectionDescription | None) -> CollectionDescription:
        """The collection, if the target can be read as requested. Raises SignalError or TableBusy."""
        place = target.collection
        if described is None:
            raise UnknownCollection("there is no such collection", where=place)
        if described.kind != "collection":
            raise SignalError(f"it is a {described.kind}, which has no change stream", where=place)
        if target.surrogate_key is not None:
            raise SignalError("a surrogate key means nothing here: documents are read by '_id'", where=place)
        if not described.uuid:
            raise SignalError(
                "our role may not see its definition, so a rename during the read would go unnoticed",
                where=place,
                hint=f"grant listCollections on the database {target.collection.parts[0]!r}",
            )
        if described.capped and target.initial and self._beginning:
            raise TableBusy("a capped collection is read after the others, beside the log", where=place)
        if target.condition and not target.initial and self._conditions is Conditions.OFF:
            raise SignalError(
                "conditions are not taken", where=place, hint="see tidemark.snapshot.conditions"
            )
        if target.condition:
            with nullcontext() if target.initial else self._checking.of(place):
                check_condition(self._probes, target)
        return described


def _key(key: JsonKey, collection: CollectionId) -> Key:
    if len(key) != 1:
        raise SignalError(f"a key of the signal has {len(key)} values, and '_id' is one", where=collection)
    try:
        return key_from_json(key[0])
    except ValueError as error:
        raise SignalError(
            f"a key of the signal is no '_id' in extended JSON: {error}",
            where=collection,
            hint='write it as {"$oid": "…"}, a number or a string',
        ) from error


def _span(least: str | None, greatest: str, rows: int) -> tuple[int, int] | None:
    """The range of integer keys, if it is dense. Between two numbers there are only numbers."""
    try:
        return dense_span((least,), (greatest,), rows)
    except ValueError:
        return None
