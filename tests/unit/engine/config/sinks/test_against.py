"""The settings of targets that somebody else keeps."""

from __future__ import annotations

from typing import Any

import pytest

from engine.config import parse
from engine.config.sinks.against import Against, MongoTarget
from engine.config.sinks.postgres_target import PostgresTarget
from engine.config.sinks.sqlserver_target import SqlServerTarget
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

    assert isinstance(found.database, PostgresTarget)
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


def test_a_database_on_sql_server():
    found = target(
        connection__url="jdbc:sqlserver://h\\i:1444;DatabaseName={d;}}};encrypt=true;trustServerCertificate=TRUE",
        connection__username="reader",
        connection__password="p",
        marker__collection="shop.dbo.markers",
    )

    options = {"encrypt": "mandatory", "trustServerCertificate": "true"}
    assert found.database == SqlServerTarget("h", "d;}", 1444, "i", "reader", "p", options)
    assert found.marker == CollectionId(("shop", "dbo", "markers"))
    assert "'p'" not in repr(found)


@pytest.mark.parametrize(
    ("url", "port", "instance"),
    [("h", 1433, ""), ("h:1", 1, ""), ("h\\i", 0, "i"), ("h;instanceName=i", 0, "i"), ("h;port=2", 2, "")],
)
def test_the_port_of_a_sql_server_is_asked_for_by_its_instance(url: str, port: int, instance: str):
    found = target(connection__url=f"jdbc:sqlserver://{url};database=d").database

    assert isinstance(found, SqlServerTarget)
    assert (found.host, found.port, found.instance, found.database) == ("h", port, instance, "d")


def test_other_options_of_a_sql_server_are_its_driver_s():
    found = target(
        connection__url="jdbc:sqlserver://h;databaseName=d;encrypt=strict;serverCertificate=/c.pem;user=u;"
        "password={p;};hostNameInCertificate=n;applicationName=a;loginTimeout=5;packetSize=8000;"
        "multiSubnetFailover=true"
    )

    options = {
        "encrypt": "strict",
        "serverCertificate": "/c.pem",
        "hostNameInCertificate": "n",
        "applicationName": "a",
        "loginTimeout": "5",
        "packetSize": "8000",
        "multiSubnetFailover": "true",
    }
    assert found.database == SqlServerTarget("h", "d", 1433, "", "u", "p;", options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"connection__url": "mysql://h/d"}, "or mongodb://host:port"),
        ({"connection__username": "u"}, "the database of the target 'there'"),
        ({"connection__url": "mongodb://h", "marker__collection": "markers"}, "schema.table"),
        ({"connection__url": "mongodb://h", "marker__collection": "d.s.t"}, "must be schema.table"),
        ({"connection__url": "jdbc:sqlserver://h"}, "lacks the parameter 'databaseName'"),
        ({"connection__url": "jdbc:sqlserver:///d"}, "jdbc:sqlserver://host:port;databaseName=database"),
        ({"connection__url": "jdbc:sqlserver://h;databaseName=d;x=1"}, "unknown parameter 'x'; known: "),
        ({"connection__url": "jdbc:sqlserver://h;databaseName=d;encrypt=no way"}, "'encrypt'"),
        (
            {"connection__url": "jdbc:sqlserver://h;databaseName=d", "marker__collection": "dbo.markers"},
            "must be database.schema.table",
        ),
    ],
)
def test_what_names_no_target_is_refused(given: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        target(**given)
