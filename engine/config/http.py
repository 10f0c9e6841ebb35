"""The properties of the job's own web server and of OpenLineage events, and the rules between them.

`web_settings.py` has the values that they become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import FLAG, NAMES, TEXT, VERBATIM, WEB_ADDRESS, Shape, text, whole
from engine.config.web_settings import HttpSettings, LineageSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

P = Property
_PORT_NAME, _HOST, _TOKEN = "tidemark.http.port", "tidemark.http.host", "tidemark.http.token"
_CERTIFICATE, _KEY = "tidemark.http.tls.certificate", "tidemark.http.tls.key"
_CLIENTS, _CONTROL = "tidemark.http.tls.client.ca", "tidemark.http.control"
_LINEAGE, _NAMESPACE = "tidemark.openlineage.url", "tidemark.openlineage.namespace"
_LINEAGE_TOKEN = "tidemark.openlineage.token"  # noqa: S105
_LEAST_TOKEN = 16
_number = whole(0, 65535)
_PORT = Shape(f"empty, or {_number.allowed}", lambda raw: _number.convert(raw) if raw.strip() else -1)

ROWS = (
    P(
        _PORT_NAME,
        APPLIED,
        "port of the job's page, metrics and health checks; 0: any free one; empty: none",
        _PORT,
    ),
    P(_HOST, APPLIED, "address that the port is opened on", text(r"\S+", "an address"), "127.0.0.1"),
    P(
        "tidemark.http.hosts",
        APPLIED,
        "further host names by which clients may address the port; others are refused",
        NAMES,
    ),
    P(_TOKEN, APPLIED, "what clients of the port must send as a bearer token, or as a password", VERBATIM),
    P(_CERTIFICATE, APPLIED, "file of the port's certificate chain, in PEM", TEXT),
    P(_KEY, APPLIED, "file of its private key, in PEM; empty: in the certificate's file", TEXT),
    P(
        _CLIENTS,
        APPLIED,
        "file of the authorities that must have issued the clients' certificates, in PEM",
        TEXT,
    ),
    P(_CONTROL, APPLIED, "whether the page has buttons that send signals", FLAG, "false"),
    P(
        _LINEAGE,
        APPLIED,
        "where OpenLineage events are posted; empty: nowhere",
        WEB_ADDRESS,
    ),
    P(_LINEAGE_TOKEN, APPLIED, "bearer token for that address", VERBATIM),
    P(
        _NAMESPACE,
        APPLIED,
        "namespace of the job in OpenLineage events",
        TEXT,
        "tidemark",
    ),
)


def http_settings(values: Values) -> HttpSettings:
    """Compose the settings."""
    return HttpSettings(
        port=values.get(_PORT_NAME, int),
        host=values.get(_HOST, str),
        hosts=values.get("tidemark.http.hosts", tuple),
        token=values.get(_TOKEN, str),
        certificate=values.get(_CERTIFICATE, str),
        key=values.get(_KEY, str),
        client_ca=values.get(_CLIENTS, str),
        control=values.get(_CONTROL, bool),
    )


def lineage_settings(values: Values) -> LineageSettings:
    """Compose the settings."""
    return LineageSettings(
        url=values.get(_LINEAGE, str),
        token=values.get(_LINEAGE_TOKEN, str),
        namespace=values.get(_NAMESPACE, str),
    )


def http_problems(values: Values) -> Iterator[str]:
    """Yield what would leave the port open to strangers, and files that are missing."""
    http = http_settings(values)
    if not http.on:
        return
    known = http.token or http.client_ca
    if http.control and not http.local and not known and values.sure(_TOKEN):
        yield (
            f"{_CONTROL!r} is on for {http.host!r}, where anybody could send signals: give {_TOKEN!r} or"
            f" {_CLIENTS!r}"
        )
    if http.token and len(http.token) < _LEAST_TOKEN:
        yield f"{_TOKEN!r} must have {_LEAST_TOKEN} characters or more"
    if http.token and not (http.token.isascii() and http.token.isprintable() and " " not in http.token):
        yield f"{_TOKEN!r} must be of printable ASCII characters without blanks"
    if (http.key or http.client_ca) and not http.certificate:
        yield f"missing {_CERTIFICATE!r}: without it there is no TLS"


def http_warnings(values: Values) -> Iterator[str]:
    """Warn about a port that others can reach and read."""
    http = http_settings(values)
    if not http.on or http.local:
        return
    if not http.token and not http.client_ca:
        yield (
            f"everybody who reaches {http.host!r} can read the job's metrics and page: {_TOKEN!r} is missing"
        )


def idle_http(values: Values) -> Iterator[str]:
    """Warn about settings of a port that is not opened, and of events that are posted nowhere."""
    if not lineage_settings(values).url:
        for name in (_LINEAGE_TOKEN, _NAMESPACE):
            if name in values.given:
                yield f"{name} (there is no {_LINEAGE})"
    if http_settings(values).on:
        return
    for name in values.given:
        if name.startswith("tidemark.http.") and name != _PORT_NAME:
            yield f"{name} (there is no {_PORT_NAME})"
