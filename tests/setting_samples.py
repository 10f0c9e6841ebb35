"""A value for every property that differs from what a configuration has, and what becomes different by it."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.config import parse
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine.config import Settings
    from engine.config.properties.row import Property

COMMON: Final = {
    "topic.prefix": "p",
    "tidemark.checkpoint": "/c",
    "signal.enabled.channels": "source,kafka,file",
    "signal.kafka.topic": "s",
    "signal.kafka.bootstrap.servers": "b:1",
    "notification.enabled.channels": "sink,log,webhook",
    "notification.sink.topic.name": "n",
    "tidemark.notification.webhook.url": "http://n/",
    "tidemark.http.port": "8080",
    "tidemark.openlineage.url": "http://l/",
    "incremental.snapshot.watermarking.strategy": "insert_insert",
}
"""Everything is on that could be off."""
SOURCES: Final = {
    "postgres": {
        "connector.class": "postgresql",
        "database.hostname": "h",
        "database.user": "u",
        "database.dbname": "d",
        "signal.data.collection": "public.s",
    },
    "mongodb": {
        "connector.class": "mongodb",
        "mongodb.connection.string": "mongodb://h:1/",
        "signal.data.collection": "d.s",
    },
    "sqlserver": {
        "connector.class": "sqlserver",
        "database.hostname": "h",
        "database.user": "u",
        "database.names": "d",
        "signal.data.collection": "d.dbo.s",
    },
}
SINKS: Final = {
    "files": {"tidemark.sink.files.dir": "/e"},
    "console": {},
    "null": {},
    "kafka": {"producer.bootstrap.servers": "b:1"},
    "jdbc": {"tidemark.sink.jdbc.connection.url": "jdbc:postgresql://t/d"},
    "delta": {"tidemark.sink.lake.warehouse": "/w"},
    "iceberg": {"tidemark.sink.lake.warehouse": "/w"},
}
_TEXTS: Final = (
    *("false", "true", "7", "2", "70000", "0.5", "x", "a.b", "a.b.c", "/x", "https://h/p", "1025k", "hex:00"),
    *("a=b", "a.b:c", "a.b.c:d", "0640", "jdbc:postgresql://h/d", '{"a":1}'),
)
"""Tried one after the other, with the words of the shape."""
_WORDS: Final = {"length": "5", "algorithm": "SHA-256", "option": "client.id", "group": "default"}
"""What stands for a `<word>` of a name."""
_TARGET: Final = {"tidemark.verify.against.x.connection.url": "jdbc:postgresql://h/d"}
_PEM: Final = {"tidemark.http.tls.certificate": "/pem"}
_TOPIC: Final = "schema.history.internal.kafka.topic"
_HISTORY: Final = {_TOPIC: "t", "schema.history.internal.kafka.bootstrap.servers": "b:1"}
_NO_USER: Final[Mapping[str, str | None]] = {"database.user": None}
BESIDE: Final[Mapping[str, Mapping[str, str | None]]] = {
    "snapshot.select.statement.overrides": {"snapshot.select.statement.overrides.x": "SELECT 1"},
    "snapshot.select.statement.overrides.<table>": {"snapshot.select.statement.overrides": "x"},
    "snapshot.collection.filter.overrides": {"snapshot.collection.filter.overrides.x": "{}"},
    "snapshot.collection.filter.overrides.<collection>": {"snapshot.collection.filter.overrides": "x"},
    "tidemark.verify.against.<target>.connection.username": _TARGET,
    "tidemark.verify.against.<target>.connection.password": _TARGET,
    "tidemark.verify.against.<target>.collection.name.format": _TARGET,
    "tidemark.verify.against.<target>.marker.collection": _TARGET,
    "tidemark.http.tls.key": _PEM,
    "tidemark.http.tls.client.ca": _PEM,
    "bootstrap.servers": {"producer.bootstrap.servers": None},
    "topic.creation.groups": {"topic.creation.x.include": "x"},
    "mongodb.hosts": {"mongodb.connection.string": None},
    "capture.scope": {"capture.target": "d.c"},
    "database.names": {"signal.data.collection": "x.dbo.s"},
    "database.dbname": {"database.names": None, "signal.data.collection": "x.dbo.s"},
    "driver.serverCertificate": {"database.encrypt": "strict"},
    "database.serverCertificate": {"database.encrypt": "strict"},
    "driver.accessToken": _NO_USER,
    "database.accessToken": _NO_USER,
    "schema.history.internal": {"schema.history.internal.file.filename": "/f"},
    _TOPIC: {"schema.history.internal.kafka.bootstrap.servers": "b:1"},
    "schema.history.internal.kafka.bootstrap.servers": _HISTORY,
    "schema.history.internal.producer.<option>": _HISTORY,
    "schema.history.internal.consumer.<option>": _HISTORY,
}
"""What a property needs beside it to have an effect; None leaves a property out."""
TEXTS: Final = {
    "mongodb.connection.string": "mongodb://other:1/",
    "signal.data.collection": "d.other.s",
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    "cursor.pipeline": '[{"$match": {"operationType": "insert"}}]',
    "tidemark.sink": "console",
}
"""Values that nothing else would find."""


class ChangedField(NamedTuple):
    """A field of a class of settings."""

    owner: type
    name: str


def configuration(source: str, sink: str) -> dict[str, str]:
    """A configuration with this source and this sink."""
    return {**COMMON, **SOURCES[source], "tidemark.sink": sink, **SINKS[sink]}


class Asked(dict[str, str]):
    """Properties that note which of them were asked for by name."""

    def __init__(self, given: Mapping[str, str], noted: set[str]) -> None:
        super().__init__(given)
        self._noted = noted

    def __contains__(self, name: object) -> bool:
        self._noted.add(str(name))
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self._noted.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._noted.add(name)
        return super().get(name, default)


def effects(
    given: Mapping[str, str], row: Property, asked: set[str] | None = None
) -> set[ChangedField] | None:
    """The fields that a property of this row changes; None if no value was found that can be given.

    What the properties are asked for by name is added to `asked`.
    """
    asked, name = set() if asked is None else asked, _name(row)
    found: set[ChangedField] | None = None
    for beside in ({}, BESIDE[row.name]) if row.name in BESIDE else ({},):
        with_these = {key: text for key, text in {**given, **beside}.items() if text is not None}
        for text in _samples(row, with_these.get(name)):
            with suppress(ConfigError):
                changed = parse(Asked(with_these | {name: text}, asked))
                before = _parsed(tuple(with_these.items())) or _parsed(tuple(given.items()))
                found = set(_changed(before, changed))
                if found:
                    return found
    return found


def effects_of_all(given: Mapping[str, str], rows: Iterable[Property]) -> set[ChangedField]:
    """The fields that properties of these rows change together."""
    samples = {_name(row): next(_samples(row, None), "") for row in rows}
    return set(_changed(parse(given), parse(samples | dict(given))))


def _name(row: Property) -> str:
    return re.sub(r"<(\w+)>", lambda word: _WORDS.get(word[1], "x"), row.name)


@cache
def _parsed(given: tuple[tuple[str, str], ...]) -> Settings | None:
    """The settings of a configuration; None if it lacks something."""
    try:
        return parse(dict(given))
    except ConfigError:
        return None


def _samples(row: Property, given: str | None) -> Iterator[str]:
    """Texts that the row reads as something else than what is given."""
    standard = None if row.is_pattern else row.standard()
    taken = standard if given is None else row.shape.read(given)
    for text in (TEXTS.get(row.name, ""), *_TEXTS, *re.findall(r"[\w.$-]+", row.shape.allowed)):
        with suppress(ValueError):
            if text and row.shape.read(text) != taken:
                yield text


def _changed(before: object, after: object, owner: ChangedField | None = None) -> Iterator[ChangedField]:
    """The innermost fields that differ, with their classes."""
    if type(before) is not type(after) or not dataclasses.is_dataclass(before):
        if owner is not None:
            yield owner
        return
    for field in dataclasses.fields(before):
        one, other = getattr(before, field.name), getattr(after, field.name)
        if field.name != "warnings" and one != other:
            yield from _changed(one, other, ChangedField(type(before), field.name))
