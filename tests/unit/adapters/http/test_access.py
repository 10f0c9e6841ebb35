"""Who is answered: by name, by token, and by where a request comes from."""

from __future__ import annotations

from base64 import b64encode

import pytest

from adapters.http.access import Access
from engine.config.web_settings import HttpSettings

TOKEN = "0123456789abcdef"
SETTINGS = HttpSettings(port=8090, host="10.0.0.5", hosts=("Job.example", "metrics"), control=True)
SECURED = HttpSettings(port=8090, token=TOKEN, control=True)


def basic(password: str) -> str:
    return "Basic " + b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("localhost:8090", True),
        ("127.0.0.1:8090", True),
        ("[::1]:8090", True),
        ("10.0.0.5", True),
        ("job.EXAMPLE.:8090", True),
        ("metrics:8090", True),
        ("evil.example:8090", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("evil.example@localhost:x", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_known_names_and_addresses_are_answered(host: str, answered: bool):  # noqa: FBT001
    refusal = Access(SETTINGS, "c").refusal("/metrics", {"Host": host})

    assert (refusal is None) is answered
    assert refusal is None or refusal.status == 421


@pytest.mark.parametrize(
    ("authorization", "answered"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (basic(TOKEN), True),
        ("", False),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer é", False),
        (TOKEN, False),
        (basic("wrong"), False),
        ("Basic !!!", False),
        ("Basic /w==", False),
    ],
)
def test_a_token_is_needed_if_there_is_one(authorization: str, answered: bool):  # noqa: FBT001
    headers = {"Host": "localhost", "Authorization": authorization}
    refusal = Access(SECURED, "c").refusal("/metrics", headers)

    assert (refusal is None) is answered
    assert refusal is None or refusal.status == 401
    assert Access(SECURED, "c").refusal("/healthz", {"Host": "localhost"}) is None


HERE = {"Host": "localhost:8090", "Origin": "http://localhost:8090", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    ("changed", "csrf", "why"),
    [
        ({}, "c", None),
        ({"Sec-Fetch-Site": "cross-site"}, "c", "another site"),
        ({"Sec-Fetch-Site": "same-site"}, "c", "another site"),
        ({"Origin": "http://evil.example"}, "c", "origin"),
        ({"Origin": "https://localhost:8090"}, "c", "origin"),
        ({"Origin": "http://localhost:9999"}, "c", "origin"),
        ({"Origin": "null"}, "c", "origin"),
        ({"Origin": ""}, "c", "origin"),
        ({}, "", "out of date"),
        ({}, "d", "out of date"),
    ],
)
def test_a_signal_must_come_from_our_page(changed: dict[str, str], csrf: str, why: str | None):
    refusal = Access(SETTINGS, "c").refusal_of_signal(HERE | changed, csrf)

    assert (refusal is None) is (why is None)
    assert refusal is None or (refusal.status == 403 and why is not None and why in refusal.why)


def test_signals_are_off_unless_they_are_allowed():
    refusal = Access(HttpSettings(port=8090), "c").refusal_of_signal(HERE, "c")

    assert refusal is not None
    assert "tidemark.http.control" in refusal.why
