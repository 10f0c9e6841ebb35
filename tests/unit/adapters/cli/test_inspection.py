"""`tidemark init` and `check --connect`: what is written, printed and run for a look at a server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
import pytest

from adapters.cli import inspection
from adapters.cli.inspection import properties_of
from engine.config import parse
from engine.config.findings import Finding
from engine.errors import ConfigError
from tests.unit.adapters.cli import test_status

if TYPE_CHECKING:
    from pathlib import Path

    from engine.config import Settings

invoke, config = test_status.invoke, test_status.config
SQL = "CREATE PUBLICATION dbz_publication FOR ALL TABLES"


@dataclass
class Server:
    """Takes the place of a source's inspection."""

    missing: list[Finding] = field(
        default_factory=lambda: [Finding("no publication", missing=True, statement=SQL)]
    )
    ran: list[str] = field(default_factory=list)
    passwords: list[str] = field(default_factory=list)

    def inspect(self, settings: Settings) -> list[Finding]:
        self.passwords.append(str(getattr(settings.source, "password", "")))
        left = [finding for finding in self.missing if finding.statement not in self.ran]
        return [Finding("wal_level is 'logical'"), *left]

    def mend(self, _settings: Settings, statement: str) -> None:
        self.ran.append(statement)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(inspection, "_inspection", lambda _settings: made)
    return made


def test_what_is_missing_is_printed_and_the_exit_code_says_so(tmp_path: Path, server: Server):
    file = tmp_path / "shop.properties"

    result = invoke("init", "postgresql://u:pa55@db/shop", "--file", file)

    assert result.exit_code == 1
    assert "ok       wal_level is 'logical'" in result.stdout
    assert "missing  no publication" in result.stdout
    assert f"{SQL};" in result.stdout
    assert server.ran == []


def test_statements_are_run_when_asked(tmp_path: Path, server: Server):
    result = invoke("init", "postgresql://u:pa55@db/shop", "--file", tmp_path / "c", "--apply")

    assert result.exit_code == 0, result.output
    assert server.ran == [SQL]


def test_the_password_is_used_and_never_written(tmp_path: Path, server: Server):
    file = tmp_path / "shop.properties"

    result = invoke("init", "postgresql://u:pa55%2Fword@db:5433/shop", "--file", file)

    assert server.passwords == ["pa55/word"]
    assert "pa55" not in file.read_text() + result.output
    assert "database.password=${env:TIDEMARK_PASSWORD}" in file.read_text()


def test_a_password_in_the_query_is_used_and_never_written(tmp_path: Path, server: Server):
    file = tmp_path / "shop.properties"

    result = invoke("init", "postgresql://u@db/shop?password=pa55%2Fword&sslmode=require", "--file", file)

    assert server.passwords == ["pa55/word"]
    assert "pa55" not in file.read_text() + result.output
    assert "database.password=${env:TIDEMARK_PASSWORD}" in file.read_text()
    assert "database.sslmode=require" in file.read_text()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@db/shop?sslpassword=hunter2",
        "postgresql://u@db:99999/shop?password=hunter2",
        "postgresql://u@db:x/shop?password=at@hunter2",
        "postgresql://u:hunter2",
        "postgresql://u:hunter2/3?4@db:x/shop",
        "postgresql://u:hunter2@[db/shop",
        "mongodb://u@db/?tlsCertificateKeyFilePassword=hunter2",
        "mongodb://u@db/?authMechanismProperties=AWS_SESSION_TOKEN:hunter2",
        "sqlserver://u@db/shop;password=hunter2",
        "sqlserver://db;user=u;password=hunter2",
        "host=db password=hunter2",
    ],
)
def test_no_error_and_no_file_has_a_secret_of_the_url(url: str, tmp_path: Path):
    file = tmp_path / "shop.properties"

    result = invoke("init", url, "--file", file)

    assert result.exit_code == 2
    assert "hunter2" not in result.output
    assert not file.exists()


def test_what_is_written_can_be_run(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch):
    server.missing = []
    file = tmp_path / "shop.properties"
    assert invoke("init", "postgresql://u@db:5433/shop", "--file", file).exit_code == 0
    monkeypatch.setenv("TIDEMARK_PASSWORD", "pa55word")

    result = invoke("check", file)

    assert result.exit_code == 0, result.output
    assert re.search(r"database\.port += 5433", result.stdout)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@db/shop?sslmode=require",
        "sqlserver://u:p@db/shop",
        "mongodb://u:p@a:1,b:2/shop?replicaSet=rs0",
        "mongodb://a/",
    ],
)
def test_each_url_makes_settings(url: str):
    said, password = properties_of(url, {})

    parse({name: password if "{env:" in value else value for name, value in said.items()})
    assert ":p@" not in "".join(said.values())


@pytest.mark.parametrize(
    "url", ["mysql://u@db/shop", "postgresql:///shop", "postgresql://u@db:x/shop", "shop"]
)
def test_other_urls_are_refused(url: str, tmp_path: Path):
    with pytest.raises(ConfigError):
        properties_of(url, {})

    assert invoke("init", url, "--file", tmp_path / "c").exit_code == 2


def test_a_file_is_never_replaced(tmp_path: Path, server: Server):
    server.missing = []
    file = tmp_path / "c"
    file.write_text("mine")

    assert invoke("init", "postgresql://u@db/shop", "--file", file).exit_code == 2
    assert file.read_text() == "mine"


def test_check_connects_only_when_asked(config: Path, server: Server):
    assert invoke("check", config).exit_code == 0
    assert server.passwords == []

    result = invoke("check", config, "--connect")

    assert result.exit_code == 1
    assert "missing  no publication" in result.stdout


def test_programs_get_what_was_found_and_run(tmp_path: Path, server: Server):
    server.missing.append(Finding("no WAL", missing=True))
    file = tmp_path / "shop.properties"
    result = invoke("init", "postgresql://u:pa55@db/shop", "--file", file, "--apply", "--json")

    said = orjson.loads(result.stdout)
    assert result.exit_code == 1
    assert said["file"] == str(file)
    assert [finding["statement"] for finding in said["ran"]] == [SQL]
    assert [finding["text"] for finding in said["findings"] if finding["missing"]] == ["no WAL"]


@pytest.mark.usefixtures("server")
def test_a_check_as_json_has_properties_warnings_and_findings(config: Path):
    alone = orjson.loads(invoke("check", config, "--json").stdout)
    result = invoke("check", config, "--connect", "--json")
    said = orjson.loads(result.stdout)

    assert alone["findings"] is None
    assert result.exit_code == 1
    assert [finding["text"] for finding in said["findings"]] == ["wal_level is 'logical'", "no publication"]
    by_name = {row["name"]: row for row in said["properties"]}
    assert by_name["topic.prefix"]["given"]
    assert isinstance(said["warnings"], list)
    assert "pa55word" not in result.stdout
