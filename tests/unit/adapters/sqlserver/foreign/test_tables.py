"""The tables of a target: their names, and how it is reached."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.sqlserver.foreign import tables
from adapters.sqlserver.foreign.tables import SqlServerTargetTables, settings_of
from adapters.sqlserver.settings import Encryption, SqlServerSettings
from engine.config.sinks.sqlserver_target import SqlServerTarget
from engine.errors import SinkRefused
from engine.model import CollectionId

COLLECTION = CollectionId(("shop", "sales", "orders"))
SOURCE = SqlServerSettings("here", "sa", ("shop",), "secret", "token", odbc_driver="d", query_timeout_ms=7)


def test_a_target_is_reached_with_its_own_login_and_options():
    given = {
        "encrypt": "strict",
        "serverCertificate": "/c.pem",
        "hostNameInCertificate": "n",
        "trustServerCertificate": "true",
        "applicationName": "a",
        "loginTimeout": "5",
        "packetSize": "8000",
        "multiSubnetFailover": "true",
    }

    found = settings_of(SqlServerTarget("there", "dwh", 0, "i", "reader", "p", given), SOURCE)

    assert found == SqlServerSettings(
        *("there", "reader", ("dwh",), "p", "", 0, "i", Encryption.STRICT, True, "n", "/c.pem", "a", 5, 8000),
        multi_subnet_failover=True,
        odbc_driver="d",
        query_timeout_ms=7,
    )


def test_without_options_a_connection_is_encrypted():
    found = settings_of(SqlServerTarget("there", "dwh"), SOURCE)

    assert (found.encrypt, found.trust_server_certificate, found.port) == (Encryption.MANDATORY, False, 1433)


@pytest.mark.parametrize(
    ("form", "there"),
    [
        ("${source.schema}.${source.table}", ("dwh", "sales", "orders")),
        ("${source.db}.t_${source.table}", ("dwh", "shop", "t_orders")),
        ("${source.table}", ("dwh", "dbo", "orders")),
    ],
)
def test_a_table_is_named_by_its_collection(
    monkeypatch: pytest.MonkeyPatch, form: str, there: tuple[str, ...]
):
    made: list[Any] = []
    monkeypatch.setattr(tables, "ForeignRows", lambda *given: made.append(given))
    markers = CollectionId(("shop", "sales", "markers"))
    server: Any = None
    target = SqlServerTarget("there", "dwh", table_format=form)
    found = SqlServerTargetTables(target, server, lambda collection: collection, ("m", markers))  # type: ignore[arg-type,return-value]  # only passed on

    found.check("topic", COLLECTION)
    found.table("topic", COLLECTION, "me")

    ((_connect, name, reads, there_too),) = made
    assert (name, reads) == (CollectionId(there), COLLECTION)
    assert there_too == CollectionId((*there[:2], there[2].replace("orders", "markers")))


def test_a_name_that_no_table_can_have_is_refused():
    server: Any = None
    target = SqlServerTarget("there", "dwh", table_format="x" * 400)

    with pytest.raises(SinkRefused, match="more than 384 bytes"):
        SqlServerTargetTables(target, server, server).check("topic", COLLECTION)
