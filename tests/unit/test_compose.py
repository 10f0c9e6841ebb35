"""What is said of containers holds together: files, names, health checks, and the job's own settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import yaml

from adapters.kafka.settings import KafkaSettings
from adapters.mongodb.settings import MongoSettings
from adapters.postgres.settings import PostgresSettings
from adapters.sqlserver.settings import Isolation, SqlServerSettings
from engine.config import read
from engine.config.settings import Watermarking
from engine.model import Channel

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-that-nobody-knows"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return content


def content(compose: dict[str, Any], name: str) -> str:
    """An inline file as the container sees it."""
    text: str = compose["configs"][name]["content"]
    return text.replace("$$", "$")


def test_every_service_has_a_health_check_and_waits_for_those_of_others(compose):
    services = compose["services"]

    assert all("healthcheck" in service for service in services.values())
    for service in services.values():
        for other, waited in service.get("depends_on", {}).items():
            assert other in services
            assert waited == {"condition": "service_healthy"}


def test_configs_and_volumes_are_those_that_are_declared(compose):
    services = compose["services"].values()
    configs = {config["source"] for service in services for config in service.get("configs", ())}
    volumes = {volume.partition(":")[0] for service in services for volume in service.get("volumes", ())}

    assert configs == set(compose["configs"])
    assert volumes == set(compose["volumes"])


def test_the_jobs_properties_can_be_used(compose, tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "tidemark")
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    path = tmp_path / "tidemark.properties"
    path.write_text(content(compose, "tidemark.properties"))
    settings = read(path)

    assert settings.warnings == ()
    assert settings.sink.kind == "kafka"
    assert settings.signals.channels == {Channel.SOURCE, Channel.KAFKA}
    assert settings.source_as(PostgresSettings).host in compose["services"]
    assert settings.source_as(PostgresSettings).password == "tidemark"
    servers = {
        settings.sink_as(KafkaSettings).servers,
        settings.signals.topic.client["bootstrap.servers"],
    }
    assert servers == {"kafka:9092"}
    assert settings.signals.topic.name in compose["services"]["kafka"]["healthcheck"]["test"]


def test_the_database_has_what_the_job_is_told_of(compose, tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "tidemark")
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    path = tmp_path / "tidemark.properties"
    path.write_text(content(compose, "tidemark.properties"))
    settings, script = read(path), content(compose, "shop.sh")

    assert f"CREATE TABLE {settings.signals.collection} " in script
    assert f"CREATE PUBLICATION {settings.source_as(PostgresSettings).publication} " in script
    assert f"CREATE ROLE {settings.source_as(PostgresSettings).user} " in script
    assert (
        compose["services"]["postgres"]["environment"]["POSTGRES_DB"]
        == settings.source_as(PostgresSettings).database
    )


def test_the_replica_set_is_the_one_that_its_job_is_told_of(compose, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    path = tmp_path / "tidemark.properties"
    path.write_text(content(compose, "tidemark-mongodb.properties"))
    settings, service = read(path), compose["services"]["mongodb"]

    assert settings.warnings == ()
    assert settings.source_as(MongoSettings).connection_string == "mongodb://mongodb:27017/?replicaSet=rs0"
    assert service["command"][1:3] == ["--replSet", "rs0"]
    assert "_id: 'rs0'" in service["healthcheck"]["test"]
    assert "host: 'mongodb:27017'" in service["healthcheck"]["test"]
    assert compose["services"]["job-mongodb"]["depends_on"].keys() == {"mongodb", "kafka"}
    assert settings.signals.channels == {Channel.SOURCE}


def test_sql_servers_database_has_what_its_job_is_told_of(compose, tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "tidemark")
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    path = tmp_path / "tidemark.properties"
    path.write_text(content(compose, "tidemark-sqlserver.properties"))
    settings, script = read(path), content(compose, "shop.sql")

    assert settings.warnings == ()
    assert settings.source_as(SqlServerSettings).host in compose["services"]
    assert compose["services"]["sqlserver"]["environment"]["MSSQL_AGENT_ENABLED"] == "true"
    assert f"CREATE LOGIN {settings.source_as(SqlServerSettings).user} " in script
    for database in settings.source_as(SqlServerSettings).databases:
        assert f"CREATE DATABASE {database};" in script
        table = settings.source_as(SqlServerSettings).signal_table(database)
        assert table is not None
        assert f"CREATE TABLE {'.'.join(table.parts[1:])} " in script
        assert f"@source_name = N'{table.parts[2]}'" in script


def test_sql_servers_login_has_the_rights_that_its_job_needs(compose, tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "tidemark")
    monkeypatch.setenv("TIDEMARK_TOKEN", TOKEN)
    path = tmp_path / "tidemark.properties"
    path.write_text(content(compose, "tidemark-sqlserver.properties"))
    settings, script = read(path), content(compose, "shop.sql")
    captured = re.findall(r"@source_schema = N'(\w+)', @source_name = N'(\w+)'", script)
    needed = {("SELECT", f"{schema}.{table}") for schema, table in captured} | {("SELECT", "SCHEMA::cdc")}
    needed |= {
        ("INSERT", ".".join(signal_table.parts[1:]))
        for signal_table in settings.source_as(SqlServerSettings).signal_tables
    }
    granted = {
        (right, where)
        for rights, where in re.findall(r"GRANT ([A-Z, ]+?)(?: ON (\S+))? TO tidemark;", script)
        for right in rights.split(", ")
    }

    assert settings.snapshot.watermarking is Watermarking.INSERT_INSERT
    assert settings.source_as(SqlServerSettings).isolation is Isolation.REPEATABLE_READ
    assert granted == needed | {("VIEW DATABASE STATE", "")}
    assert script.count("GRANT ") == script.count(" TO tidemark;")


def test_sql_servers_script_is_t_sql(compose):
    batches = re.split(r"^GO$", content(compose, "shop.sql"), flags=re.MULTILINE)

    assert len(batches) > 3
    for batch in batches:
        sqlglot.parse(batch, read="tsql", error_level=sqlglot.ErrorLevel.RAISE)


def test_every_job_is_confined_to_its_volume(compose):
    for service in (service for service in compose["services"].values() if "build" in service):
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["tmpfs"] == ["/tmp:exec"]  # noqa: S108  the container's own
        assert [volume.partition(":")[2] for volume in service["volumes"]] == ["/var/lib/tidemark"]


def test_the_image_copies_what_its_context_lets_through():
    copied = {
        name
        for line in re.findall(r"^COPY (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        for name in line.split()[:-1]
    }
    let_through = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }

    assert copied == let_through
    assert all((ROOT / name).exists() for name in copied)
