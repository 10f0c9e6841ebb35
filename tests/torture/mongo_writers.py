"""Concurrent document writers, each with its own transactions; failures are ignored.

An action that fails (a conflict, a duplicate key, a server that goes away) is given up. Definitions are
changed while no writer is active, so that no collection is created implicitly, without its options.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pymongo.errors import PyMongoError

from tests.torture.documents import DATABASE, IDS, act, document, fields, make, options, under

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pymongo import MongoClient

    from tests.torture.script import Transaction
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

_PATIENCE_S = 60.0
_COUNTED = {
    "cut": "arrays truncated",
    "rewrite": "updates by a pipeline that writes the _id",
    "expire": "documents made to expire",
    "spoil": "documents made undecodable",
}
DEFINITIONS = frozenset({"drop", "replace", "exile", "succeed", "away", "out", "wipe"})


@dataclass(slots=True)
class Room:
    """A shared/exclusive lock."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _inside: int = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it together with others."""
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for all others to leave, and keep them out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._inside)
            yield


@dataclass(slots=True)
class Definitions:
    """Drops, renames and recreates collections while no writer is active.

    After a partial failure, missing collections are recreated.
    """

    client: MongoClient[dict[str, Any]]
    tables: Sequence[TableShape]
    room: Room

    def define(self, label: str, step: Step) -> None:
        """Run one step. Raises PyMongoError if it fails."""
        verb, place, *rest = step
        shape, database = self.tables[place], self.client[DATABASE]
        with self.room.alone():
            try:
                match verb:
                    case "drop":
                        database[shape.name].drop()
                    case "exile":
                        database[shape.name].rename(f"gone{label}", dropTarget=True)
                    case "succeed":
                        database[shape.name].rename(self.tables[rest[0]].name, dropTarget=True)
                    case "replace":
                        self._replace(f"new{label}", shape, rest[0])
                    case "away":
                        self._away(f"away{label}", shape, rest[0])
                    case "out":
                        self._out(f"from{label}", shape, rest[0])
                    case "wipe":
                        self.client.drop_database(DATABASE)
            finally:
                self._make_again()

    def _replace(self, name: str, shape: TableShape, count: int) -> None:
        made = make(self.client[DATABASE], shape, name)
        made.insert_many([document(shape, n) for n in range(count)])
        made.rename(shape.name, dropTarget=True)

    def _away(self, name: str, shape: TableShape, count: int) -> None:
        """Change it under another name, which is not captured."""
        database = self.client[DATABASE]
        database[shape.name].rename(name)
        for n in range(count):
            database[name].replace_one(under(IDS[shape.key](n), {}), fields(n), upsert=True)
        database[name].rename(shape.name)

    def _out(self, name: str, shape: TableShape, count: int) -> None:
        """Replace it with the output of an aggregation."""
        source = self.client[DATABASE].create_collection(name, **options(shape))
        source.insert_many([document(shape, n) for n in range(count)])
        source.aggregate([{"$match": {}}, {"$out": shape.name}])

    def _make_again(self) -> None:
        """Create missing collections."""
        database, until = self.client[DATABASE], time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            with contextlib.suppress(PyMongoError):
                there = set(database.list_collection_names())
                if "signals" not in there:
                    database.create_collection("signals")
                for shape in self.tables:
                    if shape.name not in there:
                        make(database, shape)
                if {shape.name for shape in self.tables} <= there:
                    return


@dataclass(slots=True)
class DocumentWriter:
    """One writer's transactions in one round."""

    name: str
    definitions: Definitions
    transactions: Sequence[Transaction]
    stop: threading.Event
    committed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)
    failed: int = 0

    def run(self) -> None:
        """Run them all in sequence."""
        for number, transaction in enumerate(self.transactions):
            if self.stop.is_set():
                return
            try:
                self._attempt(number, transaction)
                self.committed += 1
                self._count(transaction)
            except PyMongoError:
                self.failed += 1
            self.stop.wait(transaction.pause_s)

    def _count(self, transaction: Transaction) -> None:
        """Count actions that runs have floors for."""
        if transaction.ending != "commit":
            return
        for verb, _place, *rest in transaction.steps:
            if verb in _COUNTED:
                self.done[_COUNTED[verb]] += len(rest[0])
            if verb == "swell" and len(rest[0]) > 1 and not transaction.asynchronous:
                self.done["transactions above 16 MB"] += 1

    def _attempt(self, number: int, transaction: Transaction) -> None:
        first = transaction.steps[0]
        if first[0] in DEFINITIONS:
            self.definitions.define(f"{self.name}n{number}", first)
            return
        with self.definitions.room.shared():
            if transaction.asynchronous:
                for step in transaction.steps:
                    self._act(step, None)
                return
            with self.definitions.client.start_session() as session, session.start_transaction():
                for step in transaction.steps:
                    self._act(step, session)
                if transaction.ending != "commit":
                    session.abort_transaction()

    def _act(self, step: Step, session: Any) -> None:
        shape = self.definitions.tables[step[1]]
        act(step, shape, self.definitions.client[DATABASE][shape.name], session)
