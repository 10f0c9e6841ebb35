"""The collections of a deployment, from its catalog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.mongodb.server.failures import source_errors
from adapters.source.driver_errors import ServerRefused
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pymongo import MongoClient

_SYSTEM = frozenset({"admin", "config", "local"})


@dataclass(frozen=True, slots=True)
class CollectionDescription:
    """A collection in the catalog. `uuid` changes when it is dropped and created again.

    The server can't read a `capped` collection as of a cluster time. `uuid` is empty if our role may only see
    names.
    """

    id: CollectionId
    kind: str
    uuid: str
    capped: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The key that its chunk bounds belong to."""
        return ("_id", self.uuid)


class Catalog:
    """Names and kinds of collections, read again each time."""

    def __init__(self, client: Callable[[], MongoClient[dict[str, Any]]]) -> None:
        self._client = client

    def collections(self, database: str | None = None) -> dict[CollectionId, CollectionDescription]:
        """The collections of a database, or of all but system ones, by name, with views and time series."""
        with source_errors("listing collections"):
            names = [database] if database else self._databases()
            found = [described for name in names for described in self._of(name)]
        return {described.id: described for described in sorted(found, key=lambda described: described.id)}

    def _databases(self) -> list[str]:
        return [name for name in self._client().list_database_names() if name not in _SYSTEM]

    def _of(self, database: str) -> list[CollectionDescription]:
        return [
            _described(database, listed)
            for listed in self._listed(database)
            if not listed["name"].startswith("system.")
        ]

    def _listed(self, database: str) -> Sequence[Mapping[str, Any]]:
        listing = partial(self._client()[database].list_collections, authorizedCollections=True)
        try:
            with source_errors("listing collections", database):
                return list(listing())
        except ServerRefused:
            # A role without listCollections may see the names of what it may read.
            return list(listing(nameOnly=True))


def _described(database: str, listed: Mapping[str, Any]) -> CollectionDescription:
    uuid = listed.get("info", {}).get("uuid")
    return CollectionDescription(
        CollectionId((database, listed["name"])),
        listed["type"],
        "" if uuid is None else bytes(uuid).hex(),
        capped=bool(listed.get("options", {}).get("capped")),
    )
