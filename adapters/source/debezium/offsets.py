"""Reads where Debezium connectors stopped, in every form that Kafka Connect stores it. Pure.

    ["shop", {"server": "shop"}]<tab>{"lsn": 23024128}     a record of an offsets topic, as
                                                           kafka-console-consumer prints it with its key
    [["shop", {"server": "shop"}], {"lsn": 23024128}]      the same as one array
    {"offsets": [{"partition": {…}, "offset": {…}}]}       what Kafka Connect's REST interface returns
    {"lsn": 23024128}                                      the offset alone
    a serialised HashMap<byte[], byte[]>                   FileOffsetBackingStore's file

A later record replaces an earlier one of the same partition, as in a compacted topic; null removes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from adapters.source.debezium.java_objects import MAGIC, UnknownObject, read_map
from engine.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_HINT: Final = "give the offsets as JSON, Kafka Connect's file of offsets, or topic:NAME"
_NAMES: Final = ("server", "server_id")
"""Where a partition has the connector's topic prefix; the second is MongoDB's."""


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """An offset of a connector's partition, which is empty if only the offset was given."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any]

    @property
    def prefix(self) -> str | None:
        """The connector's topic prefix; None if it is not known."""
        return next((str(self.partition[name]) for name in _NAMES if name in self.partition), None)


def offsets_in(data: bytes, where: str) -> list[StoredOffset]:
    """The offsets of a file. Raises StateError, which names the `place`."""
    try:
        if data.startswith(MAGIC):
            return newest(read_map(data).items())
        return _from_text(data)
    except (UnknownObject, orjson.JSONDecodeError, UnicodeDecodeError, ValueError) as error:
        raise StateError(f"holds no offsets: {error}", where=where, hint=_HINT) from error


def newest(records: Iterable[tuple[bytes | None, bytes | None]]) -> list[StoredOffset]:
    """The newest offset of each partition among the records of an offsets topic.

    Raises ValueError for anything but keys and values of JSON.
    """
    found: dict[bytes, StoredOffset] = {}
    for key, value in records:
        if not key:
            continue
        partition = _partition(orjson.loads(key))
        name = orjson.dumps(partition, option=orjson.OPT_SORT_KEYS)
        found.pop(name, None)
        offset = orjson.loads(value) if value else None
        if offset is not None:
            found[name] = StoredOffset(partition, _object(offset))
    return list(found.values())


def _from_text(data: bytes) -> list[StoredOffset]:
    try:
        return list(_of_document(orjson.loads(data)))
    except orjson.JSONDecodeError:
        # Not `splitlines`: JSON may contain other separators, such as U+2028, in a connector's name.
        lines = (line.strip() for line in data.decode().split("\n"))
        return newest(_record(line) for line in lines if line)


def _of_document(document: object) -> Iterator[StoredOffset]:
    """The offsets of a single JSON document."""
    if isinstance(document, dict) and isinstance(document.get("offsets"), list):
        for entry in document["offsets"]:
            yield StoredOffset(_object(_object(entry).get("partition")), _object(entry["offset"]))
    elif isinstance(document, dict):
        yield StoredOffset({}, document)
    elif isinstance(document, list) and len(document) == 2 and isinstance(document[0], list):
        yield StoredOffset(_partition(document[0]), _object(document[1]))
    else:
        raise ValueError("neither an offset nor an array of a key and an offset")


def _record(line: str) -> tuple[bytes, bytes]:
    """The key and the value of a line: an array of both, or one behind the other."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        _key, end = json.JSONDecoder().raw_decode(line)
        return line[:end].encode(), line[end:].strip().encode()
    if not isinstance(document, list) or len(document) != 2 or not isinstance(document[0], list):
        raise ValueError("a line is no record of an offsets topic")
    return orjson.dumps(document[0]), orjson.dumps(document[1])


def _partition(key: object) -> Mapping[str, Any]:
    if isinstance(key, list) and len(key) == 2 and isinstance(key[1], dict):
        return key[1]
    raise ValueError("a key that is not the name of a connector and a partition")


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an offset that is no object")  # noqa: TRY004  the caller reports one kind of fault
    return value


def for_prefix(offsets: Iterable[StoredOffset], prefix: str) -> list[StoredOffset]:
    """The offsets of the connector with this topic prefix. Raises StateError if there are only others."""
    found = list(offsets)
    mine = [stored for stored in found if stored.prefix in {None, prefix}]
    if mine:
        return mine
    if not found:
        raise StateError("there is no offset", hint="has the connector stored one?")
    others = ", ".join(sorted({repr(stored.prefix) for stored in found}))
    raise StateError(
        f"the offsets belong to the topic prefix {others}, not {prefix!r}",
        hint="set topic.prefix to that of the connector, which events keep",
    )
