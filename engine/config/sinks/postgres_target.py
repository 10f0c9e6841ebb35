"""The address of a PostgreSQL database, as pgjdbc writes it. Its parameters become libpq's here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from engine.config.properties.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = {
    "channelBinding": "channel_binding",
    "connectTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "loginTimeout": "connect_timeout",
    "password": "password",
    "requireAuth": "require_auth",
    "sslNegotiation": "sslnegotiation",
    "targetServerType": "target_session_attrs",
    "user": "user",
}
"""pgjdbc's names to libpq's."""
_SAME: Final = frozenset(
    (
        *("channel_binding", "connect_timeout", "gssencmode", "require_auth"),
        *("sslcert", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
        *("target_session_attrs", "tcp_user_timeout", "keepalives_idle", "keepalives_interval"),
    )
)
"""Names that pgjdbc and libpq share, and libpq's own."""


def _address(raw: str) -> str | None:
    """`jdbc:postgresql://host:port/database?parameter=value`; the port may be missing. Empty: none."""
    given = raw.strip().removeprefix("jdbc:")
    if not given:
        return ""
    try:
        found = urlsplit(given)
        _port = found.port
    except ValueError:
        return None
    whole = found.scheme in {"postgresql", "postgres"} and found.hostname and found.path.strip("/")
    return raw.strip() if whole and "," not in found.netloc and not found.fragment else None


ADDRESS: Final = Shape("jdbc:postgresql://host:port/database?parameter=value, of one host", _address)


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """A database. `parameters` of the connection have libpq's names, and may contain secrets.

    `table_format` gives the name of a collection's table; a dot separates its schema.
    """

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    table_format: str = ""

    @property
    def address(self) -> str:
        """The server and its database, for people."""
        return "{host}:{port}/{dbname}".format_map(self.parameters) if self.parameters else ""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """An address, whose setting has this name, a user and a password; both may be empty."""

    setting: str
    address: str
    user: str
    password: str = field(repr=False)


def parameters_of(connecting: ConnectionSettings, problems: list[str]) -> dict[str, str]:
    """By libpq's names. User and password keep their references, to be resolved at every connection."""
    address = urlsplit(connecting.address.removeprefix("jdbc:"))
    found = {
        "host": address.hostname or "",
        "port": str(address.port or 5432),
        "dbname": unquote(address.path.strip("/")),
        **({"user": unquote(address.username)} if address.username else {}),
        **({"password": unquote(address.password)} if address.password else {}),
    }
    for name, value in parse_qsl(address.query, keep_blank_values=True):
        if name == "ssl":
            found.setdefault("sslmode", "verify-full" if value in {"", "true"} else "prefer")
        elif name == "currentSchema":
            found["options"] = "-c search_path=" + value.replace("\\", "\\\\").replace(" ", "\\ ")
        elif name in _NAMES or name in _SAME:
            found[_NAMES.get(name, name)] = value
        else:
            known = ", ".join(sorted({"ssl", "currentSchema", *_NAMES, *_SAME}))
            problems.append(f"{connecting.setting!r} has an unknown parameter {name!r}; known: {known}")
    login = {"user": connecting.user, "password": connecting.password}
    return found | {name: value for name, value in login.items() if value}
