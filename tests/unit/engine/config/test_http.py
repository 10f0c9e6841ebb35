"""The settings of the job's port: off by default, on this machine by default, never open by accident."""

from __future__ import annotations

import pytest

from engine.config import parse
from engine.config.explain import explain
from tests.unit.engine.config.least import POSTGRES, SQLSERVER, problems_of

PORT, HOST, TOKEN = "tidemark.http.port", "tidemark.http.host", "tidemark.http.token"
CONTROL, CERTIFICATE = "tidemark.http.control", "tidemark.http.tls.certificate"
ANYWHERE = "10.0.0.5"
SECRET = "a-token-that-nobody-knows"


def test_there_is_no_port_unless_it_is_asked_for():
    assert not parse(POSTGRES).http.on
    assert not parse(POSTGRES | {PORT: ""}).http.on


@pytest.mark.parametrize("least", [POSTGRES, SQLSERVER])
def test_every_setting_is_taken(least: dict[str, str]):
    given = {
        PORT: "8090",
        HOST: ANYWHERE,
        TOKEN: SECRET,
        CONTROL: "true",
        CERTIFICATE: "/c.pem",
        "tidemark.http.tls.key": "/k.pem",
        "tidemark.http.tls.client.ca": "/ca.pem",
        "tidemark.http.hosts": "job, metrics",
        "tidemark.openlineage.url": "https://u:pw@lineage/api",
        "tidemark.openlineage.namespace": "prod",
        "tidemark.openlineage.token": SECRET,
    }
    settings = parse(least | given)
    http = settings.http

    assert (http.on, http.port, http.host, http.local) == (True, 8090, ANYWHERE, False)
    assert (http.token, http.control, http.hosts) == (SECRET, True, ("job", "metrics"))
    assert (http.certificate, http.key, http.client_ca) == ("/c.pem", "/k.pem", "/ca.pem")
    assert settings.lineage.url == given["tidemark.openlineage.url"]
    assert settings.lineage.namespace == "prod"
    assert settings.lineage.token == SECRET
    assert SECRET not in repr(settings)
    assert "pw@" not in repr(settings)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({PORT: "65536"}, "65535"),
        ({PORT: "http"}, "65535"),
        ({PORT: "1", HOST: ANYWHERE, CONTROL: "true"}, "anybody could send signals"),
        ({PORT: "1", TOKEN: "short"}, "16 characters"),
        ({PORT: "1", TOKEN: "with blanks between them"}, "without blanks"),
        ({PORT: "1", "tidemark.http.tls.key": "/k.pem"}, CERTIFICATE),
        ({PORT: "1", "tidemark.http.tls.client.ca": "/k.pem"}, CERTIFICATE),
    ],
)
def test_what_can_not_be_meant_is_refused(given: dict[str, str], said: str):
    problems = "\n".join(problems_of(POSTGRES, given))

    assert said in problems
    assert "short" not in problems


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({PORT: "1", HOST: ANYWHERE}, "everybody who reaches '10.0.0.5'"),
        ({CONTROL: "true"}, "there is no tidemark.http.port"),
        ({"tidemark.openlineage.token": SECRET}, "there is no tidemark.openlineage.url"),
    ],
)
def test_what_others_could_read_is_warned_about(given: dict[str, str], said: str):
    assert said in "\n".join(parse(POSTGRES | given).warnings)


@pytest.mark.parametrize(
    "given", [{PORT: "1"}, {PORT: "1", HOST: "::1", CONTROL: "true"}, {PORT: "1", HOST: "localhost"}]
)
def test_a_port_of_this_machine_is_no_reason_to_warn(given: dict[str, str]):
    assert parse(POSTGRES | given).warnings == parse(POSTGRES).warnings


def test_the_token_is_never_shown():
    shown = {row.name: row.value for row in explain(POSTGRES | {PORT: "1", TOKEN: SECRET})}

    assert SECRET not in shown[TOKEN]
