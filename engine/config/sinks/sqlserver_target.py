r"""The address of a SQL Server whose tables somebody else keeps, as Microsoft's JDBC driver writes it.

    jdbc:sqlserver://host[\instance][:port];databaseName=name;option=value;option={a value with ; in it}

Options have the driver's names, in any case of letters. User and password keep their references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.config.sinks.jdbc import ConnectionSettings

_ADDRESS: Final = re.compile(
    r"jdbc:sqlserver://(?P<host>[^\s;:/\\=]+)(?:\\(?P<instance>[\w$#]+))?(?::(?P<port>\d{1,5}))?"
    r"(?P<options>(?:;[^;={}]+=(?:\{(?:[^}]|\}\})*\}|[^;{}]*))*);?"
)
_OPTION: Final = re.compile(r";([^;={}]+)=(?:\{((?:[^}]|\}\})*)\}|([^;{}]*))")
_STANDARD_PORT: Final = 1433
_FLAGS: Final = frozenset({"true", "false"})
_ENCRYPTION: Final = {
    **{word: word for word in ("optional", "mandatory", "strict")},
    **dict.fromkeys(("true", "yes"), "mandatory"),
    **dict.fromkeys(("false", "no"), "optional"),
}
_OPTIONS: Final[Mapping[str, Callable[[str], bool]]] = {
    "applicationName": bool,
    "database": bool,
    "databaseName": bool,
    "encrypt": lambda word: word.lower() in _ENCRYPTION,
    "hostNameInCertificate": bool,
    "instanceName": bool,
    "loginTimeout": str.isdecimal,
    "multiSubnetFailover": lambda word: word.lower() in _FLAGS,
    "packetSize": str.isdecimal,
    "password": bool,
    "port": str.isdecimal,
    "portNumber": str.isdecimal,
    "serverCertificate": bool,
    "trustServerCertificate": lambda word: word.lower() in _FLAGS,
    "user": bool,
    "userName": bool,
}
"""What each option may be."""
_NAMES: Final = {name.lower(): name for name in _OPTIONS}
_SYNONYMS: Final = {"database": "databaseName", "port": "portNumber", "userName": "user"}


@dataclass(frozen=True, slots=True)
class SqlServerTarget:
    """A database of a SQL Server. `port` 0: the host is asked for it, by the `instance`.

    `encrypt` is one of optional, mandatory and strict. `table_format` gives a table's schema and name.
    """

    host: str
    database: str
    port: int = _STANDARD_PORT
    instance: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    encrypt: str = "mandatory"
    trust_server_certificate: bool = False
    certificate_host: str = ""
    server_certificate: str = ""
    application: str = "tidemark"
    login_timeout_s: int = 30
    packet_size: int = 0
    multi_subnet_failover: bool = False
    table_format: str = "${source.schema}.${source.table}"


def is_sqlserver(address: str) -> bool:
    """Whether an address is that of a SQL Server."""
    return _ADDRESS.fullmatch(address) is not None


def sqlserver_target(connecting: ConnectionSettings, problems: list[str]) -> SqlServerTarget:
    """The database at an address. What is wrong with its options is added to the problems."""
    found = _ADDRESS.fullmatch(connecting.address)
    given = dict(_given(connecting, found["options"] if found else "", problems))
    host, instance, port = found.group("host", "instance", "port") if found else ("", None, None)
    instance = instance or given.get("instanceName", "")
    port = port or given.get("portNumber") or ("0" if instance else str(_STANDARD_PORT))
    if "databaseName" not in given:
        problems.append(f"{connecting.setting!r} lacks the parameter 'databaseName'")
    target = SqlServerTarget(host, given.get("databaseName", ""), int(port), instance)
    return replace(
        target,
        user=connecting.user or given.get("user", ""),
        password=connecting.password or given.get("password", ""),
        encrypt=_ENCRYPTION.get(given.get("encrypt", "").lower(), target.encrypt),
        trust_server_certificate=given.get("trustServerCertificate", "").lower() == "true",
        certificate_host=given.get("hostNameInCertificate", ""),
        server_certificate=given.get("serverCertificate", ""),
        application=given.get("applicationName", target.application),
        login_timeout_s=int(given.get("loginTimeout", target.login_timeout_s)),
        packet_size=int(given.get("packetSize", 0)),
        multi_subnet_failover=given.get("multiSubnetFailover", "").lower() == "true",
    )


def _given(connecting: ConnectionSettings, options: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """The options that can be used, by their first names."""
    for option in _OPTION.finditer(options):
        name = _NAMES.get(option[1].strip().lower(), "")
        word = option[3] if option[2] is None else option[2].replace("}}", "}")
        if not name:
            known = ", ".join(sorted(_OPTIONS))
            problems.append(
                f"{connecting.setting!r} has an unknown parameter {option[1].strip()!r}; known: {known}"
            )
        elif not _OPTIONS[name](word):
            problems.append(
                f"{connecting.setting!r} has a parameter {name!r} with a value that it can't have"
            )
        else:
            yield _SYNONYMS.get(name, name), word
