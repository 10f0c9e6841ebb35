"""Those who write documents at once, each its own list of transactions, whatever comes of it.

An act that fails (a conflict, a key that is taken, a server that goes away) is given up. Definitions are
changed while no writer is at work, so that no collection comes to be by itself, without its options.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pymongo.errors import PyMongoError

from tests.torture.documents import DATABASE, act, document, options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pymongo import MongoClient

    from tests.torture.script import Transaction
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

DEFINITIONS = frozenset({"drop", "replace", "exile", "succeed"})


@dataclass(slots=True)
class Room:
    """Many may be in it, or one alone."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _inside: int = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Be in it with others."""
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
        """Wait until all are gone, and let nobody in."""
        with self._changed:
            self._changed.wait_for(lambda: not self._inside)
            yield


@dataclass(slots=True)
class DocumentWriter:
    """One writer's transactions of one round."""

    name: str
    client: MongoClient[dict[str, Any]]
    tables: Sequence[TableShape]
    transactions: Sequence[Transaction]
    stop: threading.Event
    room: Room
    committed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)
    failed: int = 0

    def run(self) -> None:
        """Run them all, one after the other."""
        for number, transaction in enumerate(self.transactions):
            if self.stop.is_set():
                return
            try:
                self._attempt(number, transaction)
                self.committed += 1
            except PyMongoError:
                self.failed += 1
            self.stop.wait(transaction.pause_s)

    def _attempt(self, number: int, transaction: Transaction) -> None:
        first = transaction.steps[0]
        if first[0] in DEFINITIONS:
            with self.room.alone():
                self._define(f"{self.name}n{number}", first)
            return
        with self.room.shared():
            if transaction.asynchronous:
                for step in transaction.steps:
                    self._act(step, None)
                return
            with self.client.start_session() as session, session.start_transaction():
                for step in transaction.steps:
                    self._act(step, session)
                if transaction.ending != "commit":
                    session.abort_transaction()

    def _act(self, step: Step, session: Any) -> None:
        shape = self.tables[step[1]]
        act(step, shape, self.client[DATABASE][shape.name], session)

    def _define(self, label: str, step: Step) -> None:
        """Drop, rename and make collections anew; where it fails halfway it is tried again."""
        verb, place, *rest = step
        shape, database = self.tables[place], self.client[DATABASE]
        match verb:
            case "drop":
                database[shape.name].drop()
            case "exile":
                database[shape.name].rename(f"gone{label}", dropTarget=True)
            case "succeed":
                database[shape.name].rename(self.tables[rest[0]].name, dropTarget=True)
            case "replace":
                self._replace(f"new{label}", shape, rest[0])
                return
        while shape.name not in database.list_collection_names():
            with contextlib.suppress(PyMongoError):
                database.create_collection(shape.name, **options(shape))

    def _replace(self, name: str, shape: TableShape, count: int) -> None:
        made = self.client[DATABASE].create_collection(name, **options(shape))
        made.insert_many([document(shape, n) for n in range(count)])
        made.rename(shape.name, dropTarget=True)
