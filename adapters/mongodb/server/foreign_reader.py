"""What is asked of a MongoDB deployment whose collections somebody else keeps: their documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from adapters.mongodb.server.failures import collection_errors
from adapters.mongodb.server.questions import DocumentReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adapters.mongodb.server.connection import Connection
    from engine.model import CollectionId

_MAJORITY: Final[Mapping[str, Any]] = {"level": "majority"}
_IN_ORDER: Final[Mapping[str, Any]] = {"_id": 1}


class ForeignReader:
    """Reads one collection, over a client of its own that connects when it is needed."""

    def __init__(self, connection: Connection, collection: CollectionId) -> None:
        self._client = connection.connect()
        self._collection = collection

    def size(self) -> int | None:
        """About how many bytes the documents have; None without a collection. Raises SourceError."""
        database, name = self._collection.parts
        with collection_errors("measuring a target", self._collection):
            if not self._client[database].list_collection_names(filter={"name": name}):
                return None
            return int(self._client[database].command("collStats", name).get("size", 0))

    def answers(self, batch_rows: int) -> Iterator[tuple[bytes, list[int]]]:
        """All documents by their `_id`, so that none comes twice, as `DocumentReader.answers` gives them."""
        find = {"find": self._collection.parts[1], "sort": _IN_ORDER}
        reader = DocumentReader(lambda: self._client)
        return reader.answers(self._collection, [find], _MAJORITY, batch_rows)

    def close(self) -> None:
        """Close the client; what is being asked then fails."""
        self._client.close()
