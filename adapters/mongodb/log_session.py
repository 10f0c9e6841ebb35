"""What opening the log sets up; every opening makes another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.mongodb.events.codec import Rules
    from adapters.mongodb.log.arrivals import Arrivals
    from adapters.mongodb.snapshot.tables import MongoCollections


@dataclass(frozen=True, slots=True)
class LogSession:
    """How events are made, the collections that can be read, and those that are new to the capture."""

    rules: Rules
    tables: MongoCollections
    arrivals: Arrivals
