"""How a Kafka client logs in: Java's JAAS line and SASL options in, librdkafka's out.

    PLAIN, SCRAM    a user and a password in the line
    OAUTHBEARER     a token in the line, by a reference that is resolved again before the token expires; or a
                    client id and secret, with which librdkafka asks a token endpoint (OIDC)

If a line's references may change later, the line itself stays in the configuration, and is parsed again
whenever a client is created (`adapters/kafka/client.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE: Final = "sasl.jaas.config"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_ID: Final = "sasl.oauthbearer.client.id"

_WORD = r"\"(?:[^\"\\]|\\.)*\"|[^\s\";]+"
_JAAS_LINE = re.compile(rf"\s*([\w.]+)\s+required\b((?:\s+\w+\s*=\s*(?:{_WORD}))*)\s*;\s*")
_JAAS_FIELD = re.compile(rf"(\w+)\s*=\s*({_WORD})")
_SECURITY = "org.apache.kafka.common.security"
_MODULES: Final = {
    f"{_SECURITY}.plain.PlainLoginModule": "PLAIN",
    f"{_SECURITY}.scram.ScramLoginModule": "SCRAM",
    f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule": OAUTHBEARER,
}
_OIDC: Final = {
    "clientId": _ID,
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_EXTENSION: Final = "extension_"


@dataclass(frozen=True, slots=True)
class Login:
    """The contents of a JAAS line: its mechanism, librdkafka's options, and a token if it has one."""

    mechanism: str
    options: Mapping[str, str] = field(repr=False)
    token: str = field(default="", repr=False)


def login_of(line: str) -> Login:
    """Parse a JAAS line. Raises ValueError saying what it must be, without quoting it."""
    found = _JAAS_LINE.fullmatch(line)
    mechanism = _MODULES.get(found[1], "") if found else ""
    fields = {name: _unquoted(text) for name, text in _JAAS_FIELD.findall(found[2])} if found else {}
    if mechanism == OAUTHBEARER:
        return _bearer(fields)
    if mechanism and fields.keys() == {"username", "password"}:
        return Login(mechanism, {"sasl.username": fields["username"], "sasl.password": fields["password"]})
    raise ValueError(
        f"{next(iter(_MODULES))} (ScramLoginModule in the package scram for SCRAM)"
        ' required username="…" password="…";'
    )


def _bearer(fields: Mapping[str, str]) -> Login:
    if fields.keys() == {"token"}:
        return Login(OAUTHBEARER, {}, fields["token"])
    extensions = {
        name.removeprefix(_EXTENSION): text for name, text in fields.items() if name.startswith(_EXTENSION)
    }
    if fields.keys() - _OIDC.keys() - {_EXTENSION + name for name in extensions}:
        raise ValueError(
            'OAuthBearerLoginModule required token="${…}"; or with clientId, clientSecret, scope and'
            " extension_… alone"
        )
    options = {_OIDC[name]: text for name, text in fields.items() if name in _OIDC}
    if extensions:
        options["sasl.oauthbearer.extensions"] = ",".join(f"{key}={text}" for key, text in extensions.items())
    return Login(OAUTHBEARER, options)


def lacks(mechanism: str, login: Login, options: Mapping[str, str]) -> str:
    """What a login lacks, as text to follow the property's name; empty if nothing."""
    if not mechanism.startswith(login.mechanism):
        return f"has a module of {login.mechanism}, and the mechanism is {mechanism}"
    if mechanism != OAUTHBEARER or login.token:
        return ""
    if ENDPOINT not in options:
        return f"has no token, and there is no {ENDPOINT}"
    return "" if _ID in {**options, **login.options} else "has no clientId"


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
