"""SQL Server's properties into settings: defaults, refusals, contradictions."""

from __future__ import annotations

import pytest

from adapters.postgres.settings import PostgresSettings
from adapters.sqlserver.properties import AGENT_STATUS, CONNECTOR
from adapters.sqlserver.settings import Encryption, HistoryKind, HistorySettings, Isolation, SqlServerSettings
from engine.config import SnapshotMode, Watermarking, explain, parse
from engine.config.properties.row import Kind
from engine.errors import InvariantError
from engine.events.settings import DecimalMode, EventSettings, TimeMode
from engine.model import CollectionId
from tests.unit.engine.config.least import SQLSERVER as LEAST
from tests.unit.engine.config.least import problems_of


def test_the_least_configuration_has_debeziums_defaults():
    settings = parse(LEAST)

    assert settings.events == EventSettings("server1", "")
    assert settings.source_as(SqlServerSettings) == SqlServerSettings(
        "db", "u", ("testDB1", "testDB2"), "pa55word", agent_status_query=AGENT_STATUS
    )
    assert settings.snapshot.mode is SnapshotMode.INITIAL
    assert settings.snapshot.watermarking is Watermarking.INSERT_INSERT
    assert settings.warnings == ()


def test_the_password_is_in_no_repr():
    assert "pa55word" not in repr(parse(LEAST))


def test_another_sources_settings_are_not_sql_servers():
    settings = parse(LEAST)

    with pytest.raises(InvariantError, match="PostgresSettings"):
        _ = settings.source_as(PostgresSettings)
    assert not isinstance(settings.source, PostgresSettings)


def test_every_shape_reads_its_own_default_and_no_name_stands_twice():
    for row in CONNECTOR.catalogue.rows:
        if row.kind not in {Kind.IGNORED, Kind.RENAMED} and not row.is_pattern:
            assert row.standard() is not None, row.name
    names = [row.name for row in CONNECTOR.catalogue.rows]
    assert sorted(set(names)) == sorted(names)


def test_older_names_that_only_postgresql_has_lead_nowhere():
    known = {row.name for row in CONNECTOR.catalogue.rows}

    assert {row.text for row in CONNECTOR.catalogue.rows if row.kind is Kind.RENAMED} <= known


@pytest.mark.parametrize("name", ["slot.name", "publication.name", "plugin.name", "hstore.handling.mode"])
def test_what_only_postgresql_has_is_not_known(name):
    (problem,) = problems_of(LEAST, {name: "x"})

    assert problem.startswith(f"no property {name!r}")


def test_the_connection_is_told_what_the_properties_say():
    source = parse(
        LEAST
        | {
            "database.instance": "SQL2022",
            "database.encrypt": "strict",
            "database.trustServerCertificate": "true",
            "driver.trustServerCertificate": "false",
            "driver.serverCertificate": "/etc/server.pem",
            "database.hostNameInCertificate": "*.db.example",
            "driver.packetSize": "8000",
            "driver.multiSubnetFailover": "true",
            "database.query.timeout.ms": "0",
            "poll.interval.ms": "50",
            "snapshot.isolation.mode": "SNAPSHOT",
            "snapshot.lock.timeout.ms": "7",
            "include.schema.changes": "false",
            "database.sqlserver.agent.status.query": "SELECT [#db].func_is_sql_server_agent_running()",
        }
    ).source_as(SqlServerSettings)

    assert (source.instance, source.port) == ("SQL2022", 0)
    assert source.encrypt is Encryption.STRICT
    assert not source.trust_server_certificate  # the newer spelling counts
    assert (source.server_certificate, source.certificate_host) == ("/etc/server.pem", "*.db.example")
    assert (source.packet_size, source.multi_subnet_failover) == (8000, True)
    assert (source.query_timeout_ms, source.poll_interval_ms, source.lock_timeout_ms) == (0, 50, 7)
    assert source.isolation is Isolation.SNAPSHOT
    assert not source.include_schema_changes
    assert source.agent_status_query == "SELECT [#db].func_is_sql_server_agent_running()"


def test_an_instance_keeps_a_port_that_is_given():
    source = parse(LEAST | {"database.instance": "i", "database.port": "1444"}).source_as(SqlServerSettings)

    assert source.port == 1444


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("true", Encryption.MANDATORY),
        ("mandatory", Encryption.MANDATORY),
        ("False", Encryption.OPTIONAL),
        ("optional", Encryption.OPTIONAL),
        ("strict", Encryption.STRICT),
    ],
)
def test_encryption_is_said_in_older_and_newer_words(given, expected):
    assert parse(LEAST | {"driver.encrypt": given}).source_as(SqlServerSettings).encrypt is expected


def test_one_database_has_an_older_property():
    given = {**LEAST, "database.dbname": "testDB"}
    del given["database.names"]

    assert parse(given).source_as(SqlServerSettings).databases == ("testDB",)


def test_databases_must_be_named_once_and_in_one_property():
    assert problems_of(LEAST, {"database.names": None}) == (
        "missing 'database.names': the databases whose changes are read",
    )
    (problem,) = problems_of(LEAST, {"database.dbname": "x"})
    assert "exclude each other" in problem
    assert parse(LEAST | {"database.names": "a, b,a"}).source_as(SqlServerSettings).databases == ("a", "b")


@pytest.mark.parametrize("value", ["schema_only", "no_data"])
def test_a_snapshot_of_the_schema_alone_has_two_names(value):
    assert parse(LEAST | {"snapshot.mode": value}).snapshot.mode is SnapshotMode.NO_DATA


@pytest.mark.parametrize("value", ["never", "exported", "recovery", "x"])
def test_other_snapshot_modes_are_refused(value):
    (problem,) = problems_of(LEAST, {"snapshot.mode": value})

    assert "schema_only" in problem


def test_each_database_may_have_its_signal_table():
    settings = parse(LEAST | {"signal.data.collection": 'testDB1.dbo.signals , [testDB2]."s.x".[t]]y]'})

    tables = (CollectionId(("testDB1", "dbo", "signals")), CollectionId(("testDB2", "s.x", "t]y")))
    assert settings.source_as(SqlServerSettings).signal_tables == tables
    assert settings.source_as(SqlServerSettings).signal_table("testDB2") == tables[1]
    assert settings.source_as(SqlServerSettings).signal_table("other") is None
    assert settings.signals.collection == tables[0]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("dbo.signals", "database.schema.table"),
        ("testDB1.dbo.a,testDB1.dbo.b", "two tables"),
        ("other.dbo.a", "'other'"),
        ("testDB1.dbo.a,", "database.schema.table"),
    ],
)
def test_signal_tables_must_be_one_for_each_named_database(value, part):
    (problem,) = problems_of(LEAST, {"signal.data.collection": value})

    assert part in problem


def test_signal_rows_that_are_asked_for_need_a_table():
    (problem,) = problems_of(LEAST, {"incremental.snapshot.watermarking.strategy": "insert_delete"})

    assert "needs 'signal.data.collection'" in problem


def test_read_only_writes_no_signal_row():
    assert parse(LEAST | {"read.only": "true"}).snapshot.watermarking is Watermarking.VISIBILITY


def test_events_are_shaped_as_the_properties_say():
    settings = parse(
        LEAST
        | {
            "decimal.handling.mode": "string",
            "time.precision.mode": "connect",
            "table.include.list": "dbo.customers",
            "column.exclude.list": r"dbo.customers.email",
        }
    )

    assert settings.events.decimals is DecimalMode.STRING
    assert settings.events.times is TimeMode.CONNECT
    assert settings.events.exclude_columns == (r"dbo.customers.email",)
    assert settings.capture.captures("dbo", "customers")
    assert not settings.capture.captures("dbo", "orders")


def test_both_of_two_lists_are_one_too_many():
    (problem,) = problems_of(LEAST, {"table.include.list": "a.b", "table.exclude.list": "c.d"})

    assert "exclude each other" in problem


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("driver.applicationIntent", "ReadOnly", "primary"),
        ("database.trustStore", "/t.jks", "serverCertificate"),
        ("database.authentication", "ActiveDirectoryPassword", "database.user"),
        ("database.integratedSecurity", "true", "database.user"),
        ("driver.columnEncryptionSetting", "Enabled", "stored"),
        ("driver.databaseName", "x", "database.names"),
        ("snapshot.locking.mode", "none", "not supported yet"),
        ("topic.naming.strategy", "com.example.Mine", "prefix, database, schema and table"),
    ],
)
def test_what_would_change_the_connection_or_the_events_is_refused(name, value, hint):
    (problem,) = problems_of(LEAST, {name: value})

    assert name in problem
    assert hint in problem


def test_harmless_values_of_refused_options_pass():
    parse(LEAST | {"driver.applicationIntent": "ReadWrite", "database.integratedSecurity": "false"})


def test_a_servers_certificate_is_for_strict_encryption():
    (problem,) = problems_of(LEAST, {"database.serverCertificate": "/x.pem"})

    assert "'strict'" in problem


def test_options_without_effect_are_told_once():
    (warning,) = parse(
        LEAST
        | {
            "max.iteration.transactions": "500",
            "driver.trustStorePassword": "pa55",
            "data.query.mode": "direct",
        }
    ).warnings

    assert "max.iteration.transactions" in warning
    assert "pa55" not in warning


def test_a_schema_history_is_not_needed():
    assert parse(LEAST).source_as(SqlServerSettings).history == HistorySettings()


def test_a_history_in_a_file_is_named_by_its_class_or_its_file():
    named = {
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": "/var/history.dat",
    }
    expected = HistorySettings(HistoryKind.FILE, "/var/history.dat")

    assert parse(LEAST | named).source_as(SqlServerSettings).history == expected
    del named["schema.history.internal"]
    assert parse(LEAST | named).source_as(SqlServerSettings).history == expected


def test_a_history_in_kafka_has_its_clients_options():
    history = (
        parse(
            LEAST
            | {
                "schema.history.internal.kafka.topic": "schemahistory.fullfillment",
                "schema.history.internal.kafka.bootstrap.servers": "my-kafka:9092",
                "schema.history.internal.consumer.security.protocol": "SSL",
                "schema.history.internal.producer.security.protocol": "SSL",
                "schema.history.internal.kafka.recovery.attempts": "4",
            }
        )
        .source_as(SqlServerSettings)
        .history
    )

    assert (history.kind, history.topic) == (HistoryKind.KAFKA, "schemahistory.fullfillment")
    assert history.producer == {"bootstrap.servers": "my-kafka:9092", "security.protocol": "SSL"}
    assert history.consumer == history.producer
    assert history.recovery_attempts == 4


def test_a_history_lacks_nothing_that_its_kind_needs():
    kafka = {"schema.history.internal": "io.debezium.storage.kafka.history.KafkaSchemaHistory"}

    found = problems_of(LEAST, {**kafka, "schema.history.internal.producer.acks": "1"})

    assert len(found) == 3
    assert found[0].startswith("'schema.history.internal.producer.acks'")
    assert found[1].startswith("missing 'schema.history.internal.kafka.topic'")
    assert found[2].startswith("missing 'schema.history.internal.kafka.bootstrap.servers'")
    (problem,) = problems_of(LEAST, {"schema.history.internal": "com.example.Mine"})
    assert "KafkaSchemaHistory" in problem


def test_the_older_name_of_the_history_is_told_its_new_one():
    (problem,) = problems_of(LEAST, {"database.history.kafka.topic": "x"})

    assert "schema.history.internal" in problem


def test_each_property_is_explained_without_its_secrets():
    shown = {setting.name: setting for setting in explain(LEAST)}

    assert shown["database.password"].value == "(hidden)"
    assert shown["database.names"].kind is Kind.APPLIED


def test_a_table_with_a_select_may_be_named_in_brackets():
    listing, name = "snapshot.select.statement.overrides", "[dbo].[my.ta]]ble]"

    settings = parse(LEAST | {listing: name, f"{listing}.{name}": "SELECT 1", f"{listing}.dbo.t": "SELECT 2"})

    assert settings.snapshot.select_overrides == {"dbo.my.ta]ble": "SELECT 1"}
    assert settings.warnings == (f"'{listing}.dbo.t' has no effect: '{listing}' does not name it",)
