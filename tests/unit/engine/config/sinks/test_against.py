"""The settings of targets that somebody else keeps."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import parse
from engine.config.sinks.against import Against, MongoTarget
from engine.config.sinks.settings import JdbcSettings
from engine.errors import ConfigError
from engine.model import CollectionId
from tests.unit.engine.config.least import POSTGRES

PREFIX = "tidemark.verify.against.there."


def target(**given: str) -> Against:
    settings = parse(
        {**POSTGRES, **{f"{PREFIX}{name.replace('__', '.')}": text for name, text in given.items()}}
    )
    (found,) = settings.job.against.items()
    assert found[0] == "there"
    return found[1]


def test_a_database_on_postgresql():
    found = target(
        connection__url="jdbc:postgresql://h:1/d",
        connection__username="reader",
        marker__collection="public.markers",
    )

    assert isinstance(found.database, JdbcSettings)
    assert found.database.address == "h:1/d"
    assert found.database.parameters["user"] == "reader"
    assert found.database.table_format == "${source.schema}.${source.table}"
    assert found.marker == CollectionId(("public", "markers"))


@pytest.mark.parametrize(
    ("given", "form"),
    [({}, "${source.db}.${source.table}"), ({"collection__name__format": "w.${topic}"}, "w.${topic}")],
)
def test_a_deployment_of_mongodb(given, form):
    found = target(
        connection__url="mongodb+srv://h/?tls=true",
        connection__username="u",
        connection__password="p",
        **given,
    )

    assert found == Against(MongoTarget("mongodb+srv://h/?tls=true", "u", "p", form))
    assert "'p'" not in repr(found)
    assert "tls" not in repr(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"connection__url": "mysql://h/d"}, "or mongodb://host:port"),
        ({"connection__username": "u"}, "the database of the target 'there'"),
        ({"connection__url": "mongodb://h", "marker__collection": "markers"}, "schema.table"),
    ],
)
def test_what_names_no_target_is_refused(given: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        target(**given)
